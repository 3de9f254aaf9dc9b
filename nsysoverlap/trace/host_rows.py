"""Read the host side: API calls and NVTX ranges."""

from __future__ import annotations

import sqlite3
from typing import Any

import numpy as np

from ..core.arrays import BoolArray, Int32Array, Int64Array, narrow_codes, narrow_ids
from . import schema
from .bulk import Block, unreadable
from .codes import Codes
from .host import Calls, HostSide, Ranges
from .schema import FoundTable, Schema
from .source import Source
from .strings import strings
from .values import integer, text

PUSH_POP, START_END = 59, 60
_LARGEST_TIME = 2**62
_TEXT_ROWS = 10_000


def read_host(source: Source, *, ranges: bool) -> HostSide:
    """Calls, ranges and threads; NVTX ranges only where wanted. Waits and
    synchronisations are in `wait_rows`."""
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
    """StringIds id -> name of every call that launches, copies, records or waits."""
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
