"""Formats of a gate's verdict: finished data in, a string out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..core.errors import UsageError
from ..judge.verdicts import Verdicts
from .interface import Layout
from .verdict_github import render_verdict_github
from .verdict_json import render_verdict_json
from .verdict_junit import render_verdict_junit
from .verdict_markdown import render_verdict_markdown
from .verdict_text import render_verdict_text

VERDICT_REPORTERS: Mapping[str, Callable[[Verdicts, Layout], str]] = {
    "text": render_verdict_text,
    "markdown": render_verdict_markdown,
    "json": render_verdict_json,
    "junit": render_verdict_junit,
    "github": render_verdict_github,
}


def render_verdicts(result: Verdicts, fmt: str, *, width: int = 80, color: bool = False) -> str:
    """The verdicts in one of `VERDICT_REPORTERS`, ending in a newline.

    `width` (columns) and `color` (ANSI codes) matter to text only. Raises `UsageError` for an
    unknown format.
    """
    if fmt not in VERDICT_REPORTERS:
        known = ", ".join(VERDICT_REPORTERS)
        raise UsageError(f"There is no verdict format {fmt!r}.", f"Known formats: {known}.")
    return VERDICT_REPORTERS[fmt](result, Layout(width=width, color=color))
