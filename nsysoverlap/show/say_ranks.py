"""Ranks beside each other: their spread, the worst one, and what is different about it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ..core.formatting import NONE, format_ns
from ..core.limits import Unit, format_value
from ..result.columns import Column, lifted, named
from ..result.device_names import rank_name
from ..result.metrics import STEP_MEAN, STEP_MEDIAN
from ..result.model import DeviceReport, Overlap, OverlapReport, TimeBudget, TraceReport
from ..result.quantities import BUDGET, OVERLAP
from ..result.stragglers import collective_waits, straggler
from ..result.worst import exposed_of
from .blocks import Block, Cell, Table
from .cells import summary_row, table_of

MAX_RANKS = 16
"""More ranks than these are shown by their worst ones only."""
SHOWN_OF_MANY = 5
MAX_DIFFERENCES = 3
_NOTABLE = 0.05
INCONCLUSIVE = ", inconclusive"
"""Behind the name of a rank whose trace cannot be trusted, or has no GPU activity."""


@dataclass(frozen=True)
class RankRow:
    """One trace. `exposed_ns` and `step_ns` are medians over steps where there are steps.

    `wait_ns` is the time of a step, or of the window, in which it waited for other ranks.
    """

    name: str
    h2d: Overlap
    d2h: Overlap
    both: Overlap
    budget: TimeBudget
    gpus: str
    gpu_ids: str
    exposed_ns: int
    step_ns: int | None
    devices: tuple[DeviceReport, ...]
    wait_ns: int | None = None


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
            rows.append(_row(_name(report, trace), devices))
    waits = collective_waits([row.devices for row in rows])
    if waits is not None:
        rows = [replace(row, wait_ns=wait) for row, wait in zip(rows, waits, strict=True)]
    return tuple(rows)


def _silent_rows(report: OverlapReport) -> list[str]:
    """Names of the traces without GPU activity: they are ranks too, of which nothing is known."""
    measured = {device.trace for device in report.devices}
    return [_name(report, trace) for trace in report.traces if trace.path not in measured]


def _name(report: OverlapReport, trace: TraceReport) -> str:
    errors = {entry.trace for entry in report.health if entry.severity == "error"}
    return f"{rank_name(trace)}{INCONCLUSIVE if trace.path in errors else ''}"


def _gpus(devices: Sequence[DeviceReport]) -> str:
    """Physical GPUs as nsys numbers them, where the trace proves them all."""
    known = [device.gpu_id for device in devices]
    return ", ".join(str(gpu) for gpu in sorted(g for g in known if g is not None))


def _row(name: str, devices: Sequence[DeviceReport]) -> RankRow:
    exposed = [exposed_of(device) for device in devices if device.steps]
    times = [round(statistics.median(s.duration_ns for s in d.steps)) for d in devices if d.steps]
    both = sum((device.both for device in devices), Overlap())
    return RankRow(
        name=name,
        h2d=sum((device.h2d for device in devices), Overlap()),
        d2h=sum((device.d2h for device in devices), Overlap()),
        both=both,
        budget=sum((device.time_budget for device in devices), TimeBudget()),
        gpus=", ".join(sorted({device.gpu_name or "unknown GPU" for device in devices})),
        gpu_ids=_gpus(devices),
        exposed_ns=max(exposed) if exposed else both.exposed_ns,
        step_ns=max(times) if times else None,
        devices=tuple(devices),
    )


def worst_rank(rows: Sequence[RankRow]) -> RankRow:
    """The rank with the most exposed time, the first of equals."""
    return max(rows, key=lambda row: row.exposed_ns)


_HIDDEN = named(OVERLAP, "hidden_share")
_SHARES: tuple[Column[RankRow], ...] = (
    *lifted(_HIDDEN, lambda row: row.h2d, heading="H2D hidden"),
    *lifted(_HIDDEN, lambda row: row.d2h, heading="D2H hidden"),
    *lifted(_HIDDEN, lambda row: row.both, heading="both hidden"),
)
_NAMES: tuple[Column[RankRow], ...] = (
    Column[RankRow]("name", Unit.NAME, "", lambda row: row.name, "rank"),
    Column[RankRow]("gpu", Unit.NAME, "", lambda row: row.gpu_ids, "GPU"),
)
_STEP = Column[RankRow]("step_ns", Unit.TIME, "", lambda row: row.step_ns, "step time")
_WAIT = Column[RankRow]("wait_ns", Unit.TIME, "", lambda row: row.wait_ns, "collective wait")
_UNLIKE = named(OVERLAP, "size", "gb_per_s", "hidden_share")
_TIMES = named(BUDGET, "compute_ns", "comm_ns", "idle_ns")


def _called(headings: str, columns: Sequence[Column[RankRow]]) -> list[Column[RankRow]]:
    pairs = zip(headings.split(", "), columns, strict=True)
    return [replace(column, heading=heading) for heading, column in pairs]


_QUANTITIES: tuple[Column[RankRow], ...] = (
    *_called("H2D bytes, H2D rate, H2D behind compute", lifted(_UNLIKE, lambda row: row.h2d)),
    *_called("D2H bytes, D2H rate, D2H behind compute", lifted(_UNLIKE, lambda row: row.d2h)),
    *_called("compute time, communication time, idle time", lifted(_TIMES, lambda row: row.budget)),
    _STEP,
)
"""In what ranks may differ."""


def differences(rows: Sequence[RankRow], rank: RankRow) -> tuple[Difference, ...]:
    """In what a rank differs from the median of the others by 5 % or more, the most first."""
    others = [row for row in rows if row is not rank]
    found = []
    for column in _QUANTITIES:
        value = column.take(rank)
        known = [Fraction(v) for v in map(column.take, others) if v is not None]
        if value is not None and known:
            middle = statistics.median(known)
            found.append(Difference(column.heading, column.unit, Fraction(value), middle))
    notable = [d for d in found if d.value != d.others and d.deviation >= _NOTABLE]
    return tuple(sorted(notable, key=lambda d: -d.deviation))


def ranks_section(report: OverlapReport) -> list[Block]:
    """The table of ranks with its spread, for several traces."""
    rows, silent = rank_rows(report), _silent_rows(report)
    if len(rows) + len(silent) < 2 or not rows:
        return []
    shown = list(rows)
    if len(rows) > MAX_RANKS:
        shown = sorted(rows, key=lambda row: -row.exposed_ns)[:SHOWN_OF_MANY]
    title = f"Ranks, {len(rows) + len(silent)}"
    if len(shown) < len(rows):
        title += f", the {len(shown)} most exposed"
    columns = _columns(rows)
    table = table_of(title, [*_NAMES, *columns], shown, _worst_note(rows) if len(rows) > 1 else "")
    unknown = [(row, *[NONE] * (len(columns) + 1)) for row in silent]
    return [replace(table, rows=(*_spread(columns, rows, 1), *table.rows, *unknown))]


def ranks_table(report: OverlapReport) -> tuple[Table, tuple[tuple[str, ...], ...]] | None:
    """All ranks of several, the most exposed first, to sort and to filter; and their spread."""
    rows, silent = rank_rows(report), _silent_rows(report)
    if len(rows) + len(silent) < 2 or not rows:
        return None
    columns = [c for c in _columns(rows) if any(c.take(row) is not None for row in rows)]
    names = [name for name in _NAMES if any(name.take(row) for row in rows)]
    ordered = sorted(rows, key=lambda row: -row.exposed_ns)
    note = _worst_note(rows) if len(rows) > 1 else ""
    title = f"Ranks, {len(rows) + len(silent)}"
    table = table_of(title, [*names, *columns], ordered, note, name="ranks")
    unknown = [(Cell(row), *[Cell(NONE)] * (len(columns) + len(names) - 1)) for row in silent]
    spread = _spread(columns, rows, len(names) - 1)
    return replace(table, rows=(*table.rows, *unknown)), spread


def _columns(rows: Sequence[RankRow]) -> list[Column[RankRow]]:
    stepped = any(row.step_ns is not None for row in rows)
    exposed = f"exposed, {STEP_MEDIAN}" if stepped else "exposed"
    wait = f"collective wait, {STEP_MEAN}" if stepped else "collective wait"
    return [
        *_SHARES,
        Column[RankRow]("exposed_ns", Unit.TIME, "", lambda row: row.exposed_ns, exposed),
        *([_STEP] if stepped else []),
        *([replace(_WAIT, heading=wait)] if any(row.wait_ns for row in rows) else []),
    ]


def _spread(
    columns: Sequence[Column[RankRow]], rows: Sequence[RankRow], empty: int
) -> tuple[tuple[str, ...], ...]:
    """Least, median and most, each column for itself, behind so many empty cells."""
    return tuple(
        (name, *[""] * empty, *summary_row(name, columns, rows)[1:])
        for name in ("min", "median", "max")
    )


def _worst_note(rows: Sequence[RankRow]) -> str:
    worst = worst_rank(rows)
    late = late_note([row.name for row in rows], [row.devices for row in rows])
    return f"{_exposed_note(rows, worst)} {late}".rstrip()


def late_note(names: Sequence[str], ranks: Sequence[Sequence[DeviceReport]]) -> str:
    """Which rank the others wait for in their collectives; '' where that costs next to nothing."""
    waits = collective_waits(ranks)
    late = None if waits is None else straggler(ranks, waits)
    if waits is None or late is None:
        return ""
    others = [wait for i, wait in enumerate(waits) if i != late]
    stepped = any(device.steps for devices in ranks for device in devices)
    middle = format_ns(round(statistics.median(others)))
    spread = f" (median; up to {format_ns(max(others))})" if len(others) > 1 else ""
    who = "the others wait" if others[1:] else "the other waits"
    return (
        f"Last to collectives comes {names[late]}: {who} for it at least {middle}"
        f"{' a step' if stepped else ''}{spread}."
    )


def _exposed_note(rows: Sequence[RankRow], worst: RankRow) -> str:
    if worst.exposed_ns == 0:
        return "No rank has exposed transfers."
    text = f"Worst: {worst.name} with {format_ns(worst.exposed_ns)} exposed"
    found = [
        f"{d.what} {format_value(d.value, d.unit)} against {format_value(d.others, d.unit)}"
        for d in differences(rows, worst)[:MAX_DIFFERENCES]
    ]
    gpus = [row.gpus for row in rows if row is not worst]
    if worst.gpus not in gpus:
        found.insert(0, f"it ran on {worst.gpus}, others on {statistics.mode(gpus)}")
    if not found:
        return f"{text}; otherwise it is like the median of the others."
    return f"{text}. Different from the median of the others: {'; '.join(found)}."
