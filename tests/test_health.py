"""Health: each answer drawn so that it fires, and a near miss on which it must stay silent."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from nsysoverlap import Window, analyze
from nsysoverlap.result.model import HealthEntry, OpaqueBounds, OverlapReport

from .casekit import Scene
from .tracebuilder import CopyKind, TraceBuilder, draw
from .traces import h200, h200_names

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
HEALTHY = """
    dev0 s7  compute: .####.####
    dev0 s20 d2h:     ..##......
"""
LOST = "Error when processing events. Try again."
MAYBE_LOST = "Not all CUDA events might have been collected."
HOST_KERNEL = "wrapped_dynamic_update_slice_2"

Judge = Callable[..., tuple[HealthEntry, ...]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Health entries of a drawing or builder, written as a trace; keywords as for `write`."""

    def run(
        drawn: str | TraceBuilder = HEALTHY,
        *,
        schema: str = "3.20",
        window: Window | None = None,
        **options: object,
    ) -> tuple[HealthEntry, ...]:
        builder = draw(drawn) if isinstance(drawn, str) else drawn
        path = builder.write(tmp_path / "t.sqlite", schema, **options)  # type: ignore[arg-type]
        return analyze(path, window=window, steps="none").health

    return run


def healthy() -> TraceBuilder:
    return draw(HEALTHY)


def codes(entries: tuple[HealthEntry, ...]) -> list[str]:
    return [entry.code for entry in entries]


def the(code: str, entries: tuple[HealthEntry, ...]) -> HealthEntry:
    """The one entry of a code."""
    (found,) = (entry for entry in entries if entry.code == code)
    return found


def check(entry: HealthEntry, severity: str, count: int, *parts: str) -> None:
    assert (entry.severity, entry.count) == (severity, count)
    for part in parts:
        assert part in entry.message


def test_a_healthy_trace_gets_no_entry(judge: Judge) -> None:
    assert judge() == ()


def test_entries_name_the_trace_and_errors_come_first(judge: Judge) -> None:
    builder = TraceBuilder()
    builder.diagnostic(2, MAYBE_LOST)
    builder.diagnostic(3, "Something failed.")
    entries = judge(builder)
    assert [entry.severity for entry in entries] == ["error", "warning", "note"]
    assert {entry.trace for entry in entries} == {"t.sqlite"}


# Events lost, no GPU activity


def test_events_lost_by_word_of_nsys(judge: Judge) -> None:
    builder = healthy()
    builder.diagnostic(2, LOST)
    builder.diagnostic(3, LOST)
    entries = judge(builder)
    assert codes(entries) == ["events-lost"]
    check(entries[0], "error", 2, "could not process events (2 x)", "missing")
    assert "Capture again" in entries[0].hint


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize(
    "api", ["cudaLaunchKernel_v7000", "cuLaunchKernelEx", "cudaMemcpyAsync_v3020"]
)
def test_events_lost_by_launches_without_any_row(judge: Judge, api: str, lazy: bool) -> None:
    builder = TraceBuilder()
    for correlation in (1, 2, 3):
        builder.api(api, 1000 * correlation, 1000 * correlation + 500, correlation)
    entries = judge(builder, lazy=lazy)
    assert codes(entries) == ["events-lost", "no-gpu-activity"]
    check(entries[0], "error", 3, "3 launches", "not one GPU activity")


@pytest.mark.parametrize("registered", [True, False])
def test_events_lost_by_thunks_without_any_row(judge: Judge, registered: bool) -> None:
    builder = TraceBuilder()
    builder.nvtx("Thunk:#hlo_op=fusion.1#", 0, 500, registered=registered)
    builder.nvtx("Thunk:#hlo_op=fusion.2#", 500, 900, registered=registered)
    entries = judge(builder)
    assert codes(entries) == ["events-lost", "no-gpu-activity"]
    check(entries[0], "error", 2, "2 XLA thunk ranges")


def test_a_program_that_uses_no_gpu_lost_nothing(judge: Judge) -> None:
    builder = TraceBuilder()
    builder.nvtx("step 3", 0, 500)
    builder.api("cudaMalloc_v3020", 0, 100)
    builder.api("cudaMemcpy_v3020", 200, 300, 1)
    entries = judge(builder)
    assert codes(entries) == ["no-gpu-activity"]
    check(entries[0], "error", 1, "no GPU activity")
    assert "--trace=cuda,nvtx" in entries[0].hint


