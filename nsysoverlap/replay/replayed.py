"""Which operations are replayed: those of steady steps, and what still ran when these began."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from ..core.arrays import BoolArray, Int64Array, UInt8Array
from ..core.records import dataclass
from ..roles.rules import Classified, Role
from ..steps.launches import Launches
from ..steps.projection import StepWindow

UNKNOWN = -1


class OpKind(IntEnum):
    """What an operation is to the model."""

    COMPUTE = 0
    COMM = 1
    H2D = 2
    """A copy on the engine of its direction."""
    D2H = 3
    OTHER = 4
    """A memset or a copy on the device; on no engine."""
    KERNEL_H2D = 5
    """A transfer made by a kernel: it needs no engine."""
    KERNEL_D2H = 6


COPIES = (OpKind.H2D, OpKind.D2H)
TRANSFERS = {"h2d": (OpKind.H2D, OpKind.KERNEL_H2D), "d2h": (OpKind.D2H, OpKind.KERNEL_D2H)}
WORK = (OpKind.COMPUTE, OpKind.COMM)


@dataclass(frozen=True)
class Operations:
    """GPU rows in the order of their issue; every column has shape (n,).

    `call` indexes `HostSide.calls`, `UNKNOWN` where the row's launch is not in the trace.
    `issued_ns` is the start of that call. `table` and `row` say where the row stands in the trace
    (0 kernels, 1 copies, 2 memsets). `fixed` operations were issued before the replayed steps:
    they are as they were. `step` counts the replayed steps, -1 for fixed ones. `name` tells
    kernels apart, -1 for other rows.
    """

    start_ns: Int64Array
    end_ns: Int64Array
    kind: Int64Array
    stream: Int64Array
    device: Int64Array
    n_bytes: Int64Array
    call: Int64Array
    issued_ns: Int64Array
    from_graph: BoolArray
    name: Int64Array
    table: Int64Array
    row: Int64Array
    step: Int64Array
    fixed: BoolArray

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def duration_ns(self) -> Int64Array:
        """Duration of each; shape (n,)."""
        return self.end_ns - self.start_ns


_STEADY = 3


@dataclass(frozen=True)
class Segment:
    """Consecutive steps of each (device, process) that are replayed together.

    `windows` holds them by device and process; `cut_ns` the host time, by process, from which on
    launches belong to them.
    """

    windows: dict[tuple[int, int], tuple[StepWindow, ...]]
    cut_ns: dict[int, int]

    @property
    def n_steps(self) -> int:
        """Steps of each, the same for all."""
        return min(len(steps) for steps in self.windows.values())


def segment(
    classified: Classified, launches: Launches, windows: Sequence[StepWindow], most: int | None
) -> Segment | None:
    """Steady steps; None with fewer than two.

    The first is left out where there are three or more, the last where there are four or more: no
    step follows it, so that its end is only that of its work. At most `most` of the others. Every
    device and process takes part with the same steps.
    """
    by_owner: dict[tuple[int, int], list[StepWindow]] = {}
    for window in windows:
        by_owner.setdefault((window.device, window.global_pid), []).append(window)
    if not by_owner:
        return None
    n = min(len(steps) for steps in by_owner.values())
    first = 1 if n >= _STEADY else 0
    last = n - 1 if n > _STEADY else n
    if most is not None:
        last = min(last, first + most)
    if last - first < 2:
        return None
    chosen = {owner: tuple(steps[first:last]) for owner, steps in by_owner.items()}
    cut: dict[int, int] = {}
    for (device, process), steps in chosen.items():
        begins = _begins(classified, launches, device, steps[0])
        cut[process] = min(begins, cut.get(process, begins))
    return Segment(chosen, cut)


def _begins(classified: Classified, launches: Launches, device: int, step: StepWindow) -> int:
    """Host time at which a step's launches begin."""
    trace = classified.trace
    if step.marked_by is not None:
        return int(trace.host.ranges.start_ns[step.marked_by])
    found = step.start_ns
    for name, table in trace.tables.items():
        rows = trace.rows_on(device, name)
        rows = rows[table.start_ns[rows] == step.start_ns]
        call = launches.of(table, rows)
        called = trace.host.calls.start_ns[call[call >= 0]]
        found = min([found, *called.tolist()])
    return int(found)


