"""The run history as a database: tables, and one run as their rows.

    runs 1-n devices 1-n steps, runs 1-n operations, runs 1-n findings

Everything is an integer, a float share 0..1, or text; `_ns` nanoseconds. `runs.labels` is a JSON
object with a full-text index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from ..result.metrics import METRICS, Scope
from ..result.model import DIRECTIONS, DeviceReport, Overlap, OverlapReport, StepReport
from ..result.scopes import measure

if TYPE_CHECKING:
    from sqlite_utils import Database

APPLICATION_ID = 0x6E736F76
"""Marks the file as ours: "nsov"."""
VERSION = 1

_TIMES = ("wall_ns", "hidden_by_compute_ns", "hidden_by_comm_ns", "exposed_ns")
_OVERLAP: dict[str, type] = {
    "n": int,
    "bytes": int,
    **dict.fromkeys(_TIMES, int),
    "hidden_share": float,
}
_DIRECTED: dict[str, type] = {
    f"{direction}_{name}": kind for direction in DIRECTIONS for name, kind in _OVERLAP.items()
}

RUN_VALUES: Mapping[str, tuple[str, Scope]] = {
    "h2d_hidden_share": ("h2d.hidden", Scope.TOTAL),
    "d2h_hidden_share": ("d2h.hidden", Scope.TOTAL),
    "both_hidden_share": ("both.hidden", Scope.TOTAL),
    "both_covered_share": ("both.covered", Scope.TOTAL),
    "worst_device_exposed_ns": ("both.exposed_ms", Scope.WORST_DEVICE),
    "exposed_per_step_ns": ("both.exposed_ms", Scope.STEP_MEDIAN),
    "step_ns": ("step_ms", Scope.STEP_MEDIAN),
    "relief_share": ("relief", Scope.TOTAL),
}
"""Columns of `runs` that hold a metric over a scope."""

_COLUMNS: dict[str, dict[str, type]] = {
    "runs": {
        "id": int,
        "content_hash": str,
        "recorded_at": str,
        "labels": str,
        "traces": str,
        "gpus": str,
        "n_devices": int,
        "n_ranks": int,
        "basis": str,
        "transfer_kernels": str,
        "n_steps": int,
        "measured": str,
        "accepted": str,
        "nsys_version": str,
        "generator": str,
        **{name: float if name.endswith("_share") else int for name in RUN_VALUES},
    },
    "devices": {
        "id": int,
        "run_id": int,
        "trace": str,
        "rank": int,
        "pid": int,
        "device_id": int,
        "gpu_name": str,
        "window_ns": int,
        **_DIRECTED,
        **dict.fromkeys(
            ("compute_ns", "comm_ns", "transfer_ns", "other_ns", "opaque_ns", "idle_ns"), int
        ),
        "relief_bytes": int,
        "offloaded_bytes": int,
    },
    "steps": {
        "id": int,
        "run_id": int,
        "device_id": int,
        "step": int,
        "label": str,
        "start_ns": int,
        "duration_ns": int,
        **_DIRECTED,
        "relief_bytes": int,
        "offloaded_bytes": int,
    },
    "operations": {
        "id": int,
        "run_id": int,
        "op": str,
        "label": str,
        "direction": str,
        **_OVERLAP,
        "exposed_per_step_ns": int,
        "followed_by": str,
    },
    "findings": {
        "id": int,
        "run_id": int,
        "code": str,
        "severity": str,
        "title": str,
        "detail": str,
        "remedy": str,
        "cost_ns": int,
    },
}


def create_tables(db: Database) -> None:
    """Create all tables, indexes and the full-text index; the caller holds the transaction."""
    for name, columns in _COLUMNS.items():
        keys = [] if name == "runs" else [("run_id", "runs", "id")]
        if name == "steps":
            keys.append(("device_id", "devices", "id"))
        required = {"runs": {"content_hash", "recorded_at", "labels"}}.get(name, {"run_id"})
        table = db.table(name)
        table.create(columns, pk="id", foreign_keys=keys, not_null=required)
        for column, *_ in keys:
            table.create_index([column])
    runs = db.table("runs")
    runs.create_index(["content_hash"], unique=True)
    runs.create_index(["recorded_at"])
    runs.enable_fts(["labels"], create_triggers=True)
    db.table("findings").create_index(["code"])
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def insert_run(
    db: Database, report: OverlapReport, content_hash: str, recorded_at: str, labels: str
) -> int:
    """Insert a run with everything that belongs to it; returns its id."""
    head = {"content_hash": content_hash, "recorded_at": recorded_at, "labels": labels}
    run_id = _insert(db, "runs", {**head, **_run_row(report)})
    ranks = {trace.path: trace.rank for trace in report.traces}
    for device in report.devices:
        row = _device_row(device, ranks.get(device.trace))
        device_id = _insert(db, "devices", {"run_id": run_id, **row})
        owner = {"run_id": run_id, "device_id": device_id}
        db.table("steps").insert_all({**owner, **_step_row(step)} for step in device.steps)
    db.table("operations").insert_all(
        {
            "run_id": run_id,
            "op": o.op,
            "label": o.label,
            "direction": o.direction,
            **_overlap_row(o.overlap),
            "exposed_per_step_ns": o.exposed_per_step_ns,
            "followed_by": o.followed_by,
        }
        for o in report.operations
    )
    db.table("findings").insert_all(
        {
            "run_id": run_id,
            **{name: getattr(f, name) for name in _COLUMNS["findings"] if hasattr(f, name)},
        }
        for f in report.findings
    )
    return run_id


def _insert(db: Database, table: str, row: Mapping[str, Any]) -> int:
    return cast(int, db.table(table).insert(dict(row)).last_pk)


def how_measured(report: OverlapReport) -> str:
    """Window, rules, steps and links of a report as one text, for matching runs."""
    basis = report.basis
    window = None if basis.window_ns is None else list(basis.window_ns)
    return json.dumps(
        {
            "window_ns": window,
            "rules": basis.rules,
            "steps": basis.steps_asked,
            "marker": basis.steps,
            "links": basis.links,
        }
    )


def add_columns(db: Database) -> None:
    """The columns of `runs` that a database of an older program lacks, empty."""
    there = db.table("runs").columns_dict
    for name in ("measured", "accepted"):
        if name not in there:
            db.table("runs").add_column(name, str)


def gpu_names(report: OverlapReport) -> str:
    """The GPU models of a report as one text, for matching runs."""
    return ", ".join(sorted({d.gpu_name or "unknown GPU" for d in report.devices}))


def _run_row(report: OverlapReport) -> dict[str, Any]:
    versions = sorted({trace.nsys_version or "unknown" for trace in report.traces})
    return {
        "traces": json.dumps([trace.path for trace in report.traces]),
        "gpus": gpu_names(report),
        "n_devices": len(report.devices),
        "n_ranks": len(report.traces),
        "basis": report.basis.kind,
        "transfer_kernels": report.basis.transfer_kernels,
        "n_steps": max((len(device.steps) for device in report.devices), default=0),
        "measured": how_measured(report),
        "accepted": ", ".join(report.basis.accepted),
        "nsys_version": ", ".join(versions),
        "generator": report.generator,
        **{name: run_value(report, name) for name in RUN_VALUES},
    }


def run_value(report: OverlapReport, column: str) -> float | int | None:
    """What a column of `RUN_VALUES` holds for a report; None where the report cannot tell."""
    name, scope = RUN_VALUES[column]
    metric = METRICS[name]
    value = measure(report, metric, scope, least=metric.more_is_better is not False).value
    return None if value is None else _number(value, column)


def _number(value: Fraction, column: str) -> float | int:
    return float(value) if column.endswith("_share") else round(value)


def _device_row(device: DeviceReport, rank: int | None) -> dict[str, Any]:
    relief = device.relief
    return {
        "trace": device.trace,
        "rank": rank,
        "pid": device.pid,
        "device_id": device.device_id,
        "gpu_name": device.gpu_name,
        "window_ns": device.window_ns[1] - device.window_ns[0],
        **_directed_row(device),
        **asdict(device.time_budget),
        "relief_bytes": relief.relief_bytes if relief else None,
        "offloaded_bytes": relief.offloaded_bytes if relief else None,
    }


def _step_row(step: StepReport) -> dict[str, Any]:
    return {
        "step": step.index,
        "label": step.label,
        "start_ns": step.start_ns,
        "duration_ns": step.duration_ns,
        **_directed_row(step),
        "relief_bytes": step.relief.relief_bytes,
        "offloaded_bytes": step.relief.offloaded_bytes,
    }


def _directed_row(part: DeviceReport | StepReport) -> dict[str, Any]:
    return {
        f"{direction}_{name}": value
        for direction in DIRECTIONS
        for name, value in _overlap_row(getattr(part, direction)).items()
    }


def _overlap_row(overlap: Overlap) -> dict[str, Any]:
    return {name: getattr(overlap, name) for name in _OVERLAP}
