"""The verdict of a gate for people."""

from __future__ import annotations

from ..judge.verdicts import Verdicts
from .interface import Layout
from .say_verdicts import verdict_blocks
from .text import blocks_as_text


def render_verdict_text(result: Verdicts, layout: Layout) -> str:
    """Headline, table, reasons."""
    return blocks_as_text(verdict_blocks(result), layout)
