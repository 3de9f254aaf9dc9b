"""Blocks other than a report's, as text for stdout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .terminal import stdout_color, stdout_width

if TYPE_CHECKING:
    from ..blocks import Block, Table


def key_values(title: str, rows: Iterable[tuple[str, ...]]) -> Table:
    """A table of words only."""
    from ..blocks import Table

    body = tuple(rows)
    n_words = len(body[0]) if body else 0
    return Table(title, ("",) * n_words, body, n_words=n_words)


def render_blocks(blocks: Sequence[Block]) -> str:
    """The blocks as text for stdout, free of control characters."""
    from io import StringIO

    from rich.console import Console

    from ..blocks import cleaned
    from ..reporters.text import _print_block

    color, width = stdout_color(None), stdout_width(None)
    console = Console(
        file=StringIO(),
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as capture:
        for block in blocks:
            _print_block(console, cleaned(block), width)
            console.print()
    lines = [line.rstrip() for line in capture.get().split("\n")]
    return "\n".join(lines).strip("\n") + "\n"
