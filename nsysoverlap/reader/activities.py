"""Read the GPU activity tables: drop rows without a usable time, code ids, sort by start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import schema
from ..arrays import BoolArray
from ..schema import Schema, TableSpec
from ..trace import Activities, Copies, Dropped, Kernels, LaunchShapes
from .bulk import Block, Query, read_blocks, unreadable
from .codes import Codes, TupleCodes

# Differences of two times below this bound cannot overflow int64.
_LARGEST_TIME = 2**62
_STREAM_KEY = ("global_pid", "device_id", "context_id", "stream_id")
_SMALL = {"copy_kind": np.uint8, "src_kind": np.uint8, "dst_kind": np.uint8}
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
        names = ("n_bytes", "copy_kind", "src_kind", "dst_kind", *_DEVICES, "graph_node_id")
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


def read_columns(
    path: Path, found: Schema, spec: TableSpec, registry: Registry, shift_ns: int, threads: int
) -> Columns:
    """All usable rows of one activity table; empty columns where the table is absent."""
    table = found.find(spec)
    digests: list[tuple[dict[str, Any], tuple[int, int, int]]] = []
    if table is not None:
        digests = read_blocks(
            path,
            Query.of(table, (column.name for column in spec.columns)),
            lambda block: _digest(block, spec, registry, shift_ns),
            threads=threads,
        )
    if not digests:
        empty = {c.name: np.empty(0, np.int64) for c in spec.columns}
        digests = [_digest(empty, spec, registry, shift_ns)]
    columns = {}
    for name in list(digests[0][0]):
        # Popped as they are joined, so that only one column exists twice at a time.
        columns[name] = np.concatenate([values.pop(name) for values, _ in digests])
    counts = np.sum([lost for _, lost in digests], axis=0)
    return Columns(_sorted(columns), Dropped(spec.name, *(int(n) for n in counts)))


def _digest(
    block: Block, spec: TableSpec, registry: Registry, shift_ns: int
) -> tuple[dict[str, Any], tuple[int, int, int]]:
    """Usable rows of one block in their final types, and (untimed, negative, unreadable)."""
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
    return columns, counts


def usable(block: Block, shift_ns: int) -> tuple[BoolArray, tuple[int, int, int]]:
    """Mask of rows with a real time and readable ids, and the counts of the others by reason."""
    start, end = block["start"], block["end"]
    bad = np.zeros(len(start), np.bool_)
    for values in block.values():
        bad |= unreadable(values)
    for values in (start, end):
        bad |= (values > _LARGEST_TIME) | (values < -_LARGEST_TIME)
    if "n_bytes" in block:
        bad |= block["n_bytes"] < 0
    # CUPTI writes 0, 0 for "no timestamp"; an export with a time shift moves that with the rest.
    untimed = ~bad & (start == end) & ((start == 0) | (start == shift_ns))
    negative = ~bad & (end < start)
    counts = (int(untimed.sum()), int(negative.sum()), int(bad.sum()))
    return ~(bad | untimed | negative), counts


def _sorted(columns: dict[str, Any]) -> dict[str, Any]:
    """Rows by start, then end; nsys writes them so, third parties may not have kept it."""
    start, end = columns["start_ns"], columns["end_ns"]
    later = start[1:] > start[:-1]
    if (later | ((start[1:] == start[:-1]) & (end[1:] >= end[:-1]))).all():
        return columns
    order = np.lexsort((end, start))
    return {name: values[order] for name, values in columns.items()}
