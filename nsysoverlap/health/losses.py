"""What the API calls promise and the tables lack: rows that were lost.

The limits let all of 235 healthy traces pass. A process may lose what it launched before its first
row, for the profiler may start late, and a little of what it launched last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..core.formatting import number_of
from ..result.model import HealthEntry, format_share
from ..trace.contents import ProcessLaunches
from .subject import Case

MOST_KERNELS = 1e-3
"""Share of the kernel launches that may lack a row."""
MOST_AT_END = 0.05
"""Share of all launches and copies that may follow the last one with a row, and have none."""
_AGAIN = (
    "Capture again: a shorter window (cudaProfilerStart/Stop) or an nsys as new as the driver "
    "helps."
)


def lost_copies(case: Case) -> Iterator[HealthEntry]:
    """Copies that were launched between rows, asynchronous or not, and left none."""
    found = _where(case, lambda p: p.copies_missing > 0)
    if found:
        n, total = sum(p.copies_missing for p in found), sum(p.n_copies for p in found)
        yield HealthEntry(
            "copies-lost",
            "error",
            f"{n:,} of {number_of(total, 'copy', 'copies')}"
            f"{_of(case, found)} {'has' if n == 1 else 'have'} no GPU row: transfers are missing.",
            _AGAIN,
            count=n,
        )


def lost_launches(case: Case) -> Iterator[HealthEntry]:
    """More than a few kernels that were launched between rows and left none."""
    found = _where(case, lambda p: p.kernels_missing > MOST_KERNELS * p.n_kernels)
    if found:
        n, total = sum(p.kernels_missing for p in found), sum(p.n_kernels for p in found)
        yield HealthEntry(
            "launches-lost",
            "error",
            f"{n:,} of {number_of(total, 'kernel launch', 'kernel launches')}{_of(case, found)} "
            f"({format_share(n / total)}) {'has' if n == 1 else 'have'} no GPU row: work is "
            "missing.",
            _AGAIN,
            count=n,
        )


def lost_end(case: Case) -> Iterator[HealthEntry]:
    """Rows that end long before the launches do."""
    found = _where(case, lambda p: p.tail_missing > MOST_AT_END * p.n)
    if found:
        n, total = sum(p.tail_missing for p in found), sum(p.n for p in found)
        yield HealthEntry(
            "end-lost",
            "error",
            f"The last {n:,} of {total:,} kernel launches and copies{_of(case, found)} "
            f"({format_share(n / total)}) {'has' if n == 1 else 'have'} no GPU row: the end of the "
            "run is missing.",
            _AGAIN,
            count=n,
        )


def lost_process(case: Case) -> Iterator[HealthEntry]:
    """A process that launched work and has no row at all, beside others that have."""
    found = [p for p in case.classified.trace.facts.launches.processes if not p.has_rows]
    if found:
        n = sum(p.n for p in found)
        which = ", ".join(str(p.pid) for p in found[:3]) + (", …" if len(found) > 3 else "")
        yield HealthEntry(
            "process-lost",
            "error",
            f"{number_of(len(found), 'process', 'processes')} ({which}) launched {n:,} kernels and "
            f"copies and {'has' if len(found) == 1 else 'have'} not one GPU row.",
            _AGAIN,
            count=len(found),
        )


def lost_head(case: Case) -> Iterator[HealthEntry]:
    """Launches before the first row: the profiler was late."""
    found = _where(case, lambda p: p.head_missing > 0)
    if found:
        n, total = sum(p.head_missing for p in found), sum(p.n for p in found)
        yield HealthEntry(
            "head-lost",
            "warning",
            f"The first {n:,} of {total:,} kernel launches and copies{_of(case, found)} "
            f"({format_share(n / total)}) {'has' if n == 1 else 'have'} no GPU row: recording "
            "began late.",
            "What ran before the first row is not measured; leave the first steps out with "
            "--skip-steps.",
            count=n,
        )


def any_lost(case: Case) -> bool:
    """Whether one of the above says which launches lack a row."""
    checks = (lost_copies, lost_launches, lost_end, lost_process, lost_head)
    return any(True for check in checks for _ in check(case))


def _where(case: Case, wanted: Callable[[ProcessLaunches], bool]) -> list[ProcessLaunches]:
    processes = case.classified.trace.facts.launches.processes
    return [p for p in processes if p.has_rows and wanted(p)]


def _of(case: Case, found: list[ProcessLaunches]) -> str:
    """Whose they are, where that is not plain."""
    if len(case.classified.trace.facts.launches.processes) == 1:
        return ""
    if len(found) == 1:
        return f" of process {found[0].pid}"
    return f" of {len(found)} processes"
