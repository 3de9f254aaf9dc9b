"""One row a transfer: what it moved, how fast, what it hid behind, and which kernel hid it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ..core.arrays import Int64Array
from ..core.json_model import Count, End, Later, OneOf, keys_of, plain_type
from ..core.records import dataclass
from ..core.window import Window
from ..measure.case import DeviceCase
from ..measure.hiders import top_hiding_kernel
from ..measure.issued import issued
from ..measure.lanes import Transfers
from ..result.frames import typed_frame
from ..roles.frameworks import UNKNOWN, detect
from ..roles.rules import Role
from ..steps.plan import StepSpec
from ..trace.contents import Trace, short_name
from ..trace.cupti import MEMORY_KINDS, MemoryKind
from .analysis import Options, trace_cases
from .rank_names import own_rank, ranks_by_difference

if TYPE_CHECKING:
    import pandas as pd

DIRECTION_NAMES = {
    Role.H2D: "h2d",
    Role.D2H: "d2h",
    Role.UNIFIED_H2D: "unified_h2d",
    Role.UNIFIED_D2H: "unified_d2h",
}


@dataclass(frozen=True)
class TransferRow:
    """One transfer, whole: copies at the same time are each split for themselves.

    `bytes` is None for transfer kernels, `bytes_estimated` for copies; `graph_node_id` is None
    outside graphs, `device` counts as in the report. `step` is the one that it starts in,
    `operation` and `scope` what issued it. `queued_ns` is how long its direction was busy with
    others between its launch and its start; of the exposed time compute waited in `blocking_ns`,
    the host in `host_blocking_ns` (None where unknown), and `waiter` is the kernel or the call.
    """

    start_ns: int
    end_ns: End
    direction: Annotated[str, OneOf(tuple(DIRECTION_NAMES.values()))]
    bytes: Count | None
    bytes_estimated: Count | None
    gb_per_s: float | None
    src_kind: str | None
    dst_kind: str | None
    device: Count
    device_id: int
    pid: int
    context_id: int
    stream_id: int
    graph_node_id: int | None
    correlation_id: int
    by_kernel: bool
    hidden_ns: Count
    comm_ns: Count
    exposed_ns: Count
    top_hiding_kernel: str | None
    trace: Later[str] = ""
    rank: Later[int | None] = None
    framework: Later[str | None] = None
    step: Later[int | None] = None
    operation: Later[str | None] = None
    scope: Later[str | None] = None
    queued_ns: Later[Count | None] = None
    blocking_ns: Later[Count | None] = None
    host_blocking_ns: Later[Count | None] = None
    waiter: Later[str | None] = None


COLUMNS = tuple(field.name for field in fields(TransferRow))


def transfer_rows(trace: Trace, options: Options | None = None) -> dict[str, list[Any]]:
    """All transfers that start in the window as columns of `TransferRow`, sorted by start.

    Where copies run at the same time the columns sum to more than the report's wall time.
    """
    options = options or Options()
    within = replace(options, window=_within(trace, options.window))
    found = trace_cases(trace, within)
    program = detect(trace)[0]
    framework = None if program is UNKNOWN else program.name
    rank = own_rank(trace.info.file_name, trace.info.capture)
    blocks = []
    for case in found.cases:
        rows = case.lanes.transfers
        low, high = options.window.low, options.window.high
        picked = np.flatnonzero((rows.start_ns >= low) & (rows.start_ns < high))
        block = _device_rows(case, rows.select(picked)) | issued(case, picked)
        same = {"trace": trace.info.file_name, "rank": rank, "framework": framework}
        blocks.append(block | {name: [value] * len(picked) for name, value in same.items()})
    columns = {name: [value for block in blocks for value in block[name]] for name in COLUMNS}
    order = sorted(
        range(len(columns["start_ns"])),
        key=lambda i: (columns["start_ns"][i], columns["end_ns"][i], columns["device"][i]),
    )
    return {name: [values[i] for i in order] for name, values in columns.items()}


def transfers_frame(trace: Trace, steps: str = "auto") -> pd.DataFrame:
    """The rows of `transfer_rows` as a DataFrame: Int64, Float64, boolean and string columns."""
    columns = transfer_rows(trace, Options(steps=StepSpec(steps)))
    return typed_frame(columns, {key.name: plain_type(key.hint) for key in keys_of(TransferRow)})


def joined(parts: Sequence[Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    """The rows of several traces, one trace after the other, with their ranks where names differ
    in one number and nothing else tells them.
    """
    columns = {name: [value for part in parts for value in part[name]] for name in COLUMNS}
    if all(rank is None for rank in columns["rank"]):
        ranks = ranks_by_difference(list(dict.fromkeys(columns["trace"])))
        columns["rank"] = [ranks.get(name) for name in columns["trace"]]
    return columns


def _within(trace: Trace, window: Window) -> Window:
    """A window in which nothing ran is no error here, for nothing is what there is to list."""
    extent = trace.extent_ns
    inside = extent is None or (window.low < extent[1] and window.high > extent[0])
    return window if inside else Window()


def _device_rows(case: DeviceCase, rows: Transfers) -> dict[str, list[Any]]:
    classified, device, lanes = case.classified, case.device.index, case.lanes
    trace = classified.trace
    hidden = lanes.compute.covered(rows.start_ns, rows.end_ns)
    covered = lanes.active.covered(rows.start_ns, rows.end_ns)
    duration = rows.end_ns - rows.start_ns
    streams = [trace.streams[i] for i in rows.stream]
    kernels = rows.by_kernel.tolist()
    rate = rows.n_bytes / np.maximum(duration, 1)
    return {
        "start_ns": rows.start_ns.tolist(),
        "end_ns": rows.end_ns.tolist(),
        "direction": [DIRECTION_NAMES[Role(role)] for role in rows.role.tolist()],
        "bytes": _unless(kernels, rows.n_bytes.tolist()),
        "bytes_estimated": _unless([not k for k in kernels], rows.bytes_estimated.tolist()),
        "gb_per_s": _unless(
            [k or not d for k, d in zip(kernels, duration.tolist(), strict=True)], rate.tolist()
        ),
        **_copy_columns(trace, rows),
        "device": [device] * len(rows),
        "device_id": [stream.device_id for stream in streams],
        "pid": [stream.pid for stream in streams],
        "context_id": [stream.context_id for stream in streams],
        "stream_id": [stream.stream_id for stream in streams],
        "by_kernel": kernels,
        "hidden_ns": hidden.tolist(),
        "comm_ns": (covered - hidden).tolist(),
        "exposed_ns": (duration - covered).tolist(),
        "top_hiding_kernel": [
            None if name < 0 else short_name(trace.names[name])
            for name in top_hiding_kernel(classified, device, rows).tolist()
        ],
    }


def _unless(missing: list[bool], values: list[Any]) -> list[Any]:
    return [None if none else value for none, value in zip(missing, values, strict=True)]


def _copy_columns(trace: Trace, rows: Transfers) -> dict[str, list[Any]]:
    """Columns that only copies have; transfer kernels are found in the kernels table."""
    kernels = rows.by_kernel
    copy_row = np.where(kernels, 0, rows.row)
    kernel_row = np.where(kernels, rows.row, 0)

    def of_copies(values: np.ndarray[Any, Any]) -> Int64Array:
        found = values[copy_row] if len(values) else np.zeros(len(rows), np.int64)
        return found.astype(np.int64)

    correlation = of_copies(trace.copies.correlation_id)
    if kernels.any():
        correlation = np.where(kernels, trace.kernels.correlation_id[kernel_row], correlation)
    nodes = of_copies(trace.copies.graph_node_id)
    kinds = {
        name: _unless(kernels.tolist(), [_memory_kind(kind) for kind in of_copies(values).tolist()])
        for name, values in (
            ("src_kind", trace.copies.src_kind),
            ("dst_kind", trace.copies.dst_kind),
        )
    }
    return {
        **kinds,
        "graph_node_id": _unless((kernels | (nodes == 0)).tolist(), nodes.tolist()),
        "correlation_id": correlation.tolist(),
    }


def _memory_kind(kind: int) -> str:
    return MEMORY_KINDS[min(kind, MemoryKind.UNKNOWN)]
