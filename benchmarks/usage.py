"""What a command takes: wall and CPU time, and the peak of its memory with that of its children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LAUNCHER = """
import json, os, sys, time
began = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
took = [time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024]
with open(sys.argv[1], "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), *took], file)
"""
"""Linux carries the peak of who starts a program over to the program, so this starts it: 8 MB."""
_EVERY_S = 0.2


@dataclass(frozen=True)
class Usage:
    """What one command took; memory shared by its processes counts once."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def user_environment() -> dict[str, str]:
    """Environment for what is measured: compiled modules are what users have."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def measure(command: Sequence[str]) -> Usage:
    """Run a command to its end. Raises `RuntimeError` where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "usage")
        launcher = [sys.executable, "-S", "-E", "-c", _LAUNCHER, str(told), *command]
        process = subprocess.Popen(launcher, stdout=subprocess.DEVNULL, env=user_environment())
        shared, ended = [0], threading.Event()
        watch = threading.Thread(target=_watch, args=(process.pid, shared, ended))
        watch.start()
        process.wait()
        ended.set()
        watch.join()
        code, wall_s, cpu_s, peak = json.loads(told.read_text())
    if code:
        raise RuntimeError(f"{command[0]} ended with {code}")
    return Usage(wall_s, cpu_s, max(peak, shared[0]))


def _watch(launcher: int, most: list[int], ended: threading.Event) -> None:
    """The most memory that all processes below one had together, where they are more than one."""
    while not ended.wait(_EVERY_S):
        below = _below(launcher)
        if len(below) > 1:
            most[0] = max(most[0], sum(map(_own_share, below)))


def _below(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *_below(int(child))]
    return found


def _own_share(pid: int) -> int:
    """Memory of a process; of what it shares with others its part."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
