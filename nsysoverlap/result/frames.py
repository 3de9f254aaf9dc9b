"""Traces and reports as pandas DataFrames and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import UsageError
from ..trace.model import Copies, Kernels, Trace
from .model import (
    DIRECTIONS,
    UNIFIED_DIRECTIONS,
    Finding,
    KernelReport,
    Overlap,
    OverlapReport,
    Relief,
    StepReport,
    StreamReport,
    TimeBudget,
)

if TYPE_CHECKING:
    import pandas as pd

COPY_KINDS = (
    *("unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
    *("UVM HtoD", "UVM DtoH", "UVM DtoD"),
)
"""Labels of ENUM_CUDA_MEMCPY_OPER by value."""
MEMORY_KINDS = (
    *("pageable", "pinned", "device", "array", "managed", "device static", "managed static"),
    "unknown",
)
"""Labels of ENUM_CUDA_MEM_KIND by value."""

_BUSY_ROLES = ("compute", "comm", "h2d", "d2h", "other", "unified_h2d", "unified_d2h", "opaque")
_TEXT = frozenset(
    {
        *("trace", "gpu_name", "gpu_uuid", "direction", "role", "code", "severity", "message"),
        *("hint", "label", "op", "followed_by", "name", "title", "detail", "remedy"),
    }
)


def activities_frame(trace: Trace) -> pd.DataFrame:
    """All GPU rows of a trace, one a row, sorted by start, then end.

    | column | dtype | what |
    |---|---|---|
    | kind | category | kernel, memcpy, memset or graph (a CUDA graph recorded as a whole) |
    | name | category | demangled kernel name; missing for other kinds |
    | start_ns, end_ns, duration_ns | int64 | nanoseconds in the trace's own time base |
    | device | int32 | index into `trace.devices`, a physical GPU where the trace proves it |
    | pid, device_id, context_id, stream_id | int64 | as CUDA numbers them in that process |
    | correlation_id | int64 | launch that caused the row; 0 where unknown |
    | from_graph | bool | node of a CUDA graph launch |
    | n_bytes | Int64 | bytes of a memcpy; missing for other kinds |
    | copy_kind, src_kind, dst_kind | category | of a memcpy, such as HtoD, pinned, device |
    """
    import pandas as pd

    tables = trace.tables
    sizes = [len(table) for table in tables.values()]
    at = np.concatenate([table.stream for table in tables.values()])
    columns: dict[str, Any] = {
        "kind": _categories(np.repeat(np.arange(len(tables)), sizes), list(tables)),
        "name": _kernel_names(trace, sizes),
        "start_ns": np.concatenate([table.start_ns for table in tables.values()]),
        "end_ns": np.concatenate([table.end_ns for table in tables.values()]),
    }
    columns["duration_ns"] = columns["end_ns"] - columns["start_ns"]
    columns["device"] = trace.stream_device[at]
    for field in ("pid", "device_id", "context_id", "stream_id"):
        values = [getattr(stream, field) for stream in trace.streams]
        columns[field] = np.array(values, dtype=np.int64)[at]
    ids = np.concatenate([table.correlation_id for table in tables.values()])
    columns["correlation_id"] = ids.astype(np.int64)
    columns["from_graph"] = np.concatenate([table.from_graph for table in tables.values()])
    columns |= _copy_columns(trace.copies, sizes, list(tables).index("memcpy"))
    frame = pd.DataFrame(columns)
    order = np.lexsort((frame["end_ns"].to_numpy(), frame["start_ns"].to_numpy()))
    return frame.iloc[order].reset_index(drop=True)


def _categories(codes: NDArray[Any], labels: Sequence[str]) -> pd.Categorical[Any]:
    """Labels by code; a code outside `labels` is missing."""
    import pandas as pd

    known = np.where((codes >= 0) & (codes < len(labels)), codes, -1).astype(np.int64)
    return pd.Categorical.from_codes(known, categories=pd.Index(list(labels)))


def _kernel_names(trace: Trace, sizes: Sequence[int]) -> pd.Categorical[Any]:
    """Names of kernels, which come first of the tables; equal names share a category."""
    unique = {name: i for i, name in enumerate(dict.fromkeys(trace.names))}
    code_of = np.array([unique[name] for name in trace.names], dtype=np.int64)
    codes = np.full(sum(sizes), -1, dtype=np.int64)
    kernels: Kernels = trace.kernels
    codes[: len(kernels)] = code_of[kernels.name]
    return _categories(codes, list(unique))


def _copy_columns(copies: Copies, sizes: Sequence[int], position: int) -> dict[str, Any]:
    import pandas as pd

    rows = slice(sum(sizes[:position]), sum(sizes[: position + 1]))
    missing = np.ones(sum(sizes), dtype=np.bool_)
    missing[rows] = False
    n_bytes = np.zeros(sum(sizes), dtype=np.int64)
    n_bytes[rows] = copies.n_bytes
    columns: dict[str, Any] = {"n_bytes": pd.arrays.IntegerArray(n_bytes, missing)}
    for field, labels in (
        ("copy_kind", COPY_KINDS),
        ("src_kind", MEMORY_KINDS),
        ("dst_kind", MEMORY_KINDS),
    ):
        codes = np.full(sum(sizes), -1, dtype=np.int64)
        codes[rows] = getattr(copies, field)
        columns[field] = _categories(codes, labels)
    return columns


def report_frame(report: OverlapReport, table: str = "devices") -> pd.DataFrame:
    """One table of a report as a DataFrame.

    `devices` has a row per device and direction, `steps` a row per device and step, `streams` a
    row per stream (streams overlap: rows do not add up to the device), `operations` a row per
    operation and direction, `kernels` a row per kernel name, `findings` and `health` a row per
    entry. `device` counts the report's devices; `evidence` counts a finding's examples.
    Integers are Int64 (`_ns` nanoseconds, `bytes` bytes), shares Float64 between 0 and 1, rates
    Float64 in GB/s, text string; what the report does not know is missing. Raises `UsageError`
    for another table.
    """
    builders = {
        "devices": _device_rows,
        "steps": _step_rows,
        "streams": _stream_rows,
        "operations": _operation_rows,
        "kernels": _kernel_rows,
        "findings": _finding_rows,
        "health": _health_rows,
    }
    if table not in builders:
        known = ", ".join(builders)
        raise UsageError(f"A report has no table {table!r}.", f"Known tables: {known}.")
    return _typed_frame(*builders[table](report))


_Rows = tuple[Sequence[str], Sequence[Mapping[str, Any]]]


_RELIEF = (*(field.name for field in fields(Relief)), "relief_share")


def _device_rows(report: OverlapReport) -> _Rows:
    rows: list[Mapping[str, Any]] = []
    identity = ("trace", "pid", "device_id", "gpu_id", "gpu_name", "gpu_uuid")
    for i, device in enumerate(report.devices):
        known = {"device": i, **{name: getattr(device, name) for name in identity}}
        relief = {name: getattr(device.relief, name, None) for name in _RELIEF}
        for direction in (*DIRECTIONS, *UNIFIED_DIRECTIONS):
            part = getattr(device, direction).to_dict()
            rows.append({**known, "direction": direction, **relief, **part})
    return ("device", *identity, "direction", *_RELIEF, *_overlap_fields()), rows


def _step_rows(report: OverlapReport) -> _Rows:
    rows: list[Mapping[str, Any]] = []
    identity = ("index", "label", "pid", "start_ns", "end_ns", "duration_ns")
    for i, device in enumerate(report.devices):
        for step in device.steps:
            row: dict[str, Any] = {"trace": device.trace, "device": i}
            row |= {name: getattr(step, name) for name in identity}
            row |= _flat(step, DIRECTIONS)
            row |= asdict(step.time_budget)
            rows.append({**row, **{name: getattr(step.relief, name) for name in _RELIEF}})
    budget = [field.name for field in fields(TimeBudget)]
    return ("trace", "device", *identity, *_flat_fields(DIRECTIONS), *budget, *_RELIEF), rows


def _stream_rows(report: OverlapReport) -> _Rows:
    rows: list[Mapping[str, Any]] = []
    identity = ("pid", "context_id", "stream_id", "role")
    busy = [f"busy_{role}_ns" for role in _BUSY_ROLES]
    for i, device in enumerate(report.devices):
        for stream in device.streams:
            row: dict[str, Any] = {"trace": device.trace, "device": i}
            row |= {name: getattr(stream, name) for name in identity}
            row |= {f"busy_{role}_ns": stream.busy_ns.get(role, 0) for role in _BUSY_ROLES}
            rows.append(row | _flat(stream, ("h2d", "d2h")))
    return ("trace", "device", *identity, *busy, *_flat_fields(("h2d", "d2h"))), rows


def _operation_rows(report: OverlapReport) -> _Rows:
    names = ("op", "label", "direction")
    after = ("exposed_per_step_ns", "followed_by")
    rows = [
        {name: getattr(operation, name) for name in (*names, *after)} | operation.overlap.to_dict()
        for operation in report.operations
    ]
    return (*names, *_overlap_fields(), *after), rows


def _kernel_rows(report: OverlapReport) -> _Rows:
    columns = [field.name for field in fields(KernelReport)]
    return columns, [asdict(kernel) for kernel in report.kernels]


def _finding_rows(report: OverlapReport) -> _Rows:
    columns = [field.name for field in fields(Finding)]
    rows = [asdict(finding) | {"evidence": len(finding.evidence)} for finding in report.findings]
    return columns, rows


def _health_rows(report: OverlapReport) -> _Rows:
    columns = ("code", "severity", "message", "hint", "trace", "count")
    return columns, [asdict(entry) for entry in report.health]


def _flat(owner: StepReport | StreamReport, directions: Sequence[str]) -> dict[str, Any]:
    """The overlaps of some directions as one row: `h2d_wall_ns` and so on."""
    return {
        f"{direction}_{name}": value
        for direction in directions
        for name, value in getattr(owner, direction).to_dict().items()
    }


def _flat_fields(directions: Sequence[str]) -> list[str]:
    return [f"{direction}_{name}" for direction in directions for name in _overlap_fields()]


def _overlap_fields() -> list[str]:
    return list(Overlap().to_dict())


def _typed_frame(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A frame whose dtypes follow from column names, so that empty ones have them too."""
    import pandas as pd

    return pd.DataFrame(
        {name: pd.array([row[name] for row in rows], dtype=_dtype(name)) for name in columns}
    )


def _dtype(column: str) -> Any:
    import pandas as pd

    if column in _TEXT:
        # Arrow refuses file names that are not valid Unicode.
        return pd.StringDtype("python")
    return "Float64" if column.endswith(("_share", "gb_per_s")) else "Int64"
