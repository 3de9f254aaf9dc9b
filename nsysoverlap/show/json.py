"""Results as JSON, the format that programs and later runs read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..core.json_model import Document, plain
from .interface import Layout
from .sections import kind_of

if TYPE_CHECKING:
    from .sections import Result


def paint(result: Result, layout: Layout) -> str:
    """The document of a result; see `as_json`."""
    document: Any = result
    if kind_of(result) in ("gate", "compare", "history"):
        from .documents import document_of

        document = document_of(document)
    return as_json(document)


def as_json(document: Document) -> str:
    """A document as JSON ending in a newline, in ASCII so that no text can upset a terminal.

    Nor a log of GitHub Actions, which takes `##[` for a command anywhere in a line.
    """
    text = json.dumps(plain(document), indent=2, allow_nan=False) + "\n"
    return text.replace("##[", "#\\u0023[")
