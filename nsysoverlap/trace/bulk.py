"""Read integer columns of large tables without a Python object per row.

Rows are read from the pages of the file themselves (see `pages`). Where those are unusual SQLite
packs each column of a block of rows into one JSON array and numpy parses its text. Both are exact
for all of int64 and need no package beyond numpy, and both work on several threads.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.threads import usable_threads
from .database import connect
from .guard import Guarded
from .pages import PageFile, RowLayout, UnusualError, find_layout, read_pages
from .schema import UNREADABLE, FoundTable

BLOCK_ROWS = 1 << 16
"""Rows that SQLite packs at a time."""
BLOCK_BYTES = 4 << 20
"""Bytes of pages taken apart at a time; with fewer, threads wait for the interpreter lock."""
_RANGES_PER_THREAD = 8
_AHEAD = 4
"""Blocks that are read ahead for each thread."""

Block = dict[str, Int64Array]
T = TypeVar("T")


@dataclass(frozen=True)
class Query:
    """Logical columns to read from one table, all of which it has.

    Of the columns in `sized`, texts, only the length in bytes is read, 0 for NULL.
    """

    table: FoundTable
    names: tuple[str, ...]
    sized: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: FoundTable, names: Iterable[str], sized: Iterable[str] = ()) -> Query:
        """A query for those of the named columns that the table has."""

        def found(names: Iterable[str]) -> tuple[str, ...]:
            return tuple(name for name in names if table.sql(name) is not None)

        return cls(table, found(names), found(sized))

    def select(self, value: Callable[[str, int], str]) -> str:
        """SQL for one block: row count, last rowid, then one JSON array a column, `row` first.

        `value` turns a column and its default into the SQL expression to collect.
        """
        rowid = self.table.rowid
        defaults = {column.name: column.default for column in self.table.spec.columns}
        columns = [(self.table.sql(name), defaults[name]) for name in self.names]
        columns += [(f"length(CAST({self.table.sql(name)} AS BLOB))", 0) for name in self.sized]
        inner = ", ".join(f"{sql} AS c{i}" for i, (sql, _) in enumerate(columns))
        outer = ", ".join(
            f"json_group_array({value(f'c{i}', default)})" for i, (_, default) in enumerate(columns)
        )
        return (
            f"SELECT count(*), max(r), json_group_array(r), {outer} "  # noqa: S608
            f"FROM (SELECT {rowid} AS r, {inner} "
            f"FROM {self.table.quoted} WHERE {rowid} >= ? AND {rowid} <= ? "
            f"ORDER BY {rowid} LIMIT {BLOCK_ROWS})"
        )


def read_blocks(
    path: Path,
    query: Query,
    digest: Callable[[Block], T],
    *,
    threads: int = 2,
    connection: sqlite3.Connection | None = None,
) -> Iterator[T]:
    """Read all rows of `query` and yield `digest(block)` of each block in rowid order.

    `connection` is one to the same file to use on this thread, where there is one.

    A block maps every column name, and `row` for the rowid, to an int64 array. NULL and blank
    text become the column's default; a value that is no integer becomes `-2**63` (see
    `unreadable`).
    """
    threads = usable_threads(threads)
    with connect_many(path, threads, connection) as pool:
        try:
            layout = find_layout(pool.connection(), query.table, query.names, query.sized)
            with PageFile(path) as file:
                yield from _from_pages(pool, file, layout, query, digest)
            return
        except UnusualError:
            pass
        yield from _from_sqlite(pool, query, digest, threads)


def _from_pages(
    pool: connect_many,
    file: PageFile,
    layout: RowLayout,
    query: Query,
    digest: Callable[[Block], T],
) -> Iterator[T]:
    """Raises `UnusualError` before any row is read; unusual rows are left to SQLite."""
    pages, last = file.leaves(layout.root)
    step = max(1, BLOCK_BYTES // file.page_size)
    bounds = [*range(0, len(pages), step), len(pages)]

    def part(span: tuple[int, int]) -> list[T]:
        begin, end = span
        reach = (int(last[begin - 1]) + 1 if begin else -(2**63), int(last[end - 1]))
        try:
            block = read_pages(file, layout, pages[begin:end], reach)
        except UnusualError:
            return _read_range(pool.connection(), query, reach, digest)
        return [digest(block)]

    return pool.map(part, list(pairwise(bounds)))


def _from_sqlite(
    pool: connect_many, query: Query, digest: Callable[[Block], T], threads: int
) -> Iterator[T]:
    span = _rowid_range(pool.connection(), query.table)
    if span is None:
        return iter(())
    ranges = _split(span[0], span[1], threads * _RANGES_PER_THREAD)
    return pool.map(lambda span: _read_range(pool.connection(), query, span, digest), ranges)


def unreadable(values: Int64Array) -> BoolArray:
    """Mask of the values that `read_blocks` could not read as integers."""
    mask: BoolArray = values == UNREADABLE
    return mask


class connect_many:  # noqa: N801 - used as a context manager, like `open`
    """A thread pool in which every thread that asks has its own read-only connection."""

    def __init__(self, path: Path, threads: int, own: sqlite3.Connection | None = None) -> None:
        self._path = path
        self._threads = threads
        self._local = threading.local()
        self._connections: list[Guarded] = []
        if own is not None:
            self._local.connection = own

    def __enter__(self) -> connect_many:
        return self

    def __exit__(self, *exc: object) -> None:
        for connection in self._connections:
            connection.close()

    def connection(self) -> sqlite3.Connection:
        """This thread's connection; opened when first asked for, since pages need none."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            opened = self._local.connection = connect(self._path)
            self._connections.append(opened)
            connection = opened
        return connection

    def map(
        self, work: Callable[[tuple[int, int]], list[T]], ranges: Sequence[tuple[int, int]]
    ) -> Iterator[T]:
        """Do `work` for each range, on the threads; yield all results in order."""
        if self._threads == 1 or len(ranges) == 1:
            for span in ranges:
                yield from work(span)
            return
        with ThreadPoolExecutor(self._threads) as executor:
            # Not all at once: results must not pile up before they are taken.
            waiting: deque[Future[list[T]]] = deque()
            try:
                for span in ranges:
                    waiting.append(executor.submit(work, span))
                    if len(waiting) > _AHEAD * self._threads:
                        yield from waiting.popleft().result()
                while waiting:
                    yield from waiting.popleft().result()
            except BaseException:
                # The pool waits for its threads: nothing that they still read is wanted.
                for connection in self._connections:
                    connection.stop()
                raise


