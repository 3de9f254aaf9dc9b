"""Reading pages gives what SQLite gives, or is left to SQLite."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoverlap.core.errors import NsysOverlapError
from nsysoverlap.trace import bulk, pages
from nsysoverlap.trace.bulk import Query, read_blocks
from nsysoverlap.trace.database import connect, probe
from nsysoverlap.trace.load import read_trace
from nsysoverlap.trace.pages import PageFile, UnusualError, find_layout
from nsysoverlap.trace.schema import ColumnSpec, FoundTable, Schema, TableSpec

from .readerkit import assert_same, everything, execute, read_through_sqlite, sound
from .traces import h200, h200_names

Rows = list[tuple[int, ...]]


def table_of(path: Path, names: str = "a b", sized: str = "") -> tuple[FoundTable, Query]:
    wanted = [*names.split(), *sized.split()]
    spec = TableSpec("t", tuple(ColumnSpec(name, (name,), default=-7) for name in wanted))
    table = Schema(path.name, {"t": tuple(wanted)}).find(spec)
    assert table is not None
    return table, Query(table, tuple(names.split()), tuple(sized.split()))


def rows(path: Path, query: Query, threads: int = 1) -> Rows:
    """Rowid and columns of all rows."""
    names = ("row", *query.names, *query.sized)
    found: Rows = []
    for block in read_blocks(path, query, lambda block: block, threads=threads):
        found += zip(*(block[name].tolist() for name in names), strict=True)
    return found


def both_ways(path: Path, query: Query) -> tuple[Rows, Rows]:
    """What pages give, and what SQLite gives."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "_read_range", refuse)
        by_pages = rows(path, query)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "find_layout", refuse)
        return by_pages, rows(path, query)


def refuse(*_: object) -> None:
    raise UnusualError


def fill(path: Path, n: int, *before: str, values: Callable[[int], tuple[object, ...]]) -> Path:
    """A table `t` with n rows."""
    connection = sqlite3.connect(path)
    for statement in before:
        connection.execute(statement)
    marks = ", ".join("?" * len(values(0)))
    connection.executemany(f"INSERT INTO t VALUES ({marks})", (values(i) for i in range(n)))
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize("name", h200_names())
def test_real_traces_are_read_from_pages(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "_read_range", refuse)
        by_pages = read_trace(h200(name))
    assert_same(by_pages, read_through_sqlite(h200(name)))


@pytest.mark.parametrize("page_size", [512, 1024, 4096, 65536])
@pytest.mark.parametrize("n", [1, 7, 500, 20_000])
def test_trees_of_any_depth(tmp_path: Path, page_size: int, n: int) -> None:
    path = fill(
        tmp_path / "t.sqlite",
        n,
        f"PRAGMA page_size = {page_size}",
        "CREATE TABLE t (a INTEGER, text TEXT, b INTEGER, c INTEGER)",
        values=lambda i: (i * 7919 % 1009 - 500, "x" * (i % 40), None if i % 3 else i << i % 40, 1),
    )
    _, query = table_of(path, "a b c", "text")
    found, expected = both_ways(path, query)
    assert found == expected
    assert len(found) == n


INTEGERS = st.one_of(
    st.none(),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.integers(-2, 2),
    st.sampled_from([s * 2**b + d for s in (1, -1) for b in (7, 15, 23, 31, 47) for d in (-1, 0)]),
)


@settings(max_examples=80, deadline=None)
@given(
    values=st.lists(
        st.tuples(INTEGERS, st.one_of(st.none(), st.text(max_size=90), st.floats()), INTEGERS),
        min_size=1,
        max_size=40,
    ),
    auto_vacuum=st.sampled_from([0, 1, 2]),
    encoding=st.sampled_from(["UTF-8", "UTF-16le"]),
    deleted=st.integers(0, 10),
)
def test_any_values(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[tuple[object, ...]],
    auto_vacuum: int,
    encoding: str,
    deleted: int,
) -> None:
    path = fill(
        tmp_path_factory.mktemp("pages") / "t.sqlite",
        len(values),
        f"PRAGMA encoding = '{encoding}'",
        "PRAGMA page_size = 512",
        f"PRAGMA auto_vacuum = {auto_vacuum}",
        "CREATE TABLE t (a, x, b)",
        values=values.__getitem__,
    )
    execute(path, f"DELETE FROM t WHERE rowid <= {deleted} AND rowid % 2")
    _, query = table_of(path)
    found, expected = rows(path, query), sorted(rows(path, query))
    assert found == expected
    kept = [v for i, v in enumerate(values, 1) if i > deleted or i % 2 == 0]
    assert [row[1:] for row in found] == [
        tuple(-7 if value is None else value for value in (a, b)) for a, _, b in kept
    ]


