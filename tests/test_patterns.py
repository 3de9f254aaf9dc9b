"""Regular expressions: those of users end after a time, our own take time in step with the text."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nsysoverlap.cli import main
from nsysoverlap.core import patterns
from nsysoverlap.core.errors import UsageError
from nsysoverlap.slim.identifying import REVEALING
from nsysoverlap.steps.labels import STEP_LIKE

from .tracebuilder import TraceBuilder

ENDLESS = "(a+)+$"
TEXT = "a" * 60 + "!"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """One range and one kernel, both with a name that `ENDLESS` searches for ages."""
    builder = TraceBuilder()
    builder.nvtx(TEXT, 0, 100)
    builder.kernel(0, 100, TEXT)
    return builder.write(tmp_path / "t.sqlite")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.2)


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.mark.parametrize("command", ["report", "gate --min-hidden 1", "plot -o x.png", "slim"])
def test_steps_that_take_for_ever(trace: Path, command: str) -> None:
    name, *options = command.split()
    extra = [str(trace.parent / "out.sqlite"), "--step", "0"] if name == "slim" else []
    result = run(name, trace, *extra, *options, "--steps", ENDLESS)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: t.sqlite: --steps '(a+)+$' takes too long")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "args", [["report", "TRACE"], ["rules", "TRACE"], ["rules", "--explain", TEXT]]
)
def test_rules_that_take_for_ever(trace: Path, args: list[str]) -> None:
    config = trace.parent / "own.toml"
    config.write_text(f"[[rule]]\nname = 'mine'\npattern = '{ENDLESS}'\nrole = 'comm'\n")
    result = run(*[str(trace) if arg == "TRACE" else arg for arg in args], "--config", config)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: The pattern of rule 'mine' takes too long")
    assert result.stderr.count("\n") == 1


def test_nothing_is_left_of_a_limit() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with patterns.bounded(UsageError("too long")):
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert signal.getsignal(signal.SIGVTALRM) is before


def test_other_threads_are_left_alone() -> None:
    done = []

    def search() -> None:
        with patterns.bounded(UsageError("too long")):
            done.append(True)

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert done == [True]


@pytest.mark.parametrize("pattern", [STEP_LIKE, REVEALING])
@pytest.mark.parametrize("piece", ["#,", "a_", "a.", "1.", "/a", "a:", "a@", "step ", "\\a", "#"])
def test_own_patterns_take_time_in_step_with_the_text(
    monkeypatch: pytest.MonkeyPatch, pattern: re.Pattern[str], piece: str
) -> None:
    """Time that grows with the square takes minutes here."""
    monkeypatch.setattr(patterns, "SECONDS", 5.0)
    text = piece * (200_000 // len(piece))
    with patterns.bounded(UsageError("too long")):
        assert pattern.search(text) is None or piece in ("/a", "a@")


@pytest.mark.parametrize(
    ("text", "is_step"),
    [
        ("train#step_num=3", True),
        ("train#a=1,step_num=3", True),
        ("a#b#step_num=3#", True),
        ("a,step_num=3", False),
        ("a#xstep_num=3", False),
    ],
)
def test_step_numbers_of_jax(text: str, is_step: bool) -> None:
    assert bool(STEP_LIKE.search(text)) is is_step
