"""The most memory that this process held."""

from __future__ import annotations

from pathlib import Path


def peak_mb() -> float:
    """In 10^6 bytes, of this program alone.

    Not `ru_maxrss`: Linux carries that over `exec`, so that a child shows at least the peak of the
    process it was forked from, here of the whole test run.
    """
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6
