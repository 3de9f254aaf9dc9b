"""Which launches of an export have a GPU row: the calls promise what the tables should hold."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..core.arrays import BoolArray, IdArray, Int32Array, Int64Array
from . import schema
from .activities import Columns
from .contents import LaunchFacts, ProcessLaunches, Stream, pid_of
from .host import HostSide
from .host_rows import PUSH_POP, START_END
from .schema import Schema

_WIDEST = 1 << 28
"""Marks for correlation ids that lie further apart would take more memory than sorting them."""
_ROWS_AT_ONCE = 1 << 20
_SHORTEST_COPY_NS = 1_000


def launch_facts(
    connection: sqlite3.Connection,
    found: Schema,
    tables: Mapping[str, Columns],
    streams: Sequence[Stream],
    host: HostSide,
) -> LaunchFacts:
    """How many launches have a GPU row with their (process, correlation id)."""
    any_row = any(len(t.values["start_ns"]) for t in tables.values())
    thunks = None if any_row else _thunks(connection, found)
    if not host.has_calls:
        return LaunchFacts(n_thunk_ranges=thunks)
    counts, rows = [], _IdsByProcess(tables, streams)
    for patterns in ((schema.KERNEL_LAUNCH_API, schema.ASYNC_COPY_API), (schema.GRAPH_LAUNCH_API,)):
        wanted = np.array([any(p.match(n) for p in patterns) for n in host.api_names], np.bool_)
        # A call without an id of its own cannot be matched, so it says nothing.
        mine = wanted[host.calls.name] & (host.calls.correlation_id != 0)
        counts.append(_count_missing(host, mine, rows))
    (n, missing), (n_graph, graph_missing) = counts
    processes = tuple(_processes(host, rows)) if any_row else ()
    return LaunchFacts(n, missing, n_graph, graph_missing, thunks, processes)


def _processes(host: HostSide, rows: _IdsByProcess) -> Iterator[ProcessLaunches]:
    """What became of the launches of each process that has any."""
    is_copy = _named(host, schema.ASYNC_COPY_API) | _named(host, schema.BLOCKING_COPY_API)
    counted = is_copy | _named(host, schema.KERNEL_LAUNCH_API)
    counted &= (host.calls.correlation_id != 0) & ~_captured(host)
    nothing = is_copy & (host.calls.end_ns - host.calls.start_ns < _SHORTEST_COPY_NS)
    for pid, own in _calls_by_process(host):
        mine, copies = counted[own], is_copy[own]
        asked = mine & ~nothing[own]
        n = int(np.count_nonzero(asked))
        parts = rows.of(pid)
        if not parts:
            if n:
                yield ProcessLaunches(pid_of(pid), n, has_rows=False)
            continue
        if not mine.any():
            continue
        start, ids = host.calls.start_ns[own], host.calls.correlation_id[own]
        found = _in_any(ids, [part for part, _ in parts]) & (ids != 0)
        head = start < min(low for _, low in parts)
        tail = start > start[found].max(initial=np.iinfo(np.int64).min)
        between, lost = mine & ~head & ~tail, asked & ~found

        def count(mask: BoolArray) -> int:
            return int(np.count_nonzero(mask))

        yield ProcessLaunches(
            pid_of(pid), n,
            count(between & copies), count(between & ~copies),
            count(between & lost & copies), count(between & lost & ~copies),
            count(lost & head), count(lost & tail & ~head),
        )  # fmt: skip


def _calls_by_process(host: HostSide) -> Iterator[tuple[int, Int64Array | slice]]:
    """Each process that called anything, and which calls are its own."""
    pids, code = np.unique(host.thread_pid, return_inverse=True)
    if len(pids) == 1:
        yield int(pids[0]), slice(None)
        return
    yield from _groups(pids, code.astype(np.int32)[host.calls.thread])


def _groups(keys: Int64Array, code: Int32Array) -> Iterator[tuple[int, Int64Array]]:
    """Each key that any row has, and its rows, rising; `code` indexes `keys`."""
    order = np.argsort(code, kind="stable")
    bounds = np.searchsorted(code, np.arange(len(keys) + 1), sorter=order).tolist()
    for i, key in enumerate(keys.tolist()):
        if bounds[i] < bounds[i + 1]:
            yield key, order[bounds[i] : bounds[i + 1]]


class _IdsByProcess:
    """Correlation ids of the GPU rows of each process, table by table, with their first start."""

    def __init__(self, tables: Mapping[str, Columns], streams: Sequence[Stream]) -> None:
        self._all: list[tuple[IdArray, int]] = []
        self._of: dict[int, list[tuple[IdArray, int]]] = {}
        stream_pid = np.array([stream.global_pid for stream in streams], np.int64)
        pids, code = np.unique(stream_pid, return_inverse=True)
        for table in tables.values():
            ids, start = table.values["correlation_id"], table.values["start_ns"]
            if not len(ids):
                continue
            self._all.append((ids, int(start[0])))
            if len(pids) == 1:
                self._of.setdefault(int(pids[0]), []).append(self._all[-1])
                continue
            for pid, rows in _groups(pids, code.astype(np.int32)[table.values["stream"]]):
                self._of.setdefault(pid, []).append((ids[rows], int(start[rows[0]])))

    def of(self, pid: int) -> list[tuple[IdArray, int]]:
        """Cut-down exports do not say which process a row or a call is of: 0 may be any."""
        return [*self._of.get(pid, []), *self._of.get(0, [])] if pid else self._all


def _named(host: HostSide, api: re.Pattern[str]) -> BoolArray:
    """Mask of the calls of some functions."""
    wanted = np.array([bool(api.match(name)) for name in host.api_names], np.bool_)
    mask: BoolArray = wanted[host.calls.name] if len(wanted) else np.zeros(0, np.bool_)
    return mask


def _captured(host: HostSide) -> BoolArray:
    """Mask of the calls whose thread was recording a stream into a graph, from begin to end."""
    begin, end = _named(host, schema.BEGIN_CAPTURE_API), _named(host, schema.END_CAPTURE_API)
    captured = np.zeros(len(host.calls), np.bool_)
    for thread in np.unique(host.calls.thread[begin]).tolist():
        mine = host.calls.thread == thread
        edges = np.flatnonzero(mine & (begin | end))
        depth = np.cumsum(np.where(begin[edges], 1, -1))
        # What ends here without having begun was begun before the trace.
        depth -= np.minimum(np.minimum.accumulate(depth), 0)
        # And what never ends cannot be told from a call that was lost.
        closed = np.flatnonzero(depth == 0)
        last = int(closed[-1]) if len(closed) else -1
        calls = np.flatnonzero(mine)
        at = np.searchsorted(edges, calls, side="right") - 1
        captured[calls] = (at >= 0) & (at < last) & (depth[np.maximum(at, 0)] > 0)
    return captured


def _count_missing(host: HostSide, wanted: BoolArray, rows: _IdsByProcess) -> tuple[int, int]:
    """Distinct (process, correlation id) calls, and those among them without any GPU row."""
    n = missing = 0
    for pid, own in _calls_by_process(host):
        ids = host.calls.correlation_id[own][wanted[own]]
        if len(ids):
            calls, left = _distinct_and_without(ids, [part for part, _ in rows.of(pid)])
            n, missing = n + calls, missing + left
    return n, missing


def _in_any(ids: IdArray, others: Sequence[IdArray]) -> BoolArray:
    """Mask of the ids that are in any of `others`."""
    found = np.zeros(len(ids), np.bool_)
    if not len(ids):
        return found
    low, high = int(ids.min()), int(ids.max())
    if high - low > _WIDEST:
        for other in others:
            found |= np.isin(ids, other)
        return found
    marks = _marks(others, low, high)
    result: BoolArray = marks[np.subtract(ids, low, dtype=np.int64)]
    return result


def _marks(others: Sequence[IdArray], low: int, high: int) -> BoolArray:
    """For each id from `low` to `high` whether it is in any of `others`."""
    # Ids count up, so a mark for each possible one is cheaper than sorting them.
    marks = np.zeros(high - low + 1, np.bool_)
    for other in others:
        for first in range(0, len(other), _ROWS_AT_ONCE):
            part = other[first : first + _ROWS_AT_ONCE]
            part = part[(part >= low) & (part <= high)]
            marks[np.subtract(part, low, dtype=np.int64)] = True
    return marks


def _distinct_and_without(ids: IdArray, others: Sequence[IdArray]) -> tuple[int, int]:
    """How many distinct ids there are, and how many of them are in none of `others`."""
    low, high = int(ids.min()), int(ids.max())
    if high - low > _WIDEST:
        distinct = np.unique(ids)
        return len(distinct), int(np.count_nonzero(~_in_any(distinct, others)))
    asked = np.zeros(high - low + 1, np.bool_)
    asked[np.subtract(ids, low, dtype=np.int64)] = True
    missing = asked & ~_marks(others, low, high)
    return int(np.count_nonzero(asked)), int(np.count_nonzero(missing))


def _thunks(connection: sqlite3.Connection, found: Schema) -> int:
    """Number of NVTX ranges that XLA opens around each piece of GPU work."""
    table, strings = found.find(schema.NVTX), found.find(schema.STRINGS)
    if table is None:
        return 0
    conditions = []
    if table.sql("text"):
        conditions.append(f"CAST({table.sql('text')} AS TEXT) GLOB '{schema.THUNK_PREFIX}*'")
    if table.sql("text_id") and strings is not None:
        conditions.append(
            f"{table.sql('text_id')} IN (SELECT {strings.sql('id')} FROM {strings.quoted} "  # noqa: S608
            f"WHERE CAST({strings.sql('value')} AS TEXT) GLOB '{schema.THUNK_PREFIX}*')"
        )
    if not conditions:
        return 0
    query = (
        f"SELECT count(*) FROM {table.quoted} WHERE ({' OR '.join(conditions)}) "  # noqa: S608
        f"AND CAST({table.sql('event_type')} AS INTEGER) IN ({PUSH_POP}, {START_END})"
    )
    return int(connection.execute(query).fetchone()[0])
