"""Test the tests: change the code at random places and see whether a test notices.

`python -m tests.mutants --sample 600` draws mutants of cosmic-ray (`pip install cosmic-ray`) from a
fixed seed in a copy of the checkout, runs the tests of their module and lists those that live.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = {
    "core/intervals.py": "tests/test_intervals.py tests/test_overlap.py",
    "measure/overlap.py": "tests/test_overlap.py tests/test_brute.py",
    "roles/rules.py": "tests/test_rules.py tests/test_classify.py",
    "steps/plan.py": "tests/test_steps.py",
    "steps/projection.py": "tests/test_steps.py",
    "judge/evaluate.py": "tests/test_gate.py tests/test_accept.py",
    "trace/pages.py": "tests/test_drawn_schemas.py tests/test_pages.py",
    "trace/launch_facts.py": "tests/test_losses.py tests/test_facts.py",
    "health/losses.py": "tests/test_losses.py tests/test_health.py",
    "health/impossible.py": "tests/test_losses.py",
    "run/rank_checks.py": "tests/test_rank_checks.py",
}
"""Module -> the tests that should notice: sweep, classification, steps, gate and decoder."""
_SAME = "core/ReplaceBinaryOperator_BitOr_%"
"""Types of arguments are written with it, and nothing reads those when the program runs."""
SEED = 20_261_201
_SECONDS = 300.0


def main() -> int:
    """Command line; prints how many died and which live."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=600)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--cosmic-ray", default="cosmic-ray", metavar="PROGRAM")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {arguments.sample} mutants", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "checkout"
        ignored = shutil.ignore_patterns(".venv", ".git", "build", "*.egg-info", "__pycache__")
        shutil.copytree(ROOT, folder, ignore=ignored)
        sessions = {m: _session(folder, m, arguments.cosmic_ray) for m in TESTS}
        jobs = [(m, job) for m, session in sessions.items() for job in _jobs(session)]
        print(f"of {len(jobs)}", flush=True)
        chosen = random.Random(arguments.seed).sample(jobs, min(len(jobs), arguments.sample))
        n_live = 0
        for module, session in sessions.items():
            mine = [job for m, job in chosen if m == module]
            _keep(session, mine)
            config = session.with_suffix(".toml")
            command = [arguments.cosmic_ray, "exec", str(config), str(session)]
            subprocess.run(command, cwd=folder, check=True)
            live = _live(session)
            n_live += len(live)
            print(f"{module}: {len(mine) - len(live)} of {len(mine)} died", flush=True)
            for diff in live:
                print(diff, flush=True)
    print(f"{len(chosen) - n_live} of {len(chosen)} died")
    return 0


def _session(folder: Path, module: str, program: str) -> Path:
    """Write a configuration and let cosmic-ray find all mutants of a module."""
    session = folder / f"{module.replace('/', '_').removesuffix('.py')}.session"
    tests = f"{sys.executable} -m pytest -q -x -m 'not slow' -p no:cacheprovider {TESTS[module]}"
    session.with_suffix(".toml").write_text(
        f"[cosmic-ray]\nmodule-path = {json.dumps('nsysoverlap/' + module)}\n"
        f"timeout = {_SECONDS}\nexcluded-modules = []\ntest-command = {json.dumps(tests)}\n"
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    command = [program, "init", str(session.with_suffix(".toml")), str(session)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return session


def _jobs(session: Path) -> list[str]:
    """Mutants by place, for their names are drawn anew each time."""
    with closing(sqlite3.connect(session)) as db:
        order = "start_pos_row, start_pos_col, operator_name, operator_args, occurrence"
        query = f"SELECT job_id FROM mutation_specs WHERE operator_name NOT LIKE ? ORDER BY {order}"
        return [job for (job,) in db.execute(query, (_SAME,))]


def _keep(session: Path, jobs: Sequence[str]) -> None:
    with closing(sqlite3.connect(session)) as db:
        kept = ", ".join("?" * len(jobs))
        for table in ("mutation_specs", "work_items"):
            db.execute(f"DELETE FROM {table} WHERE job_id NOT IN ({kept})", list(jobs))
        db.commit()


def _live(session: Path) -> list[str]:
    with closing(sqlite3.connect(session)) as db:
        rows = db.execute(
            "SELECT diff FROM work_results WHERE test_outcome = 'SURVIVED'"
        ).fetchall()
    return [
        "\n".join(line for line in diff.splitlines() if line[:1] in "+-@" and line[:3] != "---")
        for (diff,) in rows
    ]


if __name__ == "__main__":
    sys.exit(main())
