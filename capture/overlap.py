"""Measuring a finished recording with nsysoverlap, and keeping the report beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nsysoverlap

REPORT = "overlap.json"


def analyze_folder(folder: Path) -> dict[str, Any]:
    """The merged report of all traces in an arm's folder, written to `overlap.json` as well.

    Raises `NsysOverlapError` for a trace that cannot be read.
    """
    from nsysoverlap.report import OverlapReport

    traces = sorted(folder.glob("*.sqlite"))
    reports = [nsysoverlap.analyze(path) for path in traces]
    report = reports[0] if len(reports) == 1 else OverlapReport.merge(reports)
    values = report.to_dict()
    (folder / REPORT).write_text(json.dumps(values) + "\n", encoding="utf-8")
    return values


def read_report(folder: Path) -> dict[str, Any] | None:
    """The report kept in an arm's folder."""
    path = folder / REPORT
    if not path.is_file():
        return None
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values
