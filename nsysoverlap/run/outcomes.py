"""What becomes of one trace among many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import NsysOverlapError
from ..result.model import OverlapReport
from .analysis import Options


@dataclass(frozen=True)
class Kept:
    """The report of a trace, and what else was to be kept of it."""

    report: OverlapReport
    extra: Any


Outcome = OverlapReport | Kept | NsysOverlapError
"""Its report, or why there is none."""
Work = Callable[[Path, Options, str, int], Outcome]
"""Path, options, name in the report, reader threads; sent to other processes by reference."""
