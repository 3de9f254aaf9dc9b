"""From a GPU row to the API call that launched it, and to the NVTX range around that call."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .arrays import Int64Array
from .host import HostSide, Ranges
from .trace import Activities, Trace


class Launches:
    """Finds launch calls by (process, correlation id); built once for a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    @cached_property
    def _sorted(self) -> dict[int, tuple[Int64Array, Int64Array]]:
        """For each process its correlation ids, sorted, and the calls they belong to."""
        host = self._trace.host
        pid = host.thread_pid[host.calls.thread] if len(host.calls) else np.empty(0, np.int64)
        found = {}
        for process in np.unique(pid).tolist():
            mine = np.flatnonzero((pid == process) & (host.calls.correlation_id != 0))
            order = np.argsort(host.calls.correlation_id[mine], kind="stable")
            found[process] = (host.calls.correlation_id[mine][order], mine[order])
        return found

    def of(self, table: Activities, rows: Int64Array | None = None) -> Int64Array:
        """Index into `host.calls` of the call behind each row, -1 where there is none."""
        rows = np.arange(len(table)) if rows is None else rows
        stream_pid = np.array([s.global_pid for s in self._trace.streams], dtype=np.int64)
        pid, correlation = stream_pid[table.stream[rows]], table.correlation_id[rows]
        result = np.full(len(rows), -1, np.int64)
        for process, (ids, calls) in self._sorted.items():
            # Rows of cut-down exports do not say which process they are of.
            mine = np.flatnonzero((pid == process) | (pid == 0))
            if not len(mine) or not len(ids):
                continue
            at = np.minimum(np.searchsorted(ids, correlation[mine]), len(ids) - 1)
            hit = ids[at] == correlation[mine]
            result[mine[hit]] = calls[at[hit]]
        return result


def innermost_range(host: HostSide, calls: Int64Array) -> Int64Array:
    """Index into `host.ranges` of the innermost push/pop range around each call; -1 without.

    `calls` indexes `host.calls`; -1 gives -1.
    """
    result = np.full(len(calls), -1, np.int64)
    asked = np.flatnonzero(calls >= 0)
    threads = host.calls.thread[calls[asked]]
    for thread in np.unique(threads).tolist():
        mine = asked[threads == thread]
        own = np.flatnonzero((host.ranges.thread == thread) & host.ranges.nested)
        result[mine] = _innermost(host.ranges, own, host.calls.start_ns[calls[mine]])
    return result


def _innermost(ranges: Ranges, own: Int64Array, instants: Int64Array) -> Int64Array:
    """Innermost of one thread's ranges around each instant, without walking up any stack.

    Ranges of one thread nest, so the number that are open says at which level the innermost one
    is, and it is the last one of that level to have started. Ranges are half-open: of two that
    touch the later one holds the instant between them.
    """
    # A range without length holds no instant, and would count as closed before it opened.
    own = own[ranges.end_ns[own] > ranges.start_ns[own]]
    start, end = ranges.start_ns[own], ranges.end_ns[own]
    ends = np.sort(end)
    level = np.arange(len(own)) - np.searchsorted(ends, start, side="right")
    n_open = np.searchsorted(start, instants, side="right")
    n_open -= np.searchsorted(ends, instants, side="right")
    result = np.full(len(instants), -1, np.int64)
    for depth in np.unique(n_open[n_open > 0]).tolist():
        asked = np.flatnonzero(n_open == depth)
        candidates = np.flatnonzero(level == depth - 1)
        if not len(candidates):
            continue
        at = np.searchsorted(start[candidates], instants[asked], side="right") - 1
        found = candidates[np.maximum(at, 0)]
        # Ranges that do not nest (a damaged trace) are left out rather than guessed.
        real = (at >= 0) & (end[found] > instants[asked])
        result[asked[real]] = own[found[real]]
    return result