def operations(classified: Classified, launches: Launches, chosen: Segment) -> Operations:
    """The rows of a segment, by host time of issue, then start."""
    trace = classified.trace
    low = min(chosen.cut_ns.values())
    high = max(steps[-1].end_ns for steps in chosen.windows.values())
    parts = [
        _table(classified, launches, number, name, (low, high))
        for number, name in enumerate(("kernel", "memcpy", "memset"))
    ]
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    process = np.array([stream.global_pid for stream in trace.streams], np.int64)[columns["stream"]]
    cut = np.full(len(process), np.iinfo(np.int64).max)
    end = np.zeros(len(process), np.int64)
    for (device, pid), steps in chosen.windows.items():
        mine = process == pid
        cut[mine] = chosen.cut_ns[pid]
        # On devices of the process that have no steps of their own, all of them count.
        end[mine & (columns["device"] == device)] = steps[-1].end_ns
    end[end == 0] = max(steps[-1].end_ns for steps in chosen.windows.values())
    known = columns["call"] != UNKNOWN
    columns["issued_ns"] = np.where(known, columns["issued_ns"], columns["start_ns"])
    columns["fixed"] = columns["issued_ns"] < cut
    # The first operation of the step after the last ends that one.
    kept = (columns["start_ns"] <= end) & ~(columns["fixed"] & (columns["end_ns"] <= cut))
    columns["step"] = _steps(classified, launches, chosen, columns, process)
    order = np.lexsort(
        tuple(
            columns[key][kept]
            for key in ("row", "table", "stream", "end_ns", "start_ns", "call", "issued_ns")
        )
    )
    return Operations(**{key: values[kept][order] for key, values in columns.items()})


def _table(
    classified: Classified, launches: Launches, number: int, name: str, span: tuple[int, int]
) -> dict[str, Any]:
    """Columns of the rows of one table that touch a span of time."""
    trace = classified.trace
    table, role = trace.tables[name], classified.roles[name]
    low, high = span
    row = np.flatnonzero(table.end_ns[: np.searchsorted(table.start_ns, high, "right")] > low)
    row = row[~np.isin(role[row], (Role.UNIFIED_H2D, Role.UNIFIED_D2H))]
    call = launches.of(table, row)
    issued = np.zeros(len(row), np.int64)
    if len(trace.host.calls):
        issued = trace.host.calls.start_ns[np.maximum(call, 0)].astype(np.int64)
    nothing = np.full(len(row), -1, np.int64)
    return {
        "start_ns": table.start_ns[row].astype(np.int64),
        "end_ns": table.end_ns[row].astype(np.int64),
        "kind": _kinds(role[row], name == "kernel"),
        "stream": table.stream[row].astype(np.int64),
        "device": trace.stream_device[table.stream[row]].astype(np.int64),
        "n_bytes": _bytes(classified, name, row),
        "call": call,
        "issued_ns": issued,
        "from_graph": table.from_graph[row],
        "name": trace.kernels.name[row].astype(np.int64) if name == "kernel" else nothing,
        "table": np.full(len(row), number, np.int64),
        "row": row.astype(np.int64),
    }


def _bytes(classified: Classified, name: str, row: Int64Array) -> Int64Array:
    """Bytes of copies, and of transfer kernels as far as their threads tell; else 0."""
    if name == "memcpy":
        return classified.trace.copies.n_bytes[row]
    moved = np.zeros(len(row), np.int64)
    if name == "kernel" and len(classified.estimated_row):
        at = np.searchsorted(classified.estimated_row, row)
        at = np.minimum(at, len(classified.estimated_row) - 1)
        known = classified.estimated_row[at] == row
        moved[known] = classified.estimated_bytes[at[known]]
    return moved


def _kinds(role: UInt8Array, by_kernel: bool) -> Int64Array:
    kinds = np.full(max(Role) + 1, OpKind.OTHER, np.int64)
    kinds[Role.COMPUTE], kinds[Role.COMM] = OpKind.COMPUTE, OpKind.COMM
    kinds[Role.H2D] = OpKind.KERNEL_H2D if by_kernel else OpKind.H2D
    kinds[Role.D2H] = OpKind.KERNEL_D2H if by_kernel else OpKind.D2H
    return kinds[role]


def _steps(
    classified: Classified,
    launches: Launches,
    chosen: Segment,
    columns: dict[str, Any],
    process: Int64Array,
) -> Int64Array:
    """The replayed step in which each row was issued."""
    step = np.full(len(process), -1, np.int64)
    for pid, cut in chosen.cut_ns.items():
        mine = np.flatnonzero((process == pid) & ~columns["fixed"])
        step[mine] = 0
        for i in range(1, chosen.n_steps):
            begins = min(
                _begins(classified, launches, device, steps[i])
                for (device, owner), steps in chosen.windows.items()
                if owner == pid
            )
            step[mine[columns["issued_ns"][mine] >= max(begins, cut)]] = i
    return step
