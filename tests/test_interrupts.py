"""Ctrl-C, SIGTERM and SIGHUP at moments when something was made and nobody knows its name yet."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capture.launch import run_logged
from nsysoverlap.core.interrupts import (
    INTERRUPTS,
    Terminated,
    interrupt_behind,
    interrupts_held,
    interrupts_raised,
)
from nsysoverlap.core.output import write_atomically
from nsysoverlap.core.processes import run_group
from nsysoverlap.run.analysis import Options
from nsysoverlap.slim import slim_trace

from .traces import h200

REPO = Path(__file__).parents[1]
EACH = pytest.mark.parametrize(
    ("number", "error"),
    [
        (signal.SIGINT, KeyboardInterrupt),
        (signal.SIGTERM, Terminated),
        (signal.SIGHUP, Terminated),
    ],
)


@pytest.fixture(autouse=True)
def program() -> Iterator[None]:
    """Signals as in a program of ours, and as they were afterwards."""
    before = {n: signal.getsignal(n) for n in INTERRUPTS}
    with interrupts_raised():
        yield
    assert {n: signal.getsignal(n) for n in INTERRUPTS} == before


def raise_held(reached: list[int], *numbers: int) -> None:
    with interrupts_held():
        for number in numbers:
            signal.raise_signal(number)
            reached.append(number)


@EACH
def test_it_comes_when_the_block_is_left(
    number: signal.Signals, error: type[BaseException]
) -> None:
    handler = signal.getsignal(number)
    reached: list[int] = []
    with pytest.raises(error) as raised:
        raise_held(reached, number)
    assert reached == [number]
    assert raised.type is error
    assert interrupt_behind(raised.value) == number
    assert signal.getsignal(number) is handler


def test_the_first_of_two_counts() -> None:
    with pytest.raises(Terminated):
        raise_held([], signal.SIGTERM, signal.SIGINT)


def test_a_second_one_does_not_break_off_cleaning_up() -> None:
    cleaned: list[str] = []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
            try:
                os.unlink("no such file")
            except OSError:
                signal.raise_signal(signal.SIGTERM)
            raise_held([], signal.SIGINT)
            cleaned.append("all")

    with pytest.raises(Terminated):
        work()
    assert cleaned == ["all"]
    # What was handled is over: the next one counts again.
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_found_behind_what_a_library_made_of_it() -> None:
    """As Python 3.11 does where one comes while a class is made."""
    caught: list[BaseException] = []
    try:
        try:
            raise Terminated
        except KeyboardInterrupt as error:
            raise RuntimeError("Error calling __set_name__") from error
    except RuntimeError as error:
        caught.append(error)
        try:
            raise OSError("release unlocked lock") from None
        except OSError as later:
            caught.append(later)
    assert [interrupt_behind(error) for error in caught] == [signal.SIGTERM] * 2
    assert interrupt_behind(ValueError()) is None
    looped = ValueError()
    looped.__cause__ = OSError()
    looped.__cause__.__cause__ = looped
    assert interrupt_behind(looped) is None


@pytest.mark.parametrize("number", INTERRUPTS)
def test_an_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    """As nohup asks for it."""
    before = signal.signal(number, signal.SIG_IGN)
    with interrupts_raised(), interrupts_held():
        signal.raise_signal(number)
    assert signal.getsignal(number) is signal.SIG_IGN
    signal.signal(number, before)


def test_other_threads_are_left_alone() -> None:
    seen: list[Any] = []

    def work() -> None:
        with interrupts_held(), interrupts_raised():
            seen.append(signal.getsignal(signal.SIGINT))

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


@EACH
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


@EACH
def test_a_file_that_has_its_name_already_stays(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    number: signal.Signals,
    error: type[BaseException],
) -> None:
    interrupt_after(monkeypatch, os, "replace", number)
    with pytest.raises(error):
        write_atomically(tmp_path / "report.json", "{}")
    assert os.listdir(tmp_path) == ["report.json"]


@EACH
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
    with pytest.raises(error):
        run_group(sleeps)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


@EACH
def test_what_a_program_has_started_ends_with_it(
    number: signal.Signals, error: type[BaseException], tmp_path: Path
) -> None:
    """An nsys that is a script, and the real one under it, which holds a pipe open."""
    fifo, parent = tmp_path / "held", os.getpid()
    os.mkfifo(fifo)
    script = f"sh -c 'exec 3>\"{fifo}\"; kill -{int(number)} {parent}; sleep 600' & wait"
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(error):
        run_group(["sh", "-c", script])
    os.set_blocking(reader, True)
    # The end of the file comes when nobody can write to it any more.
    assert os.read(reader, 1) == b""
    os.close(reader)


def program_of(text: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """The program as its console script starts it, after some lines of Python."""
    code = f"{text}\nfrom nsysoverlap.__main__ import run\nrun()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", INTERRUPTS)
def test_an_interrupt_while_the_program_starts(number: signal.Signals) -> None:
    """A module that never ends loading."""
    text = (
        "import sys, time, types\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': print(flush=True); time.sleep(600)\n"
        "sys.meta_path.insert(0, Slow())"
    )
    with program_of(text, "report", h200("micro_hidden")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        process.send_signal(number)
        assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == -number


@pytest.mark.parametrize("number", INTERRUPTS)
def test_an_interrupt_while_nobody_reads(number: signal.Signals) -> None:
    """The pipe is full, and stays so until the process is gone."""
    text = (
        "import sys\n"
        "original = sys.stdout.write\n"
        "sys.stdout.write = lambda text: original(text * 1000)"
    )
    with program_of(text, "rules") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        size, waiting = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ), array("i", [0])
        while waiting[0] < size:
            assert process.poll() is None
            time.sleep(0.01)
            fcntl.ioctl(process.stdout, termios.FIONREAD, waiting)
        process.send_signal(number)
        assert process.wait(timeout=60) == 128 + number
        assert process.stderr.read() == b""


@pytest.mark.parametrize("number", INTERRUPTS)
def test_a_masked_interrupt_has_its_exit_code(number: signal.Signals) -> None:
    text = (
        "import signal\n"
        "from nsysoverlap.run import many\n"
        "def analyze(*_, **__):\n"
        f"    try: signal.raise_signal({int(number)})\n"
        "    finally: raise RuntimeError('release unlocked lock')\n"
        "many.analyze_many = analyze"
    )
    with program_of(text, "report", h200("micro_hidden")) as process:
        assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 128 + number


def test_calling_the_command_leaves_no_handler_behind() -> None:
    """As from a notebook."""
    from nsysoverlap.cli import main

    before = {n: signal.getsignal(n) for n in INTERRUPTS}
    with pytest.raises(SystemExit):
        main(["--version"])
    assert {n: signal.getsignal(n) for n in INTERRUPTS} == before
