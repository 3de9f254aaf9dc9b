"""What a reporter is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from ..draw.timeline import Timeline
from ..result.model import OverlapReport
from .view import View


@dataclass(frozen=True)
class Layout:
    """Where the text goes: columns of the terminal, whether it shows colours, and what to show.

    `timeline` is what ran when, for formats that draw; they do without where there is none.
    """

    width: int = 80
    color: bool = False
    view: View = field(default_factory=View)
    timeline: Timeline | None = None


class Reporter(Protocol):
    """A report as one string that ends in a newline; formats without a layout ignore it."""

    def __call__(self, report: OverlapReport, layout: Layout, /) -> str:
        """Render the report."""