# Messages of nsys


def test_a_warning_of_nsys_alone_is_a_note(judge: Judge) -> None:
    builder = healthy()
    builder.diagnostic(2, MAYBE_LOST)
    builder.diagnostic(2, MAYBE_LOST)
    entries = judge(builder)
    assert codes(entries) == ["diagnostic"]
    check(entries[0], "note", 2, f"nsys says: {MAYBE_LOST}")
    assert entries[0].hint == "100.0 % of 3 launches and async copies have a GPU row."


def test_messages_of_another_process_are_said_to_be_that(judge: Judge) -> None:
    builder = healthy()
    builder.diagnostic(2, "CUDA profiling might have not been started correctly.")
    builder.diagnostic(2, "No CUDA events collected. Does the process use CUDA?")
    builder.diagnostic(2, MAYBE_LOST)
    entries = judge(builder)
    assert [(e.severity, e.message.removeprefix("nsys says: ")[:19]) for e in entries] == [
        ("note", "Not all CUDA events"),
        ("note", "CUDA profiling migh"),
        ("note", "No CUDA events coll"),
    ]
    assert {e.hint for e in entries[1:]} == {
        "GPU work of 1 process is recorded, so this is of another one, such as a launcher."
    }


def test_a_trace_without_gpu_work_is_no_launcher(judge: Judge) -> None:
    builder = TraceBuilder()
    builder.diagnostic(2, "No CUDA events collected. Does the process use CUDA?")
    (note,) = [entry for entry in judge(builder) if entry.code == "diagnostic"]
    assert note.hint == ""


@pytest.mark.parametrize(
    "text",
    [
        "No OpenGL events collected. Does the process use OpenGL?",
        "Not all OS runtime libraries events might have been collected.",
        "Unable to collect CPU kernel IP/backtrace samples. perf event paranoid level is 2.",
        "Unable to configure the collection of CPU IP/backtrace samples, context switch data.",
        "No MMAP events were received for process with pid 1 before attempting to resolve symbol.",
        "Scheduling information is absent. The thread activity is deduced.",
    ],
)
def test_what_nsys_says_of_other_tables_is_left_out(judge: Judge, text: str) -> None:
    builder = healthy()
    builder.diagnostic(3, text)
    assert judge(builder) == ()


def test_an_error_of_nsys_is_a_warning_and_chatter_is_nothing(judge: Judge) -> None:
    builder = healthy()
    builder.diagnostic(3, "Unified Memory cannot\n  be traced: not enough memory.")
    builder.diagnostic(2, "Unsupported NVTX extension.")
    builder.diagnostic(1, "Process was launched.")
    entries = judge(builder)
    assert [(e.code, e.severity, e.message, e.hint) for e in entries] == [
        (
            "diagnostic",
            "warning",
            "nsys says: Unified Memory cannot be traced: not enough memory.",
            "",
        ),
        ("diagnostic", "note", "nsys says: Unsupported NVTX extension.", ""),
    ]


# CUDA graphs


def opaque_report(tmp_path: Path, drawing: str, window: Window | None = None) -> OverlapReport:
    return analyze(draw(drawing).write(tmp_path / "t.sqlite"), window=window, steps="none")


FEW_OPAQUE = """
    dev0 s7  compute: ####......####
    dev0 s20 d2h:     ..####........
    dev0 s9  graph:   ....####......   # over half of the copy, alone for 2 of 12 busy us
"""


def test_some_opaque_time_beside_copies_is_a_warning_with_bounds(tmp_path: Path) -> None:
    found = opaque_report(tmp_path, FEW_OPAQUE)
    assert found.conclusive
    assert codes(found.health) == ["graph-opaque"]
    check(found.health[0], "warning", 1, "4.0 µs", "16.7 % of busy GPU time", "see the bounds")
    assert "--cuda-graph-trace=node" in found.health[0].hint
    (device,) = found.devices
    assert device.opaque_bounds == OpaqueBounds(h2d=None, d2h=(0.5, 1.0), both=(0.5, 1.0))
    assert device.d2h.hidden_share == 0.5


