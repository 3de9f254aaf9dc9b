"""The exposed pieces of each transfer: what compute came next, and who had to wait?

A piece is a stretch of one transfer beside which nothing could hide it. It is *blocking* where the
next compute kernel was launched and demonstrably could not start before the transfer was done:
it is later on the same stream, or its stream waits for an event recorded behind the transfer, or
for another stream that does, as a reload does that stands behind its own D2H. It
*blocks the host* where a thread waited for the transfer and the next compute kernel was launched
only after that. Both last until the piece ends, so a piece is cut in three at most: nobody waited,
the host did, compute did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import BoolArray, CodeArray, Int64Array
from ..core.intervals import IntervalSet
from ..roles.rules import Classified, Role
from ..steps.launches import Launches
from ..steps.stalls import Stalls
from ..trace.contents import Trace
from ..trace.host import ALL_STREAMS, NEVER
from .lanes import Lanes, Transfers

MOST_BETWEEN = 64
"""Of so many streams it is asked whether a wait goes by way of them; programs have few."""
LATER = np.iinfo(np.int64).max
"""When what never came was launched."""


@dataclass(frozen=True)
class Pieces:
    """Exposed pieces of a device's transfers, by transfer, then time; columns of shape (n,).

    `transfer` indexes `Lanes.of("both")`. `next_kernel` is the row of the first compute kernel to
    start at or after the piece's end, -1 where none does. In `[blocked_ns, end_ns)` that kernel
    waited for the transfer, in `[held_ns, blocked_ns)` a host thread did; both may be empty.
    `holder` is the call that held the thread, -1 where none did or it paused between calls.
    `resolved` is false where the trace cannot tell of the rest whether anything waited.
    """

    transfer: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array
    next_kernel: Int64Array
    blocked_ns: Int64Array
    held_ns: Int64Array
    holder: Int64Array
    resolved: BoolArray

    @property
    def doubtful_ns(self) -> Int64Array:
        """From when on each piece was waited for, or may have been; shape (n,)."""
        return np.where(self.resolved, self.held_ns, self.start_ns)

    def waited(self, transfers: BoolArray | None = None) -> Waited:
        """Instants at which something waited for one of the picked transfers.

        `transfers` is a mask over `Lanes.of("both")`, of shape (n_transfers,); None picks all.
        """
        picked = np.ones(len(self.transfer), np.bool_)
        if transfers is not None:
            picked = transfers[self.transfer]
        ends = self.end_ns[picked]
        return Waited(
            *(
                IntervalSet.from_spans(start[picked], ends)
                for start in (self.blocked_ns, self.held_ns, self.doubtful_ns)
            )
        )


@dataclass(frozen=True)
class Waited:
    """Instants at which compute waited, compute or the host did, or any of them may have."""

    compute: IntervalSet
    anyone: IntervalSet
    perhaps: IntervalSet

    def within(self, where: IntervalSet) -> Waited:
        """The instants inside a set."""
        return Waited(
            *(part.intersect(where) for part in (self.compute, self.anyone, self.perhaps))
        )

    def split(self, exposed: Int64Array, start: Int64Array, end: Int64Array) -> WaitCounts:
        """How the exposed time of each window splits by who waited; everything is (n_windows,)."""
        compute, anyone, perhaps = (
            part.covered(start, end) for part in (self.compute, self.anyone, self.perhaps)
        )
        return wait_counts(exposed, compute, anyone, perhaps)


WaitCounts = dict[str, list[Any]]
"""Columns of `Overlap`, by name."""


def wait_counts(
    exposed: Int64Array, compute: Int64Array, anyone: Int64Array, perhaps: Int64Array
) -> WaitCounts:
    """The `Overlap` fields that say who waited, None where nothing of the exposed time is known.

    All columns are nanoseconds of shape (n_windows,), each contained in the one before:
    `perhaps` in `exposed`, `anyone` in `perhaps`, `compute` in `anyone`.
    """
    known = (exposed == 0) | (perhaps - anyone < exposed)
    parts = {
        "blocking_ns": compute,
        "host_blocking_ns": anyone - compute,
        "unawaited_ns": exposed - perhaps,
    }
    return {
        name: [ns if told else None for ns, told in zip(part.tolist(), known.tolist(), strict=True)]
        for name, part in parts.items()
    }


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
    launched_ns, kernel, waits = launched_ns[first], kernel[first], waits[first]
    blocked_ns = np.where(waits, np.clip(launched_ns, start, end), end)
    host_ns, holder = _host_waited(classified, launches, rows, (transfer, start, end), launched_ns)
    return Pieces(
        transfer=transfer,
        start_ns=start,
        end_ns=end,
        next_kernel=kernel,
        blocked_ns=blocked_ns,
        held_ns=np.minimum(blocked_ns, np.maximum(host_ns, start)),
        holder=holder,
        resolved=resolved[first],
    )


def _host_waited(
    classified: Classified,
    launches: Launches,
    rows: Transfers,
    pieces: tuple[Int64Array, Int64Array, Int64Array],
    launched: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Since when a host thread waited for the transfer of each piece, given as (transfer, start,
    end), and in which call; the end where none did.

    It must have gone on once the transfer was done, and the next kernel, `launched` then, must
    have been launched no sooner. A copy that holds its thread may return before the last of its
    data has moved; one that returns in the first half of a piece did not hold it.
    """
    # Waits of one thread do not overlap: of each piece the first that ends after the transfer does
    # is the only one that can have been for it, unless the launching call itself held the thread.
    transfer, start, end = pieces
    trace, since, holder = classified.trace, end.copy(), np.full(len(end), -1, np.int64)
    call = launch_of_transfers(classified, launches, rows)
    mine = np.flatnonzero(call[transfer] >= 0)
    owner = trace.host.thread_pid[trace.host.calls.thread[call[transfer[mine]]]]
    for process in np.unique(owner).tolist():
        waits, own = launches.stalls.of_process(process), mine[owner == process]
        for thread in np.unique(waits.thread).tolist():
            of = waits.select(waits.thread == thread)
            held = _find(of.call, call[transfer[own]])
            at = np.searchsorted(of.end_ns, rows.end_ns[transfer[own]], side="left")
            at = np.where(held >= 0, held, at)
            hit, place = at < len(of), np.minimum(at, len(of) - 1)
            hit &= (of.start_ns[place] < end[own]) & (of.end_ns[place] <= launched[own])
            hit &= of.end_ns[place] - start[own] >= (end[own] - start[own]) // 2
            hit &= _covers(trace, of, place, rows.stream[transfer[own]], call[transfer[own]])
            hit &= of.start_ns[place] < since[own]
            since[own[hit]], holder[own[hit]] = of.start_ns[place[hit]], of.call[place[hit]]
    return since, holder


