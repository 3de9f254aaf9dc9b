"""What there is to show of a result, in order, whatever its kind and whatever paints it."""

from __future__ import annotations

from ..judge.comparison import Comparison
from ..judge.history_store import Trend
from ..judge.verdicts import Verdicts
from ..result.model import OverlapReport
from .blocks import Block, Section, cleaned
from .say_comparison import comparison_sections
from .say_history import history_sections
from .say_report import report_sections
from .say_verdicts import verdict_sections
from .view import View

Result = OverlapReport | Verdicts | Comparison | Trend


def kind_of(result: Result) -> str:
    """The command whose result it is."""
    match result:
        case OverlapReport():
            return "report"
        case Verdicts():
            return "gate"
        case Comparison():
            return "compare"
    return "history"


def sections_of(result: Result, view: View | None = None) -> list[Section]:
    """The sections of a result, free of control characters; `view` is that of a report."""
    match result:
        case OverlapReport():
            sections = report_sections(result, view or View())
        case Verdicts():
            sections = verdict_sections(result)
        case Comparison():
            sections = comparison_sections(result)
        case Trend():
            sections = history_sections(result)
    return [Section(s.name, s.title, tuple(map(cleaned, s.blocks))) for s in sections]


def blocks_of(result: Result, view: View | None = None) -> list[Block]:
    """The blocks of all sections."""
    return [block for section in sections_of(result, view) for block in section.blocks]
