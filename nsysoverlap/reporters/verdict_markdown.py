"""The verdict of a gate as Markdown for pull requests and job summaries."""

from __future__ import annotations

from ..gate.verdicts import Verdicts
from ..sections.verdicts import verdict_blocks
from .interface import Layout
from .markdown import blocks_as_markdown


def render_verdict_markdown(result: Verdicts, layout: Layout) -> str:
    """Headline, table, reasons."""
    return blocks_as_markdown(verdict_blocks(result))