def test_bounds_are_exact_for_each_direction(tmp_path: Path) -> None:
    found = opaque_report(
        tmp_path,
        """
        dev0 s7  compute: ########............####
        dev0 s20 d2h:     ....########............   # 4 of 8 hidden, 2 more under the graph
        dev0 s21 h2d:     ..........########......   # 0 of 8 hidden, 3 under the graph
        dev0 s9  graph:   .......#######..........   # 7..14, the first us under compute
        dev0 s8  comm:    ...............##.......   # covers, but is no compute
        """,
    )
    (device,) = found.devices
    assert device.opaque_bounds == OpaqueBounds(
        h2d=(0.0, 4 / 8), d2h=(4 / 8, 8 / 8), both=(4 / 14, 10 / 14)
    )


def test_an_opaque_graph_under_compute_leaves_no_doubt(tmp_path: Path) -> None:
    drawing = """
        dev0 s7  compute: ########
        dev0 s20 d2h:     ....####
        dev0 s9  graph:   ..####..
    """
    found = opaque_report(tmp_path, drawing)
    assert found.conclusive
    check(found.health[0], "warning", 1, "4.0 µs", "0.0 % of busy GPU time")
    assert found.devices[0].opaque_bounds == OpaqueBounds(None, (1.0, 1.0), (1.0, 1.0))


@pytest.mark.parametrize(
    ("compute", "graph", "severity"),
    [
        ("####....", "...####.", "warning"),  # alone for 3 of 7 busy us
        ("####....", "....####", "error"),  # 4 of 8
        ("###.....", "...#####", "error"),  # 5 of 8
    ],
)
def test_opaque_for_half_of_the_busy_time_is_an_error(
    tmp_path: Path, compute: str, graph: str, severity: str
) -> None:
    drawing = f"""
        dev0 s7  compute: {compute}
        dev0 s20 d2h:     .##.....
        dev0 s9  graph:   {graph}
    """
    found = opaque_report(tmp_path, drawing)
    assert found.health[0].severity == severity
    assert found.conclusive == (severity == "warning")


def test_opaque_time_without_a_copy_is_an_error_however_short(judge: Judge) -> None:
    entries = judge("dev0 s7 compute: " + "#" * 500 + "\ndev0 s9 graph: " + "." * 500 + "#")
    assert codes(entries) == ["graph-opaque", "no-transfers"]
    check(entries[0], "error", 1, "1.0 µs", "0.2 % of busy", "copies in it cannot be seen")
    assert entries[0].message.startswith("1 CUDA graph launch was traced as a whole (")


@pytest.mark.parametrize(
    ("end_us", "opaque"),
    [(4, None), (5, "1.0 µs"), (8, "4.0 µs"), (None, "4.0 µs")],
)
def test_only_opaque_time_inside_the_window_counts(
    tmp_path: Path, end_us: int | None, opaque: str | None
) -> None:
    window = Window(None, None if end_us is None else 1000 * end_us)
    found = opaque_report(tmp_path, FEW_OPAQUE, window)
    bounds = found.devices[0].opaque_bounds
    if opaque is None:
        assert (found.health, bounds) == ((), None)
    else:
        check(the("graph-opaque", found.health), "warning", 1, opaque)
        assert bounds is not None


def test_a_copy_that_only_reaches_into_the_window_is_still_a_copy(tmp_path: Path) -> None:
    found = opaque_report(tmp_path, FEW_OPAQUE, Window(3_000, 100_000))
    assert found.total("d2h").n == 0
    assert [(e.code, e.severity) for e in found.health] == [("graph-opaque", "warning")]


def test_graphs_of_a_device_without_steps_are_not_in_the_numbers(tmp_path: Path) -> None:
    scene = Scene()
    for at in (1_000, 3_000, 5_000):
        scene.label(f"step {at}", at, at + 900)
        scene.run("h2d", 20, at + 10, at + 100, at + 300)
        scene.run("compute", 7, at + 20, at + 200, at + 800)
    scene.builder.graph(2_000, 5_500, stream=9, device=1)
    path = scene.builder.write(tmp_path / "t.sqlite")
    found = analyze(path)
    assert found.basis.kind == "steps"
    assert [device.window_ns for device in found.devices] == [(1_100, 5_900), (2_000, 2_000)]
    assert found.conclusive
    assert "graph-opaque" not in codes(found.health)
    assert "graph-opaque" in codes(analyze(path, steps="none").health)


def test_opaque_time_of_several_devices_is_summed(tmp_path: Path) -> None:
    drawing = FEW_OPAQUE + FEW_OPAQUE.replace("dev0", "dev1")
    found = opaque_report(tmp_path, drawing)
    check(found.health[0], "warning", 2, "2 CUDA graph launches", "8.0 µs", "16.7 %")


