"""Test the tests: change the code at random places and see whether a test notices.

`python -m tests.mutants --sample 600` draws mutants of cosmic-ray from a fixed seed and runs, for
each, the tests that reach the changed line, quickest first, in a fork of a process that has
everything loaded: a second a mutant. What was found is kept in `--folder`; a second call goes on
there, and `--again` tries those that live once more.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
MODULES = (
    *("core/intervals.py", "measure/overlap.py", "measure/groups.py", "measure/hiders.py"),
    *("roles/rules.py", "roles/transfer_rules.py"),
    *("steps/choice.py", "steps/guess.py", "steps/labels.py", "steps/launches.py"),
    *("steps/markers.py", "steps/plan.py", "steps/projection.py"),
    *("judge/evaluate.py", "judge/thresholds.py", "judge/gain_limit.py", "judge/baseline.py"),
    *("health/losses.py", "health/impossible.py", "run/rank_checks.py", "trace/launch_facts.py"),
    *("trace/pages.py", "trace/bulk.py"),
)
"""Sweep, classification, steps, gate with what makes it inconclusive, and decoder."""
TESTS = (
    *("intervals", "overlap", "brute", "bounds", "operations", "rules", "classify", "config"),
    *("steps", "step_guess", "step_markers", "labels", "launches", "mean_or_median"),
    *("gate", "accept", "baseline", "losses", "health", "facts", "rank_checks", "trust"),
    *("transfers", "window", "streams", "gate_cli", "ranks", "exposure", "effective", "relief"),
    *("lookups", "pages", "bulk", "drawn_schemas", "reader", "reader_values", "reader_odd_files"),
    *("edges", "replay/gain_gate"),
)
"""Those of the files of tests that are quick and run in this process."""
SEED = 20_261_201


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one module; `line` counts from 1."""

    module: str
    line: int
    column: int
    operator: str
    occurrence: int

    @property
    def source(self) -> str:
        """The module without the change."""
        return (ROOT / "nsysoverlap" / self.module).read_text(encoding="utf-8")

    @cached_property
    def code(self) -> str:
        """The changed module; empty where there is no such change."""
        try:
            operator = get_operator(self.operator)()
            return str(mutate_code(self.source, operator, self.occurrence) or "")
        except AttributeError:
            # cosmic-ray 8.7 cannot replace an exception that is named with a dot.
            return ""

    @property
    def runs(self) -> bool:
        """Whether it is Python at all; what is not would die of itself."""
        if not self.code:
            return False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            try:
                compile(self.code, self.module, "exec")
            except SyntaxError:
                return False
        return True

    def shown(self) -> str:
        """Where it is and what it changes."""
        lines = difflib.unified_diff(
            self.source.split("\n"), self.code.split("\n"), n=0, lineterm=""
        )
        changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("---", "+++")]
        return "\n".join([f"{self.module}:{self.line} {self.operator}", *changed])


def main() -> int:
    """Command line; prints how many died and which live."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=600)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--again", action="store_true", help="those that lived once more")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    chosen = _sample(arguments.folder / "chosen.json", arguments.seed, arguments.sample)
    print(f"seed {arguments.seed}, {len(chosen)} mutants", flush=True)
    log = arguments.folder / "results.jsonl"
    known = results(log)
    todo = [m for m in chosen if known.get(m) is None or (arguments.again and not known[m])]
    if todo:
        from .killing import Killing

        killing = Killing(todo, log, arguments.workers)
        places = [ROOT / "tests" / f"{name}.py" for name in TESTS]
        files = [str(place.with_name(f"test_{place.name}")) for place in places]
        words = ["-q", "-m", "not slow", "-p", "no:cacheprovider", "-s"]
        words += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        pytest.main([*words, *files], plugins=[killing])
    _summary(chosen, results(log))
    return 0


def _sample(kept: Path, seed: int, n: int) -> list[Mutant]:
    """So many changes of all; kept, for telling which are Python takes a minute."""
    digest = hashlib.sha256(f"{seed} {n}".encode())
    for module in MODULES:
        digest.update((ROOT / "nsysoverlap" / module).read_bytes())
    key = digest.hexdigest()
    known = json.loads(kept.read_text()) if kept.exists() else {}
    if known.get("key") == key:
        return [Mutant(*row) for row in known["mutants"]]
    every = sorted(mutant for module in MODULES for mutant in mutants(module))
    shuffled = random.Random(seed).sample(every, len(every))
    found = list(islice((m for m in shuffled if m.runs), n))
    kept.write_text(json.dumps({"key": key, "mutants": [astuple(m) for m in found]}))
    return found


def results(log: Path) -> dict[Mutant, bool]:
    """Whether each mutant died that was tried; the last try counts."""
    if not log.exists():
        return {}
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return {Mutant(*row[:-1]): row[-1] for row in rows}


def note(log: Path, mutant: Mutant, died: bool) -> None:
    """Add what became of a mutant."""
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps([*astuple(mutant), died]) + "\n")


def _summary(chosen: Sequence[Mutant], known: dict[Mutant, bool]) -> None:
    tried = [mutant for mutant in chosen if mutant in known]
    died, n = Counter[str](), Counter(mutant.module for mutant in tried)
    for mutant in tried:
        died[mutant.module] += known[mutant]
    for mutant in sorted(m for m in tried if not known[m]):
        print(mutant.shown())
    for module in MODULES:
        print(f"{module}: {died[module]} of {n[module]} died")
    print(f"{died.total()} of {len(tried)} died")


def mutants(module: str) -> Iterator[Mutant]:
    """All changes of cosmic-ray but those of types, which nothing reads when the program runs."""
    source = (ROOT / "nsysoverlap" / module).read_text(encoding="utf-8")
    types, nodes = _types(source), list(ast_nodes(get_ast(source)))
    for name in operator_names():
        operator = get_operator(name)
        if not operator.arguments():
            places = (place for node in nodes for place in operator().mutation_positions(node))
            for occurrence, (start, _) in enumerate(places):
                if not any(first <= start <= last for first, last in types):
                    yield Mutant(module, start[0], start[1], name, occurrence)


def _types(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """First and last place of each type of an argument, a result or a name."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            found.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            found.append(node.annotation)
    return [
        ((n.lineno, n.col_offset), (n.end_lineno or 0, n.end_col_offset or 0)) for n in found if n
    ]


if __name__ == "__main__":
    from tests.mutants import main as run

    # Under its own name, so that there is one class of mutants.
    sys.exit(run())
