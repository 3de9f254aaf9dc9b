"""Traces and reports as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import UsageError
from ..core.limits import Unit
from ..trace.contents import Copies, Kernels, Trace
from ..trace.cupti import COPY_KINDS, MEMORY_KINDS
from .columns import Column, Place, at, lifted
from .model import DIRECTIONS, UNIFIED_DIRECTIONS, OverlapReport, TableName
from .quantities import MEMORY, OVERLAP, RELIEF
from .tables import (
    COLLECTIVE,
    DEVICE,
    FINDING,
    HEALTH,
    KERNEL,
    OPERATION,
    STEP,
    STREAM,
    own,
    words,
)

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


@dataclass(frozen=True)
class FrameRow:
    """A row of a frame: what it is of, and the device that holds it with its place."""

    of: Any
    device: int
    trace: str
    direction: str = ""


@dataclass(frozen=True)
class Frame:
    """A table of `OverlapReport.to_frame`."""

    meaning: str
    columns: tuple[Column[Any], ...]
    rows: Callable[[OverlapReport], Sequence[Any]]


def _held(columns: Sequence[Column[Any]]) -> tuple[Column[Any], ...]:
    device = own("device", Unit.ID, "place in the report's list of devices")
    return (words("trace", "file name"), device, *lifted(columns, attrgetter("of")))


def _rows(part: str) -> Callable[[OverlapReport], list[FrameRow]]:
    return lambda report: [
        FrameRow(row, i, device.trace)
        for i, device in enumerate(report.devices)
        for row in getattr(device, part)
    ]


_DIRECTED = "are there once for each direction, with {} before their names."

FRAMES: Mapping[str, Frame] = {
    "devices": Frame(
        "A row per device and direction; relief and memory are of the device, the same in each "
        "of its rows, relief of the middle step where there are steps.",
        (
            *_held(DEVICE),
            words("direction", "h2d, d2h, both, unified_h2d or unified_d2h"),
            *lifted(RELIEF, lambda held: held.of.relief),
            *lifted(MEMORY, lambda held: held.of.memory),
            *lifted(OVERLAP, lambda held: getattr(held.of, held.direction)),
        ),
        lambda report: [
            FrameRow(device, i, device.trace, direction)
            for i, device in enumerate(report.devices)
            for direction in (*DIRECTIONS, *UNIFIED_DIRECTIONS)
        ],
    ),
    "steps": Frame(
        "A row per device and step. The columns of `devices` from `n` on "
        + _DIRECTED.format("`h2d_`, `d2h_` and `both_`"),
        _held(STEP),
        _rows("steps"),
    ),
    "streams": Frame(
        "A row per stream. Streams overlap: rows do not add up to the device. The columns of "
        "`devices` from `n` on " + _DIRECTED.format("`h2d_` and `d2h_`"),
        _held(STREAM),
        _rows("streams"),
    ),
    "operations": Frame(
        "A row per operation and direction, most exposed first.",
        OPERATION,
        attrgetter("operations"),
    ),
    "kernels": Frame(
        "A row per kernel name, most time first.", KERNEL, attrgetter("kernels")
    ),
    "collectives": Frame(
        "A row per device and communication kernel, most exposed first.",
        _held(COLLECTIVE),
        _rows("collectives"),
    ),
    "findings": Frame("A row per finding, most costly first.", FINDING, attrgetter("findings")),
    "health": Frame(
        "A row per entry: what to know before trusting a number.", HEALTH, attrgetter("health")
    ),
}  # fmt: skip


def report_frame(report: OverlapReport, table: TableName = "devices") -> pd.DataFrame:
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


def typed_frame(columns: Mapping[str, list[Any]], types: Mapping[str, Any]) -> pd.DataFrame:
    """Lists by name as a DataFrame: Int64, Float64, boolean or string by the type of each."""
    import pandas as pd

    known: dict[Any, Any] = {int: "Int64", float: "Float64", bool: "boolean"}
    made = {
        name: pd.array(values, dtype=known.get(types[name], pd.StringDtype("python")))
        for name, values in columns.items()
    }
    return pd.DataFrame(made)


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
