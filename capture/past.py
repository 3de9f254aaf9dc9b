"""One row an arm in the history database of nsysoverlap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nsysoverlap.judge.history_store import content_hash, record

from .overlap import measure_folder, trace_files
from .results import Row
from .tables import peak

LABELS = ("step_ms", "tflops", "peak_gib", "host_gib", "predicted_ms")


def record_rows(database: Path, folder: Path, config_name: str, rows: Sequence[Row]) -> int:
    """Record every arm that has a recording; returns how many were new.

    Labels say the configuration, the arm, its status, and its numbers that no trace holds.
    """
    n_new = 0
    for row in rows:
        traces = trace_files(folder / row.arm)
        if not traces:
            continue
        report, labels = measure_folder(folder / row.arm), row_labels(config_name, row)
        n_new += record(database, report, content_hash(traces), labels).is_new
    return n_new


def row_labels(config_name: str, row: Row) -> dict[str, str]:
    """What describes a run beside its traces."""
    values = {**row.to_dict(), "peak_gib": peak(row)}
    numbers = {name: f"{values[name]:.2f}" for name in LABELS if values[name] is not None}
    return {"config": config_name, "arm": row.arm, "status": row.status, **numbers}