def test_one_opaque_device_makes_the_trace_inconclusive(tmp_path: Path) -> None:
    drawing = """
        dev0 s7  compute: ########
        dev0 s20 d2h:     ..####..
        dev1 s7  compute: ##......
        dev1 s9  graph:   ..#.....   # its copies, if any, are in there
    """
    found = opaque_report(tmp_path, drawing)
    assert not found.conclusive
    check(found.health[0], "error", 1, "1.0 µs", "33.3 % of busy")
    assert found.devices[0].opaque_bounds is None
    assert found.devices[1].opaque_bounds == OpaqueBounds(None, None, None)


def test_graph_nodes_are_not_opaque(judge: Judge) -> None:
    drawing = """
        dev0 s7 graph=3 compute: ####
        dev0 s7 graph=3 d2h:     .##.
    """
    assert judge(drawing) == ()


GRAPH_AND_COPY = """
    dev0 s7  compute: ####....
    dev0 s20 d2h:     ..##....
    dev0 s9  graph:   .....##.
"""


def test_graph_launches_that_old_nsys_does_not_record(judge: Judge) -> None:
    entries = judge(GRAPH_AND_COPY, schema="3.7")
    assert codes(entries) == ["graph-launches-without-rows"]
    check(entries[0], "warning", 1, "1 of 1 CUDA graph launch has no GPU row", "2024.6")
    without_copies = "\n".join(line for line in GRAPH_AND_COPY.splitlines() if "d2h" not in line)
    entries = judge(without_copies, schema="3.7")
    assert codes(entries) == ["graph-launches-without-rows", "no-transfers"]
    check(entries[0], "error", 1)


def test_graph_launches_that_are_recorded_are_not_missed(judge: Judge) -> None:
    assert codes(judge(GRAPH_AND_COPY, schema="3.16")) == ["graph-opaque"]


# Rows left out


@pytest.mark.parametrize(
    ("code", "spoil", "message"),
    [
        ("rows-without-timestamp", 'SET start = 0, "end" = 0', "without timestamps"),
        ("rows-ending-early", 'SET start = 9000, "end" = 8999', "with an end before the start"),
        ("rows-unreadable", "SET start = 'soon'", "with values that are no usable numbers"),
    ],
)
def test_dropped_rows(judge: Judge, code: str, spoil: str, message: str) -> None:
    entries = judge(extra_sql=[f"UPDATE {KERNEL} {spoil} WHERE rowid = 2"])
    # Of three launches it is the last, and a third of them is more than may be lost.
    assert codes(entries) == ["end-lost", code]
    check(entries[1], "warning", 1, f"1 row of {KERNEL} {message}", "was left out.")


@pytest.mark.parametrize("times", ['start = 0, "end" = 1', 'start = 9000, "end" = 9000'])
def test_odd_rows_that_are_kept(judge: Judge, times: str) -> None:
    assert judge(extra_sql=[f"UPDATE {KERNEL} SET {times} WHERE rowid = 2"]) == ()


# Missing tables and transfers


def test_no_kernels(judge: Judge) -> None:
    entries = judge("dev0 s20 d2h: ##")
    assert codes(entries) == ["no-kernels"]
    check(entries[0], "warning", 1, "no kernels")
    assert "no-kernels" not in codes(judge("dev0 s20 d2h: ##\ndev0 s7 graph: ##"))


def test_no_api_table(judge: Judge) -> None:
    entries = judge(drop_tables=[RUNTIME])
    assert codes(entries) == ["no-api-table"]
    check(entries[0], "note", 1, "no CUDA API calls")
    (empty,) = judge(extra_sql=[f"DELETE FROM {RUNTIME}"])
    check(empty, "note", 1, "no CUDA API call that launched any of its rows")


def test_no_transfers(judge: Judge) -> None:
    only_other = "dev0 s7 compute: ####\ndev0 s8 d2d: .##.\ndev0 s9 unified_h2d: .##."
    entries = judge(only_other)
    assert codes(entries) == ["no-transfers"]
    check(entries[0], "note", 1, "No host transfers were recorded.")


