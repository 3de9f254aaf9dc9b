"""Ctrl-C and SIGTERM at the moment when something was made and nobody knows its name yet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capture.launch import run_logged
from nsysoverlap.analysis import Options
from nsysoverlap.interrupts import Terminated, interrupts_held, raise_on_sigterm
from nsysoverlap.output import write_atomically
from nsysoverlap.slim import slim_trace

from .traces import h200

BOTH = pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)


@pytest.fixture(autouse=True)
def program() -> Iterator[None]:
    """Signals as in a program of ours, and as they were afterwards."""
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    raise_on_sigterm()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def raise_held(reached: list[int], *numbers: int) -> None:
    with interrupts_held():
        for number in numbers:
            signal.raise_signal(number)
            reached.append(number)


@BOTH
def test_it_comes_when_the_block_is_left(
    number: signal.Signals, error: type[BaseException]
) -> None:
    handler = signal.getsignal(number)
    reached: list[int] = []
    with pytest.raises(error) as raised:
        raise_held(reached, number)
    assert reached == [number]
    assert raised.type is error
    assert signal.getsignal(number) is handler


def test_the_first_of_two_counts() -> None:
    with pytest.raises(Terminated):
        raise_held([], signal.SIGTERM, signal.SIGINT)


def test_an_ignored_signal_stays_ignored() -> None:
    """As nohup asks for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise_on_sigterm()
    with interrupts_held():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_other_threads_are_left_alone() -> None:
    seen: list[Any] = []

    def work() -> None:
        with interrupts_held():
            seen.append(signal.getsignal(signal.SIGINT))
        raise_on_sigterm()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def interrupt_after(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, number: int) -> None:
    """The signal comes before the caller sees what the function made."""
    original = getattr(owner, name)

    def interrupted(*args: Any, **more: Any) -> Any:
        made = original(*args, **more)
        signal.raise_signal(number)
        return made

    monkeypatch.setattr(owner, name, interrupted)


@BOTH
def test_no_half_written_file(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    number: signal.Signals,
    error: type[BaseException],
) -> None:
    interrupt_after(monkeypatch, tempfile, "mkstemp", number)
    with pytest.raises(error):
        write_atomically(tmp_path / "report.json", "{}")
    with pytest.raises(error):
        slim_trace(h200("micro_hidden"), tmp_path / "small.sqlite", Options())
    assert os.listdir(tmp_path) == []


@BOTH
def test_no_process_without_its_parent(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    number: signal.Signals,
    error: type[BaseException],
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*args: Any, **more: Any) -> subprocess.Popen[bytes]:
        started.append(original(*args, **more))
        signal.raise_signal(number)
        return started[-1]

    original = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(error):
        run_logged(sleeps, os.environ, tmp_path / "log", 60)
    assert started[0].returncode == -signal.SIGKILL
