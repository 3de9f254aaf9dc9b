"""Run tests on changed modules, each in a fork of a process that has everything loaded."""

from __future__ import annotations

import gc
import inspect
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import TypeVar

import pytest

from .linetrace import LineTrace
from .mutants import MODULES, ROOT, Mutant, note

MOST_SECONDS = 12.0
"""Of tests for one mutant: of those that reach its line such as killed others, then quick ones."""
_MOST_BYTES = 8_000_000_000
"""Of addresses, for a changed number can ask for any amount."""
_MOST_CPU_SECONDS = 20
"""For what never ends: the tests themselves take less."""
_T = TypeVar("_T")
Reached = dict[str, tuple[float, set[tuple[str, int]]]]
"""Test -> seconds and the lines it runs."""


class Killing:
    """A plugin of pytest that tries mutants in place of running tests."""

    def __init__(self, mutants: Sequence[Mutant], log: Path, workers: int) -> None:
        self._mutants = mutants
        self._log = log
        self._workers = workers
        self._items: dict[str, pytest.Item] = {}
        self._failed: str | None = None
        self._kills = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One test that fails is enough."""
        if report.failed:
            self._failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All mutants, some at a time."""
        self._items = {item.nodeid: item for item in session.items}
        reached = self._reached()
        functions = [f for f in gc.get_objects() if isinstance(f, FunctionType)]
        # Forks share what is here, as long as nothing counts references anew.
        gc.freeze()
        jobs = []
        for mutant in self._mutants:
            jobs.append((mutant, lambda m=mutant: self._try(m, reached, functions)))
        n = n_died = 0
        for mutant, status in forked(jobs, self._workers, 600):
            note(self._log, mutant, status != 0)
            killer = self._killer(mutant)
            if killer.exists():
                self._kills[killer.read_text()] += 1
                killer.unlink()
            n, n_died = n + 1, n_died + (status != 0)
            print(f"{n_died} of {n} died" if status else mutant.shown(), flush=True)
        return True

    def _reached(self) -> Reached:
        """What each test runs without a change, in forks, so that nothing is kept in memory."""
        kept = self._log.with_name("lines.json")
        found = json.loads(kept.read_text()) if kept.exists() else {}
        new = [item for name, item in self._items.items() if name not in found]
        before = time.monotonic()
        parts = [(i, new[i : i + 40]) for i in range(0, len(new), 40)]

        def trace(number: int, items: Sequence[pytest.Item]) -> int:
            lines = LineTrace(ROOT / "nsysoverlap", MODULES)
            items[0].config.pluginmanager.register(lines)
            self._run(items, to_the_end=True)
            kept.with_suffix(f".{number}").write_text(json.dumps(lines.found()), encoding="utf-8")
            return 0

        jobs = [(i, lambda i=i, part=part: trace(i, part)) for i, part in parts]
        for number, _ in forked(jobs, self._workers, 900):
            file = kept.with_suffix(f".{number}")
            if file.exists():
                found |= json.loads(file.read_text())
                file.unlink()
        kept.write_text(json.dumps(found), encoding="utf-8")
        print(f"lines of {len(new)} tests: {time.monotonic() - before:.0f} s", flush=True)
        return {
            name: (seconds, {(module, line) for module, line in lines})
            for name, (seconds, lines) in found.items()
            if name in self._items
        }

    def _run(self, items: Sequence[pytest.Item], to_the_end: bool = False) -> None:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed and not to_the_end:
                return

    def _killer(self, mutant: Mutant) -> Path:
        """Where a process leaves the name of the test that noticed."""
        place = mutant.module.replace("/", "-")
        return self._log.with_name(f"{place}-{mutant.operator[5:]}-{mutant.occurrence}")

    def _try(self, mutant: Mutant, reached: Reached, functions: Sequence[FunctionType]) -> int:
        """1 where a test notices, else 0."""
        tests = chosen(mutant, reached, self._kills)
        if not tests:
            return 0
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_SECONDS, _MOST_CPU_SECONDS))
        changed = _changed(mutant, functions)
        if not changed:
            return _from_nothing(mutant, tests)
        for function, code in changed:
            function.__code__ = code
        self._run([self._items[test] for test in tests])
        if self._failed:
            self._killer(mutant).write_text(self._failed)
        return int(self._failed is not None)


