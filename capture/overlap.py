"""Measuring a finished recording with nsysoverlap, and keeping the report beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nsysoverlap
from nsysoverlap.core.output import write_atomically

if TYPE_CHECKING:
    from nsysoverlap.result.model import OverlapReport

REPORT = "overlap.json"


def trace_files(folder: Path) -> list[Path]:
    """The exports in an arm's folder, one a rank."""
    return sorted(folder.glob("*.sqlite"))


def measure_folder(folder: Path) -> OverlapReport:
    """The merged report of all traces in an arm's folder.

    Raises `NsysOverlapError` for a trace that cannot be read.
    """
    from nsysoverlap.result.model import OverlapReport

    reports = [nsysoverlap.analyze(path) for path in trace_files(folder)]
    return reports[0] if len(reports) == 1 else OverlapReport.merge(reports)


def analyze_folder(folder: Path) -> dict[str, Any]:
    """The report of an arm's folder as plain data, written to `overlap.json` as well."""
    values = measure_folder(folder).to_dict()
    write_atomically(folder / REPORT, json.dumps(values) + "\n")
    return values


def read_report(folder: Path) -> dict[str, Any] | None:
    """The report kept in an arm's folder."""
    path = folder / REPORT
    if not path.is_file():
        return None
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values
