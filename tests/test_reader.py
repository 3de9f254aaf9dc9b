"""`read_trace` on exports as nsys writes them, of every version, against drawings and plain SQL."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from nsysoverlap import read_trace
from nsysoverlap.trace import bulk

from .readerkit import (
    GRAPH_TRACE,
    KERNEL,
    MEMCPY,
    SMALL,
    all_shapes,
    assert_same,
    dropped,
    execute,
    query,
    rows,
    shapes,
    snapshot,
)
from .tracebuilder import ALL_REDUCE, GEMM, SCHEMAS, TraceBuilder, build, draw, global_pid
from .traces import h200, h200_names, programs, public_traces


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "drawn.sqlite"


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_variant_gives_the_same_rows(out: Path, schema: str, lazy: bool) -> None:
    trace = all_shapes(build(out, SMALL, schema=schema, lazy=lazy, pid=1))
    cut = schema == "cut"
    one, two = (0, 0) if cut else (global_pid(1), global_pid(2))
    ctx, other = (0, 0) if cut else (1, 2)
    assert rows(trace, "kernel") == [
        (1000, 5000, (one, 0, ctx, 7), 1, False, GEMM),
        (2000, 4000, (two, 1, other, 7), 1, False, GEMM),
        (6000, 8000, (one, 0, ctx, 8), 3, False, ALL_REDUCE),
        (9000, 11000, (one, 0, ctx, 7), 2, False, GEMM),
    ]
    kinds = {1: (1, 2), 2: (2, 1), 8: (2, 2)}
    assert rows(trace, "memcpy") == [
        (start, end, (pid, device, other if device else ctx, stream), corr, False, n_bytes, kind)
        + ((255, 255) if cut else kinds[kind])
        + (-1, -1, 0)
        for start, end, pid, device, stream, corr, n_bytes, kind in (
            (3000, 7000, one, 0, 20, 4, 200_000, 1),
            (4000, 5000, two, 1, 9, 2, 1_500_000, 8),
            (7000, 10000, one, 0, 21, 5, 150_000, 2),
        )
    ]
    assert rows(trace, "memset") == [(0, 1000, (one, 0, ctx, 7), 6, False)]
    assert rows(trace, "graph") == []
    assert shapes(trace) == {row: ([1, 1, 1], [256, 1, 1]) for row in range(4)}
    assert trace.facts.dropped == ()
    expected = {"2019": None, "cut": None}.get(schema, SCHEMAS[schema].version)
    assert trace.info.schema_version == expected


@pytest.mark.parametrize("schema", ["3.16", "3.20", "3.25", "future"])
def test_graph_launches_and_their_nodes(out: Path, schema: str) -> None:
    drawing = """
    dev0 s7 graph:            ####....
    dev0 s7 graph=3 compute:  ....##..
    dev0 s8 graph=3 d2h:      ....###.
    """
    trace = read_trace(build(out, drawing, schema=schema))
    assert [row[:2] for row in rows(trace, "graph")] == [(0, 4000)]
    assert trace.kernels.from_graph.tolist() == trace.copies.from_graph.tolist() == [True]
    assert trace.copies.graph_node_id.tolist() == [(3 << 32) | (8 << 16)]
    assert trace.kernels.correlation_id.tolist() == trace.copies.correlation_id.tolist()


@pytest.mark.parametrize("name", [*h200_names(), *programs()])
def test_real_traces_against_plain_sql(name: str) -> None:
    check_against_sql(h200(name))


@pytest.mark.parametrize("path", public_traces())
def test_public_traces_against_plain_sql(path: Path) -> None:
    check_against_sql(path)


def check_against_sql(path: Path) -> None:
    """Counts and sums of every table, and names and shapes of every kernel."""
    trace = all_shapes(path)
    known = {name for (name,) in query(path, "SELECT name FROM sqlite_master")}
    for kind, table in trace.tables.items():
        name = {"graph": GRAPH_TRACE}.get(kind, f"CUPTI_ACTIVITY_KIND_{kind.upper()}")
        lost = sum(dropped(trace).get(name, ()))
        if name not in known:
            assert len(table) == 0
            continue
        (expected,) = query(
            path,
            f'SELECT count(*), total("end" - start), total(correlationId), '
            f"sum(start), min(start) FROM {name}",
        )
        busy = int((table.end_ns - table.start_ns).sum())
        found = (len(table), busy, int(table.correlation_id.sum()), int(table.start_ns.sum()))
        if not lost and len(table):
            assert (*found, int(table.start_ns[0])) == expected
        assert len(table) + lost == expected[0]
        assert bool((np.diff(table.start_ns) >= 0).all())
    if KERNEL in known:
        expected_names = query(
            path,
            f'SELECT k.start, k."end", s.value, gridX, gridY, gridZ, blockX, blockY, blockZ '
            f"FROM {KERNEL} k LEFT JOIN StringIds s ON s.id = k.demangledName",
        )
        shape_of = shapes(trace)
        found_names = [
            (start, end, trace.names[name], *shape_of[row][0], *shape_of[row][1])
            for row, (start, end, name) in enumerate(
                zip(
                    trace.kernels.start_ns.tolist(),
                    trace.kernels.end_ns.tolist(),
                    trace.kernels.name.tolist(),
                    strict=True,
                )
            )
        ]
        assert sorted(found_names) == sorted(expected_names)


@pytest.mark.parametrize("name", ["ddp_two_procs", "jax_scan_pipelined", "micro_managed"])
def test_threads_and_block_size_do_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = all_shapes(h200(name), threads=1)
    monkeypatch.setattr(bulk, "BLOCK_ROWS", 7)
    for threads in (0, 1, 2, 4):
        assert_same(all_shapes(h200(name), threads), expected)


@pytest.mark.parametrize("n", [1, 2, 4, 5, 8, 9, 16, 17])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_as_many_rows_as_a_block_or_one_more(
    out: Path, n: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BLOCK_ROWS", 4)
    builder = TraceBuilder()
    for i in range(n):
        builder.kernel(10 * i, 10 * i + 5, f"k{i % 3}", grid=(i + 1, 1, 1))
        builder.copy(10 * i, 10 * i + 7, "d2h", 1 + i)
    trace = all_shapes(builder.write(out), threads)
    assert trace.kernels.start_ns.tolist() == [10 * i for i in range(n)]
    assert trace.copies.n_bytes.tolist() == list(range(1, n + 1))
    assert [grid[0] for grid, _ in shapes(trace).values()] == list(range(1, n + 1))
    assert [trace.names[code] for code in trace.kernels.name] == [f"k{i % 3}" for i in range(n)]


def test_whole_blocks_at_their_real_size(out: Path) -> None:
    build(out, "dev0 s7 compute: #")
    for n in (bulk.BLOCK_ROWS, bulk.BLOCK_ROWS + 1):
        execute(
            out,
            f"DELETE FROM {KERNEL} WHERE rowid > 1",
            f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {n}) "
            f"INSERT INTO {KERNEL} (rowid, {columns_of(out)}) "
            f"SELECT i, {columns_of(out)} FROM {KERNEL}, n WHERE {KERNEL}.rowid = 1",
        )
        assert len(read_trace(out).kernels) == n


def columns_of(path: Path) -> str:
    """Columns of the kernels table as an SQL list."""
    return ", ".join(f'"{row[1]}"' for row in query(path, f"PRAGMA table_info({KERNEL})"))


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_rows(out: Path, tmp_path: Path, seed: int) -> None:
    expected = all_shapes(build(out, SMALL))
    shuffled = build(tmp_path / "shuffled.sqlite", SMALL, shuffle_seed=seed)
    assert_same(all_shapes(shuffled), expected)


def test_rows_of_one_start_are_in_order_of_their_end(out: Path) -> None:
    builder = TraceBuilder()
    for end in (30, 10, 20):
        builder.kernel(5, end)
    trace = read_trace(builder.write(out, shuffle_seed=1))
    assert trace.kernels.end_ns.tolist() == [10, 20, 30]


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("block_rows", [2, 1 << 16])
def test_sparse_and_negative_rowids(
    out: Path, threads: int, block_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = all_shapes(build(out, SMALL))
    monkeypatch.setattr(bulk, "BLOCK_ROWS", block_rows)
    ends = [-(2**63), -(2**40), 0, 2**40, 2**63 - 1]
    for table in (KERNEL, MEMCPY):
        (n,) = query(out, f"SELECT count(*) FROM {table}")[0]
        for old, new in zip(range(1, n + 1), random.Random(n).sample(ends, n), strict=True):
            execute(out, f"UPDATE {table} SET rowid = {new} WHERE rowid = {old}")
    assert_same(all_shapes(out, threads), expected)


@pytest.mark.parametrize("shift_ns", [1_700_000_000_000_000_000, -5_000_000_000])
def test_shifted_exports(out: Path, tmp_path: Path, shift_ns: int) -> None:
    builder = draw(SMALL)
    for _ in range(3):
        builder.kernel(0, 0, correlation=999)
    expected = read_trace(builder.write(out))
    shifted = read_trace(builder.write(tmp_path / "shifted.sqlite", shift_ns=shift_ns))
    assert dropped(shifted) == dropped(expected) == {KERNEL: (3, 0, 0)}
    for kind, table in expected.tables.items():
        assert shifted.tables[kind].start_ns.tolist() == [
            start + shift_ns for start in table.start_ns.tolist()
        ]
        assert shifted.tables[kind].end_ns.tolist() == [
            end + shift_ns for end in table.end_ns.tolist()
        ]
    # Another exporter moved the zeros with the rest.
    moved = execute(
        tmp_path / "shifted.sqlite",
        f'UPDATE {KERNEL} SET start = {shift_ns}, "end" = {shift_ns} WHERE correlationId = 999',
    )
    assert_same(read_trace(moved), shifted)


def test_launch_shapes(out: Path) -> None:
    builder = TraceBuilder()
    for i in range(6):
        builder.kernel(10 * i, 10 * i + 5, grid=(i + 1, 2, 3), block=(4, 5, 6))
    builder.kernel(100, 105, grid=(2**31 - 1, 65_535, 65_535), block=(1024, 1, 1))
    trace = read_trace(builder.write(out, shuffle_seed=2))
    assert shapes(trace) == {
        **{i: ([i + 1, 2, 3], [4, 5, 6]) for i in range(6)},
        6: ([2**31 - 1, 65_535, 65_535], [1024, 1, 1]),
    }
    threads = trace.kernels.shapes.threads[trace.kernels.shape]
    assert threads.tolist() == [*(120 * 6 * (i + 1) for i in range(6)), 2**62]
    without = read_trace(builder.write(out, drop_columns=["gridY"]))
    assert without.kernels.shapes.threads.tolist() == [0] * len(without.kernels.shapes.grid)


def test_reading_changes_nothing(out: Path) -> None:
    build(out, SMALL)
    before = snapshot(out.parent)
    read_trace(out)
    assert snapshot(out.parent) == before
