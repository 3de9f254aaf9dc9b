"""What a report says, in which order: pure functions from an `OverlapReport` to plain blocks.

How a block looks is up to the reporters. A new part of the report is one function and one line
in `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..core.formatting import format_ns, number_of
from ..core.limits import Unit
from ..result.columns import Column, Place, at, lifted, named
from ..result.device_names import FEW_DEVICES, NAMES, device_names
from ..result.model import (
    DeviceReport,
    HealthEntry,
    OverlapReport,
    StreamReport,
    TimeBudget,
    format_share,
    share,
)
from ..result.numbers import BUDGET_ROLES, Overlap
from ..result.quantities import OVERLAP
from ..result.sentences import basis_line, headline, next_step
from ..result.stragglers import NOTABLE
from ..result.tables import COLLECTIVE, STREAM
from .blocks import Block, Command, Paragraph, Section, Table
from .cells import table_of
from .say_findings import findings_section
from .say_gains import gain_section
from .say_operations import kernels_section, operations_section
from .say_ranks import late_note, ranks_section
from .say_steps import steps_section
from .say_transfers import transfers_section, unified_section
from .view import View

MAX_STREAMS = 20
MAX_COLLECTIVES = 5
ALWAYS = ("compute", "transfer", "idle")
"""Parts of the time budget to show even when they are 0."""
SEVERITY_ORDER = {"error": 0, "warning": 1, "note": 2}


def report_sections(report: OverlapReport, view: View) -> list[Section]:
    """Everything to print, in order; sections without blocks too, for a page may draw there."""
    return [
        Section(name, title, tuple(block for part in parts for block in part(report, view)))
        for name, title, parts in SECTIONS
    ]


def headline_section(report: OverlapReport) -> list[Block]:
    """The sentence to act on, then what it is over."""
    tone = "headline" if report.conclusive else "alarm"
    return [Paragraph(headline(report), tone), Paragraph(basis_line(report))]


def health_section(report: OverlapReport) -> list[Block]:
    """What to know before trusting the numbers, errors first; nothing when all is well."""
    entries = sorted(report.health, key=lambda entry: SEVERITY_ORDER.get(entry.severity, 3))
    groups: dict[tuple[str, str], list[HealthEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.severity, entry.code), []).append(entry)
    rows = [row for group in groups.values() for row in _health_rows(group, len(report.traces))]
    return [Table("Health", ("severity", "message"), tuple(rows), n_words=2)] if rows else []


def _health_rows(group: Sequence[HealthEntry], n_traces: int) -> list[tuple[str, ...]]:
    """The entries of one code; from four on only the first, and how many more there are."""
    is_note = group[0].code == "diagnostic" and group[0].severity == "note"
    if is_note and len(group) > 1 and n_traces == 1:
        return [("note", _diagnostics(group))]
    shown = group if len(group) <= 3 else group[:1]
    rows: list[tuple[str, ...]] = []
    for entry in shown:
        where = f"{entry.trace}: " if n_traces > 1 and entry.trace else ""
        message = f"{where}{entry.message}".rstrip()
        stop = "" if message.endswith((".", "!", "?")) else "."
        rows.append((entry.severity, f"{message}{stop} {entry.hint}".rstrip()))
    if len(group) > len(shown):
        more = f"{len(group) - 1} more like this one ({group[0].code}); all are in the JSON report."
        rows.append((group[0].severity, more))
    return rows


def _diagnostics(group: Sequence[HealthEntry]) -> str:
    """What nsys noted, in one line: healthy traces carry several such messages."""
    first = f"{group[0].message} {group[0].hint}".rstrip()
    return first.replace("nsys says:", f"nsys says ({len(group)} messages):", 1)


def budget_section(report: OverlapReport) -> list[Block]:
    """What each device did in its window: parts that sum to it exactly."""
    if not report.devices:
        return []
    note = "Each instant counts once, for the first that applies; transfer: exposed time."
    names = device_names(report)
    if len(names) > FEW_DEVICES:
        return [_many_budgets(report, names, note)]
    tables = [
        _budget_table(name, device.time_budget)
        for name, device in zip(names, report.devices, strict=True)
    ]
    return [*tables[:-1], replace(tables[-1], note=note)]


def _budget_table(name: str, budget: TimeBudget) -> Table:
    parts = [part for part in BUDGET_ROLES if getattr(budget, f"{part}_ns") or part in ALWAYS]
    times = [getattr(budget, f"{part}_ns") for part in parts] + [budget.total_ns]
    shares = [format_share(share(ns, budget.total_ns)) for ns in times]
    rows = (tuple(format_ns(ns) for ns in times), tuple(shares))
    return Table(f"Time budget, {name}", (*parts, "total"), rows, n_words=0)


def _many_budgets(report: OverlapReport, names: Sequence[str], note: str) -> Table:
    total = report.time_budget
    parts = [part for part in BUDGET_ROLES if getattr(total, f"{part}_ns") or part in ALWAYS]
    rows = []
    budgets = (total, *(device.time_budget for device in report.devices))
    for name, budget in zip(("all devices", *names), budgets, strict=True):
        shares = [share(getattr(budget, f"{part}_ns"), budget.total_ns) for part in parts]
        rows.append((name, format_ns(budget.total_ns), *map(format_share, shares)))
    columns = ("device", "window", *parts)
    return Table("Time budget, each device", columns, tuple(rows), note)


def collectives_section(report: OverlapReport) -> list[Block]:
    """The collectives that kept the GPUs from computing most, and which device came late."""
    exposed = sum(one.exposed_ns for one in report.collectives)
    if exposed < NOTABLE * report.time_budget.total_ns or not exposed:
        return []
    shown = report.collectives[:MAX_COLLECTIVES]
    note = "Summed over launches; exposed: no compute ran beside it."
    if len(report.traces) == 1:
        devices = [[device] for device in report.devices]
        note = f"{note} {late_note(device_names(report), devices)}".rstrip()
    return [table_of("Collectives", at(COLLECTIVE, Place.TEXT), shown, note)]


def opaque_section(report: OverlapReport) -> list[Block]:
    """Between which shares the truth lies when CUDA graphs were recorded as a whole."""
    rows = []
    for name, device in zip(device_names(report), report.devices, strict=True):
        for direction in ("h2d", "d2h", "both"):
            pair = getattr(device.opaque_bounds, direction, None)
            if pair is not None:
                rows.append((name, NAMES[direction], *(format_share(bound) for bound in pair)))
    if not rows:
        return []
    columns = ("device", "", "lowest behind compute", "highest behind compute")
    note = (
        "CUDA graphs were recorded as a whole, so what ran inside them is unknown: lowest takes "
        "them as nothing, highest as all compute. Profile with --cuda-graph-trace=node to know."
    )
    title = "Bounds of the hidden share of recorded transfers"
    return [Table(title, columns, tuple(rows), note, n_words=2)]


def streams_section(report: OverlapReport, view: View) -> list[Block]:
    """With `by="stream"`: streams of each device; left out for many devices."""
    if view.by != "stream":
        return []
    if len(report.devices) > FEW_DEVICES:
        return [Paragraph("Streams of each device are in the JSON report.")]
    names = device_names(report)
    pairs = zip(names, report.devices, strict=True)
    return [_streams_table(name, device) for name, device in pairs if device.streams]


def _streams_table(name: str, device: DeviceReport) -> Table:
    by_weight = sorted(device.streams, key=_stream_weight, reverse=True)
    kept, left_out = by_weight[:MAX_STREAMS], by_weight[MAX_STREAMS:]
    several_owners = len({(s.pid, s.context_id) for s in device.streams}) > 1

    def called(stream: StreamReport) -> str:
        owner = f"pid {stream.pid} context {stream.context_id} " if several_owners else ""
        return f"{owner}{stream.stream_id}"

    columns = (
        Column[StreamReport]("stream", Unit.NAME, "", called, "stream"),
        *named(STREAM, "role"),
        Column[StreamReport]("busy", Unit.TIME, "", lambda s: sum(s.busy_ns.values()), "busy"),
        *_moving("h2d"),
        *_moving("d2h"),
    )
    note = "Streams overlap: rows do not add up to the device."
    if left_out:
        rest = format_ns(sum(ns for stream in left_out for ns in stream.busy_ns.values()))
        less_busy = number_of(len(left_out), "less busy stream")
        note += f" Left out: {less_busy} ({rest} together), in the JSON report."
    rows = sorted(kept, key=lambda s: (s.pid, s.context_id, s.stream_id))
    return table_of(f"Streams, {name}", columns, rows, note)


def _moving(direction: str) -> Iterator[Column[StreamReport]]:
    """Columns of a direction, of streams that move anything that way."""

    def part(stream: StreamReport) -> Overlap | None:
        overlap: Overlap = getattr(stream, direction)
        return overlap if overlap.wall_ns else None

    for column in lifted(named(OVERLAP, "wall_ns", "exposed_ns"), part):
        yield replace(column, heading=f"{NAMES[direction]} {column.heading}")


def _stream_weight(stream: StreamReport) -> tuple[bool, int]:
    moves = stream.h2d.wall_ns + stream.d2h.wall_ns > 0
    return moves, sum(stream.busy_ns.values())


def next_step_section(report: OverlapReport) -> list[Block]:
    """The command to run next."""
    return [Command(*next_step(report))] if report.traces else []


Part = Callable[[OverlapReport, View], list[Block]]


def _always(part: Callable[[OverlapReport], list[Block]]) -> Part:
    """A part that no view changes."""
    return lambda report, _: part(report)


SECTIONS: tuple[tuple[str, str, tuple[Part, ...]], ...] = (
    ("summary", "Summary", (_always(headline_section), _always(health_section))),
    ("ranks", "Ranks", (_always(ranks_section),)),
    ("findings", "Findings", (findings_section,)),
    ("timeline", "Timeline", ()),
    ("transfers", "Transfers", (_always(transfers_section), gain_section)),
    ("steps", "Steps", (_always(steps_section),)),
    ("operations", "Operations", (operations_section,)),
    ("kernels", "Kernels", (kernels_section,)),
    (
        "time", "Time",
        (
            *(_always(part) for part in (budget_section, collectives_section, unified_section,
                                          opaque_section)),
            streams_section,
        ),
    ),
    ("next", "", (_always(next_step_section),)),
)  # fmt: skip
"""Name, title and parts of each section, in the order of every format."""
