"""From a GPU row to the API call that launched it, and to the NVTX range around that call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ..core.arrays import BoolArray, CodeArray, IdArray, Int32Array, Int64Array, rows_by_key
from ..trace.contents import Activities, Trace
from ..trace.host import HostSide, Ranges
from .stalls import Stalls, stalls_of

_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
_ALL = slice(None)
_SPARSE = 16
_ROWS_AT_ONCE = 1 << 20


class Launches:
    """Finds launch calls by (process, correlation id); built once for a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        # Now, since threads share it; and for all rows, for every stage asks.
        self._call = _calls_of_tables(trace)
        self.nests = Nests(trace.host)
        """The NVTX ranges around calls."""

    @cached_property
    def stalls(self) -> Stalls:
        """When host threads waited for the GPU."""
        return stalls_of(self._trace, self.of)

    def of(self, table: Activities, rows: Int64Array | slice = _ALL) -> Int64Array:
        """Index (n,) into `host.calls` of the call behind each row, -1 where there is none.

        `table` is one of `Trace.tables`.
        """
        return self._call[id(table)][rows].astype(np.int64)


def _calls_of_tables(trace: Trace) -> dict[int, Int64Array | Int32Array]:
    """For each table, by its identity, the call behind each row, -1 where there is none."""
    by_process = _calls_by_process(trace.host)
    small = len(trace.host.calls) < 2**31
    found: dict[int, Int64Array | Int32Array] = {}
    for table in trace.tables.values():
        n = len(table)
        call = found[id(table)] = np.full(n, -1, np.int32) if small else np.full(n, -1, np.int64)
        for begin in range(0, len(table), _ROWS_AT_ONCE):
            part = slice(begin, begin + _ROWS_AT_ONCE)
            columns = table.stream[part], table.correlation_id[part]
            call[part] = _behind(trace, by_process, *columns)
    return found


def _calls_by_process(host: HostSide) -> dict[int, _Calls]:
    """For each process the calls of its correlation ids."""
    ids, pids = host.calls.correlation_id, np.unique(host.thread_pid).tolist()
    mine = ids != 0
    if len(pids) == 1:
        return {pids[0]: _Calls.of(ids, mine)} if mine.any() else {}
    return {
        process: _Calls.of(ids[calls], mine[calls], calls)
        for process, calls in rows_by_key(host.thread_pid[host.calls.thread])
        if mine[calls].any()
    }


def _behind(
    trace: Trace, by_process: Mapping[int, _Calls], stream: CodeArray, correlation: IdArray
) -> Int64Array:
    """The call behind each of some rows, -1 where there is none; all of shape (n,)."""
    result = np.full(len(stream), -1, np.int64)
    if len(by_process) <= 1:
        for process, calls in by_process.items():
            own = (trace.stream_pid == process) | (trace.stream_pid == 0)
            at = calls.find(correlation)
            result = at if own.all() else np.where(own[stream], at, -1)
        return result
    # Each row is looked at once, however many processes there are.
    row_pid = trace.stream_pid[stream]
    order = np.argsort(row_pid, kind="stable")
    rising = row_pid[order]
    # Rows of cut-down exports do not say which process they are of.
    nameless = np.flatnonzero(row_pid == 0)
    processes = np.array(list(by_process), np.int64)
    low, high = (np.searchsorted(rising, processes, side=s).tolist() for s in _SIDES)
    for i, (process, calls) in enumerate(by_process.items()):
        mine = order[low[i] : high[i]] if process else nameless
        if process and len(nameless):
            mine = np.concatenate((mine, nameless))
        if not len(mine):
            continue
        at = calls.find(correlation[mine])
        result[mine] = np.where(at >= 0, at, result[mine])
    return result


