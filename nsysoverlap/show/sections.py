"""What there is to show of a result, in order, whatever its kind and whatever paints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .blocks import Block, Section, cleaned
from .view import View

if TYPE_CHECKING:
    from ..judge.comparison import Comparison
    from ..judge.history_store import Trend
    from ..judge.verdicts import Verdicts
    from ..replay.answer import WhatIf
    from ..result.model import OverlapReport

    Result = OverlapReport | Verdicts | Comparison | Trend | WhatIf

_KINDS = {
    "OverlapReport": "report",
    "Verdicts": "gate",
    "Comparison": "compare",
    "Trend": "history",
    "WhatIf": "whatif",
}


def kind_of(result: Result) -> str:
    """The command whose result it is."""
    return _KINDS[type(result).__name__]


def sections_of(result: Result, view: View | None = None) -> list[Section]:
    """The sections of a result, free of control characters; `view` is that of a report."""
    found = _sections(kind_of(result), result, view or View())
    return [Section(s.name, s.title, tuple(map(cleaned, s.blocks))) for s in found]


def _sections(kind: str, result: Any, view: View) -> list[Section]:
    """One kind's words are imported alone: a report needs no gate, and no history."""
    if kind == "report":
        from .say_report import report_sections

        return report_sections(result, view)
    if kind == "gate":
        from .say_verdicts import verdict_sections

        return verdict_sections(result)
    if kind == "compare":
        from .say_comparison import comparison_sections

        return comparison_sections(result)
    if kind == "history":
        from .say_history import history_sections

        return history_sections(result)
    from .say_whatif import whatif_sections

    return whatif_sections(result)


def blocks_of(result: Result, view: View | None = None) -> list[Block]:
    """The blocks of all sections."""
    return [block for section in sections_of(result, view) for block in section.blocks]
