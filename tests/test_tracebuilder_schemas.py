"""The schema variants of drawn exports have the tables and columns of real ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .builder.query import columns, query, tables
from .builder.schema import ALL_COLUMNS, Schema
from .tracebuilder import SCHEMAS, TraceBuilder, draw

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"


def slimmed(path: Path) -> bool:
    """Whether `nsysoverlap slim` left out columns: every export has this one, no slim copy has."""
    return RUNTIME in tables(path) and "eventClass" not in columns(path, RUNTIME)


REAL_TRACES = sorted(
    path
    for folder in (
        Path(__file__).parent / "fixtures",
        Path(__file__).parents[2] / "shared" / "traces" / "public",
    )
    for path in folder.rglob("*.sqlite")
    if not slimmed(path)
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "drawn.sqlite"


def everything() -> TraceBuilder:
    """At least one row in every table the builder has a method for."""
    builder = draw(
        """
        dev0 s7  compute:      .####....##.
        dev0 s20 h2d:          ...####.....
        dev0 s7  memset:       #...........
        dev0 s7  graph:        ...........#
        """
    )
    builder.nvtx("step 1", 0, 9_000)
    builder.sync(9_000, 9_500, event_sync_id=4)
    builder.cuda_event(3, event_sync_id=4, timestamp=8_000)
    builder.overhead(2_000, 2_100)
    builder.diagnostic(2, "Not all CUDA events might have been collected.", 12_000)
    builder.env("XLA_FLAGS", "--xla_a=b")
    return builder


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_variant_is_a_sound_file_with_the_same_times(
    out: Path, schema: str, lazy: bool
) -> None:
    everything().write(out, schema, lazy=lazy)
    assert query(out, "PRAGMA integrity_check") == [("ok",)]
    assert query(out, f'SELECT start, "end" FROM {KERNEL}') == [(1000, 5000), (9000, 11000)]
    assert query(out, f'SELECT start, "end", bytes FROM {MEMCPY}') == [(3000, 7000, 200_000)]
    assert query(out, "SELECT count(*) FROM StringIds WHERE value = 'gemm_fusion_dot_1'") == [(1,)]


DEVICES, META = "TARGET_INFO_CUDA_DEVICE", "META_DATA_EXPORT"


@pytest.mark.parametrize(
    ("schema", "present", "absent"),
    [
        ("2019", {"TARGET_INFO_CUDA_GPU"}, {META, "EXPORT_META_DATA", DEVICES, "PROCESSES"}),
        ("2.7", {"EXPORT_META_DATA", "PROCESSES"}, {META, "ENUM_CUDA_MEM_KIND"}),
        ("3.1", {"EXPORT_META_DATA", "ENUM_CUDA_MEM_KIND"}, {META}),
        ("3.4", {META, "META_DATA_CAPTURE"}, {"EXPORT_META_DATA", GRAPH_TRACE}),
        ("3.7", {META}, {GRAPH_TRACE, "DIAGNOSTIC_EVENT"}),
        ("3.16", {GRAPH_TRACE, "DIAGNOSTIC_EVENT"}, {DEVICES}),
        ("3.20", {DEVICES, GRAPH_TRACE}, {"TARGET_INFO_CUDA_GPU"}),
        ("future", {"UNHEARD_OF_EVENTS", DEVICES}, {"EXPORT_META_DATA"}),
        ("cut", {KERNEL, MEMCPY, RUNTIME}, {META, DEVICES, GRAPH_TRACE, "TARGET_INFO_GPU"}),
    ],
)
def test_tables_of_a_variant(out: Path, schema: str, present: set[str], absent: set[str]) -> None:
    everything().write(out, schema)
    assert present <= tables(out)
    assert not absent & tables(out)


@pytest.mark.parametrize(
    ("schema", "table", "present", "absent"),
    [
        ("2019", KERNEL, set(), {"greenContextId", "mangledName"}),
        ("2019", "TARGET_INFO_GPU", {"deviceId"}, {"id", "uuid", "memoryBandwidth"}),
        ("3.4", MEMCPY, {"virtualAddress"}, {"greenContextId", "copyCount"}),
        ("3.16", MEMCPY, {"greenContextId"}, {"copyCount"}),
        ("3.20", MEMCPY, {"copyCount"}, set()),
        ("3.20", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {"eventSyncId"}, set()),
        ("3.20", DEVICES, {"gpuId", "cudaId", "pid"}, {"uuid"}),
        ("3.24", DEVICES, {"uuid"}, set()),
        ("3.24", KERNEL, {"tensorSizeMinusOneElements", "clusterX"}, set()),
        ("cut", MEMCPY, {"deviceId", "bytes"}, {"globalPid", "contextId", "srcKind", "dstKind"}),
    ],
)
def test_columns_of_a_variant(
    out: Path, schema: str, table: str, present: set[str], absent: set[str]
) -> None:
    everything().write(out, schema)
    assert present <= set(columns(out, table))
    assert not absent & set(columns(out, table))


def test_future_tables_begin_with_a_column_nobody_knows(out: Path) -> None:
    everything().write(out, "future")
    for table in tables(out) - {"UNHEARD_OF_EVENTS"}:
        assert columns(out, table)[0] == "unheardOf", table


def test_nothing_is_required_in_a_cut_file(out: Path) -> None:
    everything().write(out, "cut")
    assert not any(
        row[3] for name in tables(out) for row in query(out, f"PRAGMA table_info({name})")
    )


def real_columns() -> Iterator[tuple[Path, str, list[str], list[str]]]:
    """Columns of every table we know in every real export at hand, and what we say they are."""
    for path in REAL_TRACES:
        names = tables(path)
        meta = next((m for m in ("META_DATA_EXPORT", "EXPORT_META_DATA") if m in names), None)
        if meta is None:
            continue
        key = "EXPORT_SCHEMA_VERSION"
        parts = query(path, f"SELECT value FROM {meta} WHERE name LIKE '{key}_M%' ORDER BY rowid")
        schema = Schema(tuple(int(part) for (part,) in parts), None, "")
        for table, ours in schema.tables().items():
            if table in names:
                theirs = [c for c in columns(path, table) if c in ALL_COLUMNS[table]]
                yield path, table, theirs, [c.name for c in ours]


@pytest.mark.skipif(not REAL_TRACES, reason="no real exports at hand")
def test_columns_are_those_of_real_exports() -> None:
    checked = list(real_columns())
    assert checked
    wrong = [(path.name, table) for path, table, theirs, ours in checked if theirs != ours]
    assert wrong == []