@pytest.mark.parametrize("first", [1, 100, 127, 128, 16_380, 2_097_150, 2**56 - 3, 2**62])
@pytest.mark.parametrize("steps", [(1, 1, 1, 1), (1, 3, 200, 20_000)])
def test_row_numbers_of_any_length(tmp_path: Path, first: int, steps: tuple[int, ...]) -> None:
    numbers = [first + sum(steps[:i]) for i in range(len(steps) + 1)]
    path = execute(tmp_path / "t.sqlite", "CREATE TABLE t (a, b)")
    for number in numbers:
        execute(path, f"INSERT INTO t (rowid, a, b) VALUES ({number}, 1, 2)")
    _, query = table_of(path)
    assert rows(path, query) == [(number, 1, 2) for number in numbers]


UNUSUAL = {
    "a key that is a column": "CREATE TABLE t (a INTEGER PRIMARY KEY, b)",
    "a column of floats": "CREATE TABLE t (a REAL, b)",
    "a column made of others": "CREATE TABLE t (a, b, c AS (a + b) VIRTUAL)",
    "a stored column made of others": "CREATE TABLE t (a, b, c AS (a + b) STORED)",
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_unusual_tables_are_left_to_sqlite(tmp_path: Path, what: str) -> None:
    path = execute(tmp_path / "t.sqlite", UNUSUAL[what], "INSERT INTO t (a, b) VALUES (3, 4)")
    table, query = table_of(path)
    with closing(connect(path)) as connection, pytest.raises(UnusualError):
        find_layout(connection, table, query.names)
    assert rows(path, query) == [(3 if "key" in what else 1, 3, 4)]


def test_columns_added_later_have_their_default(tmp_path: Path) -> None:
    path = execute(tmp_path / "t.sqlite", "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    execute(path, "ALTER TABLE t ADD COLUMN b DEFAULT 5", "INSERT INTO t VALUES (2, 6)")
    _, query = table_of(path)
    assert rows(path, query) == [(1, 1, 5), (2, 2, 6)]


@pytest.mark.parametrize("n_bytes", range(50, 75))
@pytest.mark.parametrize("sql_type", ["BLOB", "TEXT"])
def test_a_longer_type_is_not_taken_for_two_columns(
    tmp_path: Path, n_bytes: int, sql_type: str
) -> None:
    # A header as long as that of a row with one more column, which was added later.
    path = fill(
        tmp_path / "t.sqlite",
        3,
        f"CREATE TABLE t (x {sql_type}, a INTEGER)",
        values=lambda i: (b"x" * n_bytes if sql_type == "BLOB" else "x" * n_bytes, i + 20),
    )
    execute(path, "ALTER TABLE t ADD COLUMN b INTEGER")
    _, query = table_of(path)
    assert rows(path, query) == [(i + 1, i + 20, -7) for i in range(3)]


def test_a_row_longer_than_a_page(tmp_path: Path) -> None:
    path = fill(
        tmp_path / "t.sqlite",
        300,
        "CREATE TABLE t (text TEXT, a INTEGER, b INTEGER)",
        values=lambda i: ("x" * (9_000 if i == 150 else 5), i, -i),
    )
    _, query = table_of(path, "a b", "text")
    assert rows(path, query) == [(i + 1, i, -i, 9_000 if i == 150 else 5) for i in range(300)]


@pytest.mark.parametrize("threads", [1, 3])
def test_only_the_unusual_part_is_left_to_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    path = fill(
        tmp_path / "t.sqlite",
        5_000,
        "CREATE TABLE t (a INTEGER, b INTEGER)",
        values=lambda i: ("word" if i == 3_000 else i, i),
    )
    monkeypatch.setattr(bulk, "BLOCK_BYTES", 8192)
    asked: list[object] = []
    original = bulk._read_range

    def noted(*arguments: Any) -> Any:
        asked.append(arguments[2])
        return original(*arguments)

    monkeypatch.setattr(bulk, "_read_range", noted)
    _, query = table_of(path)
    found = rows(path, query, threads)
    assert [b for _, _, b in found] == list(range(5_000))
    assert [a for _, a, _ in found] == [-(2**63) if i == 3_000 else i for i in range(5_000)]
    assert len(asked) == 1


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = fill(tmp_path / "t.sqlite", 5_000, "CREATE TABLE t (a, b)", values=lambda i: (i, i))
    table, query = table_of(path)
    with closing(connect(path)) as connection:
        layout = find_layout(connection, table, query.names)
    with PageFile(path) as file:
        leaves, last = file.leaves(layout.root)
        with path.open("r+b") as writing:
            writing.truncate(8192)
        with pytest.raises(UnusualError):
            pages.read_pages(file, layout, leaves, (0, int(last[-1])))


@pytest.mark.parametrize(
    ("integers", "values"),
    [
        ("8101000000000100 8180010000000100", [129, 16_385]),
        ("8180010000000300 8101000000000300", [16_385, 129]),
    ],
)
def test_integers_of_two_lengths_are_not_taken_for_one(integers: str, values: list[int]) -> None:
    buffer = np.frombuffer(bytes.fromhex(integers + "00" * 8), np.uint8)
    found, after = pages._varint(buffer, np.array([0, 8]))
    assert found.tolist() == values
    assert after.tolist() == [
        at + (2 if n == 129 else 3) for at, n in zip((0, 8), values, strict=True)
    ]


@pytest.mark.parametrize(("reach", "fits"), [((1, 9), True), ((2, 9), False), ((1, 8), False)])
def test_row_numbers_lie_within_what_the_page_may_hold(
    tmp_path: Path, reach: tuple[int, int], fits: bool
) -> None:
    path = fill(tmp_path / "t.sqlite", 9, "CREATE TABLE t (a, b)", values=lambda i: (i, i))
    table, query = table_of(path)
    with closing(connect(path)) as connection:
        layout = find_layout(connection, table, query.names)
    with PageFile(path) as file:
        leaves, _ = file.leaves(layout.root)
        with nullcontext() if fits else pytest.raises(UnusualError):
            found = pages.read_pages(file, layout, leaves, reach)["row"]
            assert found.tolist() == list(range(1, 10))


@pytest.mark.parametrize("seed", range(150))
def test_damaged_pages(tmp_path: Path, seed: int) -> None:
    path = fill(
        tmp_path / "t.sqlite",
        3_000,
        "PRAGMA page_size = 512",
        "CREATE TABLE t (a INTEGER, b INTEGER)",
        values=lambda i: (i * 1_000_003, i),
    )
    damage = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(damage.choice([1, 3, 30])):
        content[damage.randrange(1024, len(content))] = damage.randrange(256)
    if seed % 3 == 0:
        # A page that stands in for another one, its own parent among them.
        one, two = damage.sample(range(2, len(content) // 512), 2)
        content[one * 512 : one * 512 + 512] = content[two * 512 : two * 512 + 512]
    path.write_bytes(bytes(content))
    _, query = table_of(path)
    try:
        found = rows(path, query)
    except sqlite3.DatabaseError:
        assert not sound(path)
        return
    assert len(found) <= 2 * 3_000
    if sound(path):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bulk, "find_layout", refuse)
            assert found == rows(path, query)


def test_a_whole_trace_either_way(tmp_path: Path) -> None:
    path = everything().write(tmp_path / "t.sqlite")
    with closing(connect(path)) as connection:
        assert probe(connection, "t").is_nsys_export
    assert_same(read_trace(path), read_through_sqlite(path))


def test_a_page_size_that_is_none(tmp_path: Path) -> None:
    path = everything().write(tmp_path / "t.sqlite")
    content = bytearray(path.read_bytes())
    content[16:18] = (300).to_bytes(2, "big")
    path.write_bytes(bytes(content))
    with pytest.raises(UnusualError):
        PageFile(path)
    with pytest.raises(NsysOverlapError):
        read_trace(path)
