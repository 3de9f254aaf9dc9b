"""Output formats by name: what each is painted by, and of which commands' results.

A format is a module of `show` with `paint(result, layout)`, and a line here.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import UsageError

if TYPE_CHECKING:
    from ..show.sections import Result

_ALL = ("report", "gate", "compare", "history", "whatif")
FORMATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "text": ("text", _ALL),
    "json": ("json", _ALL),
    "markdown": ("markdown", _ALL),
    "html": ("html_page", _ALL),
    "junit": ("junit", ("gate",)),
    "github": ("github", ("gate",)),
}


def formats_of(kind: str) -> tuple[str, ...]:
    """The formats of a command's result, the usual one first; no painter is loaded for it."""
    return tuple(name for name, (_, kinds) in FORMATS.items() if kind in kinds)


_BY_EXTENSION = {
    **dict.fromkeys((".html", ".htm"), "html"),
    **dict.fromkeys((".md", ".markdown"), "markdown"),
    ".xml": "junit",
    **{f".{name}": name for name in ("json", "csv", "parquet")},
}


def usual_format(formats: Sequence[str], output: Path | None) -> str:
    """The format where none is asked for: by the extension of the output, else the first."""
    named = "" if output is None else _BY_EXTENSION.get(output.suffix.lower(), "")
    return named if named in formats else formats[0]


def render(result: Result, fmt: str, **layout: Any) -> str:
    """A result in one of its formats, ending in a newline.

    `layout` holds what `Layout` does: `width` and `color` matter to text only, `view` to text and
    Markdown of a report, `timeline` and `curve` to its HTML. Raises `UsageError` for an unknown
    format.
    """
    from ..show.interface import Layout
    from ..show.sections import kind_of

    known = formats_of(kind_of(result))
    if fmt not in known:
        raise UsageError(
            f"There is no format {fmt!r} of `{kind_of(result)}`.",
            f"Known formats: {', '.join(known)}.",
        )
    painter = import_module(f"..show.{FORMATS[fmt][0]}", __package__)
    text: str = painter.paint(result, Layout(**layout))
    return text
