"""docs/record.md: every command of ours that it shows runs on the recordings of its two scripts."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoverlap import analyze
from nsysoverlap.cli import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
RECORDED = ("torch", "jax")


def shown() -> list[tuple[list[str], int]]:
    """Arguments of each `$ nsysoverlap ...` line of the page, and the exit code it must have."""
    lines = re.findall(r"^\$ nsysoverlap ([^\n#]+?)(?: +# exit (\d))?$", PAGE, re.MULTILINE)
    return [(shlex.split(line), int(code or 0)) for line, code in lines]


def test_the_page_walks_from_a_recording_to_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in RECORDED:
        shutil.copy(
            ROOT / f"tests/fixtures/record_{name}.sqlite", tmp_path / f"train_{name}.sqlite"
        )
    monkeypatch.chdir(tmp_path)
    commands = shown()
    assert {command[0] for command, _ in commands} == {
        *("info", "report", "transfers", "gate", "record", "history"),
    }
    for command, expected in commands:
        result = CliRunner().invoke(main, command)
        assert result.exit_code == expected, (command, result.output)
    assert (tmp_path / "copies.csv").stat().st_size > 1000


@pytest.mark.parametrize("name", RECORDED)
def test_the_recordings_hold_the_four_steps_that_the_scripts_run(name: str) -> None:
    report = analyze(ROOT / f"tests/fixtures/record_{name}.sqlite")
    assert report.basis.n_steps == 4
    assert [len(device.steps) for device in report.devices] == [4]


def test_the_scripts_move_the_bytes_that_they_name() -> None:
    # JAX offloads one tensor a layer: 16384 tokens, four times the width, bfloat16.
    jax_report = analyze(ROOT / "tests/fixtures/record_jax.sqlite")
    tensor = 16384 * 4 * 4096 * 2
    assert jax_report.total("d2h").bytes == 4 * 8 * tensor
    assert jax_report.total("h2d").bytes == 4 * 8 * tensor
    # `save_on_cpu` copies on the stream that computes.
    torch_report = analyze(ROOT / "tests/fixtures/record_torch.sqlite")
    assert torch_report.total("both").hidden_by_compute_ns == 0
    assert torch_report.total("d2h").bytes == torch_report.total("h2d").bytes


@pytest.mark.parametrize("name", RECORDED)
def test_the_scripts_parse_and_mark_what_to_copy(name: str) -> None:
    text = (ROOT / f"docs/record/train_{name}.py").read_text(encoding="utf-8")
    ast.parse(text)
    marked = [line for line in text.splitlines() if "# record" in line]
    assert any("Start()" in line for line in marked)
    assert any("Stop()" in line for line in marked)


FAKES = {
    # As Slurm: the command once a task, with its number; two tasks here.
    "srun": """[ "$1" = --ntasks-per-node ] && shift 2
for i in 0 1; do SLURM_PROCID=$i "$@" || exit; done""",
    # As nsys: `profile` runs the program and leaves a report named after its variables, `export`
    # makes an export of it. What it recorded is a real trace.
    "nsys": r"""if [ "$1" = profile ]; then
  shift
  while [ "$1" != -o ]; do
    case "$1" in --*) shift ;; *) echo "no option: $1" >&2; exit 2 ;; esac
  done
  name=$(printf %s "$2" | sed "s/%q{SLURM_PROCID}/$SLURM_PROCID/"); shift 2
  "$@" && cp "$TRACES/$SLURM_PROCID.sqlite" "$name.nsys-rep"
else
  [ "$1 $2 $3 $4" = "export --type sqlite -o" ] && cp "$6" "$5"
fi""",
    "python": """[ -f "$1" ] && echo "trained with $1" """,
    "nsysoverlap": f'PYTHONPATH="{ROOT}" exec "{sys.executable}" -m nsysoverlap "$@"',
}


@pytest.mark.slow
def test_a_job_on_slurm_goes_to_a_gate_by_the_page(tmp_path: Path) -> None:
    """The page's own lines, in a shell: record by srun, export, slim, gate the folder of ranks."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in FAKES.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    for name in ("run", "shared"):
        (tmp_path / name).mkdir()
    shutil.copy(ROOT / "docs/record/train_jax.py", tmp_path)
    for rank in range(2):
        trace = shutil.copy(ROOT / "tests/fixtures/record_jax.sqlite", tmp_path / f"{rank}.sqlite")
        with closing(sqlite3.connect(trace)) as db, db:
            # No two ranks are the same to the nanosecond.
            db.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end - {rank} WHERE rowid = 1")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
    lines = [line for line in blocks.splitlines() if line and not line.startswith("#")]
    (alone,) = (line for line in lines if line.startswith("nsys profile"))
    options = alone.split("nsys profile", 1)[1].split(" -o ")[0].strip()
    (srun,) = (line for line in lines if line.startswith("srun"))
    after = lines[lines.index(srun) + 1 :]
    assert [line.split()[:2] for line in after] == [["nsys", "export"], ["nsysoverlap", "slim"]]
    both = [line.replace("rank0", f"rank{i}") for i in (0, 1) for line in after]
    gate = next(shlex.join(words) for words, _ in shown() if words[0] == "gate")
    gates = [f"nsysoverlap {gate}".replace("train_jax.sqlite", "shared --ranks 2")]
    gates.append(gates[0].replace("--ranks 2", "--ranks 3"))
    env = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "TRACES": str(tmp_path),
    }
    done = {}
    for line in (srun.replace("...", options), *both, *gates):
        done[line] = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
    codes = [run.returncode for run in done.values()]
    assert codes == [0] * (len(done) - 1) + [3], [run.stderr for run in done.values()]
    assert done[srun.replace("...", options)].stdout.count("trained with train_jax.py") == 2
    names = sorted(path.name for path in (tmp_path / "shared").iterdir())
    assert names == ["train.rank0.sqlite", "train.rank1.sqlite"]
    assert "Passed" in done[gates[0]].stdout
    assert "Rank 2 is not among the 2 traces." in done[gates[1]].stdout
    assert (tmp_path / "main.json").exists()
