"""Ranks beside each other: their spread, the worst one, and what is different about it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..core.formatting import NONE, format_ns
from ..core.limits import Unit, format_value
from ..result.device_names import rank_name
from ..result.metrics import STEP_MEDIAN
from ..result.model import DeviceReport, Overlap, OverlapReport, TimeBudget, format_share
from .blocks import Block, Table

MAX_RANKS = 16
"""More ranks than these are shown by their worst ones only."""
SHOWN_OF_MANY = 5
MAX_DIFFERENCES = 3
_NOTABLE = 0.05


@dataclass(frozen=True)
class RankRow:
    """One trace. `exposed_ns` and `step_ns` are medians over steps where there are steps."""

    name: str
    h2d: Overlap
    d2h: Overlap
    both: Overlap
    budget: TimeBudget
    gpus: str
    exposed_ns: int
    step_ns: int | None


@dataclass(frozen=True)
class Difference:
    """A quantity of the worst rank, and the median of the others; base units."""

    what: str
    unit: Unit
    value: Fraction
    others: Fraction

    @property
    def deviation(self) -> float:
        """Relative to the others."""
        return abs(float(self.value / self.others) - 1) if self.others else float("inf")


def rank_rows(report: OverlapReport) -> tuple[RankRow, ...]:
    """One row a trace, in the order of the report; traces without GPU activity are left out."""
    rows = []
    for trace in report.traces:
        devices = [device for device in report.devices if device.trace == trace.path]
        if devices:
            rows.append(_row(rank_name(trace), devices))
    return tuple(rows)


def _row(name: str, devices: Sequence[DeviceReport]) -> RankRow:
    exposed = [
        round(statistics.median(s.both.exposed_ns for s in d.steps)) for d in devices if d.steps
    ]
    times = [round(statistics.median(s.duration_ns for s in d.steps)) for d in devices if d.steps]
    both = sum((device.both for device in devices), Overlap())
    return RankRow(
        name=name,
        h2d=sum((device.h2d for device in devices), Overlap()),
        d2h=sum((device.d2h for device in devices), Overlap()),
        both=both,
        budget=sum((device.time_budget for device in devices), TimeBudget()),
        gpus=", ".join(sorted({device.gpu_name or "unknown GPU" for device in devices})),
        exposed_ns=max(exposed) if exposed else both.exposed_ns,
        step_ns=max(times) if times else None,
    )


def worst_rank(rows: Sequence[RankRow]) -> RankRow:
    """The rank with the most exposed time, the first of equals."""
    return max(rows, key=lambda row: row.exposed_ns)


_QUANTITIES: tuple[tuple[str, Unit, Callable[[RankRow], float | int | None]], ...] = (
    ("H2D bytes", Unit.BYTES, lambda row: row.h2d.bytes + row.h2d.bytes_estimated),
    ("D2H bytes", Unit.BYTES, lambda row: row.d2h.bytes + row.d2h.bytes_estimated),
    ("H2D rate", Unit.RATE, lambda row: row.h2d.gb_per_s),
    ("D2H rate", Unit.RATE, lambda row: row.d2h.gb_per_s),
    ("H2D behind compute", Unit.SHARE, lambda row: row.h2d.hidden_share),
    ("D2H behind compute", Unit.SHARE, lambda row: row.d2h.hidden_share),
    ("compute time", Unit.TIME, lambda row: row.budget.compute_ns),
    ("communication time", Unit.TIME, lambda row: row.budget.comm_ns),
    ("idle time", Unit.TIME, lambda row: row.budget.idle_ns),
    ("step time", Unit.TIME, lambda row: row.step_ns),
)


def differences(rows: Sequence[RankRow], rank: RankRow) -> tuple[Difference, ...]:
    """In what a rank differs from the median of the others by 5 % or more, the most first."""
    others = [row for row in rows if row is not rank]
    found = []
    for what, unit, take in _QUANTITIES:
        value = take(rank)
        known = [Fraction(v) for v in map(take, others) if v is not None]
        if value is not None and known:
            found.append(Difference(what, unit, Fraction(value), statistics.median(known)))
    notable = [d for d in found if d.value != d.others and d.deviation >= _NOTABLE]
    return tuple(sorted(notable, key=lambda d: -d.deviation))


def ranks_section(report: OverlapReport) -> list[Block]:
    """The table of ranks with its spread, for several traces."""
    rows = rank_rows(report)
    if len(rows) < 2:
        return []
    has_steps = any(row.step_ns is not None for row in rows)
    shown = list(rows)
    if len(rows) > MAX_RANKS:
        shown = sorted(rows, key=lambda row: -row.exposed_ns)[:SHOWN_OF_MANY]
    cells = [*_spread(rows, has_steps), *(_cells(row, has_steps) for row in shown)]
    per_step = f", {STEP_MEDIAN}" if has_steps else ""
    columns = ["rank", "H2D hidden", "D2H hidden", "both hidden", f"exposed{per_step}"]
    columns += ["step time"] if has_steps else []
    title = f"Ranks, {len(rows)}"
    if len(shown) < len(rows):
        title += f", the {len(shown)} most exposed"
    return [Table(title, tuple(columns), tuple(cells), _worst_note(rows))]


def _cells(row: RankRow, has_steps: bool) -> tuple[str, ...]:
    shares = (part.hidden_share for part in (row.h2d, row.d2h, row.both))
    step = (NONE if row.step_ns is None else format_ns(row.step_ns),) if has_steps else ()
    return (row.name, *map(format_share, shares), format_ns(row.exposed_ns), *step)


def _spread(rows: Sequence[RankRow], has_steps: bool) -> list[tuple[str, ...]]:
    """Least, median and most of each column, each for itself."""
    takes: list[tuple[Callable[[RankRow], float | int | None], Callable[[float], str]]] = [
        (lambda row: row.h2d.hidden_share, format_share),
        (lambda row: row.d2h.hidden_share, format_share),
        (lambda row: row.both.hidden_share, format_share),
        (lambda row: row.exposed_ns, lambda ns: format_ns(round(ns))),
    ]
    if has_steps:
        takes.append((lambda row: row.step_ns, lambda ns: format_ns(round(ns))))
    result = []
    for name, pick in (("min", min), ("median", statistics.median), ("max", max)):
        cells = []
        for take, show in takes:
            values = [value for value in map(take, rows) if value is not None]
            cells.append(show(pick(values)) if values else NONE)
        result.append((name, *cells))
    return result


def _worst_note(rows: Sequence[RankRow]) -> str:
    worst = worst_rank(rows)
    if worst.exposed_ns == 0:
        return "No rank has exposed transfers."
    found = [
        f"{d.what} {format_value(d.value, d.unit)} against {format_value(d.others, d.unit)}"
        for d in differences(rows, worst)[:MAX_DIFFERENCES]
    ]
    gpus = [row.gpus for row in rows if row is not worst]
    if worst.gpus not in gpus:
        found.insert(0, f"it ran on {worst.gpus}, others on {statistics.mode(gpus)}")
    text = f"Worst: {worst.name} with {format_ns(worst.exposed_ns)} exposed"
    if not found:
        return f"{text}; otherwise it is like the median of the others."
    return f"{text}. Different from the median of the others: {'; '.join(found)}."
