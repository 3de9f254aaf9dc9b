"""Programs of others, each in a process group that is gone when the call is."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from .interrupts import interrupts_held


def run_group(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    log: IO[bytes] | None = None,
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command without stdin and return its output, or write all of it to `log`.

    Where it is interrupted or out of time, what the command has started ends too: nsys may be a
    script, and under `nsys profile` a program holds the GPU. Ctrl-C of a terminal does not reach
    the group itself. Raises OSError and `subprocess.TimeoutExpired` as `subprocess.run` does.
    """
    with group_beside(command, env, log) as process:
        stdout, stderr = process.communicate(timeout=timeout_s)
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


@contextmanager
def group_beside(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    log: IO[bytes] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """A command that runs beside the block and is ended with it, and all that it has started."""
    process = None
    try:
        with interrupts_held():
            process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if log is None else log,
                stderr=subprocess.PIPE if log is None else subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        yield process
    finally:
        if process is not None and process.returncode is None:
            _end_group(process)


def _end_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
