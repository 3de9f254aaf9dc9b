"""The report as JSON, the format that programs and later runs read."""

from __future__ import annotations

import json

from ..core.json_model import Document, plain
from ..result.model import OverlapReport
from .interface import Layout


def render_json(report: OverlapReport, layout: Layout) -> str:
    """The report; see `as_json`."""
    return as_json(report)


def as_json(document: Document) -> str:
    """A document as JSON ending in a newline, in ASCII so that no text can upset a terminal.

    Nor a log of GitHub Actions, which takes `##[` for a command anywhere in a line.
    """
    text = json.dumps(plain(document), indent=2, allow_nan=False) + "\n"
    return text.replace("##[", "#\\u0023[")
