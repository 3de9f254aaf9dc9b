"""`read_trace` on exports that third parties added to, cut or rearranged.

Everything ends in the right rows or in a `TraceFileError`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap import read_trace
from nsysoverlap.core.errors import TraceFileError

from .readerkit import (
    GRAPH_TRACE,
    KERNEL,
    MEMCPY,
    MEMSET,
    RUNTIME,
    SMALL,
    all_shapes,
    assert_same,
    everything,
    execute,
    query,
    retype,
    rows,
    shapes,
)
from .tracebuilder import GEMM, TraceBuilder, build


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "odd.sqlite"


# Tables and columns that are more, fewer, or elsewhere.


def test_additions_of_third_parties_do_not_matter(out: Path) -> None:
    expected = all_shapes(everything().write(out))
    execute(
        out,
        f"CREATE INDEX _nsysai_kernel ON {KERNEL} (demangledName, start)",
        f"CREATE INDEX _nsysai_copy ON {MEMCPY} (start DESC)",
        f"CREATE VIEW EXTRAP_RESOLVED AS SELECT * FROM {KERNEL} JOIN NO_SUCH_TABLE",
        'CREATE TABLE "my table; with ""quotes"" and \'more\'" ("a b" TEXT, "end" TEXT)',
        f"ALTER TABLE {KERNEL} ADD COLUMN kernel_name TEXT DEFAULT 'gemm'",
        f'ALTER TABLE {KERNEL} ADD COLUMN "a ""quoted"" column" TEXT',
        f"CREATE TRIGGER t AFTER INSERT ON {KERNEL} BEGIN DELETE FROM {KERNEL}; END",
        "CREATE TABLE ms (x)",
        "ANALYZE",
    )
    assert_same(all_shapes(out), expected)


def test_a_virtual_table_of_a_module_we_lack_does_not_matter(out: Path) -> None:
    expected = all_shapes(everything().write(out))
    execute(
        out,
        "PRAGMA writable_schema = ON",
        "INSERT INTO sqlite_master VALUES ('table', 'search', 'search', 0, "
        "'CREATE VIRTUAL TABLE search USING no_such_module(a)')",
    )
    assert_same(all_shapes(out), expected)


@pytest.mark.parametrize("name", ["Cupti_Activity_Kind_Kernel", f"{KERNEL}_V2", f"{KERNEL}_v17"])
def test_table_names_with_other_case_or_a_version(out: Path, name: str) -> None:
    expected = all_shapes(everything().write(out))
    execute(out, f"ALTER TABLE {KERNEL} RENAME TO temporary")
    execute(out, f"ALTER TABLE temporary RENAME TO {name}")
    assert_same(all_shapes(out), expected)


def test_the_newest_version_of_a_table_wins(out: Path) -> None:
    build(out, SMALL)
    for n, version in ((3, "_V2"), (2, "_V10")):
        execute(out, f"CREATE TABLE {KERNEL}{version} AS SELECT * FROM {KERNEL} LIMIT {n}")
    assert len(read_trace(out).kernels) == 2


def test_similar_table_names_are_not_ours(out: Path) -> None:
    expected = all_shapes(build(out, SMALL))
    for name in (f"{KERNEL}_V2_old", f"{KERNEL}_Vx", f"x{KERNEL}", f"{KERNEL}_V2 "):
        execute(out, f'CREATE TABLE "{name}" AS SELECT * FROM {KERNEL} LIMIT 1')
    assert_same(all_shapes(out), expected)


def test_columns_in_reverse_order_and_of_other_case(out: Path) -> None:
    expected = all_shapes(everything().write(out))
    for (table,) in query(out, "SELECT name FROM sqlite_master WHERE type = 'table'"):
        names = [row[1] for row in query(out, f"PRAGMA table_info({table})")]
        turned = ", ".join(f'"{name}" AS "{name.upper()}"' for name in reversed(names))
        execute(out, f"ALTER TABLE {table} RENAME TO t")
        execute(out, f"CREATE TABLE {table} AS SELECT {turned} FROM t", "DROP TABLE t")
    assert_same(all_shapes(out), expected)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        (KERNEL, "start"),
        (MEMCPY, "end"),
        (MEMCPY, "bytes"),
        (MEMCPY, "copyKind"),
        ("StringIds", "value"),
    ],
)
def test_columns_that_nothing_can_stand_in_for(out: Path, table: str, column: str) -> None:
    everything().write(out, drop_columns=[f"{table}.{column}"])
    with pytest.raises(TraceFileError, match=f"odd.sqlite: table {table} has no column {column}"):
        read_trace(out)


@pytest.mark.parametrize(
    "column",
    [
        "globalPid",
        "deviceId",
        "contextId",
        "streamId",
        "correlationId",
        "graphNodeId",
        "demangledName",
        "gridX",
        "srcKind",
        "dstDeviceId",
    ],
)
def test_columns_that_may_be_missing(out: Path, column: str) -> None:
    expected = all_shapes(everything().write(out))
    everything().write(out, drop_columns=[column])
    trace = all_shapes(out)
    for kind, table in expected.tables.items():
        assert trace.tables[kind].start_ns.tolist() == table.start_ns.tolist()
        assert trace.tables[kind].end_ns.tolist() == table.end_ns.tolist()
    assert trace.facts.dropped == ()


@pytest.mark.parametrize(
    "table", [KERNEL, MEMCPY, MEMSET, GRAPH_TRACE, RUNTIME, "StringIds", "TARGET_INFO_GPU"]
)
def test_missing_and_empty_tables_are_the_same(out: Path, tmp_path: Path, table: str) -> None:
    missing = all_shapes(everything().write(out, drop_tables=[table]))
    empty = everything().write(tmp_path / "empty.sqlite")
    execute(empty, f"DELETE FROM {table}")
    found = all_shapes(empty)
    for kind in missing.tables:
        assert rows(found, kind) == rows(missing, kind)
    assert found.devices == missing.devices
    assert found.names == missing.names


def test_a_table_with_columns_for_all_names_of_its_row_number(out: Path) -> None:
    build(out, SMALL)
    expected = all_shapes(out)
    for name in ("rowid", "oid"):
        execute(out, f"ALTER TABLE {KERNEL} ADD COLUMN {name} INTEGER DEFAULT 1")
    assert_same(all_shapes(out), expected)
    execute(out, f"ALTER TABLE {KERNEL} ADD COLUMN _rowid_ INTEGER DEFAULT 1")
    with pytest.raises(TraceFileError, match=r"odd\.sqlite: columns of table .* row numbers"):
        read_trace(out)


@pytest.mark.parametrize("table", [KERNEL, MEMCPY, RUNTIME])
def test_a_table_without_rowids_is_refused(out: Path, table: str) -> None:
    names = [row[1] for row in query(build(out, SMALL), f"PRAGMA table_info({table})")]
    columns = ", ".join(f'"{name}"' for name in names)
    execute(
        out,
        f"ALTER TABLE {table} RENAME TO t",
        f"CREATE TABLE {table} ({columns}, PRIMARY KEY (start, correlationId)) WITHOUT ROWID",
        f"INSERT INTO {table} SELECT * FROM t",
    )
    with pytest.raises(TraceFileError, match=r"odd\.sqlite: .* rowid"):
        read_trace(out)


@pytest.mark.parametrize("table", ["StringIds", "TARGET_INFO_CUDA_DEVICE", "META_DATA_EXPORT"])
def test_small_tables_without_rowids(out: Path, table: str) -> None:
    expected = all_shapes(everything().write(out))
    names = [row[1] for row in query(out, f"PRAGMA table_info({table})")]
    key = ", ".join(names[:3])
    execute(
        out,
        f"ALTER TABLE {table} RENAME TO t",
        f"CREATE TABLE {table} ({', '.join(names)}, PRIMARY KEY ({key})) WITHOUT ROWID",
        f"INSERT INTO {table} SELECT * FROM t",
    )
    assert_same(all_shapes(out), expected)


# Names.


def test_two_ids_of_one_text_are_one_name(out: Path) -> None:
    builder = TraceBuilder()
    for i in range(3):
        builder.kernel(i, i + 1, f"k{i}")
    builder.write(out)
    execute(out, "UPDATE StringIds SET value = 'same' WHERE value IN ('k0', 'k2')")
    trace = all_shapes(out)
    assert trace.names == ("k1", "same")
    assert [trace.names[code] for code in trace.kernels.name] == ["same", "k1", "same"]
    assert len(shapes(trace)) == 3


@pytest.mark.parametrize("value", [424_242, -1, None, "nonsense", b"\xff", 2**62, -(2**63), "gemm"])
def test_ids_that_lead_to_no_text(out: Path, value: object) -> None:
    build(out, "dev0 s7 compute: ##.##")
    retype(out, "", only=[KERNEL])
    execute(out, f"UPDATE {KERNEL} SET demangledName = ? WHERE rowid = 1", values=[value])
    trace = all_shapes(out)
    assert trace.facts.dropped == (), "the time is known, and times count"
    assert [trace.names[code] for code in trace.kernels.name] == ["", GEMM]


def test_without_any_texts(out: Path) -> None:
    trace = read_trace(build(out, SMALL, drop_tables=["StringIds"]))
    assert trace.names == ("",)
    assert len(trace.kernels) == 4


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        (b"gemm \xff\xfe", "gemm \ufffd\ufffd"),
        ("核".encode(), "核"),
        (b"", ""),
        (b"a\x00b", "a\x00b"),
    ],
)
@pytest.mark.parametrize("as_text", [True, False])
def test_names_that_are_no_utf8(out: Path, stored: bytes, read: str, as_text: bool) -> None:
    build(out, "dev0 s7 compute: ##")
    value = "CAST(? AS TEXT)" if as_text else "?"
    execute(out, f"UPDATE StringIds SET value = {value}", values=[stored])
    assert read_trace(out).names == (read,)


def test_very_many_names(out: Path) -> None:
    builder = TraceBuilder()
    for i in range(2_500):
        builder.kernel(i, i + 1, f"kernel {i:05d}", grid=(i + 1, 1, 1))
    trace = all_shapes(builder.write(out))
    assert trace.names == tuple(f"kernel {i:05d}" for i in range(2_500))
    assert trace.kernels.name.tolist() == list(range(2_500))
    assert [grid[0] for grid, _ in shapes(trace).values()] == list(range(1, 2_501))


@pytest.mark.parametrize("grid", [(-5, 1, 1), (2**63 - 1, 2**63 - 1, 2**63 - 1), (0, 0, 0)])
def test_absurd_launch_shapes(out: Path, grid: tuple[int, int, int]) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 9, grid=grid)
    trace = all_shapes(builder.write(out))
    (found, block) = shapes(trace)[0]
    assert block == [256, 1, 1], "nonsense stays within its own column"
    assert all(0 <= n < 2**31 for n in found)
    assert 0 <= int(trace.kernels.shapes.threads[0]) <= 2**62
