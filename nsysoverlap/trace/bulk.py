"""Read integer columns of large tables without a Python object per row.

Rows are read from the pages of the file themselves (see `pages`), on several threads. Where those
are unusual a cursor of SQLite reads them, exact for all of int64 too, at a quarter of the speed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.threads import usable_threads
from .database import connect
from .guard import Guarded
from .pages import PageFile, RowLayout, UnusualError, find_layout, read_pages
from .schema import UNREADABLE, FoundTable

if TYPE_CHECKING:
    from concurrent.futures import Future

BLOCK_ROWS = 1 << 16
"""Rows that are taken from a cursor at a time."""
BLOCK_BYTES = 1 << 20
"""Bytes of pages taken apart at a time, whose columns fit into a cache."""
_FOR_THREADS = 4
"""Threads take so many times as much at a time; with less they wait for the interpreter lock."""
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

    def select(self) -> str:
        """SQL for a range of rowids: the rowid, then each column as an integer."""
        rowid = self.table.rowid
        defaults = {column.name: column.default for column in self.table.spec.columns}
        wanted = [(self.table.sql(name) or "NULL", defaults[name]) for name in self.names]
        columns = [careful_integer(sql, default) for sql, default in wanted]
        columns += [
            f"ifnull(length(CAST({self.table.sql(name)} AS BLOB)), 0)" for name in self.sized
        ]
        return (
            f"SELECT {', '.join([rowid, *columns])} FROM {self.table.quoted} "  # noqa: S608
            f"WHERE {rowid} >= ? AND {rowid} <= ? ORDER BY {rowid}"
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
        yield from _read_range(pool.connection(), query, (-(2**63), 2**63 - 1), digest)


def _from_pages(
    pool: connect_many,
    file: PageFile,
    layout: RowLayout,
    query: Query,
    digest: Callable[[Block], T],
) -> Iterator[T]:
    """Raises `UnusualError` before any row is read; unusual rows are left to SQLite."""
    pages, last = file.leaves(layout.root)
    n_bytes = BLOCK_BYTES * _FOR_THREADS if pool.threads > 1 else BLOCK_BYTES
    step = max(1, n_bytes // file.page_size)
    bounds = [*range(0, len(pages), step), len(pages)]

    def part(span: tuple[int, int]) -> list[T]:
        begin, end = span
        reach = (int(last[begin - 1]) + 1 if begin else -(2**63), int(last[end - 1]))
        try:
            block = read_pages(file, layout, pages[begin:end], reach)
        except UnusualError:
            return list(_read_range(pool.connection(), query, reach, digest))
        return [digest(block)]

    return pool.map(part, list(pairwise(bounds)))


def unreadable(values: Int64Array) -> BoolArray:
    """Mask (n,) of the values that `read_blocks` could not read as integers."""
    mask: BoolArray = values == UNREADABLE
    return mask


class connect_many:  # noqa: N801 - used as a context manager, like `open`
    """A thread pool in which every thread that asks has its own read-only connection."""

    def __init__(self, path: Path, threads: int, own: sqlite3.Connection | None = None) -> None:
        self._path = path
        self.threads = threads
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
        if self.threads == 1 or len(ranges) == 1:
            for span in ranges:
                yield from work(span)
            return
        # Imported where there are threads: it takes as long as a small table.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self.threads) as executor:
            # Not all at once: results must not pile up before they are taken.
            waiting: deque[Future[list[T]]] = deque()
            try:
                for span in ranges:
                    waiting.append(executor.submit(work, span))
                    if len(waiting) > _AHEAD * self.threads:
                        yield from waiting.popleft().result()
                while waiting:
                    yield from waiting.popleft().result()
            except BaseException:
                # The pool waits for its threads: nothing that they still read is wanted.
                for connection in self._connections:
                    connection.stop()
                raise


def _read_range(
    connection: sqlite3.Connection,
    query: Query,
    span: tuple[int, int],
    digest: Callable[[Block], T],
) -> Iterator[T]:
    """Rows whose ids lie in a span, both ends included."""
    names = ("row", *query.names, *query.sized)
    cursor = connection.execute(query.select(), span)
    while rows := cursor.fetchmany(BLOCK_ROWS):
        columns = np.ascontiguousarray(np.array(rows, np.int64).T)
        yield digest(dict(zip(names, columns, strict=True)))


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
