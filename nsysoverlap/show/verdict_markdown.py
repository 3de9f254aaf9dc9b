"""The verdict of a gate as Markdown for pull requests and job summaries."""

from __future__ import annotations

from ..judge.verdicts import Verdicts
from .interface import Layout
from .markdown import blocks_as_markdown
from .say_verdicts import verdict_blocks


def render_verdict_markdown(result: Verdicts, layout: Layout) -> str:
    """Headline, table, reasons."""
    return blocks_as_markdown(verdict_blocks(result))
