"""Bulk reading of integer columns: every row once, in order of rowid, to the last bit."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Never

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoverlap.core.errors import TraceFileError
from nsysoverlap.trace import bulk
from nsysoverlap.trace.bulk import Query, read_blocks, unreadable
from nsysoverlap.trace.database import translated_errors
from nsysoverlap.trace.pages import UnusualError
from nsysoverlap.trace.schema import ColumnSpec, Schema, TableSpec

from .readerkit import execute

ROWIDS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-5, 20),
    st.sampled_from([-(2**63), 2**63 - 1, 0]),
)
VALUES = st.one_of(st.none(), st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-9, 9))


def query_of(path: Path) -> Query:
    spec = TableSpec("t", (ColumnSpec("a", ("a",), default=-7), ColumnSpec("b", ("b",))))
    table = Schema(path.name, {"t": ("a", "b")}).find(spec)
    assert table is not None
    return Query.of(table, ("a", "b"))


def read(path: Path, threads: int = 1) -> tuple[list[int], list[int]]:
    """Both columns, all blocks joined."""
    blocks = list(read_blocks(path, query_of(path), lambda block: block, threads=threads))
    for block in blocks:
        assert all(values.dtype == np.int64 for values in block.values())
        assert len(block["a"]) == len(block["b"]) == len(block["row"]) > 0
    return (
        [value for block in blocks for value in block["a"].tolist()],
        [value for block in blocks for value in block["b"].tolist()],
    )


def unusual(*_: object) -> Never:
    """Stands in for `find_layout` where SQLite shall read everything."""
    raise UnusualError


@settings(max_examples=60, deadline=None)
@given(
    rows=st.dictionaries(ROWIDS, st.tuples(VALUES, VALUES), max_size=30),
    threads=st.sampled_from([1, 2, 4]),
    block_rows=st.sampled_from([1, 2, 3, 1 << 16]),
    pages=st.booleans(),
)
def test_every_row_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    rows: dict[int, tuple[int | None, int | None]],
    threads: int,
    block_rows: int,
    pages: bool,
) -> None:
    path = execute(tmp_path_factory.mktemp("bulk") / "t.sqlite", "CREATE TABLE t (a, b)")
    for rowid, values in rows.items():
        execute(path, "INSERT INTO t (rowid, a, b) VALUES (?, ?, ?)", values=(rowid, *values))
    expected = [rows[rowid] for rowid in sorted(rows)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "BLOCK_ROWS", block_rows)
        if not pages:
            patch.setattr(bulk, "find_layout", unusual)
        found = read(path, threads)
    assert found == (
        [-7 if a is None else a for a, _ in expected],
        [0 if b is None else b for _, b in expected],
    )


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ("123", 123),
        (" 123 ", 123),
        ("-0", None),
        ("+5", None),
        ("007", None),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775807", -(2**63) + 1),
        ("1e3", None),
        ("5.0", None),
        ("0x10", None),
        ("12\n", None),
        ("nonsense", None),
        ("'; DROP TABLE t; --", None),
        ('"]', None),
        ("", -7),
        ("  ", -7),
        (5.0, 5),
        (-5.0, -5),
        (5.5, None),
        (9e15, None),
        (1e300, None),
        (float("inf"), None),
        (float("-inf"), None),
        (float("nan"), -7),
        (b"", None),
        (b"5", None),
        (b"\xff\xfe", None),
        (b"\x13X", None),
        (b"\x0b", None),
        (None, -7),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), None),
        (2**53 + 1, 2**53 + 1),
    ],
)
@pytest.mark.parametrize("beside", [1, "text", b"bytes", 0.5])
def test_values_of_any_type(
    tmp_path: Path, stored: object, value: int | None, beside: object
) -> None:
    path = execute(tmp_path / "t.sqlite", "CREATE TABLE t (a, b)")
    for row in ((1, 2), (stored, beside), (2**62 + 1, 4)):
        execute(path, "INSERT INTO t VALUES (?, ?)", values=row)
    a, b = read(path)
    assert (a[0], a[2]) == (1, 2**62 + 1)
    assert (b[0], b[2]) == (2, 4)
    readable = ~unreadable(np.array(a, np.int64))
    assert readable[1] == (value is not None)
    assert value is None or a[1] == value
    assert (b[1] == 1) == (beside == 1)


def test_nonsense_in_one_block_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BLOCK_ROWS", 2)
    monkeypatch.setattr(bulk, "find_layout", unusual)
    path = execute(tmp_path / "t.sqlite", "CREATE TABLE t (a, b)")
    for i in range(9):
        execute(path, "INSERT INTO t VALUES (?, ?)", values=("x" if i == 4 else i, i))
    for threads in (1, 2):
        a, b = read(path, threads)
        assert a == [0, 1, 2, 3, -(2**63), 5, 6, 7, 8]
        assert b == list(range(9))


def test_an_empty_table(tmp_path: Path) -> None:
    assert read(execute(tmp_path / "t.sqlite", "CREATE TABLE t (a, b)")) == ([], [])


def test_an_index_of_others_does_not_change_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = execute(tmp_path / "t.sqlite", "CREATE TABLE t (a, b)", "CREATE INDEX i ON t (b, a)")
    for i in (3, 1, 2, 1):
        execute(path, "INSERT INTO t VALUES (?, ?)", values=(i, i % 2))
    execute(path, "ANALYZE")
    assert read(path) == ([3, 1, 2, 1], [1, 1, 0, 1])
    monkeypatch.setattr(bulk, "find_layout", unusual)
    assert read(path) == ([3, 1, 2, 1], [1, 1, 0, 1])


def test_errors_of_sqlite_come_out_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BLOCK_ROWS", 1)
    monkeypatch.setattr(
        bulk, "careful_integer", lambda column, default: f"no_such_function({column})"
    )
    path = execute(tmp_path / "t.sqlite", "CREATE TABLE t (a, b)")
    for _ in range(3):
        execute(path, "INSERT INTO t VALUES ('x', 2)")
    for threads in (1, 2):
        with pytest.raises(sqlite3.OperationalError):
            read(path, threads)
        with (
            pytest.raises(TraceFileError, match="t: the database is damaged"),
            translated_errors("t"),
        ):
            read(path, threads)