def _rowid_range(connection: sqlite3.Connection, table: FoundTable) -> tuple[int, int] | None:
    """Smallest and largest rowid; None for an empty table."""
    # Asked for together, SQLite would scan the table instead of looking at both its ends.
    row = connection.execute(
        f"SELECT (SELECT min({table.rowid}) FROM {table.quoted}), "  # noqa: S608
        f"(SELECT max({table.rowid}) FROM {table.quoted})"
    ).fetchone()
    return None if row[0] is None else (row[0], row[1])


def _split(low: int, high: int, n: int) -> list[tuple[int, int]]:
    """Cut `low` to `high`, both included, into at most n ranges; small tables stay whole."""
    span = high + 1 - low
    n = max(1, min(n, span // BLOCK_ROWS))
    bounds = [low + span * i // n for i in range(n + 1)]
    return [(first, after - 1) for first, after in pairwise(bounds)]


def _read_range(
    connection: sqlite3.Connection,
    query: Query,
    span: tuple[int, int],
    digest: Callable[[Block], T],
) -> list[T]:
    first, last = span
    value = _plain
    results: list[T] = []
    while first <= last:
        found = _read_block(connection, query, value, (first, last))
        if found is None and value is _plain:
            value = careful_integer
            continue
        if found is None:
            raise sqlite3.DatabaseError(f"table {query.table.table} is unreadable")
        n_rows, reached, block = found
        if n_rows:
            results.append(digest(block))
        if n_rows < BLOCK_ROWS:
            break
        first = reached + 1
    return results


def _read_block(
    connection: sqlite3.Connection,
    query: Query,
    value: Callable[[str, int], str],
    span: tuple[int, int],
) -> tuple[int, int, Block] | None:
    """Number of rows, last rowid and columns; None where `value` lets anything but integers by."""
    try:
        n_rows, reached, *texts = connection.execute(query.select(value), span).fetchone()
    except sqlite3.OperationalError:
        if value is _plain:
            # JSON cannot hold a BLOB.
            return None
        raise
    block: Block = {}
    for name, text in zip(("row", *query.names, *query.sized), texts, strict=True):
        values = _parse(text)
        if values is None or len(values) != n_rows:
            return None
        block[name] = values
    return n_rows, reached, block


def _plain(column: str, default: int) -> str:
    """SQL for a column of integers: fast, and wrong for anything else."""
    return f"ifnull({column}, {default})"


def careful_integer(column: str, default: int) -> str:
    """SQL that yields an integer for any value: the default for none, a marker for nonsense."""
    c = column
    return (
        f"CASE typeof({c}) WHEN 'integer' THEN {c} WHEN 'null' THEN {default} "
        f"WHEN 'text' THEN CASE WHEN trim({c}) = '' THEN {default} "
        f"WHEN CAST(CAST({c} AS INTEGER) AS TEXT) = trim({c}) "
        f"THEN CAST({c} AS INTEGER) ELSE {UNREADABLE} END "
        f"WHEN 'real' THEN CASE WHEN CAST({c} AS INTEGER) = {c} AND abs({c}) < 9e15 "
        f"THEN CAST({c} AS INTEGER) ELSE {UNREADABLE} END ELSE {UNREADABLE} END"
    )


def _parse(text: str) -> Int64Array | None:
    """Int64 values of a JSON array, or None where it holds anything but integers."""
    if len(text) <= 2:
        return np.empty(0, np.int64)
    if any(mark in text for mark in ('"', "n", ".", "e")):
        return None
    try:
        return np.fromstring(text[1:-1], dtype=np.int64, sep=",")
    except (ValueError, DeprecationWarning):
        # What SQLite takes for JSON inside a BLOB can be anything.
        return None
