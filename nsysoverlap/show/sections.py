"""What there is to show of a result, in order, whatever its kind and whatever paints it."""

from __future__ import annotations

from collections.abc import Callable

from ..judge.comparison import Comparison
from ..judge.history_store import Trend
from ..judge.verdicts import Verdicts
from ..replay.answer import WhatIf
from ..result.model import OverlapReport
from .blocks import Block, Section, cleaned
from .say_comparison import comparison_sections
from .say_history import history_sections
from .say_report import report_sections
from .say_verdicts import verdict_sections
from .say_whatif import whatif_sections
from .view import View

Result = OverlapReport | Verdicts | Comparison | Trend | WhatIf


_KINDS: dict[type, tuple[str, Callable[..., list[Section]]]] = {
    OverlapReport: ("report", report_sections),
    Verdicts: ("gate", verdict_sections),
    Comparison: ("compare", comparison_sections),
    Trend: ("history", history_sections),
    WhatIf: ("whatif", whatif_sections),
}


def kind_of(result: Result) -> str:
    """The command whose result it is."""
    return _KINDS[type(result)][0]


def sections_of(result: Result, view: View | None = None) -> list[Section]:
    """The sections of a result, free of control characters; `view` is that of a report."""
    _, sections = _KINDS[type(result)]
    found = sections(result, view or View()) if sections is report_sections else sections(result)
    return [Section(s.name, s.title, tuple(map(cleaned, s.blocks))) for s in found]


def blocks_of(result: Result, view: View | None = None) -> list[Block]:
    """The blocks of all sections."""
    return [block for section in sections_of(result, view) for block in section.blocks]
