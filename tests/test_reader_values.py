"""`read_trace` on values that are not what the column should hold.

Each ends in the right row or in a counted drop.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoverlap import read_trace
from nsysoverlap.core.errors import TraceFileError
from nsysoverlap.trace import bulk
from nsysoverlap.trace.database import connect
from nsysoverlap.trace.schema import Schema
from nsysoverlap.trace.strings import strings

from .readerkit import (
    GRAPH_TRACE,
    KERNEL,
    MEMCPY,
    MEMSET,
    RUNTIME,
    SMALL,
    all_shapes,
    assert_same,
    dropped,
    everything,
    execute,
    query,
    retype,
    rows,
    shapes,
)
from .tracebuilder import SCHEMAS, TraceBuilder, build, global_pid, global_tid

INT64 = (-(2**63), 2**63 - 1)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "odd.sqlite"


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        ("TEXT", "{c}"),
        ("TEXT", "ifnull({c}, '')"),
        ("", "CAST({c} AS TEXT)"),
        ("", "CASE typeof({c}) WHEN 'integer' THEN CAST({c} AS REAL) ELSE {c} END"),
        ("", "CASE typeof({c}) WHEN 'text' THEN CAST({c} AS BLOB) ELSE {c} END"),
        ("REAL", "{c}"),
        ("BLOB", "{c}"),
    ],
    ids=["text", "empty", "untyped-text", "real", "bytes", "real-column", "blob-column"],
)
def test_columns_of_another_type(out: Path, schema: str, sql_type: str, value: str) -> None:
    expected = all_shapes(everything().write(out, schema))
    assert_same(all_shapes(retype(out, sql_type, value)), expected)


def test_padded_numbers(out: Path) -> None:
    expected = all_shapes(everything().write(out))
    padded = "CASE WHEN {c} IS NULL THEN NULL ELSE ' ' || {c} || '  ' END"
    assert_same(all_shapes(retype(out, "TEXT", padded, [KERNEL, MEMCPY, RUNTIME])), expected)


def test_ids_beyond_a_float_are_exact(out: Path) -> None:
    builder = TraceBuilder()
    pid, other = 0xFFFFFF, 0xFFFFFE
    builder.kernel(0, 10, pid=pid, vm=0x100)
    builder.kernel(5, 15, pid=other, vm=0x100)
    builder.copy(0, 10, "h2d", 2**53 + 1, pid=pid, vm=0x100, graph_node=2**62 + 1)
    trace = read_trace(builder.write(out))
    assert {s.global_pid for s in trace.streams} == {
        global_pid(pid, 0x100),
        global_pid(other, 0x100),
    }
    assert {s.pid for s in trace.streams} == {pid, other}
    assert trace.copies.n_bytes.tolist() == [2**53 + 1]
    assert trace.copies.graph_node_id.tolist() == [2**62 + 1]
    assert float(global_tid(pid, 0x100)) != global_tid(pid, 0x100)
    assert global_tid(pid, 0x100) in trace.host.threads
    assert trace.facts.launches.n_launches_without_row == 0


@pytest.mark.parametrize("column", ["correlationId", "graphNodeId", "globalPid"])
def test_a_null_among_big_numbers_does_not_round_them(out: Path, column: str) -> None:
    builder = TraceBuilder()
    for i in range(3):
        builder.copy(i, i + 1, "h2d", 1)
    big = 2**62 + 1
    execute(builder.write(out), f"UPDATE {MEMCPY} SET {column} = ? WHERE rowid < 3", values=[big])
    execute(out, f"UPDATE {MEMCPY} SET {column} = NULL WHERE rowid = 3")
    trace = read_trace(out)
    found = {
        "correlationId": trace.copies.correlation_id.tolist(),
        "graphNodeId": trace.copies.graph_node_id.tolist(),
        "globalPid": [trace.streams[code].global_pid for code in trace.copies.stream],
    }
    assert found[column] == [big, big, 0]
    assert trace.facts.dropped == ()


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        (0, 0, 0),
        (10, 9, 1),
        (2**61, -(2**61), 1),
        (None, 5, 2),
        (5, None, 2),
        (None, None, 2),
        ("", "", 2),
        ("later", 5, 2),
        (b"\x00\x01", 5, 2),
        (b"\x13\x58", 5, 2),
        (0.5, 5, 2),
        (float("inf"), 5, 2),
        (5, float("-inf"), 2),
        (1e300, 2e300, 2),
        (INT64[0], INT64[1], 2),
        (INT64[1], INT64[1], 2),
        (-(2**62), 2**62, 2),
        (5, 2**62 + 1, 2),
        ("9223372036854775808", 5, 2),
        (0, 7, None),
        (7, 7, None),
        (-9, -7, None),
        ("-9", "-7", None),
        (5.0, 7.0, None),
        (2**62 - 1, 2**62, None),
    ],
)
@pytest.mark.parametrize("table", [KERNEL, MEMCPY, MEMSET, GRAPH_TRACE])
def test_times(out: Path, table: str, start: object, end: object, reason: int | None) -> None:
    retype(everything().write(out), "", only=[table])
    before = all_shapes(out)
    assert before.facts.dropped == ()
    columns = ", ".join(f'"{row[1]}"' for row in query(out, f"PRAGMA table_info({table})"))
    values = columns.replace('"start"', "?1").replace('"end"', "?2")
    execute(
        out,
        f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table} LIMIT 1",
        values=[start, end],
    )
    trace = all_shapes(out)
    counts = [0, 0, 0]
    if reason is None:
        assert trace.facts.dropped == ()
        assert sum(map(len, trace.tables.values())) == sum(map(len, before.tables.values())) + 1
    else:
        counts[reason] = 1
        assert dropped(trace) == {table: tuple(counts)}
        for kind in before.tables:
            assert rows(trace, kind) == rows(before, kind)
        assert shapes(trace) == shapes(before)


def test_every_drop_is_counted(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BLOCK_ROWS", 3)
    builder = TraceBuilder()
    for i in range(10):
        builder.kernel(0, 0)
        builder.kernel(100 + i, 99 + i)
        builder.kernel(100 + i, 100 + i)
        builder.copy(0, 0, "d2h", 5)
        builder.copy(7, 9, "d2h", -5)
    trace = read_trace(builder.write(out, shuffle_seed=4))
    assert dropped(trace) == {KERNEL: (10, 10, 0), MEMCPY: (10, 0, 10)}
    assert trace.kernels.start_ns.tolist() == list(range(100, 110))
    assert len(trace.copies) == 0
    assert trace.info.tables == {KERNEL: 10, MEMCPY: 0}


@pytest.mark.parametrize("value", ["nonsense", b"\x00", 0.5, INT64[0], "1e3", "0x10"])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        (KERNEL, "globalPid"),
        (KERNEL, "deviceId"),
        (KERNEL, "streamId"),
        (MEMCPY, "contextId"),
        (MEMCPY, "bytes"),
        (MEMCPY, "copyKind"),
        (MEMCPY, "srcKind"),
        (MEMSET, "correlationId"),
        (GRAPH_TRACE, "globalPid"),
    ],
)
def test_unreadable_ids_drop_the_row(out: Path, table: str, column: str, value: object) -> None:
    retype(everything().write(out), "", only=[table])
    last = f"(SELECT max(rowid) FROM {table})"
    n = query(out, f"SELECT count(*) FROM {table}")[0][0]
    execute(out, f"UPDATE {table} SET {column} = ? WHERE rowid = {last}", values=[value])
    trace = read_trace(out)
    assert dropped(trace) == {table: (0, 0, 1)}
    assert trace.info.tables[table] == n - 1


def test_a_null_stands_for_none_or_zero(out: Path) -> None:
    retype(everything().write(out), "", only=[KERNEL, MEMCPY, MEMSET, GRAPH_TRACE])
    for table in (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE):
        for (column,) in query(out, f"SELECT name FROM pragma_table_info('{table}')"):
            if column not in ("start", "end", "bytes"):
                execute(out, f'UPDATE {table} SET "{column}" = NULL')
    trace = all_shapes(out)
    assert trace.facts.dropped == ()
    assert trace.names == ("",)
    assert [(s.global_pid, s.device_id, s.context_id, s.stream_id) for s in trace.streams] == [
        (0, 0, 0, 0)
    ]
    copies = trace.copies
    assert set(copies.src_kind.tolist()) == set(copies.dst_kind.tolist()) == {255}
    assert set(copies.src_device.tolist()) == set(copies.dst_device.tolist()) == {-1}
    assert set(copies.copy_kind.tolist()) == {0}
    assert not trace.kernels.from_graph.any()


@pytest.mark.parametrize("n_bytes", [-1, 2**62, 2**63 - 1, None])
def test_bytes_beyond_any_memory_are_no_number(out: Path, n_bytes: int | None) -> None:
    builder = TraceBuilder()
    for i in range(4):
        builder.copy(i, i + 1, "h2d", 1)
    retype(builder.write(out), "", only=[MEMCPY])
    execute(out, f"UPDATE {MEMCPY} SET bytes = ? WHERE rowid < 4", values=[n_bytes])
    trace = read_trace(out)
    assert trace.copies.n_bytes.tolist() == [1]
    assert trace.facts.dropped[0].unreadable == 3


@pytest.mark.parametrize(
    ("columns", "what"),
    [('start = -9007199254740992, "end" = 2', "times"), ("bytes = 18014398509481984", "sizes")],
)
def test_sums_beyond_64_bits_are_refused(out: Path, columns: str, what: str) -> None:
    builder = TraceBuilder()
    for i in range(1, 1_001):
        builder.copy(i, i + 1, "h2d", 1)
    execute(builder.write(out), f"UPDATE {MEMCPY} SET {columns} WHERE rowid = 1")
    assert len(read_trace(out).copies) == 1_000
    execute(out, f"UPDATE {MEMCPY} SET {columns}")
    with pytest.raises(TraceFileError, match=f"odd.sqlite: table {MEMCPY}: its {what} add up"):
        read_trace(out)


@pytest.mark.parametrize("kind", [-1, 14, 255, 256, 300, 2**40, -(2**62)])
def test_copy_kinds_that_fit_no_byte_are_unknown(out: Path, kind: int) -> None:
    build(out, SMALL)
    execute(out, f"UPDATE {MEMCPY} SET copyKind = {kind}, srcDeviceId = {kind}")
    copies = read_trace(out).copies
    assert set(copies.copy_kind.tolist()) == {14 if kind == 14 else 255}
    assert set(copies.src_device.tolist()) == {min(max(kind, -1), 2**31 - 1)}


CELLS = st.one_of(
    st.none(),
    st.integers(*INT64),
    st.integers(-3, 30),
    st.integers(-3, 30).map(float),
    st.floats(),
    st.integers(-3, 30).map(str),
    st.text(max_size=4),
    st.binary(max_size=6),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[CELLS] * 6), min_size=1, max_size=12))
def test_any_values_at_all(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[object, ...]]
) -> None:
    """Rows kept and rows dropped add up, and what is kept is what Python reads out of it."""
    out = build(tmp_path_factory.mktemp("any") / "t.sqlite", "dev0 s7 h2d: #")
    execute(retype(out, "", only=[MEMCPY]), f"DELETE FROM {MEMCPY}")
    names = '"start", "end", streamId, bytes, globalPid, correlationId'
    for row in cells:
        execute(out, f"INSERT INTO {MEMCPY} ({names}) VALUES (?, ?, ?, ?, ?, ?)", values=row)
    times = [row[:2] for row in cells if all(type(v) is int and abs(v) <= 2**62 for v in row[:2])]
    if sum(max(0, end - start) for start, end in times) > 2**61:  # type: ignore[operator]
        # Refused, unless another column makes some of these rows unreadable.
        with suppress(TraceFileError):
            read_trace(out)
        return
    trace = read_trace(out)
    (lost,) = [sum(counts) for counts in dropped(trace).values()] or [0]
    assert len(trace.copies) + lost == len(cells)
    assert (trace.copies.end_ns >= trace.copies.start_ns).all()
    assert np.abs(trace.copies.start_ns).max(initial=0) <= 2**62
    plain = [row for row in cells if all(type(v) is int and abs(v) < 2**60 for v in row)]
    good = [row for row in plain if row[0] <= row[1] and row[3] >= 0 and row[:2] != (0, 0)]  # type: ignore[operator]
    found = [(row[0], row[1], row[2][3], row[5]) for row in rows(trace, "memcpy")]
    for start, end, stream, n_bytes, _, _ in good:
        assert (start, end, stream, n_bytes) in found


def test_texts_of_more_ids_than_are_asked_for_one_by_one(tmp_path: Path) -> None:
    """With and without an index, and with ids that are texts or not there at all."""
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE StringIds (id, value TEXT)")
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, f"n{i}") for i in range(4_900)])
        db.execute("INSERT INTO StringIds VALUES ('4950', 'text')")
        db.commit()
    with closing(connect(path)) as connection:
        found = Schema(path.name, {"StringIds": ("id", "value")})
        texts = strings(connection, found, np.arange(5_000))
    assert texts == [f"n{i}" for i in range(4_900)] + [
        "text" if i == 50 else "" for i in range(100)
    ]
