"""The verdict of a gate for people."""

from __future__ import annotations

from ..gate.verdicts import Verdicts
from ..sections.verdicts import verdict_blocks
from .interface import Layout
from .text import blocks_as_text


def render_verdict_text(result: Verdicts, layout: Layout) -> str:
    """Headline, table, reasons."""
    return blocks_as_text(verdict_blocks(result), layout)
