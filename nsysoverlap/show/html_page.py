"""Any result as one self-contained page: the sections of the text, painted as HTML."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..core.formatting import clean_text, number_of
from ..core.palette import COLORS, ON_DARK
from ..core.records import dataclass
from ..judge.comparison import Comparison
from ..judge.history_store import Trend
from ..replay.answer import WhatIf
from ..replay.link_curve import LinkCurve
from ..result.device_names import device_names
from ..result.model import OverlapReport
from .blocks import Block, Section, Table
from .curve import curve_svg
from .html_curve import NAME as CURVE
from .html_curve import TITLE as CURVE_TITLE
from .html_curve import curve_parts
from .html_report import Part, report_parts
from .html_timeline import timeline_json
from .interface import Layout
from .sections import sections_of
from .view import View

if TYPE_CHECKING:
    from markupsafe import Markup

    from .sections import Result

MAX_WORD = 12
"""Characters of what needs no room to wrap in."""
EVERYTHING = View(findings="all", by="stream", folded=True)
_CODE = re.compile(r"(`[^`]+`|--[A-Za-z][\w-]*(?:=[\w.:/-]*\w)?)")
"""Splits a text so that commands in backquotes and command line flags are pieces of their own."""
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[KMG]?i?B)\b|%)")
"""The space between a number and its unit."""
_JOINT = re.compile(r"((?<=[\w)\]])(?:[_=:]|/(?!s\b)|[.,](?!\d))+)(?=[\w(\[])")
"""Where a name may break if it must: behind what joins its words."""
SCRIPTS = ("theme.js", "tables.js")
DRAWING = (
    *("timeline-data.js", "timeline-sums.js", "timeline-rows.js", "timeline-blocks.js"),
    *("timeline-draw.js", "timeline-state.js", "timeline-panels.js", "timeline-input.js"),
    "timeline.js",
)


@dataclass(frozen=True)
class PageSection:
    """A section as (macro, what it shows) pairs."""

    name: str
    title: str
    parts: tuple[tuple[str, Any], ...]


def paint(result: Result, layout: Layout) -> str:
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
    env.filters["soft"] = _soft
    timeline = layout.timeline if isinstance(result, OverlapReport) else None
    scripts = (*SCRIPTS, *(DRAWING if timeline else ()))
    script = "\n".join(loader.get_source(env, name)[0] for name in scripts)
    digest = base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
    names: list[str] = []
    data: str | None = None
    if isinstance(result, OverlapReport):
        names = [clean_text(name) for name in device_names(result)]
        data = timeline_json(timeline, result, names) if timeline else None
    text = env.get_template("page.html.j2").render(
        title=clean_text(_title(result)),
        generator=getattr(result, "generator", f"nsysoverlap {__version__}"),
        sections=_sections(result, names if timeline else [], layout.curve),
        style=Markup(_colors() + loader.get_source(env, "page.css")[0]),
        script=Markup(script),
        script_hash=digest,
        timeline=data and Markup(data),
    )
    return "\n".join(line.rstrip() for line in text.strip().split("\n")) + "\n"


def _soft(text: str) -> Markup:
    """Text that breaks at spaces, else behind what joins the words of a name; units stay put."""
    from markupsafe import Markup, escape

    return Markup(_JOINT.sub(r"\1<wbr>", str(escape(_UNIT.sub("\u00a0", text)))))


def _title(result: Result) -> str:
    match result:
        case Comparison():
            return f"{result.a} and {result.b}"
        case Trend():
            return result.name
        case WhatIf():
            return f"what if: {result.path}"
        case OverlapReport():
            names: Sequence[str] = [trace.path for trace in result.traces]
        case _:
            names = result.traces
    return names[0] if len(names) == 1 else f"{len(names)} traces"


def _sections(result: Result, drawn: Sequence[str], curve: LinkCurve | None) -> list[PageSection]:
    """Those that hold anything; what is `drawn` are the devices of the timeline."""
    found = []
    for section in sections_of(result, EVERYTHING):
        parts: list[Part] = [(_macro(section, block), block) for block in section.blocks]
        if isinstance(result, OverlapReport):
            parts = report_parts(result, section, parts, drawn)
        if isinstance(result, WhatIf) and section.name == "link":
            svg = curve_svg(result.path, result.sweep, result.enough_link)
            parts += [("drawing", svg)] if svg else []
        if parts:
            found.append(PageSection(section.name, section.title, tuple(parts)))
        if curve is not None and section.name == "steps":
            found.append(PageSection(CURVE, CURVE_TITLE, curve_parts(curve)))
    return found


def _macro(section: Section, block: Block) -> str:
    """What paints a block; the first two of a summary are its headline and what it is over."""
    place = section.blocks.index(block)
    if section.name == "summary" and place < 2 and getattr(block, "tone", "alarm") != "alarm":
        return ("headline", "basis")[place]
    if section.name == "summary" and not place:
        return "headline"
    return "sorted" if isinstance(block, Table) and block.name else "block"


def _colors() -> str:
    """The palette as variables of the style sheet; exposed time has the budget's name for it."""
    pairs = [
        f"--{'transfer' if kind == 'exposed' else kind}: light-dark({COLORS[kind]}, {dark});"
        for kind, dark in ON_DARK.items()
    ]
    return f":root {{ {' '.join(pairs)} }}\n"


def _kinds(table: Table) -> list[str]:
    """Class of each column: numbers, short words, or names of any length."""
    widths = [max((len(row[i]) for row in table.rows), default=0) for i in range(table.n_words)]
    words = ["name" if width > MAX_WORD else "word" for width in widths]
    return words + ["n"] * (len(table.columns) - table.n_words)
