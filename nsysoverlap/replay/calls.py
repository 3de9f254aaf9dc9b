"""The calls of the host in a replay: what they launched, and what they may have waited for."""

from __future__ import annotations

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
from ..steps.launches import Launches
from ..steps.stalls import Stalls
from ..trace.contents import Trace
from .replayed import UNKNOWN, Operations

LONG_AGO_NS = -(2**61)
"""Before any time of a trace, and far enough from the end of int64 to add to."""
OWN_COST_NS = 12_000
"""No call that waited for the GPU takes longer than this of its own."""
QUEUE_LENGTH = 1_022
"""Unfinished operations of a stream with which a launch on it still returns at once."""
_NEARLY_FULL = 900


@dataclass(frozen=True)
class HostChains:
    """The calls of the replayed steps, by start; columns of shape (n,).

    The operations `launched` (m,) were launched by the calls at the places `launched_by` (m,).
    `wait` is the place of the call in `wait_stream` and `wait_before_ns`, -1 for a call that is no
    wait: it returns when all work on that stream (-1: on all of them) launched before then is done.
    `after_pause`: before it the process stood still until all earlier GPU work was done. `queue` is
    the operation that must be done before a launch returns, -1 for none. `thread_process` and
    `stream_process` are the processes of the trace's threads and streams.
    """

    ops: Operations
    start_ns: Int64Array
    end_ns: Int64Array
    thread: Int64Array
    launched: Int64Array
    launched_by: Int64Array
    wait: Int64Array
    wait_stream: Int64Array
    wait_before_ns: Int64Array
    first_wait: int
    blocked: BoolArray
    queue: Int64Array
    after_pause: BoolArray
    thread_process: Int64Array
    stream_process: Int64Array

    def __len__(self) -> int:
        return len(self.start_ns)


def host_chains(trace: Trace, launches: Launches, ops: Operations) -> HostChains:
    """The calls that launched some operations, and the waits between them."""
    calls, waits = trace.host.calls, trace.host.host_waits
    own = (ops.call != UNKNOWN) & ~ops.fixed
    launching = np.unique(ops.call[own])
    low, high = (
        (int(ops.issued_ns[own].min()), int(ops.issued_ns[own].max())) if own.any() else (0, 0)
    )
    starts = calls.start_ns[waits.call]
    waiting = np.flatnonzero((starts >= low) & (starts <= high))
    call = np.union1d(launching, waits.call[waiting])
    start, end = calls.start_ns[call].astype(np.int64), calls.end_ns[call].astype(np.int64)
    wait = np.full(len(call), -1, np.int64)
    wait[np.searchsorted(call, waits.call[waiting])] = np.arange(len(waiting))
    rows = np.flatnonzero(own)
    place = np.searchsorted(call, ops.call[rows])
    thread = calls.thread[call].astype(np.int64)
    return HostChains(
        ops=ops,
        start_ns=start,
        end_ns=end,
        thread=thread,
        launched=rows,
        launched_by=place,
        wait=wait,
        wait_stream=waits.stream[waiting].astype(np.int64),
        wait_before_ns=waits.before_ns[waiting].astype(np.int64),
        first_wait=len(trace.host.waits) if trace.host.waits is not None else 0,
        blocked=_blocked(ops, start, end),
        queue=_queue(ops, rows, place, len(call)),
        after_pause=_after_pause(trace, launches.stalls, call),
        thread_process=trace.host.thread_pid,
        stream_process=np.array([stream.global_pid for stream in trace.streams], np.int64),
    )


def _after_pause(trace: Trace, stalls: Stalls, call: Int64Array) -> BoolArray:
    """Which calls are the first of theirs after a pause; `call` rises."""
    process = trace.host.thread_pid[trace.host.calls.thread[call]]
    found = np.zeros(len(call), np.bool_)
    pauses = np.flatnonzero(stalls.next_call >= 0)
    for one in np.unique(process).tolist():
        own = np.flatnonzero(process == one)
        mine = pauses[stalls.global_pid[pauses] == one]
        place = np.searchsorted(call[own], stalls.next_call[mine])
        found[own[place[place < len(own)]]] = True
    return found


def _blocked(ops: Operations, start: Int64Array, end: Int64Array) -> BoolArray:
    """Long calls that began while the queue of some stream was nearly full."""
    blocked = np.zeros(len(start), np.bool_)
    long = np.flatnonzero(end - start > OWN_COST_NS)
    for stream in np.unique(ops.stream).tolist():
        own = ops.stream == stream
        if np.count_nonzero(own) >= _NEARLY_FULL:
            issued = np.searchsorted(np.sort(ops.issued_ns[own]), start[long])
            ended = np.searchsorted(np.sort(ops.end_ns[own]), start[long])
            blocked[long] |= issued - ended >= _NEARLY_FULL
    return blocked


def _queue(ops: Operations, launched: Int64Array, by: Int64Array, n: int) -> Int64Array:
    """For each of n calls the operation whose end makes room for the last that it launches."""
    before = np.full(len(ops), -1, np.int64)
    for stream in np.unique(ops.stream).tolist():
        own = np.flatnonzero(ops.stream == stream)
        before[own[QUEUE_LENGTH:]] = own[: max(0, len(own) - QUEUE_LENGTH)]
    queue = np.full(n, -1, np.int64)
    queue[by] = before[launched]
    return queue
