"""Which test runs which line of some modules, and how long each takes: for `tests.mutants`."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

_TRACED_SECONDS = 4.0
"""Of a test; one that tries a thousand examples runs all its lines in the first."""


class LineTrace:
    """A plugin of pytest that notes the lines of `modules` that each test runs.

    What a fixture of a wider scope runs counts for every test of its file, for only the first of
    them runs it.
    """

    def __init__(self, package: Path, modules: Sequence[str]) -> None:
        self._names = {str(package / module): module for module in modules}
        self._now: set[tuple[str, int]] = set()
        self._lines: dict[str, set[tuple[str, int]]] = {}
        self._shared: dict[str, set[tuple[str, int]]] = {}
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._until = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Trace one test, setting up included."""
        self._now = set()
        before = time.monotonic()
        self._until = before + _TRACED_SECONDS
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self._lines[item.nodeid] = self._now
            self._seconds[item.nodeid] = time.monotonic() - before

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: object, request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """What a fixture of a file or a session runs, apart."""
        if getattr(fixturedef, "scope", "function") == "function":
            return (yield)
        mine, self._now = self._now, set()
        try:
            return (yield)
        finally:
            file = request.node.nodeid.split("::")[0]
            self._shared.setdefault(file, set()).update(self._now)
            self._now = mine | self._now

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails or skips without any change tells nothing."""
        if not report.passed:
            self._failed.add(report.nodeid)

    def found(self) -> dict[str, tuple[float, list[tuple[str, int]]]]:
        """Test -> seconds, and the lines it runs."""
        return {
            test: (
                self._seconds[test],
                sorted(lines | self._shared.get(test.split("::")[0], set())),
            )
            for test, lines in self._lines.items()
            if test not in self._failed
        }

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if time.monotonic() > self._until:
            sys.settrace(None)
            return None
        module = self._names.get(frame.f_code.co_filename)
        return None if module is None else self._line(module)

    def _line(self, module: str) -> Any:
        def note(frame: FrameType, event: str, argument: Any) -> Any:
            self._now.add((module, frame.f_lineno))
            return note

        return note