@pytest.mark.parametrize(
    ("window", "expected"),
    [((2000, 3000), []), ((3000, 9000), []), ((4000, 9000), ["no-transfers"])],
)
def test_transfers_are_looked_for_in_the_window(
    judge: Judge, window: tuple[int, int], expected: list[str]
) -> None:
    """The copy of the healthy drawing runs from 2 to 4 us."""
    assert codes(judge(window=Window(*window))) == expected


def test_a_transfer_by_kernel_is_a_transfer(judge: Judge) -> None:
    assert judge(f"dev0 s7 kernel {HOST_KERNEL}: " + "#" * 30) == ()
    short = f"dev0 s7 kernel {HOST_KERNEL}: ####"
    assert codes(judge(short)) == ["no-transfers"]


# Launches


def test_launches_without_rows(judge: Judge) -> None:
    builder = healthy()
    builder.api("cudaMemcpyAsync_v3020", 6000, 6100, 77)
    entries = judge(builder)
    assert codes(entries) == ["launches-without-rows"], "a copy of nothing is no loss"
    check(entries[0], "note", 1, "1 of 4 kernel launches and async copies (25.0 %)")


def test_a_launch_of_another_process_is_another_launch(judge: Judge) -> None:
    builder = healthy()
    builder.api("cudaMemcpyAsync_v3020", 6000, 6100, 1, pid=2)
    check(the("launches-without-rows", judge(builder)), "note", 1, "1 of 4")


def test_calls_that_launch_nothing_or_the_same_again(judge: Judge) -> None:
    builder = healthy()
    builder.api("cuLaunchKernel", 500, 600, 1)
    builder.api("cudaStreamSynchronize_v3020", 8000, 8100, 78)
    builder.api("cudaMemcpy_v3020", 8200, 8300, 79)
    assert judge(builder) == ()


def test_the_message_about_lost_events_stands_beside_the_share_of_launches(judge: Judge) -> None:
    builder = healthy()
    builder.diagnostic(2, MAYBE_LOST)
    builder.api("cudaLaunchKernel_v7000", 8000, 8100, 77)
    hint = the("diagnostic", judge(builder)).hint
    assert hint == "75.0 % of 4 launches and async copies have a GPU row."
    assert the("diagnostic", judge(builder, drop_tables=[RUNTIME])).hint == ""


# Profiler overhead: the healthy drawing runs from 1 to 10 us


@pytest.mark.parametrize(
    ("spans", "shown"),
    [
        ([(2000, 3500)], "1.5 µs"),
        ([(2000, 3000), (2500, 3500), (5000, 5100)], "1.6 µs"),
        ([(0, 2000), (9_500, 50_000)], "1.5 µs"),
    ],
)
def test_profiler_overhead(judge: Judge, spans: list[tuple[int, int]], shown: str) -> None:
    builder = healthy()
    for start, end in spans:
        builder.overhead(start, end)
    entries = judge(builder)
    assert codes(entries) == ["profiler-overhead"]
    check(entries[0], "note", 1, f"busy for {shown} inside the measured window")


def test_overhead_outside_of_what_is_measured(judge: Judge) -> None:
    builder = healthy()
    builder.overhead(0, 1000)
    builder.overhead(10_000, 20_000)
    assert judge(builder) == ()


def test_overhead_where_no_device_is_measured(judge: Judge) -> None:
    drawing = """
        dev0 s7 compute: ##.........
        dev0 s8 d2h:     ##.........
        dev1 s7 compute: .........##
    """
    builder = draw(drawing)
    builder.overhead(4000, 6000)
    assert judge(builder) == ()
    assert judge(builder, window=Window(0, 7000)) == ()


# Kinds and names


@pytest.mark.parametrize("kind", [0, 14, 99])
def test_unknown_copy_kinds(judge: Judge, kind: int) -> None:
    builder = healthy()
    builder.copy(5000, 6000, CopyKind(kind), stream=30)
    builder.copy(6000, 7000, CopyKind(kind), stream=30)
    entries = judge(builder)
    assert codes(entries) == ["unknown-copy-kind"]
    check(entries[0], "warning", 2, f"unknown kind ({kind})")


def test_every_known_copy_kind_is_known(judge: Judge) -> None:
    builder = healthy()
    for kind in range(1, 14):
        builder.copy(5000, 6000, CopyKind(kind))
    assert "unknown-copy-kind" not in codes(judge(builder))


