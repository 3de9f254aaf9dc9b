"""What the page of a report has besides its text: tiles, cards, charts and whole tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.formatting import clean_text, format_bytes, format_ns
from ..result.device_names import FEW_DEVICES, device_names, rank_name
from ..result.evidence import evidence_device
from ..result.metrics import METRICS, STEP_MEAN, Scope
from ..result.model import Evidence, Finding, OverlapReport, format_share
from ..result.scopes import measure
from .blocks import Entries, Section, Table, cleaned_table
from .html_charts import budget_chart, split_chart
from .html_steps import StepChart, step_chart
from .say_findings import alike
from .say_operations import kernels_table, operations_table
from .say_ranks import INCONCLUSIVE, ranks_table
from .say_steps import steps_table

MAX_ROWS = 400
Part = tuple[str, Any]
"""A macro and what it shows."""


@dataclass(frozen=True)
class Example:
    """Evidence of a finding; `device` indexes the timeline, None where it cannot be shown."""

    text: str
    device: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class FindingCard:
    """One finding in words; `others` are where else it was found."""

    code: str
    severity: str
    title: str
    text: tuple[str, ...]
    examples: tuple[Example, ...]
    others: tuple[Example, ...] = ()


@dataclass(frozen=True)
class PageTable:
    """A table to sort and to filter; `jumps` are what each row shows in the timeline, or None.

    They hold what follows `data-` in the attributes of a button around the cell `place`. `spread`
    are rows that stay below, whatever the order.
    """

    table: Table
    jumps: tuple[Mapping[str, str | int] | None, ...]
    place: int = 0
    spread: tuple[tuple[str, ...], ...] = ()


def report_parts(
    report: OverlapReport, section: Section, parts: list[Part], drawn: Sequence[str]
) -> list[Part]:
    """The parts of a section with what only a page has; `drawn` are devices of the timeline."""
    match section.name:
        case "summary":
            tables = [("health", part) for _, part in parts if isinstance(part, Table)]
            said = [part for part in parts if not isinstance(part[1], Table)]
            return [*said, *_some("tiles", [_tiles(report)]), *tables]
        case "ranks":
            ranks = ranks_table(report)
            return _sorted(ranks[0], drawn, ranks[1]) if ranks else []
        case "findings":
            # Beside a table of ranks there is room for titles only.
            cards = _findings(report, section, bool(drawn))
            return [("cards", (cards, len(report.traces) < 2))] if cards else []
        case "timeline":
            return [("timeline", drawn)] if drawn else []
        case "transfers":
            return [*_some("bars", [split_chart(report)]), *parts]
        case "steps":
            charts = list(enumerate(_step_charts(report), 1))
            summary = [_summarised(part, len(report.devices)) for part in parts]
            single = _sorted(steps_table(report, MAX_ROWS), drawn)
            return [*_some("steps", charts), *summary, *single]
        case "operations":
            return _sorted(operations_table(report, MAX_ROWS), drawn)
        case "kernels":
            return _sorted(kernels_table(report, MAX_ROWS), drawn)
        case "time":
            return [*_some("bars", [budget_chart(report)]), *parts]
    return parts


def _some(macro: str, shown: Sequence[Any]) -> list[Part]:
    return [(macro, one) for one in shown if one]


def _sorted(
    table: Table | None, drawn: Sequence[str], spread: tuple[tuple[str, ...], ...] = ()
) -> list[Part]:
    """A table to sort and to filter, its rows leading to the timeline where there is one."""
    if table is None:
        return []
    table = cleaned_table(table)
    by_step = table.name == "steps" and table.columns[0] == "device"
    jumps = tuple(_jump(table.name, row, drawn) if drawn else None for row in table.rows)
    return [("sorted", PageTable(table, jumps, int(by_step), spread))]


def _jump(name: str, row: Sequence[str], drawn: Sequence[str]) -> Mapping[str, str | int] | None:
    """What a row shows, by the words it begins with."""
    match name:
        case "operations":
            direction, _, op = row[0].partition(" ")
            return {"find": op, "lane": direction.lower()}
        case "kernels":
            return {"find": row[0], "lane": row[1]}
        case "steps" if row[0] in drawn:
            return {"device": drawn.index(row[0]), "step": f"step {row[1]}"}
        case "steps" if len(drawn) == 1:
            return {"device": 0, "step": f"step {row[0]}"}
        case "ranks":
            owner = f"{row[0].removesuffix(INCONCLUSIVE)}: "
            own = [i for i, device in enumerate(drawn) if device.startswith(owner)]
            return {"device": own[0]} if own else None
    return None


def _summarised(part: Part, n_devices: int) -> Part:
    """Median, least and most of the steps of a device; single ones have a table of their own."""
    macro, block = part
    if isinstance(block, Table) and n_devices <= FEW_DEVICES:
        rows = tuple(row for row in block.rows if row[0] in ("median", "min", "max"))
        block = replace(block, rows=rows, note="")
    return macro, block


def _tiles(report: OverlapReport) -> list[tuple[str, str, str]]:
    """The few numbers to see first: (what, value, of what)."""
    tiles = []
    for name, title in (("h2d", "H2D"), ("d2h", "D2H")):
        part = report.total(name)
        if part.wall_ns:
            value = format_share(part.hidden_share)
            tiles.append((f"{title} behind compute", value, f"of {format_ns(part.wall_ns)}"))
    both = report.total("both")
    if both.wall_ns:
        a_step = measure(report, METRICS["both.exposed_ms"], Scope.STEP_MEAN, least=False).value
        if a_step is not None and len(report.devices) == 1:
            exposed = format_ns(round(a_step))
            of = f"{format_ns(both.exposed_ns)} in all"
            tiles.append((f"Exposed, {STEP_MEAN}", exposed, of))
        else:
            tiles.append(("Exposed", format_ns(both.exposed_ns), f"of {format_ns(both.wall_ns)}"))
    relief = report.devices[0].relief if len(report.devices) == 1 else None
    if relief is not None and relief.offloaded_bytes:
        of = f"of {format_bytes(relief.offloaded_bytes)} offloaded"
        tiles.append(("On the host at once", format_bytes(relief.relief_bytes), of))
    return tiles


def _findings(report: OverlapReport, section: Section, drawn: bool) -> list[FindingCard]:
    groups = alike(sorted(report.findings, key=Finding.urgency))
    lists = [block for block in section.blocks if isinstance(block, Entries)]
    entries = [entry for block in lists for entry in block.entries]
    ranks = {trace.path: rank_name(trace) for trace in report.traces}

    def example(text: str, row: Evidence) -> Example:
        device = evidence_device(report, row) if drawn else None
        return Example(clean_text(text), device, row.start_ns, row.end_ns)

    cards = []
    for (finding, *others), entry in zip(groups, entries, strict=True):
        rows = [row for other in others for row in other.evidence[:1]]
        cards.append(
            FindingCard(
                finding.code,
                finding.severity,
                entry.title,
                entry.text,
                tuple(map(example, entry.examples, finding.evidence)),
                tuple(example(ranks.get(row.trace or "", row.text), row) for row in rows),
            )
        )
    return cards


def _step_charts(report: OverlapReport) -> list[StepChart]:
    """One for each device; of many devices only for the one with the most exposed time."""
    names = map(clean_text, device_names(report))
    pairs = list(zip(report.devices, names, strict=True))
    if len(pairs) > FEW_DEVICES:
        pairs = [max(pairs, key=lambda pair: pair[0].both.exposed_ns)]
    charts = [step_chart(device, name) for device, name in pairs]
    return [chart for chart in charts if chart is not None]