def _find(calls: Int64Array, wanted: Int64Array) -> Int64Array:
    """Place of each wanted call among some, -1 where it is not there."""
    order = np.argsort(calls, kind="stable")
    at = np.minimum(np.searchsorted(calls[order], wanted), len(calls) - 1)
    return np.where(calls[order[at]] == wanted, order[at], -1)


def _covers(
    trace: Trace, waits: Stalls, at: Int64Array, stream: CodeArray, call: Int64Array
) -> BoolArray:
    """Whether waits are for what calls launched on streams, directly or through an event."""
    sent, before, target = trace.host.calls.start_ns[call], waits.before_ns[at], waits.stream[at]
    covered: BoolArray = (sent < before) & ((target == ALL_STREAMS) | (target == stream))
    if trace.host.waits is not None:
        asked = np.flatnonzero(~covered & (target >= 0))
        told = trace.host.waits.latest(target[asked], stream[asked], before[asked])
        covered[asked] = told > sent[asked]
    return covered


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
    # What is left of a transfer is its overlap with each gap of `active`, open gaps before and
    # after included. Gaps are sorted and disjoint, so those that reach into transfer i are
    # lo[i] .. hi[i] - 1; the rest spreads these ranges out, one row for each (transfer, gap).
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
    when the kernel was launched: `NEVER` where unknown, `LATER` where there is none.
    """
    # A stream runs what is launched on it in that order, so a kernel on the stream of the transfer
    # that was launched later waits for it. On another stream it waits only if that stream had been
    # told to, after the transfer was launched (`sent`) and before the kernel was (`launched`): all
    # by host times, which the order of launches follows. Without rows of such waits in the export,
    # a kernel of another stream may have been told; that is not known, and is not guessed.
    trace = classified.trace
    has_kernel = kernel >= 0
    mine = launch_of_transfers(classified, launches, rows)[transfer]
    if not has_kernel.any():
        # With no compute after it, none was held up; of the host only the calls can tell.
        return has_kernel, mine >= 0, np.full(len(transfer), LATER)
    at = np.maximum(kernel, 0)
    theirs = launches.of(trace.kernels, at)
    call_ns = trace.host.calls.start_ns
    known = has_kernel & (mine >= 0) & (theirs >= 0)
    sent = np.where(known, call_ns[np.maximum(mine, 0)] if len(call_ns) else 0, 0)
    launched = np.where(known, call_ns[np.maximum(theirs, 0)] if len(call_ns) else 0, NEVER)
    launched[~has_kernel] = LATER
    # What was launched after the transfer was done did not wait for it, wherever it ran.
    after = known & (launched >= rows.end_ns[transfer])
    # Graph nodes all carry the stream and launch of their graph, which say nothing of order.
    known &= ~trace.kernels.from_graph[at] & ~in_graph(classified, rows)[transfer]
    stream, kernel_stream = rows.stream[transfer], trace.kernels.stream[at]
    same = stream == kernel_stream
    waits = known & same & (sent < launched)
    if trace.host.waits is None:
        known &= same
    else:
        # The kernel's stream was told to wait for what was recorded behind the transfer.
        told = trace.host.waits.latest(kernel_stream, stream, launched)
        waits |= known & ~same & (told > sent)
        # Or for a stream that waits for it: a reload stands behind the D2H of its own data.
        asked = np.flatnonzero(known & ~waits & (launched < rows.end_ns[transfer]))
        waits[asked] = trace.host.waits.through_another(
            kernel_stream[asked], stream[asked], sent[asked], launched[asked], MOST_BETWEEN
        )
    # Whatever was asked for, a kernel that ran beside the transfer did not wait for it.
    waits &= trace.kernels.start_ns[at] >= rows.end_ns[transfer]
    return waits, known | after | (~has_kernel & (mine >= 0)), launched


def launch_of_transfers(classified: Classified, launches: Launches, rows: Transfers) -> Int64Array:
    """Index (n,) into `HostSide.calls` of the call behind each transfer, -1 where there is none."""
    trace = classified.trace
    call = np.full(len(rows), -1, np.int64)
    for table, mask in ((trace.copies, ~rows.by_kernel), (trace.kernels, rows.by_kernel)):
        call[mask] = launches.of(table, rows.row[mask])
    return call


def in_graph(classified: Classified, rows: Transfers) -> BoolArray:
    """Whether each transfer is a node of a CUDA graph launch; shape (n,)."""
    trace = classified.trace
    result = np.zeros(len(rows), np.bool_)
    for table, mask in ((trace.copies, ~rows.by_kernel), (trace.kernels, rows.by_kernel)):
        result[mask] = table.from_graph[rows.row[mask]]
    return result
