"""What ran when on each device: plain data that page, plot and Perfetto export all draw.

Made in full by `device_timeline`. Where that is more than can be drawn, blocks stand for several
activities (`timeline_blocks`); how many, and for how much of the block something ran, they say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from ..core.arrays import Int64Array
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..measure.operations import transfer_labels
from ..measure.overlap import split
from ..result.tables import labelled
from ..roles.rules import Role
from ..steps.projection import StepWindow
from ..trace.contents import Trace
from ..trace.cupti import CopyKind
from .host_curve import Curve, host_curve
from .timeline_host import HostRow, host_rows

_ROLES = {
    "compute": (Role.COMPUTE,),
    "comm": (Role.COMM,),
    "d2h": (Role.D2H,),
    "h2d": (Role.H2D,),
    "unified": (Role.UNIFIED_H2D, Role.UNIFIED_D2H),
    "other": (Role.OTHER,),
    "opaque": (Role.OPAQUE,),
}
LANES = tuple(_ROLES)
"""Lanes of a device from top to bottom."""
ALWAYS = ("compute", "d2h", "h2d")
"""Lanes that are there without any activity too."""
DIRECTIONS = ("h2d", "d2h")
_COPY_NAMES = {
    CopyKind.HTOD: "peer copy staged through the host",
    CopyKind.DTOH: "peer copy staged through the host",
    CopyKind.DTOD: "on-device copy",
    CopyKind.PTOP: "peer copy",
    CopyKind.UVM_HTOD: "page migration to the device",
    CopyKind.UVM_DTOH: "page migration to the host",
}
"""Copies that are no host transfers, which operations name."""
_TABLE_NAMES = {"memset": "memset", "graph": "CUDA graph recorded as a whole"}


@dataclass(frozen=True)
class Lane:
    """The blocks of one role, sorted by start; every column has shape (n,).

    `kind` is one of `LANES`. `name` indexes the texts of the device and is that of the longest
    activity in the block, `stream` indexes the streams of the trace. `n` counts the activities,
    `busy_ns` is the time during which one of them ran. `n_bytes` and `exposed_ns` are 0 but for
    transfers, whose `row` is that of `DeviceCase.rows` (of the longest), -1 for the others. Of
    `n_bytes` so many are `estimated`, those of transfer kernels.
    """

    kind: str
    start_ns: Int64Array
    end_ns: Int64Array
    name: Int64Array
    stream: Int64Array
    n: Int64Array
    busy_ns: Int64Array
    n_bytes: Int64Array
    estimated: Int64Array
    exposed_ns: Int64Array
    row: Int64Array

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def n_activities(self) -> int:
        """Activities in all blocks."""
        return int(self.n.sum())

    @cached_property
    def union(self) -> IntervalSet:
        """Instants during which one of the blocks ran."""
        return IntervalSet.from_spans(self.start_ns, self.end_ns)


@dataclass(frozen=True)
class Stretches:
    """Exposed stretches of one direction, by start, or the longest of them; columns of shape (n,).

    Half-open, and each as long as it was. `n_all` and `all_ns` are of all stretches there are.
    """

    start_ns: Int64Array
    end_ns: Int64Array
    n_all: int
    all_ns: int

    @property
    def spans(self) -> IntervalSet:
        """As a set."""
        return IntervalSet(self.start_ns, self.end_ns)


@dataclass(frozen=True)
class DeviceTimeline:
    """One device of the trace file `trace`.

    `[start_ns, end_ns)` holds all of its activity. `measured` are the stretches that the report
    speaks of. `exposed` is keyed h2d and d2h. `texts` are what `Lane.name` indexes, `streams` the
    numbers that CUDA gives to what `Lane.stream` indexes. `curve` and `host` are there only where
    they are asked for (`with_host`).
    """

    trace: str
    start_ns: int
    end_ns: int
    measured: tuple[tuple[int, int], ...]
    steps: tuple[StepWindow, ...]
    lanes: tuple[Lane, ...]
    exposed: Mapping[str, Stretches]
    texts: Sequence[str]
    streams: Int64Array
    curve: Curve | None = None
    host: tuple[HostRow, ...] = ()

    def step_name(self, step: StepWindow) -> str:
        """What to call a step: its number, and its process where several share the device."""
        several = len({one.global_pid for one in self.steps}) > 1
        return f"step {step.index}" + (f", pid {step.pid}" if several else "")


@dataclass(frozen=True)
class Timeline:
    """All devices of all traces, in the order of the report's; `names` are the texts of all.

    `opened` is the device to show first.
    """

    names: tuple[str, ...]
    devices: tuple[DeviceTimeline, ...]
    opened: int = 0


def device_timeline(case: DeviceCase, steps: Sequence[StepWindow] | None = None) -> DeviceTimeline:
    """Every activity of a device, one to a block; `steps` are those of the case, or others."""
    trace = case.classified.trace
    start, end = case.lanes.extent_ns
    exposed = {name: split(case.lanes.of(name), case.lanes).exposed for name in DIRECTIONS}
    texts = [*trace.names, "copy", *_COPY_NAMES.values(), *_TABLE_NAMES.values()]
    found = {name: _role_lane(case, name, texts) for name in LANES if name not in DIRECTIONS}
    found |= _transfer_lanes(case, exposed, texts)
    return DeviceTimeline(
        trace=trace.info.file_name,
        start_ns=start,
        end_ns=max(end, start + 1),
        measured=tuple(case.window.pieces()),
        steps=case.steps if steps is None else tuple(steps),
        lanes=tuple(found[name] for name in LANES if len(found[name]) or name in ALWAYS),
        exposed={
            name: Stretches(one.starts, one.ends, len(one), one.length)
            for name, one in exposed.items()
        },
        texts=texts,
        streams=np.array([stream.stream_id for stream in trace.streams], np.int64),
    )


def with_host(case: DeviceCase) -> DeviceTimeline:
    """As `device_timeline`, with the bytes on the host and the rows of its threads."""
    return replace(device_timeline(case), curve=host_curve(case), host=host_rows(case))


def _role_lane(case: DeviceCase, kind: str, texts: Sequence[str]) -> Lane:
    trace = case.classified.trace
    columns = []
    for table_name, table in trace.tables.items():
        row = trace.rows_on(case.device.index, table_name)
        row = row[np.isin(case.classified.roles[table_name][row], _ROLES[kind])]
        codes = _codes(trace, table_name, row, texts)
        columns.append((table.start_ns[row], table.end_ns[row], codes, table.stream[row]))
    start, end, name, stream = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    one, none, no_row = (_constant(value, len(order)) for value in (1, 0, -1))
    stream = stream[order].astype(np.int64)
    span = (start, end, name[order], stream, one, end - start)
    return Lane(kind, *span, none, none, none, no_row)


def _constant(value: int, n: int) -> Int64Array:
    """A column of one value, which takes no memory; shape (n,)."""
    result: Int64Array = np.broadcast_to(np.int64(value), n)
    return result


def _codes(trace: Trace, table: str, row: Int64Array, texts: Sequence[str]) -> Int64Array:
    """The texts of some rows of a table."""
    if table == "kernel":
        return trace.kernels.name[row].astype(np.int64)
    if table in _TABLE_NAMES:
        return np.full(len(row), texts.index(_TABLE_NAMES[table], len(trace.names)), np.int64)
    of_kind = np.full(256, len(trace.names), np.int64)
    of_kind[list(_COPY_NAMES)] += 1 + np.arange(len(_COPY_NAMES))
    result: Int64Array = of_kind[trace.copies.copy_kind[row]]
    return result


def _transfer_lanes(
    case: DeviceCase, exposed: Mapping[str, IntervalSet], texts: list[str]
) -> dict[str, Lane]:
    """D2H and H2D, named after the operations that issued them; the names are added to `texts`."""
    labels = transfer_labels(case)
    first = len(texts)
    texts += [labelled(op, label) for op, label in labels.keys]
    lanes = {}
    for kind in DIRECTIONS:
        row = np.flatnonzero(np.isin(case.rows.role, _ROLES[kind]))
        mine = case.rows.select(row)
        lanes[kind] = Lane(
            kind,
            mine.start_ns,
            mine.end_ns,
            first + labels.code[row],
            mine.stream.astype(np.int64),
            _constant(1, len(row)),
            mine.end_ns - mine.start_ns,
            mine.n_bytes + mine.bytes_estimated,
            mine.bytes_estimated,
            exposed[kind].covered(mine.start_ns, mine.end_ns),
            row,
        )
    return lanes


def picked(lane: Lane, index: Int64Array) -> dict[str, Int64Array]:
    """All columns of some blocks of a lane, `index` (m,): each of shape (m,), by name."""
    return {f.name: getattr(lane, f.name)[index] for f in fields(lane) if f.name != "kind"}
