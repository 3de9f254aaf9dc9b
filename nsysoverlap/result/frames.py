"""Traces and reports as pandas DataFrames and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import UsageError
from ..core.limits import Unit
from ..trace.cupti import COPY_KINDS, MEMORY_KINDS
from ..trace.model import Copies, Kernels, Trace
from .columns import Place, at
from .model import OverlapReport
from .tables import FRAMES

if TYPE_CHECKING:
    import pandas as pd


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

    The tables and their columns are those of `FRAMES`, which docs/dataframes.md lists: integers
    are Int64 (`_ns` nanoseconds, `bytes` bytes), shares Float64 between 0 and 1, rates Float64 in
    GB/s, text string; what the report does not know is missing. Raises `UsageError` for another
    table.
    """
    import pandas as pd

    if table not in FRAMES:
        known = ", ".join(FRAMES)
        raise UsageError(f"A report has no table {table!r}.", f"Known tables: {known}.")
    frame = FRAMES[table]
    rows = frame.rows(report)
    return pd.DataFrame(
        {
            column.name: pd.array(
                [_plain(column.take(row)) for row in rows], dtype=_dtype(column.unit)
            )
            for column in at(frame.columns, Place.FRAME)
        }
    )


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value


def _dtype(unit: Unit) -> Any:
    import pandas as pd

    # Arrow refuses file names that are not valid Unicode.
    return pd.StringDtype("python") if unit is Unit.NAME else dtype_name(unit)


def dtype_name(unit: Unit) -> str:
    """The dtype of a column as pandas writes it."""
    quotient = unit in (Unit.SHARE, Unit.RATE)
    return "string" if unit is Unit.NAME else "Float64" if quotient else "Int64"
