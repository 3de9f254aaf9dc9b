"""The report as JSON, the format that programs and later runs read."""

from __future__ import annotations

import json

from ..report import OverlapReport
from .interface import Layout


def render_json(report: OverlapReport, layout: Layout) -> str:
    """The JSON report, in ASCII so that no text from a trace can upset a terminal."""
    return json.dumps(report.to_dict(), indent=2, allow_nan=False) + "\n"
