"""Read the host side: API calls, NVTX ranges, and which stream waits for which."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays import BoolArray, Int32Array, Int64Array, narrow_codes, narrow_ids
from . import schema
from .bulk import Block, unreadable
from .codes import Codes, TupleCodes
from .host import Calls, HostSide, Ranges, Waits
from .model import Stream
from .schema import FoundTable, Schema
from .source import Source
from .strings import strings
from .values import integer, text

PUSH_POP, START_END = 59, 60
_GLOBAL_PID = ~0xFFFFFF
_LARGEST_TIME = 2**62
_TEXT_ROWS = 10_000


def read_host(source: Source, *, ranges: bool) -> HostSide:
    """Calls, ranges and threads; NVTX ranges only where wanted. Waits come with `read_waits`."""
    found = source.found
    tids, texts = Codes(), _Texts()
    calls_table = found.find(schema.RUNTIME)
    ranges_table = found.find(schema.NVTX)
    calls = Calls()
    api_names: tuple[str, ...] = ()
    if calls_table is not None and calls_table.sql("name_id"):
        calls, api_names = _calls(source, calls_table, tids)
    found_ranges = Ranges()
    if ranges and ranges_table is not None:
        found_ranges = _ranges(source, ranges_table, tids, texts)
    return HostSide(
        threads=tuple(tids.values().tolist()),
        api_names=api_names,
        texts=tuple(texts.known),
        calls=calls,
        ranges=found_ranges,
        has_calls=calls_table is not None,
        has_ranges=ranges_table is not None,
    )


def _calls(source: Source, table: FoundTable, tids: Codes) -> tuple[Calls, tuple[str, ...]]:
    names = interesting_calls(source.connection, source.found)
    if not names:
        return Calls(), ()
    ids = np.array(sorted(names), np.int64)
    codes = Codes()
    codes.encode(ids)

    def digest(block: Block) -> dict[str, Any]:
        name = codes.find(block["name_id"])
        kept = (name >= 0) & _usable(block)
        return {
            "start_ns": block["start"][kept],
            "end_ns": block["end"][kept],
            "thread": tids.encode(block["global_tid"][kept]).astype(np.int32),
            "correlation_id": block["correlation_id"][kept],
            "name": name[kept].astype(np.int32),
        }

    columns = ("start", "end", "global_tid", "correlation_id", "name_id")
    rows = source.columns(table, columns, digest)
    rows["correlation_id"] = narrow_ids(rows["correlation_id"])
    for column in ("thread", "name"):
        rows[column] = narrow_codes(rows[column])
    if (rows["start_ns"][1:] < rows["start_ns"][:-1]).any():
        order = np.argsort(rows["start_ns"], kind="stable")
        rows = {name: values[order] for name, values in rows.items()}
    return Calls(**rows), tuple(names[i] for i in ids.tolist())


def _usable(block: Block) -> BoolArray:
    bad = np.zeros(len(block["start"]), np.bool_)
    for values in block.values():
        bad |= unreadable(values)
    for name in ("start", "end"):
        bad |= (block[name] > _LARGEST_TIME) | (block[name] <= -_LARGEST_TIME)
    return ~(bad | (block["end"] < block["start"]))


def interesting_calls(connection: sqlite3.Connection, found: Schema) -> dict[int, str]:
    """StringIds id -> name of every call that launches, copies, sets, records or waits."""
    table = found.find(schema.STRINGS)
    if table is None:
        return {}
    column = table.sql("value")
    rows = connection.execute(
        f"SELECT {table.sql('id')}, {column} FROM {table.quoted} "  # noqa: S608
        f"WHERE CAST({column} AS TEXT) GLOB 'cu*'"
    )
    return {
        identifier: name
        for key, value in rows
        if (identifier := integer(key)) is not None
        and (name := text(value))
        and schema.INTERESTING_API.match(name)
    }


class _Texts:
    """NVTX texts seen so far and their codes."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def code(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))


def _ranges(source: Source, table: FoundTable, tids: Codes, texts: _Texts) -> Ranges:
    text_ids = Codes()

    def digest(block: Block) -> dict[str, Any]:
        start, end = block["start"], block["end"]
        nested = block["event_type"] == PUSH_POP
        ranges = nested | (block["event_type"] == START_END)
        closed = ~unreadable(end)
        kept = ranges & closed & ~unreadable(start) & (end >= start)
        kept &= (np.abs(start) < _LARGEST_TIME) & (np.abs(end) < _LARGEST_TIME)
        written = kept & (block["text"] > 0)
        return {
            "start_ns": start[kept],
            "end_ns": end[kept],
            "thread": tids.encode(block["global_tid"][kept]).astype(np.int32),
            "text": text_ids.encode(block["text_id"][kept]).astype(np.int32),
            "nested": nested[kept],
            "written": written[kept],
            "row": block["row"][written],
            "n_unclosed": np.array([np.count_nonzero(ranges & ~closed)]),
        }

    columns = ("start", "end", "event_type", "global_tid", "text_id")
    rows = source.columns(table, columns, digest, sized=("text",))
    n_unclosed, row = int(rows.pop("n_unclosed").sum()), rows.pop("row")
    # A text is either registered (an id) or written out in the row, which then counts.
    registered = _registered(source, text_ids.values(), texts)
    rows["text"] = registered[rows["text"]]
    rows["text"][rows.pop("written")] = _written(source, table, row, texts)
    for column in ("thread", "text"):
        rows[column] = narrow_codes(rows[column])
    start, end = rows["start_ns"], rows["end_ns"]
    if ((start[1:] < start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] > end[:-1]))).any():
        order = np.lexsort((-end, start))
        rows = {name: values[order] for name, values in rows.items()}
    return Ranges(**rows, n_unclosed=n_unclosed)


def _registered(source: Source, ids: Int64Array, texts: _Texts) -> Int32Array:
    """Codes of the texts of StringIds ids; ids below 0 stand for none."""
    found = strings(source.connection, source.found, ids)
    labels = [label if i >= 0 else "" for i, label in zip(ids.tolist(), found, strict=True)]
    return np.array([texts.code(label) for label in labels], np.int32)


def _written(source: Source, table: FoundTable, rows: Int64Array, texts: _Texts) -> Int32Array:
    """Codes of the texts that stand in some rows themselves; `rows` rises."""
    codes = np.full(len(rows), texts.code(""), np.int32)
    if not len(rows):
        return codes
    cursor = source.connection.execute(
        f"SELECT {table.rowid}, {table.sql('text')} FROM {table.quoted} "  # noqa: S608
        f"WHERE {table.rowid} BETWEEN ? AND ? AND length({table.sql('text')}) > 0 "
        f"ORDER BY {table.rowid}",
        (int(rows[0]), int(rows[-1])),
    )
    while part := cursor.fetchmany(_TEXT_ROWS):
        found = np.array([row for row, _ in part], np.int64)
        at = np.minimum(np.searchsorted(rows, found), len(rows) - 1)
        labels = np.array([texts.code(text(label) or "") for _, label in part], np.int32)
        wanted = rows[at] == found
        codes[at[wanted]] = labels[wanted]
    return codes


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
