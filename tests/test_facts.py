"""Facts about a capture: metadata, messages of the profiler, overhead, launches with and without
GPU rows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap import read_trace
from nsysoverlap.trace.contents import LaunchFacts

from .readerkit import GRAPH_TRACE, KERNEL, MEMCPY, RUNTIME, dropped, execute, retype
from .tracebuilder import TraceBuilder, build, draw
from .traces import h200


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "facts.sqlite"


def launches(path: Path) -> LaunchFacts:
    return read_trace(path).facts.launches


def counts(path: Path) -> tuple[int | None, int | None, int | None, int | None]:
    """Launches, those without a row, graph launches, those without a row."""
    found = launches(path)
    return (
        found.n_launches,
        found.n_launches_without_row,
        found.n_graph_launches,
        found.n_graph_launches_without_row,
    )


# Launches.


def test_launches_with_a_row(out: Path) -> None:
    drawing = """
    dev0 s7 compute: ##.##
    dev0 s8 h2d:     .##..
    dev0 s9 memset:  ...#.
    dev0 s7 graph:   ....#
    """
    # A memset launches no kernel and is no copy.
    assert counts(build(out, drawing)) == (3, 0, 1, 0)
    assert launches(out).n_thunk_ranges is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cudaLaunchKernel_v7000", (1, 1, 0, 0)),
        ("cudaLaunchKernelExC_v11060", (1, 1, 0, 0)),
        ("cudaLaunchCooperativeKernel_v9000", (1, 1, 0, 0)),
        ("cuLaunchKernel", (1, 1, 0, 0)),
        ("cuLaunchKernelEx", (1, 1, 0, 0)),
        ("cudaMemcpyAsync_v3020", (1, 1, 0, 0)),
        ("cudaMemcpy2DAsync_v3020", (1, 1, 0, 0)),
        ("cuMemcpyHtoDAsync_v2", (1, 1, 0, 0)),
        ("cudaGraphLaunch_v10000", (0, 0, 1, 1)),
        ("cuGraphLaunch", (0, 0, 1, 1)),
        ("cudaMemcpy_v3020", (0, 0, 0, 0)),
        ("cudaLaunchHostFunc_v10000", (0, 0, 0, 0)),
        ("cudaStreamSynchronize_v3020", (0, 0, 0, 0)),
        ("cudaGraphInstantiate_v10000", (0, 0, 0, 0)),
        ("my_cudaLaunchKernel", (0, 0, 0, 0)),
    ],
)
def test_which_calls_are_launches(
    out: Path, name: str, expected: tuple[int, int, int, int]
) -> None:
    builder = TraceBuilder()
    builder.api(name, 0, 10, 77)
    assert counts(builder.write(out)) == expected


def test_a_row_of_another_process_does_not_count(out: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10, pid=1, correlation=5)
    builder.api("cudaLaunchKernel_v7000", 0, 1, 5, pid=2)
    builder.graph(0, 10, pid=1, correlation=6)
    builder.api("cudaGraphLaunch_v10000", 0, 1, 6, pid=2)
    builder.api("cudaGraphLaunch_v10000", 0, 1, 6, pid=1, vm=2)
    assert counts(builder.write(out)) == (2, 1, 3, 2)


def test_threads_of_one_process_share_ids(out: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10, pid=1, tid=3, correlation=5)
    builder.api("cuLaunchKernel", 0, 1, 5, pid=1, tid=9)
    assert counts(builder.write(out)) == (1, 0, 0, 0)


def test_nodes_of_a_graph_are_one_launch(out: Path) -> None:
    drawing = "dev0 s7 graph=3 compute: ##.##.##\ndev0 s7 graph=3 d2h: .##...."
    assert counts(build(out, drawing)) == (0, 0, 1, 0)


@pytest.mark.parametrize(("schema", "missing"), [("3.7", 2), ("3.16", 0), ("2.7", 2)])
def test_graphs_before_their_table_existed(out: Path, schema: str, missing: int) -> None:
    drawing = "dev0 s7 graph: ##.##\ndev0 s8 compute: #...."
    assert counts(build(out, drawing, schema=schema)) == (1, 0, 2, missing)


def test_a_dropped_row_is_no_row(out: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 0)
    builder.kernel(5, 10)
    assert counts(builder.write(out)) == (2, 1, 0, 0)


def test_calls_without_an_id_say_nothing(out: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10)
    builder.kernel(10, 20)
    execute(builder.write(out), f"UPDATE {RUNTIME} SET correlationId = NULL WHERE rowid = 1")
    assert counts(out) == (1, 0, 0, 0)
    retype(out, "", only=[RUNTIME])
    execute(out, f"UPDATE {RUNTIME} SET correlationId = 'x' WHERE correlationId = 2")
    assert counts(out) == (0, 0, 0, 0)


@pytest.mark.parametrize("column", [f"{KERNEL}.globalPid", f"{RUNTIME}.globalTid", "globalPid"])
def test_where_processes_are_unknown_ids_must_do(out: Path, column: str) -> None:
    builder = draw("dev0 s7 compute: ##.##\ndev0 s7 graph: .#")
    builder.api("cuLaunchKernel", 0, 1, 99)
    drop = [column, f"{GRAPH_TRACE}.globalPid"]
    assert counts(builder.write(out, drop_columns=drop)) == (3, 1, 1, 0)


def test_an_export_cut_by_others(out: Path) -> None:
    assert counts(build(out, "dev0 s7 compute: ##.##", schema="cut")) == (2, 0, 0, 0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"drop_tables": [RUNTIME]}, (None,) * 4),
        ({"drop_columns": [f"{RUNTIME}.correlationId"]}, (0, 0, 0, 0)),
        ({"drop_tables": ["StringIds"]}, (0, 0, 0, 0)),
    ],
)
def test_without_the_means_to_tell(
    out: Path, options: dict[str, list[str]], expected: tuple[int | None, ...]
) -> None:
    draw("dev0 s7 compute: ##.##").write(
        out,
        drop_tables=options.get("drop_tables", ()),
        drop_columns=options.get("drop_columns", ()),
    )
    assert counts(out) == expected


@pytest.mark.parametrize("registered", [True, False])
def test_thunks_are_counted_where_no_row_is_left(out: Path, registered: bool) -> None:
    builder = draw("dev0 s7 compute: ##.##")
    for text in ("Thunk:#hlo_op=a#", "Thunk:#hlo_op=a#", "XlaModule:#hlo_module=m#", "a Thunk:"):
        builder.nvtx(text, 0, 10, registered=registered)
    assert launches(builder.write(out)).n_thunk_ranges is None
    builder.write(out, drop_tables=[KERNEL])
    assert launches(out) == LaunchFacts(2, 2, 0, 0, 2)


@pytest.mark.parametrize("value", ["NULL", "'x'", "x'ff'", "0.5", "9e99"])
@pytest.mark.parametrize("column", ["id", "value"])
def test_nonsense_among_the_texts(out: Path, column: str, value: str) -> None:
    build(out, "dev0 s7 compute: ##.##")
    retype(out, "", only=["StringIds"])
    execute(out, f"UPDATE StringIds SET {column} = {value} WHERE value LIKE 'cuda%'")
    assert counts(out) == (0, 0, 0, 0)


def test_real_launches() -> None:
    assert counts(h200("jax_unroll_lhs"))[1] == 0
    lost = launches(h200("jax_fsdp2_events_lost"))
    assert lost.n_launches == lost.n_launches_without_row
    assert (lost.n_launches or 0) + (lost.n_thunk_ranges or 0) > 0


# Metadata, messages and overhead.


@pytest.mark.parametrize("schema", ["2.7", "3.4", "3.25"])
def test_both_tables_of_metadata(out: Path, schema: str) -> None:
    builder = draw("dev0 s7 compute: #")
    builder.meta("EXPORT_PRODUCT_VERSION", b"2025.\xff\xfe")
    builder.meta("EXPORT_\xff", b"\xff")
    builder.meta("DERIVED_BY", None)
    info = read_trace(builder.write(out, schema)).info
    assert info.product_version is None, "what is no version is not shown as one"
    assert info.schema_version is not None
    assert info.schema_version.startswith(schema)
    assert info.derived_by_third_party


@pytest.mark.parametrize("shift", ["", "x", "1e9", "9" * 30, "9" * 5000, b"\xff", None, "0.5"])
def test_a_nonsensical_time_shift_is_none(out: Path, shift: str | bytes | None) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 0)
    builder.kernel(1, 2)
    builder.meta("EXPORT_CONFIG_TIME_SHIFT", shift)
    trace = read_trace(builder.write(out))
    assert dropped(trace) == {KERNEL: (1, 0, 0)}
    assert trace.kernels.start_ns.tolist() == [1]


def test_a_time_shift_stored_as_a_number(out: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(500, 500)
    builder.kernel(0, 0)
    builder.kernel(501, 501)
    builder.meta("EXPORT_CONFIG_TIME_SHIFT", "500")
    retype(builder.write(out), "", only=["META_DATA_EXPORT"])
    execute(out, "UPDATE META_DATA_EXPORT SET value = 500 WHERE value = '500'")
    assert dropped(read_trace(out)) == {KERNEL: (2, 0, 0)}


def test_messages_of_the_profiler(out: Path) -> None:
    builder = draw("dev0 s7 compute: #")
    for severity, text in ((0, "a"), (1, "b"), (2, "c"), (3, "d"), (2, "c")):
        builder.diagnostic(severity, text)
    retype(builder.write(out), "", only=["DIAGNOSTIC_EVENT"])
    for odd in (
        ("3", "text"),
        (2.0, "real"),
        (None, "x"),
        ("x", "x"),
        (b"3", "x"),
        (3, b"bytes \xff"),
        (3, None),
        (3, 7),
    ):
        execute(
            out,
            "INSERT INTO DIAGNOSTIC_EVENT (severity, text) VALUES (?, ?)",
            values=odd,
        )
    assert read_trace(out).facts.diagnostics == (
        *((2, "c"), (3, "d"), (2, "c"), (3, "text"), (2, "real")),
        *((3, "bytes \ufffd"), (3, ""), (3, "7")),
    )


def test_overhead_without_times_is_left_out(out: Path) -> None:
    builder = draw("dev0 s7 compute: #")
    builder.overhead(5, 9)
    builder.overhead(20, 30)
    retype(builder.write(out), "", only=["PROFILER_OVERHEAD"])
    for start, end in ((None, 10**9), (0, "never"), (b"x", 4)):
        execute(
            out,
            'INSERT INTO PROFILER_OVERHEAD (start, "end") VALUES (?, ?)',
            values=[start, end],
        )
    facts = read_trace(out).facts
    assert facts.overhead_start_ns.tolist() == [5, 20]
    assert facts.overhead_end_ns.tolist() == [9, 30]


@pytest.mark.parametrize("event", [2**63 - 1, -(2**63), "x", None])
def test_event_ids_of_any_size(out: Path, event: object) -> None:
    builder = TraceBuilder()
    for stream in (7, 8):
        builder.kernel(0, 10, stream=stream)
    builder.api("cudaEventRecord_v3020", 20, 21, 50)
    builder.cuda_event(1, event_sync_id=4, correlation=50, stream=7)
    builder.api("cudaStreamWaitEvent_v3020", 30, 31, 51)
    builder.sync(30, 31, event_id=9, event_sync_id=4, correlation=51, stream=8)
    waits = read_trace(builder.write(out)).host.waits
    assert waits is not None
    assert (waits.wait_ns.tolist(), waits.record_ns.tolist()) == ([30], [20])
    for table in ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"):
        retype(out, "", only=[table])
        execute(out, f"UPDATE {table} SET eventSyncId = ?", values=[event])
    waits = read_trace(out).host.waits
    assert waits is not None
    assert len(waits) == (event == 2**63 - 1)


def test_a_table_of_copies_alone(out: Path) -> None:
    trace = read_trace(build(out, "dev0 s8 d2h: ##", drop_tables=[KERNEL, RUNTIME]))
    assert trace.info.tables == {MEMCPY: 1}
    assert trace.facts.launches == LaunchFacts()
