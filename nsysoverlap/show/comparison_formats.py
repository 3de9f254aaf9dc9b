"""Formats of a comparison: finished data in, a string out."""

from __future__ import annotations

from ..core.errors import UsageError
from ..judge.comparison import Comparison
from .documents import comparison_file
from .interface import Layout
from .json import as_json
from .markdown import blocks_as_markdown
from .say_comparison import comparison_blocks
from .text import blocks_as_text

COMPARISON_FORMATS = ("text", "markdown", "json")


def render_comparison(result: Comparison, fmt: str, *, width: int = 80, color: bool = False) -> str:
    """The comparison as text, Markdown or JSON, ending in a newline.

    Raises `UsageError` for another format.
    """
    if fmt == "json":
        return as_json(comparison_file(result))
    if fmt == "markdown":
        return blocks_as_markdown(comparison_blocks(result))
    if fmt == "text":
        return blocks_as_text(comparison_blocks(result), Layout(width=width, color=color))
    known = ", ".join(COMPARISON_FORMATS)
    raise UsageError(f"There is no format {fmt!r} of a comparison.", f"Known formats: {known}.")
