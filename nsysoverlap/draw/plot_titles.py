"""Titles: what a picture shows, said as its finding."""

from __future__ import annotations

from ..core.formatting import format_bytes, format_ns
from ..result.metrics import STEP_MEAN
from ..result.model import OverlapReport
from ..result.numbers import Overlap


def exposed_finding(
    h2d: Overlap, d2h: Overlap, n: int, unit: str, opaque_ns: int = 0, migrated: int = 0
) -> str:
    """What was exposed: `H2D exposed 44.6 ms in the mean step, D2H 3.7 ms`.

    Times are divided by `n`; `unit` says of what they then are, such as ` in the mean step`.
    `opaque_ns` is GPU time in which nothing can be seen, `migrated` the bytes that unified memory
    moved.
    """
    moved = {name: part for name, part in (("H2D", h2d), ("D2H", d2h)) if part.wall_ns}
    if not moved:
        if opaque_ns:
            return f"Not known: {format_ns(opaque_ns)} lie in CUDA graphs recorded as a whole"
        if migrated:
            return f"No host transfers; unified memory migrated {format_bytes(migrated)}"
        return "No host transfers"
    if not any(part.exposed_ns for part in moved.values()):
        return f"{' and '.join(moved)} exposed nothing"
    times = [(name, format_ns(round(part.exposed_ns / n))) for name, part in moved.items()]
    # What ran inside opaque graphs may have hidden some of it.
    bound = "up to " if opaque_ns else ""
    first = f"{times[0][0]} exposed {bound}{times[0][1]}{unit}"
    return ", ".join([first, *(f"{name} {bound}{time}" for name, time in times[1:])])


def finding_of(report: OverlapReport) -> str:
    """The same of a report: of the mean step where there are steps, the mean over devices."""
    n = sum(len(device.steps) for device in report.devices)
    return exposed_finding(
        report.total("h2d"),
        report.total("d2h"),
        n or max(len(report.devices), 1),
        f" in the {STEP_MEAN}" if n else "",
        report.time_budget.opaque_ns,
        report.total("unified_h2d").bytes + report.total("unified_d2h").bytes,
    )
