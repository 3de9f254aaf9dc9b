"""Formats of a what-if answer: finished data in, a string out."""

from __future__ import annotations

import html

from ..core.errors import UsageError
from ..replay.answer import WhatIf
from .curve import curve_svg
from .interface import Layout
from .json import as_json
from .markdown import blocks_as_markdown
from .notebook import blocks_html
from .say_whatif import whatif_blocks
from .text import blocks_as_text

WHATIF_FORMATS = ("text", "markdown", "json", "html")


def render_whatif(result: WhatIf, fmt: str, *, width: int = 80, color: bool = False) -> str:
    """The answers as text, Markdown, JSON or HTML, ending in a newline.

    Raises `UsageError` for another format.
    """
    if fmt == "json":
        return as_json(result)
    if fmt == "markdown":
        return blocks_as_markdown(whatif_blocks(result))
    if fmt == "html":
        return _page(result)
    if fmt == "text":
        return blocks_as_text(whatif_blocks(result), Layout(width=width, color=color))
    known = ", ".join(WHATIF_FORMATS)
    raise UsageError(f"There is no format {fmt!r} of an answer.", f"Known formats: {known}.")


def _page(result: WhatIf) -> str:
    title = html.escape(f"What if: {result.path}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        f"{blocks_html(whatif_blocks(result))}\n{curve_svg(result)}</body></html>\n"
    )


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color-scheme:light dark;color:light-dark(#1b1b1b,#e8e8e8);background:light-dark(#fff,#16181d)}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem;"
    "border-bottom:1px solid light-dark(#ddd,#3a3f4a)}"
)
