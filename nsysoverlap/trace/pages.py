"""Read integer columns straight from the pages of a table, many rows at a time.

Asking SQLite for a value costs more than all that is done with it later. The file format is fixed
and public (sqlite.org/fileformat2.html), and the tables of an export are plain: rows far smaller
than a page, integers beside NULLs. Whatever is not plain raises `UnusualError`, and `bulk` asks
SQLite for those rows instead.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import Int64Array, UInt8Array
from .schema import FoundTable, quote

_TABLE_LEAF, _TABLE_INTERIOR = 13, 5
_HEADER_BYTES = {_TABLE_LEAF: 8, _TABLE_INTERIOR: 12}
_TEXT = 12
"""Serial types from here on are texts and BLOBs; below are NULL, integers and floats."""
_SIZES = np.array(
    [
        *(0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0),
        *((t - 12) // 2 for t in range(12, 128)),
        *[1 << 40] * 128,
    ]
)
"""Bytes of a value by its serial type. A byte from 128 on is but the first of a longer type: with
such a size no row adds up."""
_FLOAT, _ZERO, _ONE = 7, 8, 9
_AHEAD = 48
"""Bytes of a row that are fetched together."""
_MARGIN = 256
"""Bytes around the pages in memory, so that damaged lengths lead nowhere else."""
_MAX_LEVELS = 20
_REAL = re.compile("REAL|FLOA|DOUB", re.IGNORECASE)


class UnusualError(Exception):
    """Something that these functions leave to SQLite."""


@dataclass(frozen=True)
class RowLayout:
    """Where a table's tree begins, how many columns a row has, and which of them are wanted.

    `names` are the logical names of wanted columns by their position, `defaults` stand for NULL.
    Of the columns in `sized` only the length in bytes is wanted.
    """

    root: int
    n_columns: int
    names: Mapping[int, str]
    sized: Collection[str]
    defaults: Mapping[str, int]


def find_layout(
    connection: sqlite3.Connection,
    table: FoundTable,
    names: Sequence[str],
    sized: Sequence[str] = (),
) -> RowLayout:
    """The layout of a table; `names` and `sized` are logical columns that it has.

    Raises `UnusualError` for a table that is not laid out as nsys does it.
    """
    root = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (table.table,)
    ).fetchone()
    columns = connection.execute(f"PRAGMA table_xinfo({quote(table.table)})").fetchall()
    place = {column[1]: i for i, column in enumerate(columns)}
    wanted = {place[table.columns[name]]: name for name in (*names, *sized)}
    # Generated columns are not in a row, nor is its key; REAL columns hold integers that are none.
    hidden = any(column[6] for column in columns)
    special = any(columns[i][5] or _REAL.search(columns[i][2]) for i in wanted)
    if root is None or hidden or special or len(wanted) < len(names) + len(sized):
        raise UnusualError
    defaults = {column.name: column.default for column in table.spec.columns}
    return RowLayout(int(root[0]), len(columns), wanted, sized, defaults)


class PageFile:
    """An SQLite file as numbered pages."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        head = os.pread(self._file, 100, 0)
        size = int.from_bytes(head[16:18], "big")
        self.page_size = 65536 if size == 1 else size
        self.usable = self.page_size - head[20]
        if self.page_size < 512 or self.usable < 480:
            raise UnusualError

    def __enter__(self) -> PageFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def read(self, numbers: Int64Array) -> UInt8Array:
        """Pages (n,) one after the other as bytes (n * size + 2 * margin,), zeros at either end.

        Raises `UnusualError` where the file holds less.
        """
        size = self.page_size
        buffer = np.zeros(len(numbers) * size + 2 * _MARGIN, np.uint8)
        # Pages that lie together in the file are read together.
        first = np.flatnonzero(np.diff(numbers, prepend=-1) != 1).tolist()
        for begin, end in zip(first, [*first[1:], len(numbers)], strict=True):
            part = buffer[_MARGIN + begin * size : _MARGIN + end * size]
            offset = (int(numbers[begin]) - 1) * size
            if offset < 0 or os.preadv(self._file, [part.data], offset) != len(part):
                raise UnusualError
        return buffer

    def leaves(self, root: int) -> tuple[Int64Array, Int64Array]:
        """Leaf pages (n,) of a table by rowid, and up to which rowid each one may reach (n,).

        Raises `UnusualError` for a tree that is none.
        """
        if root < 2:
            # The first page begins with the header of the file.
            raise UnusualError
        limit = os.fstat(self._file).st_size // self.page_size
        pages, last = np.array([root], np.int64), np.array([2**63 - 1], np.int64)
        for _ in range(_MAX_LEVELS):
            if self._kind(int(pages[0])) == _TABLE_LEAF:
                return pages, last
            parts = [self._children(*pair) for pair in zip(pages.tolist(), last.tolist())]  # noqa: B905
            pages, last = (np.concatenate(column) for column in zip(*parts, strict=True))
            if len(pages) > limit or (np.diff(last) <= 0).any():
                break
        raise UnusualError

    def _kind(self, page: int) -> int:
        return int(self.read(np.array([page], np.int64))[_MARGIN])

    def _children(self, page: int, last: int) -> tuple[Int64Array, Int64Array]:
        """Pages below an interior page, and up to which rowid each one may reach."""
        buffer = self.read(np.array([page], np.int64))
        cells = _cells(buffer, 1, self, _TABLE_INTERIOR)
        at = np.append(cells, _MARGIN + 8)
        child = np.zeros(len(at), np.int64)
        for i in range(4):
            child = child << 8 | buffer[at + i]
        key, _ = _varint(buffer, cells + 4)
        return child, np.append(key, last)


