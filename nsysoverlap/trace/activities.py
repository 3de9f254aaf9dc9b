"""Read the GPU activity tables: drop rows without a usable time, code ids, sort by start."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from ..core.arrays import BoolArray, narrow_codes, narrow_ids
from ..core.errors import TraceFileError
from ..core.records import dataclass
from . import schema
from .bulk import Block, Query, unreadable
from .codes import Codes, TupleCodes
from .contents import Activities, Copies, Dropped, Kernels, LaunchShapes
from .schema import TableSpec
from .source import Source

# Differences of two times from above -2^62 up to 2^62 cannot overflow int64.
_LARGEST_TIME = 2**62
# Far beyond any memory; larger numbers would overflow int64 once summed.
_LARGEST_COPY = 2**54
# Of one table, so that all tables together still fit int64.
_LARGEST_SUM = 2**61
_STREAM_KEY = ("global_pid", "device_id", "context_id", "stream_id")
_SMALL = dict.fromkeys(("copy_kind", "src_kind", "dst_kind", "migration_cause"), np.uint8)
_AXES = (*schema.GRID, *schema.BLOCK)
_LARGEST_AXIS = 2**31 - 1
_DEVICES = ("src_device", "dst_device")


@dataclass(frozen=True)
class Registry:
    """Ids seen so far in any table; codes index `Trace.streams` and `Trace.names` later."""

    streams: TupleCodes = field(default_factory=lambda: TupleCodes(len(_STREAM_KEY)))
    names: Codes = field(default_factory=Codes)
    shapes: TupleCodes = field(default_factory=lambda: TupleCodes(len(_AXES)))

    def launch_shapes(self) -> LaunchShapes:
        """Grid and block of each shape code."""
        axes = np.array(self.shapes.tuples(), np.int64).reshape(-1, len(_AXES))
        axes = np.clip(axes, 0, _LARGEST_AXIS)
        return LaunchShapes(axes[:, :3], axes[:, 3:])


@dataclass(frozen=True)
class Columns:
    """Sorted columns of one activity table, all of shape (n,), and what was dropped."""

    values: dict[str, Any]
    dropped: Dropped

    def activities(self) -> Activities:
        """The columns every activity has."""
        return Activities(**self._common())

    def copies(self) -> Copies:
        """The columns of the MEMCPY table."""
        names = ("n_bytes", *_SMALL, *_DEVICES, "graph_node_id")
        return Copies(**self._common(), **{name: self.values[name] for name in names})

    def kernels(self, shapes: LaunchShapes) -> Kernels:
        """The columns of the KERNEL table."""
        names = ("name", "shape")
        return Kernels(
            **self._common(), **{name: self.values[name] for name in names}, shapes=shapes
        )

    def _common(self) -> dict[str, Any]:
        names = ("start_ns", "end_ns", "stream", "correlation_id", "from_graph")
        return {name: self.values[name] for name in names}


def read_columns(source: Source, spec: TableSpec, registry: Registry, shift_ns: int) -> Columns:
    """All usable rows of one activity table; empty columns where the table is absent."""
    table = source.found.find(spec)
    columns: dict[str, Any] = {}
    if table is not None:
        query = Query.of(table, (column.name for column in spec.columns))
        columns = source.read(query, lambda block: _digest(block, spec, registry, shift_ns))
    if not columns:
        empty = {c.name: np.empty(0, np.int64) for c in spec.columns}
        columns = _digest(empty, spec, registry, shift_ns)
    lost = columns.pop("lost").reshape(-1, 3).sum(axis=0)
    _check_sums(columns, f"{source.path.name}: table {spec.name}")
    columns["correlation_id"] = narrow_ids(columns["correlation_id"])
    if "shape" in columns:
        columns["shape"] = narrow_codes(columns["shape"])
    return Columns(_sorted(columns), Dropped(spec.name, *lost.tolist()))


def _digest(block: Block, spec: TableSpec, registry: Registry, shift_ns: int) -> dict[str, Any]:
    """Usable rows of one block in their final types; `lost` counts the others by reason."""
    n = len(block["start"])
    block = {
        column.name: block[column.name]
        if column.name in block
        else np.full(n, column.default, np.int64)
        for column in spec.columns
    }
    if "name_id" in block:
        # A row without a readable name or shape is still a row.
        for column in spec.columns:
            if column.name in ("name_id", *_AXES):
                values = block[column.name]
                values[unreadable(values)] = column.default
    keep, counts = usable(block, shift_ns)
    if any(counts):
        block = {name: values[keep] for name, values in block.items()}
    columns: dict[str, Any] = {
        "lost": np.array(counts),
        "start_ns": block["start"],
        "end_ns": block["end"],
        "stream": registry.streams.encode([block[name] for name in _STREAM_KEY]),
        "correlation_id": block["correlation_id"],
        "from_graph": block["graph_node_id"] != 0,
    }
    if "name_id" in block:
        columns["name"] = registry.names.encode(block["name_id"]).astype(np.int32)
        columns["shape"] = registry.shapes.encode([block[axis] for axis in _AXES])
    if "n_bytes" in block:
        columns["n_bytes"] = block["n_bytes"]
        columns["graph_node_id"] = block["graph_node_id"]
        for name, kind in _SMALL.items():
            columns[name] = np.where(
                (block[name] >= 0) & (block[name] < schema.NO_KIND), block[name], schema.NO_KIND
            ).astype(kind)
        for name in _DEVICES:
            columns[name] = np.clip(block[name], -1, 2**31 - 1).astype(np.int32)
    return columns


def _check_sums(columns: dict[str, Any], table: str) -> None:
    """Raise `TraceFileError` where times or sizes add up to more than int64 can tell."""
    # As floats, which do not wrap around; what they round is far below the limit.
    ns = columns["end_ns"].sum(dtype=float) - columns["start_ns"].sum(dtype=float)
    n_bytes = columns["n_bytes"].sum(dtype=float) if "n_bytes" in columns else 0.0
    if max(ns, n_bytes) > _LARGEST_SUM:
        what = "times" if ns > _LARGEST_SUM else "sizes"
        raise TraceFileError(
            f"{table}: its {what} add up to more than any GPU could do.",
            "It is not as nsys writes it; export the report again with nsys.",
        )


def usable(block: Block, shift_ns: int) -> tuple[BoolArray, tuple[int, int, int]]:
    """Mask (n,) of rows with a real time and readable ids, and counts of the others by reason."""
    start, end = block["start"], block["end"]
    bad = np.zeros(len(start), np.bool_)
    for values in block.values():
        bad |= unreadable(values)
    for values in (start, end):
        bad |= (values > _LARGEST_TIME) | (values <= -_LARGEST_TIME)
    if "n_bytes" in block:
        bad |= (block["n_bytes"] < 0) | (block["n_bytes"] > _LARGEST_COPY)
    # CUPTI writes 0, 0 for "no timestamp"; an export with a time shift moves that with the rest.
    untimed = ~bad & (start == end) & ((start == 0) | (start == shift_ns))
    negative = ~bad & (end < start)
    counts = (int(untimed.sum()), int(negative.sum()), int(bad.sum()))
    return ~(bad | untimed | negative), counts


def _sorted(columns: dict[str, Any]) -> dict[str, Any]:
    """Rows by start, then end; third parties may not have kept the order that nsys writes."""
    start, end = columns["start_ns"], columns["end_ns"]
    if (start[1:] < start[:-1]).any():
        order = np.lexsort((end, start))
        return {name: values[order] for name, values in columns.items()}
    equal = start[1:] == start[:-1]
    if not (equal & (end[1:] < end[:-1])).any():
        return columns
    # Only rows that start together can be out of order, and each group of them stays in its place.
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    order = tied[np.lexsort((end[tied], start[tied]))]
    for values in columns.values():
        values[tied] = values[order]
    return columns