def chosen(mutant: Mutant, reached: Reached, kills: Mapping[str, int]) -> list[str]:
    """Tests that reach the line, those that killed most and the quickest first, of some time.

    A line that no test reaches is run when its module is loaded, if ever: then it is all tests that
    reach the module.
    """
    place = (mutant.module, mutant.line)
    here = [(s, t) for t, (s, lines) in reached.items() if place in lines]
    if not here:
        reaching = ((s, t, {m for m, _ in lines}) for t, (s, lines) in reached.items())
        here = [(s, t) for s, t, modules in reaching if mutant.module in modules]
    tests: list[str] = []
    seconds = 0.0
    for took, test in sorted(here, key=lambda each: (-kills.get(each[1], 0), *each)):
        if seconds + took <= MOST_SECONDS or not tests:
            tests.append(test)
            seconds += took
    return tests


def _changed(
    mutant: Mutant, functions: Sequence[FunctionType]
) -> list[tuple[FunctionType, CodeType]]:
    """The functions that a change is in, with what they become; none where it is outside of all."""
    path = str(ROOT / "nsysoverlap" / mutant.module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        before, after = (_compiled(path, text) for text in (mutant.source, mutant.code))
    if before.keys() != after.keys() or any(
        _own(before[key]) != _own(after[key]) for key in before if not _is_function(before[key])
    ):
        return []
    mine = [f for f in functions if f.__code__.co_filename == path]
    return [(f, after[key]) for f in mine if before[key := _key(f.__code__)] != after[key]]


def _compiled(path: str, text: str) -> dict[tuple[str, int], CodeType]:
    return dict(_codes(compile(text, path, "exec", dont_inherit=True)))


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _is_function(code: CodeType) -> bool:
    """Not the body of a module or a class, which runs once."""
    return bool(code.co_flags & inspect.CO_NEWLOCALS)


def _own(code: CodeType) -> tuple[object, ...]:
    """What a body does itself, without the functions in it."""
    constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, code.co_names, repr(constants)


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """A module or function and all within."""
    yield _key(code), code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)


def _from_nothing(mutant: Mutant, tests: Sequence[str]) -> int:
    """For a change that is made when the module is loaded: in a copy, by another interpreter."""
    ignored = shutil.ignore_patterns(".venv", ".git", "build", "*.egg-info", "__pycache__")
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        shutil.copytree(ROOT, copy, ignore=ignored, copy_function=os.link)
        changed = copy / "nsysoverlap" / mutant.module
        changed.unlink()
        changed.write_text(mutant.code, encoding="utf-8")
        words = ["-q", "-x", "-p", "no:cacheprovider", *tests]
        command = [sys.executable, "-m", "pytest", *words]
        environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=copy, env=environment, check=False)
    return int(done.returncode != 0)


def forked(
    jobs: Sequence[tuple[_T, Callable[[], int]]], n: int, most_seconds: float
) -> Iterator[tuple[_T, int]]:
    """Each in a process of its own, some at a time, with its exit status; late ones are ended."""
    waiting = list(reversed(jobs))
    running: dict[int, tuple[_T, float]] = {}
    while waiting or running:
        while waiting and len(running) < n:
            what, work = waiting.pop()
            running[_fork(work)] = (what, time.monotonic() + most_seconds)
        process, status = os.waitpid(-1, os.WNOHANG)
        if process:
            yield running.pop(process)[0], status
            continue
        for late in [p for p, (_, until) in running.items() if time.monotonic() > until]:
            os.killpg(late, signal.SIGKILL)
        time.sleep(0.01)


def _fork(work: Callable[[], int]) -> int:
    """Run in a silent process of its own; its number."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        status = work()
    finally:
        os._exit(status)