def read_pages(
    file: PageFile, layout: RowLayout, pages: Int64Array, reach: tuple[int, int]
) -> dict[str, Int64Array]:
    """The wanted columns (n_rows,) of some leaf pages (n,), and the column `row`, their rowids.

    Rowids must rise and lie in `reach`, both ends included. Raises `UnusualError` where they do
    not, where a wanted value is no integer, for a row that does not fit into a page, and for
    anything that looks damaged.
    """
    buffer = file.read(pages)
    try:
        cells = _cells(buffer, len(pages), file, _TABLE_LEAF)
        rows = _rows(buffer, cells, file, layout)
    except IndexError:
        # A damaged length led out of the pages.
        raise UnusualError from None
    rowid = rows["row"]
    if rowid[0] < reach[0] or rowid[-1] > reach[1] or (rowid[1:] <= rowid[:-1]).any():
        raise UnusualError
    return rows


def _cells(buffer: UInt8Array, n_pages: int, file: PageFile, kind: int) -> Int64Array:
    """Where the cells of all pages begin, in order."""
    page = _MARGIN + file.page_size * np.arange(n_pages)
    count = _uint16(buffer, page + 3)
    header = _HEADER_BYTES[kind]
    if (buffer[page] != kind).any() or (count > (file.usable - header) // 2).any():
        raise UnusualError
    page = np.repeat(page, count)
    nth = np.arange(len(page)) - np.repeat(np.cumsum(count) - count, count)
    inside = _uint16(buffer, page + header + 2 * nth)
    if (inside >= file.usable).any():
        raise UnusualError
    result: Int64Array = page + inside
    return result


def _rows(
    buffer: UInt8Array, cells: Int64Array, file: PageFile, layout: RowLayout
) -> dict[str, Int64Array]:
    n_bytes, at = _varint(buffer, cells)
    rowid, record = _varint(buffer, at)
    within = (cells - _MARGIN) % file.page_size + (record - cells) + n_bytes
    # A longer row continues on other pages.
    if (n_bytes > file.usable - 35).any() or (within > file.usable).any():
        raise UnusualError
    length, types = _varint(buffer, record)
    value = record + length
    # What is the same for all rows is added up apart: one number instead of one a row.
    beyond = 0
    result = {"row": rowid}
    # Bytes of each row, fetched for several columns at once, which cost as much as one.
    ahead, since = np.empty(0, f"V{_AHEAD}"), beyond
    for place, (kind, size) in enumerate(_types(buffer, types, value, layout.n_columns)):
        name = layout.names.get(place)
        if name is None:
            pass
        elif name in layout.sized:
            result[name] = _lengths(kind, size, at.shape)
        else:
            if size.any() and not (len(ahead) and beyond - since <= _AHEAD - 8):
                ahead, since = _windows(buffer, f"V{_AHEAD}")[value + beyond], beyond
            result[name] = _integers(
                ahead, beyond - since, kind, size, layout.defaults[name], at.shape
            )
        if len(size) == 1:
            beyond += int(size[0])
        else:
            value, ahead = value + size, ahead[:0]
    # Where all lengths add up, nothing was read from where it should not have been.
    if (value + beyond != record + n_bytes).any():
        raise UnusualError
    return result


def _types(
    buffer: UInt8Array, at: Int64Array, end: Int64Array, n_columns: int
) -> Iterator[tuple[UInt8Array, Int64Array]]:
    """For each column the serial types, `_TEXT` for all longer ones, and the sizes in bytes.

    The types of a row lie from `at` to `end`. One of each where all rows agree, which most
    columns do.
    """
    if (end - at == n_columns).all():
        # Each type is one byte, as long as texts are short.
        rows = _windows(buffer, f"V{n_columns}")[at].view(np.uint8)
        for column in np.ascontiguousarray(rows.reshape(-1, n_columns).T):
            kind = column[:1] if (column == column[0]).all() else column
            yield kind, _SIZES[kind]
        return
    for _ in range(n_columns):
        serial, at = _varint(buffer, at)
        kind = np.minimum(serial, _TEXT).astype(np.uint8)
        yield kind, np.where(serial >= _TEXT, serial // 2 - 6, _SIZES[kind])
    # Rows written before a column was added lack it.
    if (at != end).any():
        raise UnusualError


def _integers(
    ahead: NDArray[Any],
    offset: int,
    kind: UInt8Array,
    size: Int64Array,
    default: int,
    shape: tuple[int, ...],
) -> Int64Array:
    """Values of one column, which begin `offset` bytes into each of `ahead`.

    `kind` and `size` may be those of all rows.
    """
    if ((kind == _FLOAT) | (kind > _ONE)).any():
        raise UnusualError
    implied = np.where(kind >= _ZERO, kind.astype(np.int64) - _ZERO, default)
    if not size.any():
        return np.broadcast_to(implied, shape).copy()
    # The eight bytes that begin with the value, of which its own are kept, sign and all.
    value = np.ndarray(shape, ">i8", ahead.data, offset, (_AHEAD,)).astype(np.int64)
    value >>= 64 - 8 * np.maximum(size, 1)
    return value if size.all() else np.where(size > 0, value, implied)


def _lengths(kind: UInt8Array, size: Int64Array, shape: tuple[int, ...]) -> Int64Array:
    """Bytes of each text of one column, 0 for NULL."""
    if ((kind > 0) & (kind < _TEXT)).any():
        raise UnusualError
    return np.broadcast_to(size, shape).copy()


def _windows(buffer: UInt8Array, kind: str) -> NDArray[Any]:
    """The bytes from each position on, taken as a number or as a string of bytes."""
    dtype = np.dtype(kind)
    return np.ndarray((len(buffer) - dtype.itemsize + 1,), dtype, buffer.data, 0, (1,))


def _uint16(buffer: UInt8Array, at: Int64Array) -> Int64Array:
    result: Int64Array = buffer[at].astype(np.int64) << 8 | buffer[at + 1]
    return result


def _varint(buffer: UInt8Array, at: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Variable-length integers of up to eight bytes, and where they end."""
    byte = buffer[at]
    more = np.flatnonzero(byte >= 0x80)
    if len(more) == len(at) > 0:
        found = _varint_of_one_length(buffer, at)
        if found is not None:
            return found
    value, after = (byte & 0x7F).astype(np.int64), at + 1
    for _ in range(7):
        if not len(more):
            break
        byte = buffer[after[more]]
        value[more] = value[more] << 7 | byte & 0x7F
        after[more] += 1
        more = more[byte >= 0x80]
    if len(more):
        raise UnusualError
    return value, after


def _varint_of_one_length(
    buffer: UInt8Array, at: Int64Array
) -> tuple[Int64Array, Int64Array] | None:
    """As `_varint`, where all are as long as the first, as those of rows together mostly are."""
    begin = int(at[0])
    length = 1 + int(np.argmin(buffer[begin : begin + 8] & 0x80))
    # Every byte but the last one of each integer has its highest bit set.
    wanted = sum(0x80 << 8 * (7 - i) for i in range(length - 1))
    word = _windows(buffer, ">u8")[at].astype(np.uint64)
    if ((word & np.uint64(wanted | 0x80 << 8 * (8 - length))) != np.uint64(wanted)).any():
        return None
    value = np.zeros(len(at), np.uint64)
    for i in range(length):
        value = value << np.uint64(7) | word >> np.uint64(8 * (7 - i)) & np.uint64(0x7F)
    return value.astype(np.int64), at + length
