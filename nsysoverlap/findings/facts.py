"""What several findings ask of a device's transfers and of the way the trace was captured."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_bytes, format_ns, number_of
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..measure.relief import relief_curve
from ..measure.waiting import in_graph
from ..roles.rules import Role
from ..trace.cupti import MemoryKind
from .context import Context, Rows
from .remedies import xla_flags

MOST_ROWS = 1_000
"""Of so many rows the operations are looked up, however many a finding is about."""
SMALL_BYTES = 64 * 1024
"""Copies up to this size take about as long as the smallest one, from whatever memory."""
_ATTENTION = re.compile(r"flash|fmha|sdpa|attention|(?<![a-z])attn", re.IGNORECASE)
_TRAINS = re.compile(
    r"backward|bwd|bprop|[dw]grad|(?<![a-z])adam|optimi[sz]er|multi_tensor_apply", re.IGNORECASE
)
_API_VERSION = re.compile(r"(_ptsz)?_v\d+$")


def pageable(case: DeviceCase, role: Role | None = None) -> BoolArray:
    """Which rows (n,) of a case, all or of one role, copy from or to pageable host memory."""
    rows, copies = case.rows, case.classified.trace.copies
    result = np.zeros(len(rows), np.bool_)
    at = rows.row[~rows.by_kernel]
    is_h2d = rows.role[~rows.by_kernel] == Role.H2D
    result[~rows.by_kernel] = (
        np.where(is_h2d, copies.src_kind[at], copies.dst_kind[at]) == MemoryKind.PAGEABLE
    )
    return result if role is None else result & (rows.role == role)


def pinned_outside_graphs(case: DeviceCase) -> BoolArray:
    """Which rows (n,) of a case a program could have placed elsewhere in time, one by one."""
    return ~pageable(case) & ~in_graph(case.classified, case.rows)


def spans(case: DeviceCase) -> tuple[Int64Array, Int64Array]:
    """Starts and ends (n,) of the steps of a case, or of its measured time without steps."""
    pieces = [(step.start_ns, step.end_ns) for step in case.steps] or case.window.pieces()
    edges = np.array(pieces, dtype=np.int64).reshape(len(pieces), 2)
    return edges[:, 0], edges[:, 1]


def waits_on_host(ctx: Context, i: int) -> bool:
    """Whether what the device of case i fetches is on the host before a step begins.

    So it is with optimizer state, parameters and inputs, which come in before they go out or never
    go out; activations go out first. Told from the median step by relief; False without steps.
    """
    device = ctx.devices[i]
    step = next((step for step in device.steps if step.relief == device.relief), None)
    if step is None or not step.h2d.n:
        return False
    if step.relief is None or not step.relief.offloaded_bytes:
        return True
    level = relief_curve(ctx.cases[i].rows, (step.start_ns, step.end_ns))[1]
    return bool(level.max() < -level.min())


def only_infers(case: DeviceCase) -> bool:
    """Whether the names of a device's kernels speak of attention and not of training."""
    trace = case.classified.trace
    compute = case.classified.kernel_rows(case.device.index, Role.COMPUTE)
    names = [trace.names[code] for code in np.unique(trace.kernels.name[compute]).tolist()]
    return any(map(_ATTENTION.search, names)) and not any(map(_TRAINS.search, names))


def hiding(case: DeviceCase) -> IntervalSet:
    """Instants at which something hid transfers of a case, or may have inside an opaque graph."""
    return case.lanes.active.union(case.lanes.opaque)


def xla_flag(ctx: Context, name: str) -> str | None:
    """Value of a flag in the captured XLA_FLAGS, the last one given; None where it is not there."""
    return xla_flags(ctx.capture).get(name)


def named(names: Sequence[str], most: int = 3) -> str:
    """Distinct names in the order given, the rest counted: `a, b, c and 5 more`."""
    distinct = list(dict.fromkeys(names))
    rest = len(distinct) - most
    return ", ".join(distinct[:most]) + (f" and {rest} more" if rest > 0 else "")


def ops_detail(rows: Rows) -> str:
    """Which operations some rows are of, in order of weight; '' where the trace does not say."""
    cost: dict[str, int] = {}
    for i, row, ns in rows.worst(MOST_ROWS):
        op = rows.context.op(i, row)
        if op is not None:
            cost[op] = cost.get(op, 0) + ns
    ordered = sorted(cost, key=lambda op: (-cost[op], op))
    return f"By cost: {named(ordered)}." if ordered else ""


def in_scan(ctx: Context, i: int, mask: BoolArray) -> bool:
    """Whether most rows of case i that `mask` (n,) picks are slices of an XLA scan's buffer."""
    picked = np.flatnonzero(mask)[:MOST_ROWS].tolist()
    n = sum("dynamic" in (ctx.op(i, row) or "") for row in picked)
    return bool(picked) and 2 * n > len(picked)


def without_version(api: str) -> str:
    """`cudaMemcpyAsync` of `cudaMemcpyAsync_v3020`."""
    return _API_VERSION.sub("", api)


def a_step(ctx: Context) -> str:
    """What a cost is counted over, in running text."""
    return "a step" if ctx.n_steps else "in all"


def size_text(ctx: Context, i: int, row: int) -> str:
    """Size and direction of a row of case i, such as `384.0 MiB D2H`."""
    rows = ctx.cases[i].rows
    n_bytes = int(rows.n_bytes[row] + rows.bytes_estimated[row])
    return f"{format_bytes(n_bytes)} {Role(rows.role[row]).name}"


def exposed_text(ctx: Context, i: int, row: int) -> str:
    """Exposed time of a row of case i."""
    return format_ns(int(ctx.exposed_ns[i][row]))


def copies(n: int, direction: str = "") -> str:
    """`1 D2H copy`, `1,024 copies`."""
    of = f"{direction} " if direction else ""
    return number_of(n, f"{of}copy", f"{of}copies")
