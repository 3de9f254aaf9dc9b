"""What goes into the page: the sections of the text report, charts, tables and the timeline."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.formatting import clean_text, format_bytes, format_ns, number_of
from ..core.palette import COLORS, ON_DARK
from ..result.device_names import FEW_DEVICES, device_names
from ..result.evidence import evidence_device
from ..result.metrics import METRICS, STEP_MEAN, Scope
from ..result.model import Finding, OverlapReport, format_share
from ..result.scopes import measure
from ..result.sentences import basis_line, headline
from . import say_report as sections
from .blocks import Block, Table, cleaned
from .html_charts import budget_chart, split_chart
from .html_steps import StepChart, step_chart
from .html_timeline import timeline_json
from .interface import Layout
from .say_findings import findings_section
from .say_gains import gain_section
from .say_operations import kernels_table, operations_table
from .say_steps import steps_section, steps_table
from .say_transfers import transfers_section, unified_section
from .view import View

MAX_ROWS = 400
MAX_WORD = 12
"""Characters of what needs no room to wrap in."""
EVERYTHING = View(findings="all", by="stream")
_CODE = re.compile(r"(`[^`]+`|--[A-Za-z][\w-]*(?:=[\w.:/-]*\w)?)")
"""Splits a text so that commands in backquotes and command line flags are pieces of their own."""
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[KMG]?i?B)\b|%)")
"""The space between a number and its unit."""
SCRIPTS = ("theme.js", "tables.js", "timeline-data.js", "timeline-draw.js", "timeline.js")


@dataclass(frozen=True)
class Example:
    """Evidence of a finding; `device` indexes the timeline, None where it cannot be shown."""

    text: str
    device: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class FindingCard:
    """One finding in words."""

    code: str
    severity: str
    title: str
    text: tuple[str, ...]
    examples: tuple[Example, ...]


def render_html(report: OverlapReport, layout: Layout) -> str:
    """A page that needs nothing but itself; all text of the trace is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader(__package__)
    env = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["pieces"] = _CODE.split
    env.filters["number_of"] = number_of
    env.filters["kinds"] = _kinds
    env.filters["tight"] = lambda text: _UNIT.sub("\u00a0", text)
    script = "\n".join(loader.get_source(env, name)[0] for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
    timeline = layout.timeline
    names = [clean_text(name) for name in device_names(report)]
    text = env.get_template("page.html.j2").render(
        **_content(report, names, timeline is not None),
        style=Markup(_colors() + loader.get_source(env, "page.css")[0]),
        script=Markup(script),
        script_hash=digest,
        timeline=None if timeline is None else Markup(timeline_json(timeline, names)),
        device_names=names,
    )
    return "\n".join(line.rstrip() for line in text.strip().split("\n")) + "\n"


def _colors() -> str:
    """The palette as variables of the style sheet; exposed time has the budget's name for it."""
    pairs = [
        f"--{'transfer' if kind == 'exposed' else kind}: light-dark({COLORS[kind]}, {dark});"
        for kind, dark in ON_DARK.items()
    ]
    return f":root {{ {' '.join(pairs)} }}\n"


def _content(report: OverlapReport, names: Sequence[str], drawn: bool) -> dict[str, Any]:
    return {
        "title": clean_text(_title(report)),
        "generator": report.generator,
        "headline": clean_text(headline(report)),
        "alarm": not report.conclusive,
        "basis": clean_text(basis_line(report)),
        "tiles": _tiles(report),
        "health": _clean(sections.health_section(report)),
        "findings": _findings(report, drawn),
        "transfers": _clean(
            [
                *transfers_section(report),
                *gain_section(report, EVERYTHING),
                *unified_section(report),
                *sections.opaque_section(report),
            ]
        ),
        "split": split_chart(report),
        "budget": budget_chart(report),
        "step_charts": _step_charts(report, names),
        "steps": _cleaned(steps_table(report, MAX_ROWS)),
        "step_summary": _clean(_step_summary(report)),
        "operations": _cleaned(operations_table(report, MAX_ROWS)),
        "kernels": _cleaned(kernels_table(report, MAX_ROWS)),
        "details": _clean(
            [*sections.budget_section(report), *sections.streams_section(report, EVERYTHING)]
        ),
        "next": next(iter(_clean(sections.next_step_section(report))), None),
    }


def _title(report: OverlapReport) -> str:
    traces = report.traces
    return traces[0].path if len(traces) == 1 else f"{len(traces)} traces"


def _cleaned(table: Table | None) -> Block | None:
    return table and cleaned(table)


def _kinds(table: Table) -> list[str]:
    """Class of each column: numbers, short words, or names of any length."""
    widths = [max((len(row[i]) for row in table.rows), default=0) for i in range(table.n_words)]
    words = ["name" if width > MAX_WORD else "word" for width in widths]
    return words + ["n"] * (len(table.columns) - table.n_words)


def _clean(blocks: Sequence[Block]) -> list[Block]:
    return [cleaned(block) for block in blocks]


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


def _findings(report: OverlapReport, drawn: bool) -> list[FindingCard]:
    ordered = sorted(report.findings, key=Finding.urgency)
    entries = [
        entry
        for block in findings_section(report, EVERYTHING)
        for entry in getattr(cleaned(block), "entries", ())
    ]
    return [
        FindingCard(
            finding.code,
            finding.severity,
            entry.title,
            entry.text,
            tuple(
                Example(
                    text,
                    evidence_device(report, row) if drawn else None,
                    row.start_ns,
                    row.end_ns,
                )
                for text, row in zip(entry.examples, finding.evidence, strict=False)
            ),
        )
        for finding, entry in zip(ordered, entries, strict=True)
    ]


def _step_charts(report: OverlapReport, names: Sequence[str]) -> list[StepChart]:
    """One for each device; of many devices only for the one with the most exposed time."""
    pairs = list(zip(report.devices, names, strict=True))
    if len(pairs) > FEW_DEVICES:
        pairs = [max(pairs, key=lambda pair: pair[0].both.exposed_ns)]
    charts = [step_chart(device, name) for device, name in pairs]
    return [chart for chart in charts if chart is not None]


def _step_summary(report: OverlapReport) -> list[Block]:
    """Median, least and most of each device; single steps have a table of their own."""
    summary: list[Block] = []
    for block in steps_section(report):
        if isinstance(block, Table) and len(report.devices) <= FEW_DEVICES:
            rows = tuple(row for row in block.rows if row[0] in ("median", "min", "max"))
            block = Table(block.title, block.columns, rows, "", block.n_words)
        summary.append(block)
    return summary
