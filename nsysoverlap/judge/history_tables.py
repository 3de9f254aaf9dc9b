"""The run history as a database: tables, and one run as their rows.

    runs 1-n devices 1-n steps, runs 1-n operations, runs 1-n findings

Everything is an integer, a float share 0..1, or text; `_ns` nanoseconds. `runs.labels` is a JSON
object with a full-text index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from ..core.limits import Unit
from ..result.columns import Column, Place, Row, at, lifted
from ..result.metrics import METRICS, SCOPES, Scope
from ..result.model import DIRECTIONS, DeviceReport, OperationReport, Overlap, OverlapReport
from ..result.quantities import BUDGET, RELIEF
from ..result.scopes import measure
from ..result.tables import DEVICE, FINDING, OPERATION, STEP, directed

if TYPE_CHECKING:
    from sqlite_utils import Database

APPLICATION_ID = 0x6E736F76
"""Marks the file as ours: "nsov"."""
VERSION = 2


RUN_VALUES: Mapping[str, tuple[str, Scope]] = {
    "h2d_hidden_share": ("h2d.hidden", Scope.TOTAL),
    "d2h_hidden_share": ("d2h.hidden", Scope.TOTAL),
    "both_hidden_share": ("both.hidden", Scope.TOTAL),
    "both_covered_share": ("both.covered", Scope.TOTAL),
    "worst_device_exposed_ns": ("both.exposed_ms", Scope.WORST_DEVICE),
    "exposed_step_median_ns": ("both.exposed_ms", Scope.STEP_MEDIAN),
    "step_ns": ("step_ms", Scope.STEP_MEDIAN),
    "relief_share": ("relief", Scope.TOTAL),
}
"""Columns of `runs` that hold a metric over a scope."""
FORMER_NAMES: Mapping[str, Mapping[str, str]] = {
    "runs": {"exposed_step_median_ns": "exposed_per_step_ns"},
    "operations": {"exposed_step_mean_ns": "exposed_per_step_ns"},
}
"""What version 1 called columns: a median and a mean by one name."""


def _stored(columns: Iterable[Column[Row]], **names: str) -> tuple[Column[Row], ...]:
    """The columns that are kept; some have names of their own here."""
    return tuple(replace(c, name=names.get(c.name, c.name)) for c in at(columns, Place.STORED))


_DEVICE: tuple[Column[DeviceReport], ...] = _stored(
    (
        *DEVICE,
        Column(
            "window_ns", Unit.TIME, "", lambda d: d.window_ns[1] - d.window_ns[0], "", Place.STORED
        ),
        *directed(DIRECTIONS),
        *lifted(BUDGET, lambda device: device.time_budget),
        *lifted(RELIEF, lambda device: device.relief),
    )
)
_STEP = _stored(STEP, index="step")
_OPERATION = _stored(OPERATION, exposed_per_step_ns="exposed_step_mean_ns")
_FINDING = _stored(FINDING)


def _types(columns: Iterable[Column[Any]]) -> dict[str, type]:
    kinds = {Unit.NAME: str, Unit.SHARE: float, Unit.RATE: float}
    return {column.name: kinds.get(column.unit, int) for column in columns}


def _row(columns: Iterable[Column[Row]], row: Row) -> dict[str, Any]:
    values = {column.name: column.take(row) for column in columns}
    return {n: float(v) if isinstance(v, Fraction) else v for n, v in values.items()}


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
    "devices": {"id": int, "run_id": int, "trace": str, "rank": int, **_types(_DEVICE)},
    "steps": {"id": int, "run_id": int, "device_id": int, **_types(_STEP)},
    "operations": {"id": int, "run_id": int, **_types(_OPERATION)},
    "findings": {"id": int, "run_id": int, **_types(_FINDING)},
}


def meanings() -> dict[str, dict[str, str]]:
    """What each measured column means, by table and column."""
    runs = {
        column: f"{METRICS[metric].meaning}, over {SCOPES[scope]}"
        for column, (metric, scope) in RUN_VALUES.items()
    }
    tables: dict[str, tuple[Column[Any], ...]] = {
        "devices": _DEVICE,
        "steps": _STEP,
        "operations": _OPERATION,
        "findings": _FINDING,
    }
    return {"runs": runs} | {
        name: {c.name: c.meaning for c in columns if c.meaning} for name, columns in tables.items()
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
        named = {"run_id": run_id, "trace": device.trace, "rank": ranks.get(device.trace)}
        device_id = _insert(db, "devices", named | _row(_DEVICE, device))
        owner = {"run_id": run_id, "device_id": device_id}
        db.table("steps").insert_all(owner | _row(_STEP, step) for step in device.steps)
    owner = {"run_id": run_id}
    db.table("operations").insert_all(owner | _row(_OPERATION, o) for o in report.operations)
    db.table("findings").insert_all(owner | _row(_FINDING, f) for f in report.findings)
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


def bring_up_to_date(db: Database) -> None:
    """Columns that a database of an older program lacks, empty, or under their present names."""
    for table, columns in _COLUMNS.items():
        there = db.table(table).columns_dict
        for name, former in FORMER_NAMES.get(table, {}).items():
            if former in there:
                db.conn.execute(f"ALTER TABLE {table} RENAME COLUMN {former} TO {name}")
                there[name] = int
        for name, kind in columns.items():
            if name not in there:
                db.table(table).add_column(name, kind)
    db.conn.execute(f"PRAGMA user_version = {VERSION}")


def value_of(row: Mapping[str, Any], table: str, name: str) -> Any:
    """What a row holds of a column, whatever its name was; None where there was none yet."""
    former = FORMER_NAMES.get(table, {}).get(name, name)
    return row.get(name, row.get(former))


def read_operation(row: Mapping[str, Any]) -> OperationReport:
    """A row of `operations`; rates and estimated bytes are not stored."""
    own, known = (
        {name: row[name] for name in row if name in kind.__dataclass_fields__}
        for kind in (OperationReport, Overlap)
    )
    mean = value_of(row, "operations", "exposed_step_mean_ns")
    return OperationReport(**own | {"overlap": Overlap(**known), "exposed_per_step_ns": mean})


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
