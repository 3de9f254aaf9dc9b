"""What becomes of one trace among many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..core.errors import NsysOverlapError
from ..result.model import OverlapReport
from .analysis import Options

Outcome = OverlapReport | NsysOverlapError
"""Its report, or why there is none."""
Work = Callable[[Path, Options, str, int], Outcome]
"""Path, options, name in the report, reader threads; sent to other processes by reference."""
