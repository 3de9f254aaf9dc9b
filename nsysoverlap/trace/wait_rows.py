"""Read what waits for what: streams for events, host threads for streams, events or the device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.arrays import BoolArray, Int32Array, Int64Array
from . import schema
from .bulk import Block
from .codes import TupleCodes
from .contents import Stream
from .host import ALL_STREAMS, HostSide, HostWaits, StreamWaits
from .schema import TableSpec
from .source import Source

_STREAM_SYNC = re.compile(r"^cu(da)?StreamSynchronize")
_EVENT_SYNC = re.compile(r"^cu(da)?EventSynchronize")
_COLUMNS = tuple(column.name for column in schema.CUDA_EVENT.columns)
_NOTHING = -2
"""Stands for a stream on which nothing ran."""


WaitTables = tuple[Block, Block]
"""Rows of the synchronisations and of the event records, as they stand."""


def read_wait_tables(source: Source) -> WaitTables:
    """What `read_waits` joins to the host side; of absent tables no rows."""
    return _block(source, schema.SYNCHRONIZATION), _block(source, schema.CUDA_EVENT)


def _block(source: Source, spec: TableSpec) -> Block:
    table = source.found.find(spec)
    if table is None:
        return {name: np.empty(0, np.int64) for name in _COLUMNS}
    return source.columns(table, _COLUMNS, lambda rows: rows)


def read_waits(
    source: Source, blocks: WaitTables, host: HostSide, streams: Sequence[Stream]
) -> tuple[StreamWaits | None, HostWaits]:
    """Stream waits joined to event records, and what each synchronisation waits for.

    Joined by eventSyncId, before schema 3.17 by eventId and the latest record before the wait.
    Waits are None where the schema has neither.
    """
    tables = [source.found.find(spec) for spec in (schema.SYNCHRONIZATION, schema.CUDA_EVENT)]
    ids = ("event_sync_id", "event_id")
    joined = all(t is None or any(t.sql(name) for name in ids) for t in tables)
    rows = _Rows.of(blocks[0], host, streams, schema.WAITING_API)
    records = _Rows.of(blocks[1], host, streams, schema.EVENT_RECORD_API)
    record = rows.record(records)
    host_waits = _host_waits(host, rows, records, record)
    if not joined:
        return None, host_waits
    if tables[0] is None:
        # Nothing waited, or it was not recorded: the calls tell.
        asked = any(schema.STREAM_WAIT_API.match(name) for name in host.api_names)
        return None if asked else StreamWaits(), host_waits
    named = (rows.block["event_sync_id"] != -1) | (rows.block["event_id"] != -1)
    waits = named & rows.matches(host, schema.STREAM_WAIT_API)
    resolved = waits & (record >= 0)
    of = record[resolved]
    wait_stream, record_stream = rows.stream[resolved], records.stream[of]
    known = (wait_stream >= 0) & (record_stream >= 0)
    return (
        StreamWaits(
            wait_ns=rows.called_ns[resolved][known],
            wait_stream=wait_stream[known],
            record_ns=records.called_ns[of][known],
            record_stream=record_stream[known],
            n_unresolved=int((waits & ~resolved).sum()),
        ),
        host_waits,
    )


def _host_waits(host: HostSide, rows: _Rows, records: _Rows, record: Int64Array) -> HostWaits:
    """What each call that synchronises waits for."""
    calls, names = host.calls, host.api_names

    def called(api: re.Pattern[str]) -> Int64Array:
        wanted = np.array([bool(api.match(name)) for name in names], np.bool_)
        return np.flatnonzero(wanted[calls.name]) if wanted.any() else np.empty(0, np.int64)

    call = called(schema.SYNCHRONIZE_API)
    stream = np.full(len(call), ALL_STREAMS, np.int32)
    before = calls.start_ns[call]
    for_stream = rows.matches(host, _STREAM_SYNC)
    stream[np.searchsorted(call, rows.call[for_stream])] = rows.stream[for_stream]
    for_event = rows.matches(host, _EVENT_SYNC) & (record >= 0)
    at = np.searchsorted(call, rows.call[for_event])
    stream[at] = records.stream[record[for_event]]
    before[at] = records.called_ns[record[for_event]]
    known = stream != _NOTHING
    return HostWaits(call[known], stream[known], before[known])


@dataclass(frozen=True)
class _Rows:
    """Rows of one table with a call of a wanted kind behind each: that call's place and start,
    and the stream of each row, `_NOTHING` for one on which nothing ran.
    """

    block: Block
    call: Int64Array
    called_ns: Int64Array
    stream: Int32Array

    @classmethod
    def of(
        cls, block: Block, host: HostSide, streams: Sequence[Stream], api: re.Pattern[str]
    ) -> _Rows:
        call = _calls_of(host, block, api)
        block = {name: values[call >= 0] for name, values in block.items()}
        call = call[call >= 0]
        return cls(block, call, host.calls.start_ns[call], _stream_index(block, streams))

    def matches(self, host: HostSide, api: re.Pattern[str]) -> BoolArray:
        """Which rows are of a call with such a name."""
        wanted = np.array([bool(api.match(name)) for name in host.api_names], np.bool_)
        result: BoolArray = wanted[host.calls.name[self.call]]
        return result

    def record(self, records: _Rows) -> Int64Array:
        """The record that each row waits for, -1 where there is none."""
        result = np.full(len(self.call), -1, np.int64)
        for process in np.unique(self.block["global_pid"]).tolist():
            own = np.flatnonzero(records.block["global_pid"] == process)
            here = np.flatnonzero(self.block["global_pid"] == process)
            for name, latest in (("event_sync_id", False), ("event_id", True)):
                # Below zero are the marks of NULL and of nonsense.
                asked = here[(self.block[name][here] >= 0) & (result[here] < 0)]
                if not len(asked):
                    # The events of a million records are sorted for nobody.
                    continue
                ids, wanted = records.block[name][own], self.block[name][asked]
                if latest:
                    times = records.called_ns[own], self.called_ns[asked]
                    at = _latest(ids, times[0], wanted, times[1])
                else:
                    at = _place(ids, wanted)
                    # Nobody waits for what is recorded later: such rows contradict themselves.
                    hit = np.flatnonzero(at >= 0)
                    later = records.called_ns[own[at[hit]]] > self.called_ns[asked[hit]]
                    at[hit[later]] = -1
                result[asked[at >= 0]] = own[at[at >= 0]]
        return result


def _place(ids: Int64Array, wanted: Int64Array) -> Int64Array:
    """Place of the first of `ids` that equals each wanted one, -1 where none does."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[at] == wanted, order[at], -1)


