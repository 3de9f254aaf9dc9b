"""Results as JSON, the format that programs and later runs read."""

from __future__ import annotations

import json

from ..core.json_model import Document, plain
from ..judge.comparison import Comparison
from ..judge.history_store import Trend
from ..judge.verdicts import Verdicts
from .documents import HistoryFile, comparison_file, verdict_file
from .interface import Layout
from .sections import Result


def paint(result: Result, layout: Layout) -> str:
    """The document of a result; see `as_json`."""
    match result:
        case Verdicts():
            return as_json(verdict_file(result))
        case Comparison():
            return as_json(comparison_file(result))
        case Trend():
            return as_json(HistoryFile(result.runs))
    return as_json(result)


def as_json(document: Document) -> str:
    """A document as JSON ending in a newline, in ASCII so that no text can upset a terminal.

    Nor a log of GitHub Actions, which takes `##[` for a command anywhere in a line.
    """
    text = json.dumps(plain(document), indent=2, allow_nan=False) + "\n"
    return text.replace("##[", "#\\u0023[")
