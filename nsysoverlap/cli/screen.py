"""Blocks other than a report's, as text for stdout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .terminal import stdout_color, stdout_width

if TYPE_CHECKING:
    from ..show.blocks import Block, Table


def key_values(title: str, rows: Iterable[tuple[str, ...]]) -> Table:
    """A table of words only."""
    from ..show.blocks import Table

    body = tuple(rows)
    n_words = len(body[0]) if body else 0
    return Table(title, ("",) * n_words, body, n_words=n_words)


def render_blocks(blocks: Sequence[Block]) -> str:
    """The blocks as text for stdout, free of control characters."""
    from ..show.blocks import cleaned
    from ..show.interface import Layout
    from ..show.text import blocks_as_text

    layout = Layout(width=stdout_width(None), color=stdout_color(None))
    return blocks_as_text([cleaned(block) for block in blocks], layout)