def test_names_that_sound_like_communication(judge: Judge) -> None:
    drawing = f"""{HEALTHY}
        dev0 s7 kernel void mine::fast_all_reduce<float>(float*): ..........##
        dev0 s7 kernel my_allgather: ............#
    """
    entries = judge(drawing)
    assert codes(entries) == ["comm-like-compute"]
    check(entries[0], "warning", 2, "(3.0 µs)", "fast_all_reduce, my_allgather")
    assert "rules --explain" in entries[0].hint


@pytest.mark.parametrize(
    "name",
    [
        "all_reduce_32_0_fusion_1",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        "void gemm<my_all_reduce_epilogue>(int)",
        "reduce_kernel",
    ],
)
def test_names_that_raise_no_suspicion(judge: Judge, name: str) -> None:
    assert judge(f"{HEALTHY}\ndev0 s9 kernel {name}: ..........##") == ()


def test_kernels_without_names(judge: Judge) -> None:
    entries = judge(extra_sql=[f"UPDATE {KERNEL} SET demangledName = 999 WHERE rowid = 1"])
    assert codes(entries) == ["kernels-without-names"]
    check(entries[0], "warning", 1, "1 kernel has no name")


# Devices and origin


TWO_DEVICES = HEALTHY + HEALTHY.replace("dev0", "dev1")
GPU_TABLES = ["TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE"]


def test_gpus_that_cannot_be_told_apart(judge: Judge) -> None:
    entries = judge(HEALTHY + HEALTHY.replace("dev0", "pid2 dev0"), drop_tables=GPU_TABLES)
    assert codes(entries) == ["gpu-not-proven"]
    check(entries[0], "note", 2, "2 devices of 2 processes cannot be matched")


def test_ordinals_of_one_process_are_gpus_of_their_own(judge: Judge) -> None:
    assert judge(TWO_DEVICES, drop_tables=GPU_TABLES) == ()


def test_gpus_that_are_proven_or_alone(judge: Judge) -> None:
    assert judge(TWO_DEVICES) == ()
    assert judge(HEALTHY, drop_tables=GPU_TABLES) == ()


def test_a_trace_rewritten_by_another_tool(judge: Judge) -> None:
    builder = healthy()
    builder.meta("DERIVED_BY", "some cutter")
    entries = judge(builder)
    assert codes(entries) == ["derived-trace"]
    check(entries[0], "note", 1, "another tool")


# Real traces

INCONCLUSIVE = {
    "jax_fsdp2_events_lost": ("events-lost", 4),
    "micro_graph_graph": ("graph-opaque", 3),
    "jax_scan_pipelined_graph_level": ("graph-opaque", 68),
}
CUT = {"jax_capture_fsdp2_prefetch"}
"""Made by `slim --step`: calls at the start of the time kept launched what ran before it."""


@pytest.mark.parametrize("name", h200_names())
def test_real_traces(name: str) -> None:
    report = analyze(h200(name), steps="none")
    errors = [e for e in report.health if e.severity == "error"]
    if name in INCONCLUSIVE:
        assert not report.conclusive
        assert (errors[0].code, errors[0].count) == INCONCLUSIVE[name]
    else:
        assert report.conclusive
        warned = {entry.code for entry in report.health if entry.severity == "warning"}
        assert warned == ({"head-lost"} if name in CUT else set())
    assert {entry.trace for entry in report.health} == {f"{name}.sqlite"}
    assert "launches-without-rows" not in codes(report.health)


def test_what_nsys_warns_of_in_a_healthy_real_trace() -> None:
    (entry,) = (e for e in analyze(h200("jax_unroll_lhs")).health if MAYBE_LOST in e.message)
    assert entry.severity == "note"
    assert entry.hint == "100.0 % of 1,428 launches and async copies have a GPU row."


def test_opaque_graphs_of_a_real_trace_in_words() -> None:
    entry = analyze(h200("micro_graph_graph"), steps="none").health[0]
    check(entry, "error", 3, "33.6 ms", "100.0 % of busy", "cannot be seen")


def test_copies_that_were_launched_and_not_recorded(tmp_path: Path) -> None:
    path = h200("jax_unroll_lhs")
    cut = tmp_path / "t.sqlite"
    cut.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(cut)) as db:
        db.execute("DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY")
        db.commit()
    found = {entry.code: entry for entry in analyze(cut).health}
    # One was launched before the first row of all.
    assert (found["copies-lost"].severity, found["copies-lost"].count) == ("error", 299)
    assert "copies-lost" not in {e.code for e in analyze(path).health}
