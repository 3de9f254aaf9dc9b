"""Any blocks as text or as Markdown, for results other than a report."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from ..blocks import Block
from .interface import Layout
from .markdown import _block
from .text import _print_block


def blocks_as_markdown(blocks: Sequence[Block]) -> str:
    """Headings, GitHub tables and paragraphs."""
    return "\n\n".join(_block(block) for block in blocks) + "\n"


def blocks_as_text(blocks: Sequence[Block], layout: Layout) -> str:
    """Paragraphs and tables that fit `layout.width` where numbers allow."""
    from rich.console import Console

    console = Console(
        file=StringIO(),
        width=layout.width,
        force_terminal=layout.color,
        color_system="standard" if layout.color else None,
        no_color=not layout.color,
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as capture:
        for block in blocks:
            _print_block(console, block, layout.width)
            console.print()
    lines = [line.rstrip() for line in capture.get().split("\n")]
    return "\n".join(lines).strip("\n") + "\n"