@dataclass(frozen=True)
class _Calls:
    """Calls of one process by correlation id: `call` (n,) belongs to `first`, `first` + 1, ...
    with -1 in the gaps, or to the sorted `ids` where those lie too far apart.
    """

    call: Int64Array | Int32Array
    first: int
    ids: IdArray | None

    @classmethod
    def of(cls, ids: IdArray, mine: BoolArray, calls: Int64Array | None = None) -> _Calls:
        """Of those calls that `mine` picks; where some share an id the first one counts.

        `calls` (n,), rising, are the places of `ids` (n,) where these are not those of all calls.
        """
        picked = ids[mine]
        low, high = int(picked.min()), int(picked.max())
        if high - low < _SPARSE * len(picked) and len(ids) < 2**31:
            call = np.full(high - low + 1, -1, np.int32)
            # In parts to save memory, backwards so that the first one has the last word.
            for begin in reversed(range(0, len(ids), _ROWS_AT_ONCE)):
                row = begin + np.flatnonzero(mine[begin : begin + _ROWS_AT_ONCE])[::-1]
                call[np.subtract(ids[row], low, dtype=np.int64)] = (
                    row if calls is None else calls[row]
                )
            return cls(call, low, None)
        order = np.argsort(picked, kind="stable")
        row = np.flatnonzero(mine)[order]
        return cls(row if calls is None else calls[row], 0, picked[order])

    def find(self, ids: IdArray) -> Int64Array:
        """The call of each id, -1 where there is none."""
        if self.ids is None:
            at = np.subtract(ids, self.first, dtype=np.int64)
            inside = (at >= 0) & (at < len(self.call))
            if inside.all():
                return self.call[at].astype(np.int64)
            return np.where(inside, self.call[np.where(inside, at, 0)], -1)
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, self.call[at], -1)


class Nests:
    """Finds the NVTX range around a call."""

    def __init__(self, host: HostSide) -> None:
        self._host = host
        # That of one thread only: all of them would be as large as the ranges themselves.
        self._last: tuple[int, _Nest] | None = None

    def innermost(self, calls: Int64Array) -> Int64Array:
        """Index into `host.ranges` of the innermost push/pop range around each call; -1 without.

        `calls` (n,) indexes `host.calls`; -1 gives -1. The result is (n,).
        """
        host = self._host
        result = np.full(len(calls), -1, np.int64)
        asked = np.flatnonzero(calls >= 0)
        threads = host.calls.thread[calls[asked]]
        for thread in np.unique(threads).tolist():
            mine = asked[threads == thread]
            result[mine] = self._nest(thread).innermost(host.calls.start_ns[calls[mine]])
        return result

    def _nest(self, thread: int) -> _Nest:
        last = self._last
        if last is None or last[0] != thread:
            ranges = self._host.ranges
            own = np.flatnonzero(ranges.thread == thread)
            # Ranges without a length hold no instant.
            own = own[ranges.nested[own] & (ranges.end_ns[own] > ranges.start_ns[own])]
            last = self._last = thread, _Nest(ranges, own)
        return last[1]


class _Nest:
    """Push/pop ranges of one thread; `own` indexes them by start, longest first."""

    def __init__(self, ranges: Ranges, own: Int64Array) -> None:
        self._own = own
        self._start, self._end = ranges.start_ns[own], ranges.end_ns[own]

    def innermost(self, instants: Int64Array) -> Int64Array:
        """The innermost range around each instant; -1 for none.

        Ranges are half-open: of two that touch the later one holds the instant between them.
        """
        if not len(self._own):
            return np.full(len(instants), -1, np.int64)
        begun = np.searchsorted(self._start, instants, side="right")
        # The one that began last, unless it has ended by then.
        place = begun - 1
        ended = (place >= 0) & (self._end[place] <= instants)
        if ended.any():
            place[ended] = self._around(instants[ended], begun[ended])
        return np.where(place >= 0, self._own[place], -1)

    def _around(self, instants: Int64Array, begun: Int64Array) -> Int64Array:
        """Place of the innermost range around each instant, without walking up any stack.

        Ranges of one thread nest, so the number that are open says at which level the innermost
        one is, and it is the last one of that level to have started.
        """
        sorted_end, by_level = self._levels
        width = len(self._own) + 1
        level = begun - np.searchsorted(sorted_end, instants, side="right") - 1
        at = np.searchsorted(by_level, level * width + begun, side="left") - 1
        found = by_level[np.maximum(at, 0)]
        place = found % width
        # Ranges that do not nest (a damaged trace) are left out rather than guessed.
        real = (at >= 0) & (level >= 0) & (found // width == level) & (self._end[place] > instants)
        return np.where(real, place, -1)

    @cached_property
    def _levels(self) -> tuple[Int64Array, Int64Array]:
        """Ends in order, and `level * (n + 1) + place` in order; a level counts ranges around."""
        sorted_end = np.sort(self._end)
        place = np.arange(len(self._own))
        level = place - np.searchsorted(sorted_end, self._start, side="right")
        return sorted_end, np.sort(level * (len(self._own) + 1) + place)
