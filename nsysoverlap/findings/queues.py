"""The order in which the streams of transfers work, and what waits for what across streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from ..core.arrays import BoolArray, Int32Array, Int64Array, rows_by_key
from ..measure.case import DeviceCase
from ..measure.waiting import in_graph, launch_of_transfers
from ..roles.rules import Role
from ..trace.contents import Activities
from ..trace.host import NEVER

SOON_NS = 20_000
"""What starts this soon after a copy's end is taken to have waited for it."""
QueuedSince = tuple[Int64Array, Int64Array]
"""Rows (n,) of a case, and since when each of them was ready (n,)."""


@dataclass(frozen=True)
class Queue:
    """All GPU rows on the streams of a device's transfers, by stream, then start; shape (n,).

    `table` indexes the names of `Trace.tables`, `row` that table, `transfer` the rows of the case
    (-1 for anything else). Nodes of CUDA graphs are left out: they carry a stream on which they
    did not queue.
    """

    stream: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array
    table: Int64Array
    row: Int64Array
    transfer: Int64Array

    def __len__(self) -> int:
        return len(self.start_ns)

    def last_before(self, times: Int64Array, stream: Int64Array, instant: Int64Array) -> Int64Array:
        """Index of the last row of each stream with a time before each instant, -1 without one.

        `times` (n_rows,) has a time for each row of the queue, which does not fall within a stream;
        the others, and the result, are (n,).
        """
        if not len(self):
            return np.full(len(stream), -1, np.int64)
        # The latest time so far within each stream, in ranks: streams times times could overflow.
        rising, width = np.sort(times), len(self) + 1
        reached = np.maximum.accumulate(self.stream * width + np.searchsorted(rising, times))
        asked = stream * width + np.searchsorted(rising, instant)
        at = np.searchsorted(reached, asked) - 1
        return np.where(at >= np.searchsorted(self.stream, stream), at, -1)

    def places(self, n_transfers: int) -> Int64Array:
        """Index of each transfer of the case, -1 for nodes of graphs; shape (n_transfers,)."""
        place = np.full(n_transfers, -1, np.int64)
        mine = np.flatnonzero(self.transfer >= 0)
        place[self.transfer[mine]] = mine
        return place


def queue_of(case: DeviceCase) -> Queue:
    """The queue of a device's transfers."""
    trace, rows = case.classified.trace, case.rows
    streams = np.unique(rows.stream[~in_graph(case.classified, rows)])
    parts = []
    for number, (name, table) in enumerate(trace.tables.items()):
        own = trace.rows_on(case.device.index, name)
        own = own[np.isin(table.stream[own], streams) & ~table.from_graph[own]]
        transfer = np.full(len(own), -1, np.int64)
        if name in ("kernel", "memcpy") and len(own):
            mine = np.flatnonzero(rows.by_kernel == (name == "kernel"))
            at = np.minimum(np.searchsorted(own, rows.row[mine]), len(own) - 1)
            queued = own[at] == rows.row[mine]
            transfer[at[queued]] = mine[queued]
        parts.append(
            Queue(
                stream=table.stream[own].astype(np.int64),
                start_ns=table.start_ns[own],
                end_ns=table.end_ns[own],
                table=np.full(len(own), number, np.int64),
                row=own,
                transfer=transfer,
            )
        )
    whole = [
        np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Queue)
    ]
    queue = Queue(*whole)
    order = np.lexsort((queue.end_ns, queue.start_ns, queue.stream))
    return Queue(*(column[order] for column in whole))


def sent_ns(case: DeviceCase, queue: Queue) -> Int64Array:
    """Host time at which each row of the queue was launched, `NEVER` where unknown; shape (n,)."""
    call = np.full(len(queue), -1, np.int64)
    for number, table in enumerate(case.classified.trace.tables.values()):
        mine = np.flatnonzero(queue.table == number)
        call[mine] = case.launches.of(table, queue.row[mine])
    return _call_start(case, call)


def transfers_sent_ns(case: DeviceCase) -> Int64Array:
    """Host time at which each row (n,) of the case was launched, `NEVER` where unknown."""
    return _call_start(case, launch_of_transfers(case.classified, case.launches, case.rows))


def rows_sent_ns(case: DeviceCase, table: Activities, rows: Int64Array) -> Int64Array:
    """Host time at which some rows (n,) of a table were launched, `NEVER` where unknown."""
    return _call_start(case, case.launches.of(table, rows))


def _call_start(case: DeviceCase, call: Int64Array) -> Int64Array:
    start = case.classified.trace.host.calls.start_ns
    if not len(start):
        return np.full(len(call), NEVER, np.int64)
    return np.where(call >= 0, start[np.maximum(call, 0)], NEVER)


@dataclass(frozen=True)
class Done:
    """When all that was launched on some streams was done.

    `sent` and `done` map a stream to host times of launches, rising, and to when all that had been
    launched until then was done.
    """

    sent: dict[int, Int64Array]
    done: dict[int, Int64Array]

    @classmethod
    def of(cls, case: DeviceCase, streams: Sequence[int]) -> Done:
        """Of some streams, with one look at the rows of their devices."""
        trace, found, parts = case.classified.trace, cls({}, {}), []
        wanted = np.zeros(len(trace.streams), np.bool_)
        wanted[list(streams)] = True
        for device in np.unique(trace.stream_device[wanted]).tolist():
            for name, table in trace.tables.items():
                own = trace.rows_on(device, name)
                own = own[wanted[table.stream[own]]]
                sent = _call_start(case, case.launches.of(table, own))
                parts.append((table.stream[own], sent, table.end_ns[own]))
        if not parts:
            return found
        stream, sent, end = (np.concatenate(column) for column in zip(*parts, strict=True))
        for one, rows in rows_by_key(stream):
            order = rows[np.argsort(sent[rows], kind="stable")]
            found.sent[one], found.done[one] = sent[order], np.maximum.accumulate(end[order])
        return found

    def before(self, stream: int, instants: Int64Array) -> Int64Array:
        """When all that was launched on a stream before each host time (n,) was done; `NEVER`
        where nothing was.
        """
        if stream not in self.sent:
            return np.full(len(instants), NEVER, np.int64)
        n_before = np.searchsorted(self.sent[stream], instants, side="left")
        return np.where(n_before > 0, self.done[stream][n_before - 1], NEVER)


