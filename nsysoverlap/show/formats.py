"""Formats of a report: finished data in, a string out. Nothing here measures or opens files."""

from __future__ import annotations

from ..core.errors import UsageError
from ..draw.timeline import Timeline
from ..result.model import OverlapReport
from .html_page import render_html
from .interface import Layout, Reporter
from .json import render_json
from .markdown import render_markdown
from .text import render_text
from .view import View

REPORTERS: dict[str, Reporter] = {
    "text": render_text,
    "json": render_json,
    "markdown": render_markdown,
    "html": render_html,
}


def render(
    report: OverlapReport,
    fmt: str,
    *,
    width: int = 80,
    color: bool = False,
    view: View | None = None,
    timeline: Timeline | None = None,
) -> str:
    """The report in one of `REPORTERS`, ending in a newline.

    `width` (columns) and `color` (ANSI codes) matter to text only; `view` to text and Markdown,
    `timeline` to HTML; JSON and HTML hold everything. Raises `UsageError` for an unknown format.
    """
    if fmt not in REPORTERS:
        known = ", ".join(REPORTERS)
        raise UsageError(f"There is no report format {fmt!r}.", f"Known formats: {known}.")
    return REPORTERS[fmt](report, Layout(width, color, view or View(), timeline))