def _latest(
    ids: Int64Array, times: Int64Array, wanted: Int64Array, before: Int64Array
) -> Int64Array:
    """Place of the last of `ids`, by its time, that equals each wanted one and is earlier than
    `before`; -1 where none is.
    """
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    # Ranks in place of times and ids, so that a pair of them fits one number.
    known, code = np.unique(ids, return_inverse=True)
    order = np.lexsort((times, code))
    instants = np.unique(times)
    width = len(instants) + 1
    key = code[order] * width + np.searchsorted(instants, times[order])
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    place = np.searchsorted(key, at * width + np.searchsorted(instants, before)) - 1
    found = (known[at] == wanted) & (place >= 0) & (code[order[place]] == at)
    return np.where(found, order[place], -1)


def _calls_of(host: HostSide, rows: Block, api: re.Pattern[str]) -> Int64Array:
    """The call of a wanted kind behind each row, -1 where there is none."""
    wanted = np.array([bool(api.match(name)) for name in host.api_names], np.bool_)
    mine = np.flatnonzero(wanted[host.calls.name]) if len(wanted) else np.empty(0, np.int64)
    result = np.full(len(rows["global_pid"]), -1, np.int64)
    for process in np.unique(host.thread_pid).tolist():
        own = mine[(host.thread_pid == process)[host.calls.thread[mine]]]
        here = np.flatnonzero(rows["global_pid"] == process)
        at = _place(host.calls.correlation_id[own], rows["correlation_id"][here])
        result[here[at >= 0]] = own[at[at >= 0]]
    return result


def _stream_index(rows: Block, streams: Sequence[Stream]) -> Int32Array:
    """Index of each row's stream, `_NOTHING` for one on which nothing ran.

    By process, context and stream: nsys 2025.3 writes device 0 into every synchronisation row.
    """
    codes = TupleCodes(3)
    keys = [(s.global_pid, s.context_id, s.stream_id) for s in streams]
    known = codes.encode(list(np.array(keys, np.int64).reshape(-1, 3).T))
    found = codes.encode([rows[name] for name in ("global_pid", "context_id", "stream_id")])
    index = np.full(max(known.max(initial=-1), found.max(initial=-1)) + 1, _NOTHING, np.int32)
    index[known] = np.arange(len(streams))
    return index[found]