def latest_record(
    case: DeviceCase, waiting: Int64Array, recording: Int64Array, before: Int64Array
) -> Int64Array:
    """Host time up to which `waiting` streams had been told, before a host time, to wait for what
    was launched on `recording` streams; `NEVER` for not at all. Every argument has shape (n,).
    """
    waits = case.classified.trace.host.waits
    if waits is None:
        return np.full(len(waiting), NEVER, np.int64)
    return waits.latest(waiting, recording, before)


def waits_between(
    case: DeviceCase,
    waiting: Int64Array,
    recording: Int64Array,
    span: tuple[Int64Array, Int64Array],
    before: Int64Array,
) -> BoolArray:
    """Whether `waiting` streams had been told, before a host time, to wait for the first event
    recorded on `recording` streams within `(span[0], span[1]]`; all of shape (n,).
    """
    waits = case.classified.trace.host.waits
    result = np.zeros(len(waiting), np.bool_)
    if waits is None or not len(waits):
        return result
    pairs = np.unique(np.stack([waiting, recording], axis=1), axis=0)
    for one, other in pairs.tolist():
        own = np.flatnonzero((waits.wait_stream == one) & (waits.record_stream == other))
        own = own[np.lexsort((waits.wait_ns[own], waits.record_ns[own]))]
        asked = np.flatnonzero((waiting == one) & (recording == other))
        at = np.searchsorted(waits.record_ns[own], span[0][asked], side="right")
        inside = at < len(own)
        first = own[np.minimum(at, len(own) - 1)] if len(own) else at
        if len(own):
            inside &= waits.record_ns[first] <= span[1][asked]
            inside &= waits.wait_ns[first] < before[asked]
        result[asked] = inside
    return result


def depends(
    case: DeviceCase,
    first: tuple[Int32Array, Int64Array],
    second: tuple[Int32Array, Int64Array],
) -> BoolArray:
    """Whether the second of each pair was told to wait for the first through an event, directly
    or by way of one other stream. Both are given as (stream, host time of launch),
    columns of shape (n,).
    """
    from_stream, sent = first[0].astype(np.int64), first[1]
    stream, launched = second[0].astype(np.int64), second[1]
    result: BoolArray = latest_record(case, stream, from_stream, launched) > sent
    waits = case.classified.trace.host.waits
    if waits is not None:
        asked = np.flatnonzero(~result)
        result[asked] = waits.through_another(
            stream[asked], from_stream[asked], sent[asked], launched[asked]
        )
    return result


def queued_since(case: DeviceCase, measured: BoolArray) -> dict[Role, QueuedSince]:
    """The rows (n,) of each direction that were ready while one of another stream held the engine,
    and since when they were (n,); none of CUDA graphs. `measured` (n_rows,) picks rows that count.
    """
    sent = transfers_sent_ns(case)
    behind = {role: _behind(case, measured, role, sent) for role in (Role.H2D, Role.D2H)}
    ready = _ready_ns(case, np.concatenate(list(behind.values())), sent)
    parts = np.split(ready, [len(behind[Role.H2D])])
    return {role: (rows, since) for (role, rows), since in zip(behind.items(), parts, strict=True)}


def _behind(case: DeviceCase, measured: BoolArray, role: Role, sent: Int64Array) -> Int64Array:
    """The rows of one direction that started right behind one of another stream, launched by then,
    though they did not wait for it.
    """
    rows = case.rows
    mine = np.flatnonzero((rows.role == role) & ~in_graph(case.classified, rows))
    if len(mine) < 2:
        return mine[:0]
    start, end, stream, sent = rows.start_ns[mine], rows.end_ns[mine], rows.stream[mine], sent[mine]
    by_end = np.argsort(end, kind="stable")
    at = np.searchsorted(end[by_end], start, side="right") - 1
    before = by_end[np.maximum(at, 0)]
    close = (at >= 0) & (start - end[before] <= SOON_NS) & measured[mine] & (sent > NEVER)
    first, second = before[close], np.flatnonzero(close)
    free = ~depends(case, (stream[first], sent[first]), (stream[second], sent[second]))
    return mine[second[free]]


def _ready_ns(case: DeviceCase, picked: Int64Array, all_sent: Int64Array) -> Int64Array:
    """When each of some rows could have started: launched, its own stream done with what stood
    before it, and the streams that it waits for done with what it waits for.
    """
    queue, sent = queue_of(case), all_sent[picked]
    place = queue.places(len(case.rows))[picked]
    stream = case.rows.stream[picked].astype(np.int64)
    ready = sent.copy()
    follows = (place > 0) & (queue.stream[place - 1] == stream)
    ready[follows] = np.maximum(ready[follows], queue.end_ns[place[follows] - 1])
    waits = case.classified.trace.host.waits
    if waits is None:
        return ready
    sources = waits.sources(stream)
    done = Done.of(case, sources)
    for other in sources:
        told = latest_record(case, stream, np.full(len(stream), other, np.int64), sent)
        asked = np.flatnonzero(told > NEVER)
        if len(asked):
            ready[asked] = np.maximum(ready[asked], done.before(other, told[asked]))
    return ready
