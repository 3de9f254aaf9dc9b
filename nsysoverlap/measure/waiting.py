"""The exposed pieces of each transfer: what compute came next, and did it have to wait?

A piece is a stretch of one transfer beside which nothing could hide it. It is *blocking* where the
next compute kernel was launched and demonstrably could not start before the transfer was done:
it is later on the same stream, or its stream waits for an event recorded behind the transfer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.intervals import IntervalSet
from ..roles.rules import Classified, Role
from ..steps.launches import Launches
from .lanes import Lanes, Transfers


@dataclass(frozen=True)
class Pieces:
    """Exposed pieces of a device's transfers, by transfer, then time; columns of shape (n,).

    `transfer` indexes `Lanes.of("both")`. `next_kernel` is the row of the first compute kernel to
    start at or after the piece's end, -1 where none does. `[blocked_ns, end_ns)` is the part
    during which that kernel waited for the transfer, empty where it did not; `resolved` is false
    where the trace cannot tell.
    """

    transfer: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array
    next_kernel: Int64Array
    blocked_ns: Int64Array
    resolved: BoolArray

    def blocking(self, transfers: BoolArray | None = None) -> IntervalSet:
        """Instants at which compute waited for one of the picked transfers (all by default)."""
        picked = np.ones(len(self.transfer), np.bool_)
        if transfers is not None:
            picked = transfers[self.transfer]
        return IntervalSet.from_spans(self.blocked_ns[picked], self.end_ns[picked])


def exposed_pieces(classified: Classified, launches: Launches, device: int, lanes: Lanes) -> Pieces:
    """The exposed pieces of a device's h2d and d2h transfers."""
    rows = lanes.of("both")
    transfer, start, end = _cut(rows, lanes.active)
    trace = classified.trace
    compute = classified.kernel_rows(device, Role.COMPUTE)
    piece, kernel = _next_kernels(trace.kernels.start_ns, compute, end)
    waits, resolved, launched_ns = _dependency(classified, launches, rows, transfer[piece], kernel)
    # Of kernels that start together one that waited is enough, whatever order they come in.
    stream = np.where(kernel >= 0, trace.kernels.stream[kernel], 0) if len(compute) else kernel
    order = np.lexsort((kernel, stream, launched_ns, ~waits, piece))
    first = order[np.flatnonzero(np.diff(piece[order], prepend=-1))]
    return Pieces(
        transfer=transfer,
        start_ns=start,
        end_ns=end,
        next_kernel=kernel[first],
        blocked_ns=np.where(waits[first], np.clip(launched_ns[first], start, end), end),
        resolved=resolved[first],
    )


def _next_kernels(
    start_ns: Int64Array, compute: Int64Array, end: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """(piece, kernel) for all kernels that are the first to start at or after a piece's end.

    Several may start at the same instant; a piece after which none starts has -1.
    """
    starts = start_ns[compute]
    low = np.searchsorted(starts, end, side="left")
    exists = low < len(compute)
    next_start = starts[np.minimum(low, len(compute) - 1)] if len(compute) else end
    high = np.where(exists, np.searchsorted(starts, next_start, side="right"), low + 1)
    piece = np.repeat(np.arange(len(end)), high - low)
    at = np.arange(len(piece)) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
    at += low[piece]
    kernel = np.full(len(piece), -1, np.int64)
    real = at < len(compute)
    kernel[real] = compute[at[real]]
    return piece, kernel


def _cut(rows: Transfers, active: IntervalSet) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(transfer, start, end) of what remains of each transfer outside the active set."""
    # The gaps of `active` that reach into transfer i are lo[i] .. hi[i] - 1.
    far = np.iinfo(np.int64)
    gap_start = np.concatenate(([far.min], active.ends))
    gap_end = np.concatenate((active.starts, [far.max]))
    lo = np.searchsorted(gap_end, rows.start_ns, side="right")
    hi = np.searchsorted(gap_start, rows.end_ns, side="left")
    count = np.maximum(hi - lo, 0)
    transfer = np.repeat(np.arange(len(rows)), count)
    gap = np.arange(len(transfer)) - np.repeat(np.cumsum(count) - count, count)
    gap += np.repeat(lo, count)
    start = np.maximum(rows.start_ns[transfer], gap_start[gap])
    end = np.minimum(rows.end_ns[transfer], gap_end[gap])
    real = end > start
    return transfer[real], start[real], end[real]


def _dependency(
    classified: Classified,
    launches: Launches,
    rows: Transfers,
    transfer: Int64Array,
    kernel: Int64Array,
) -> tuple[BoolArray, BoolArray, Int64Array]:
    """Whether each piece's next kernel waits for its transfer, whether that can be told, and
    when the kernel was launched.
    """
    trace = classified.trace
    has_kernel = kernel >= 0
    if not has_kernel.any():
        # With no compute after it, nothing was held up.
        return has_kernel, ~has_kernel, np.zeros(len(transfer), np.int64)
    at = np.maximum(kernel, 0)
    mine = launch_of_transfers(classified, launches, rows)[transfer]
    theirs = launches.of(trace.kernels, at)
    call_ns = trace.host.calls.start_ns
    known = has_kernel & (mine >= 0) & (theirs >= 0)
    # Graph nodes all carry the stream and launch of their graph, which say nothing of order.
    known &= ~trace.kernels.from_graph[at] & ~in_graph(classified, rows)[transfer]
    sent = np.where(known, call_ns[np.maximum(mine, 0)] if len(call_ns) else 0, 0)
    launched = np.where(known, call_ns[np.maximum(theirs, 0)] if len(call_ns) else 0, 0)
    stream, kernel_stream = rows.stream[transfer], trace.kernels.stream[at]
    same = stream == kernel_stream
    waits = known & same & (sent < launched)
    if trace.host.waits is None:
        known &= same
    else:
        # The kernel's stream was told to wait for what was recorded behind the transfer.
        told = trace.host.waits.latest(kernel_stream, stream, launched)
        waits |= known & ~same & (told > sent)
    # Whatever was asked for, a kernel that ran beside the transfer did not wait for it.
    waits &= trace.kernels.start_ns[at] >= rows.end_ns[transfer]
    return waits, known | ~has_kernel, launched


def launch_of_transfers(classified: Classified, launches: Launches, rows: Transfers) -> Int64Array:
    """Index into `HostSide.calls` of the call behind each transfer, -1 where there is none."""
    trace = classified.trace
    call = np.full(len(rows), -1, np.int64)
    for table, mask in ((trace.copies, ~rows.by_kernel), (trace.kernels, rows.by_kernel)):
        call[mask] = launches.of(table, rows.row[mask])
    return call


def in_graph(classified: Classified, rows: Transfers) -> BoolArray:
    """Whether each transfer is a node of a CUDA graph launch."""
    trace = classified.trace
    result = np.zeros(len(rows), np.bool_)
    for table, mask in ((trace.copies, ~rows.by_kernel), (trace.kernels, rows.by_kernel)):
        result[mask] = table.from_graph[rows.row[mask]]
    return result
