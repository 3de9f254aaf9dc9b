"""Read who waits for what: streams for events, and the host for streams and events."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ..core.arrays import BoolArray, Int32Array, Int64Array
from . import schema
from .bulk import Block
from .codes import TupleCodes
from .host import HostSide, HostWaits, Waits
from .model import Stream
from .source import Source

_NO_STREAM = 2**32 - 1
"""SYNCHRONIZATION.streamId of a call that names no stream."""


def read_waits(source: Source, host: HostSide, streams: Sequence[Stream]) -> Waits | None:
    """Stream waits joined to event records by eventSyncId; None where the schema has none."""
    found = source.found
    waits, records = found.find(schema.SYNCHRONIZATION), found.find(schema.CUDA_EVENT)
    if any(t is not None and t.sql("event_sync_id") is None for t in (waits, records)):
        return None
    if waits is None:
        # Nothing waited, or it was not recorded: the calls tell.
        asked = any(schema.STREAM_WAIT_API.match(name) for name in host.api_names)
        return None if asked else Waits()
    names = tuple(column.name for column in schema.CUDA_EVENT.columns)
    wait = source.columns(waits, names, _with_event)
    called, is_wait = _called(host, wait, schema.STREAM_WAIT_API)
    wait = {name: values[is_wait] for name, values in wait.items()}
    wait_ns = called[is_wait]
    if records is None:
        return Waits(n_unresolved=len(wait_ns))
    record = source.columns(records, names, lambda block: block)
    recorded, is_known = _called(host, record, schema.EVENT_RECORD_API)
    record = {name: values[is_known] for name, values in record.items()}
    row = _find_pair(record, wait)
    resolved = row >= 0
    row = row[resolved]
    wait_stream = _stream_index(wait, streams)[resolved]
    record_stream = _stream_index(record, streams)[row]
    known = (wait_stream >= 0) & (record_stream >= 0)
    return Waits(
        wait_ns=wait_ns[resolved][known],
        wait_stream=wait_stream[known],
        record_ns=recorded[is_known][row][known],
        record_stream=record_stream[known],
        n_unresolved=int((~resolved).sum()),
    )


def _with_event(block: Block) -> Block:
    """The rows that name an event."""
    named = block["event_sync_id"] != -1
    return {name: values[named] for name, values in block.items()}


def _find_pair(record: Block, wait: Block) -> Int64Array:
    """The first record with each wait's process and event; -1 where there is none."""
    result = np.full(len(wait["global_pid"]), -1, np.int64)
    for process in np.unique(wait["global_pid"]).tolist():
        own = np.flatnonzero(record["global_pid"] == process)
        # Below zero are the marks of NULL and of nonsense.
        here = np.flatnonzero((wait["global_pid"] == process) & (wait["event_sync_id"] >= 0))
        at = _place(record["event_sync_id"][own], wait["event_sync_id"][here])
        result[here[at >= 0]] = own[at[at >= 0]]
    return result


def _place(ids: Int64Array, wanted: Int64Array) -> Int64Array:
    """Place of the first of `ids` that equals each wanted one, -1 where none does."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[at] == wanted, order[at], -1)


def _called(host: HostSide, rows: Block, api: re.Pattern[str]) -> tuple[Int64Array, BoolArray]:
    """Host time of the call behind each row, and whether it is a call of that kind at all."""
    wanted = np.array([bool(api.match(name)) for name in host.api_names], np.bool_)
    mine = np.flatnonzero(wanted[host.calls.name]) if len(wanted) else np.empty(0, np.int64)
    called = np.zeros(len(rows["global_pid"]), np.int64)
    found = np.zeros(len(called), np.bool_)
    for process in np.unique(host.thread_pid).tolist():
        own = mine[(host.thread_pid == process)[host.calls.thread[mine]]]
        here = np.flatnonzero(rows["global_pid"] == process)
        at = _place(host.calls.correlation_id[own], rows["correlation_id"][here])
        called[here[at >= 0]] = host.calls.start_ns[own[at[at >= 0]]]
        found[here] = at >= 0
    return called, found


def _stream_index(rows: Block, streams: Sequence[Stream]) -> Int32Array:
    """Index of each row's stream; -1 for a stream on which nothing ran.

    By process, context and stream: nsys 2025.3 writes device 0 into every synchronisation row.
    """
    codes = TupleCodes(3)
    keys = [(s.global_pid, s.context_id, s.stream_id) for s in streams]
    known = codes.encode(list(np.array(keys, np.int64).reshape(-1, 3).T))
    found = codes.encode([rows[name] for name in ("global_pid", "context_id", "stream_id")])
    index = np.full(max(known.max(initial=-1), found.max(initial=-1)) + 1, -1, np.int32)
    index[known] = np.arange(len(streams))
    return index[found]


def read_host_waits(source: Source, host: HostSide, streams: Sequence[Stream]) -> HostWaits:
    """Synchronising calls with the stream that each waits for, and until which launch of it."""
    wanted = np.array(
        [bool(schema.SYNCHRONIZE_API.match(name)) for name in host.api_names], np.bool_
    )
    calls = host.calls
    call = np.flatnonzero(wanted[calls.name]) if len(wanted) else np.empty(0, np.int64)
    stream = np.full(len(call), -1, np.int32)
    before = calls.start_ns[call]
    table = source.found.find(schema.SYNCHRONIZATION)
    if not len(call) or table is None:
        return HostWaits(call, stream, before)
    names = tuple(column.name for column in schema.SYNCHRONIZATION.columns)
    rows = source.columns(table, names, lambda block: block)
    row = _rows_of(host, call, rows)
    known = np.flatnonzero(row >= 0)
    said = {name: values[row[known]] for name, values in rows.items()}
    # A stream on which nothing ran has nothing to wait for.
    nothing = len(streams)
    of_row = _stream_index(said, streams)
    of_row[of_row < 0] = nothing
    of_row[said["stream_id"] == _NO_STREAM] = -1
    stream[known] = of_row
    _to_records(source, host, streams, (said, known), (stream, before))
    kept = stream < nothing
    return HostWaits(call[kept], stream[kept], before[kept])


def _rows_of(host: HostSide, call: Int64Array, rows: Block) -> Int64Array:
    """The SYNCHRONIZATION row of each call, -1 without one."""
    result = np.full(len(call), -1, np.int64)
    process = host.thread_pid[host.calls.thread[call]]
    for one in np.unique(process).tolist():
        here, own = np.flatnonzero(process == one), np.flatnonzero(rows["global_pid"] == one)
        at = _place(rows["correlation_id"][own], host.calls.correlation_id[call[here]])
        result[here[at >= 0]] = own[at[at >= 0]]
    return result


def _to_records(
    source: Source,
    host: HostSide,
    streams: Sequence[Stream],
    said: tuple[Block, Int64Array],
    found: tuple[Int32Array, Int64Array],
) -> None:
    """Where a call waits for an event: until the record of it, on the stream of the record."""
    table = source.found.find(schema.CUDA_EVENT)
    rows, known = said
    if table is None or table.sql("event_sync_id") is None:
        return
    names = tuple(column.name for column in schema.CUDA_EVENT.columns)
    record = source.columns(table, names, lambda block: block)
    recorded, is_known = _called(host, record, schema.EVENT_RECORD_API)
    record = {name: values[is_known] for name, values in record.items()}
    at = _find_pair(record, rows)
    hit = at >= 0
    of_record = _stream_index(record, streams)[at[hit]]
    stream, before = found
    stream[known[hit]] = np.where(of_record >= 0, of_record, len(streams))
    before[known[hit]] = recorded[is_known][at[hit]]
