"""The verdict of a gate as JSON, for programs."""

from __future__ import annotations

from ..judge.verdicts import Verdicts
from .documents import verdict_file
from .interface import Layout
from .json import as_json


def render_verdict_json(result: Verdicts, layout: Layout) -> str:
    """The verdicts; see `VerdictFile`."""
    return as_json(verdict_file(result))
