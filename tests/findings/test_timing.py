"""Copies that compute waits for, that nothing runs beside, that nothing follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap.findings import Context
from nsysoverlap.findings.facts import waits_on_host
from nsysoverlap.result.model import Finding

from ..casekit import Scene
from ..tracebuilder import draw
from ..traces import h200
from .kit import context_of, drawn, fired

MS = 1_000_000
SCHEDULER = "--xla_gpu_enable_latency_hiding_scheduler"


def only(context: Context, code: str) -> Finding:
    (finding,) = fired(context, code)
    return finding


def reload(
    scene: Scene, at: int, start: int, end: int, *, kind: str = "h2d", event: int = 4
) -> None:
    """A copy on stream 20 for which a kernel on stream 7 waits, 1 us after the copy's end."""
    scene.run(kind, 20, at, start, end, api="cudaMemcpyAsync_v3020")
    scene.record(20, at + 10, event)
    scene.wait(7, at + 20, event)
    scene.run("compute", 7, at + 30, end + 1_000, end + MS, name="uses_it")


def waiting(*, kind: str = "h2d", wait: bool = True) -> Scene:
    """Compute 1-2 ms, a copy 3-9 ms, compute that needs it 9-10 ms."""
    scene = Scene()
    scene.run("compute", 7, 10, 1 * MS, 2 * MS)
    if wait:
        reload(scene, 100, 3 * MS, 9 * MS, kind=kind)
    else:
        scene.run(kind, 20, 100, 3 * MS, 9 * MS)
        scene.run("compute", 7, 200, 9 * MS + 1_000, 10 * MS)
    return scene


def test_compute_that_waits_for_a_reload(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, waiting().builder), "late-h2d")
    assert finding.cost_ns == 6 * MS
    assert finding.severity == "warning"
    assert finding.title == "Compute waits for 1 of 1 H2D copy, issued too late"
    assert "By cost: cudaMemcpyAsync." in finding.detail
    assert "cudaStreamWaitEvent" in finding.remedy
    (row,) = finding.evidence
    assert (row.start_ns, row.end_ns, row.op) == (3 * MS, 9 * MS, "cudaMemcpyAsync")
    assert row.text == "100 B H2D, uses_it waited 6.0 ms for it"


def test_compute_that_follows_without_waiting(tmp_path: Path) -> None:
    assert fired(drawn(tmp_path, waiting(wait=False).builder), "late-h2d") == []


@pytest.mark.parametrize("kind", ["d2h", "h2d_pageable"])
def test_only_pinned_reloads_are_late(tmp_path: Path, kind: str) -> None:
    assert fired(drawn(tmp_path, waiting(kind=kind).builder), "late-h2d") == []


def test_only_the_exposed_part_of_a_reload_costs(tmp_path: Path) -> None:
    scene = waiting()
    scene.run("compute", 8, 50, 3 * MS, 5 * MS)
    assert only(drawn(tmp_path, scene.builder), "late-h2d").cost_ns == 4 * MS
    hidden = waiting()
    hidden.run("compute", 8, 50, 3 * MS, 9 * MS)
    assert fired(drawn(tmp_path, hidden.builder), "late-h2d") == []


def test_the_cost_is_per_step_and_of_the_worst_device(tmp_path: Path) -> None:
    scene = Scene()
    for i, length in enumerate((6, 3)):
        begin = 20 * i * MS
        scene.label(f"step {i}", begin, begin + MS)
        scene.run("compute", 7, begin + 10, begin + MS, begin + 2 * MS)
        reload(scene, begin + 100, begin + 3 * MS, begin + (3 + length) * MS, event=4 + i)
    for begin in (1, 21):
        scene.run("compute", 9, begin * MS - 500, begin * MS, (begin + 9) * MS, device=1)
    context = drawn(tmp_path, scene.builder)
    assert context.n_steps == 2
    finding = only(context, "late-h2d")
    assert finding.cost_ns == 4_500_000
    assert [row.start_ns for row in finding.evidence] == [3 * MS, 23 * MS]
    assert "They could have started 14.0 ms earlier: so long no H2D had run" in finding.detail


@pytest.mark.parametrize(("gap_ns", "cost_ns"), [(20_000, 6 * MS), (20_001, 0)])
def test_without_launches_a_kernel_right_behind_the_copy_waited(
    tmp_path: Path, gap_ns: int, cost_ns: int
) -> None:
    scene = Scene()
    scene.run("compute", 7, None, 1 * MS, 2 * MS)
    scene.run("h2d", 20, None, 3 * MS, 9 * MS)
    scene.run("compute", 7, None, 9 * MS + gap_ns, 10 * MS)
    found = fired(drawn(tmp_path, scene.builder), "late-h2d")
    assert [finding.cost_ns for finding in found] == ([cost_ns] if cost_ns else [])


def test_a_copy_whose_last_part_is_hidden_held_nothing_up_by_time(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("h2d", 20, None, 3 * MS, 9 * MS)
    scene.run("compute", 7, None, 8 * MS, 10 * MS)
    assert fired(drawn(tmp_path, scene.builder), "late-h2d") == []


def test_nodes_of_graphs_are_left_to_the_findings_of_graphs(tmp_path: Path) -> None:
    scene = Scene()
    graph = scene.run("compute", 7, 10, 1 * MS, 2 * MS, graph=True)
    scene.run("h2d", 7, 10, 3 * MS, 9 * MS, graph=True, correlation=graph)
    scene.run("compute", 7, 10, 9 * MS + 1_000, 10 * MS, graph=True, correlation=graph)
    context = drawn(tmp_path, scene.builder)
    assert fired(context, "late-h2d") == fired(context, "nothing-beside") == []


def test_less_than_a_thousandth_is_not_worth_a_line(tmp_path: Path) -> None:
    scene = waiting()
    scene.run("compute", 7, 20 * MS, 30 * MS, 6_000 * MS + MS)
    assert only(drawn(tmp_path, scene.builder), "late-h2d").severity == "note"
    scene.run("compute", 7, 6_100 * MS, 6_100 * MS, 6_200 * MS)
    assert fired(drawn(tmp_path, scene.builder), "late-h2d") == []


@pytest.mark.parametrize("left_first", [True, False])
def test_the_remedy_fits_what_came_back(tmp_path: Path, left_first: bool) -> None:
    """Activations leave within the step; optimizer state is on the host when it begins."""
    scene = Scene()
    scene.builder.env("XLA_FLAGS", f"{SCHEDULER}=true")
    for begin in (0, 20 * MS):
        scene.label("step 1", begin, begin + MS)
        scene.run("compute", 7, begin + 10, begin + MS, begin + 3 * MS)
        out = begin + (2 if left_first else 11) * MS
        scene.run("d2h", 21, begin + 40, out, out + MS)
        reload(scene, begin + 100, begin + 4 * MS, begin + 9 * MS, event=4 + begin)
        scene.run("compute", 7, begin + 200, begin + 11 * MS, begin + 12 * MS)
    context = drawn(tmp_path, scene.builder)
    assert context.n_steps == 2
    remedy = only(context, "late-h2d").remedy
    assert ("one or two layers ahead" in remedy) == left_first
    assert ("on the host when the step began" in remedy) != left_first


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jax_capture_optimizer", "Most of this was on the host when the step began"),
        ("jax_capture_published", "start the reload one or two layers ahead"),
        ("jax_fsdp2_lhs", "Start the reload one or two layers ahead"),
        ("jax_capture_barrier_scan", "carry the reloaded tensor through the scan"),
        ("jax_unroll_lhs", "carry the reloaded tensor through the scan"),
    ],
)
def test_the_remedy_of_real_reloads(name: str, words: str) -> None:
    assert words in only(context_of(h200(name)), "late-h2d").remedy


@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        # Options given to the compiler are not in a trace.
        ("", "given to the compiler"),
        (f"{SCHEDULER}=false", f"Set {SCHEDULER}=true"),
        (f"{SCHEDULER}=true", "jax.lax.optimization_barrier"),
        (f"{SCHEDULER} --xla_gpu_autotune_level=0", "jax.lax.optimization_barrier"),
        (f"{SCHEDULER}=true {SCHEDULER}=false", f"Set {SCHEDULER}=true"),
        (f"{SCHEDULER}_not=true", "given to the compiler"),
    ],
)
def test_the_remedy_fits_the_flags(tmp_path: Path, flags: str, remedy: str) -> None:
    scene = waiting()
    scene.builder.env("XLA_FLAGS", flags)
    context = drawn(tmp_path, scene.builder)
    assert remedy in only(context, "late-h2d").remedy
    assert remedy in only(context, "nothing-beside").remedy


def test_copies_with_nothing_beside_them(tmp_path: Path) -> None:
    scene = waiting(kind="d2h")
    reload(scene, 10 * MS, 11 * MS, 14 * MS, event=5)
    finding = only(drawn(tmp_path, scene.builder), "nothing-beside")
    assert finding.cost_ns == 9 * MS
    assert finding.title == "Nothing runs beside the copies: compute stands still for 2 of them"
    assert finding.detail.endswith("in both directions.")
    assert [row.start_ns for row in finding.evidence] == [3 * MS, 11 * MS]


@pytest.mark.parametrize(("beside_ns", "costs"), [(120_000, [5_880_000]), (120_001, [])])
def test_something_beside_one_of_the_copies(
    tmp_path: Path, beside_ns: int, costs: list[int]
) -> None:
    scene = waiting(kind="d2h")
    scene.run("compute", 8, 50, 3 * MS, 3 * MS + beside_ns)
    found = fired(drawn(tmp_path, scene.builder), "nothing-beside")
    assert [finding.cost_ns for finding in found] == costs


def test_copies_of_pageable_memory_have_their_own_finding(tmp_path: Path) -> None:
    context = drawn(tmp_path, waiting(kind="d2h_pageable").builder)
    assert fired(context, "nothing-beside") == []


@pytest.mark.parametrize(
    "drawing",
    [
        """
        dev0 s7  compute: ####......
        dev0 s20 d2h:     ..######..
        """,
        """
        dev0 s7  compute: ####......
        dev0 s20 d2h:     ..###.....
        dev0 s21 d2h:     ...#####..
        dev0 s22 h2d:     .......###
        dev0 s23 d2h_pageable: .......###
        """,
    ],
)
def test_a_copy_after_the_last_work(tmp_path: Path, drawing: str) -> None:
    """What a program leaves with is a note: no step pays for it."""
    finding = only(drawn(tmp_path, drawing), "d2h-tail")
    assert (finding.cost_ns, finding.severity) == (4 * MS, "note")
    assert "after the last work of the trace" in finding.title


@pytest.mark.parametrize(
    "drawing",
    [
        "dev0 s7 compute: ####.....#\ndev0 s20 d2h: ..######..",
        "dev0 s7 compute: ####......\ndev0 s9 comm: ........##\ndev0 s20 d2h: ..######..",
        "dev0 s7 compute: ####......\ndev0 s9 graph: ........##\ndev0 s20 d2h: ..######..",
        "dev0 s7 compute: ####......\ndev0 s20 h2d: ..######..",
        "dev0 s7 compute: ####......\ndev0 s20 d2h_pageable: ..######..",
        "dev0 s20 d2h: ..######..",
    ],
)
def test_no_tail(tmp_path: Path, drawing: str) -> None:
    assert fired(drawn(tmp_path, drawing), "d2h-tail") == []


def test_the_tails_of_steps(tmp_path: Path) -> None:
    builder = draw(
        """
        dev0 s7  compute: .####......####......
        dev0 s20 d2h:     ...######....####....
        """,
        unit_ns=MS,
    )
    builder.nvtx("step 0", 900_000, 5 * MS)
    builder.nvtx("step 1", 10 * MS, 20 * MS)
    finding = only(drawn(tmp_path, builder), "d2h-tail")
    assert (finding.cost_ns, finding.severity) == (3 * MS, "warning")
    assert finding.title.startswith("2 D2H copies after the last work of a step")
    assert finding.detail.startswith("That is 100.0 % of the exposed D2H time.")
    assert [row.text for row in finding.evidence] == [
        "286.1 MiB D2H, the last 4.0 ms after all work of a step",
        "190.7 MiB D2H, the last 2.0 ms after all work of a step",
    ]


def test_the_next_step_hides_the_tail(tmp_path: Path) -> None:
    builder = draw(
        """
        dev0 s7  compute: .########
        dev0 s20 d2h:     ...####..
        """.replace("########", "AAAABBBB"),
        unit_ns=MS,
    )
    builder.nvtx("step 0", 900_000, 2 * MS)
    builder.nvtx("step 1", 4_900_000, 6 * MS)
    context = drawn(tmp_path, builder, steps="step")
    assert context.n_steps == 2
    assert fired(context, "d2h-tail") == []


def test_a_real_trace_waits_for_what_it_reloads() -> None:
    context = context_of(h200("jax_unroll_lhs"))
    (device,) = context.devices
    finding = only(context, "late-h2d")
    assert finding.severity == "warning"
    assert device.h2d.blocking_ns is not None
    # No copy starts before its own D2H is done: 28 follow it closely.
    assert finding.cost_ns < device.h2d.blocking_ns // 8
    assert all(row.op is not None and row.op.startswith("copy-start") for row in finding.evidence)
    assert fired(context, "nothing-beside") == fired(context, "d2h-tail") == []


def test_a_real_trace_without_the_scheduler() -> None:
    context = context_of(h200("jax_unroll_nolhs"))
    (device,) = context.devices
    finding = only(context, "nothing-beside")
    assert device.both.blocking_ns is not None
    assert finding.cost_ns == device.both.blocking_ns // 4
    assert f"Set {SCHEDULER}=true" in finding.remedy


def test_real_traces_of_one_stream_and_of_one_direction() -> None:
    serial = context_of(h200("micro_serial"))
    assert only(serial, "nothing-beside").cost_ns == (serial.devices[0].d2h.blocking_ns or 0) // 3
    tail = only(context_of(h200("micro_samedir")), "d2h-tail")
    assert 4.3 * MS < tail.cost_ns < 4.5 * MS


@pytest.mark.parametrize(
    "name", ["micro_hidden", "micro_duplex", "micro_pageable", "micro_managed", "jax_unroll_save"]
)
def test_real_traces_where_nothing_waits(name: str) -> None:
    context = context_of(h200(name))
    assert [fired(context, code) for code in ("late-h2d", "nothing-beside", "d2h-tail")] == [[]] * 3


def test_a_graph_that_serialises_is_no_late_reload() -> None:
    context = context_of(h200("jax_scan_pipelined_graph_node"))
    assert fired(context, "late-h2d") == fired(context, "nothing-beside") == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("h2d", "d2h", True),
        ("d2h", "h2d", False),
        ("h2d", "h2d", True),
        ("d2h", "d2h", False),
    ],
)
def test_what_is_on_the_host_before_a_step(
    tmp_path: Path, first: str, second: str, expected: bool
) -> None:
    """Optimizer state comes in before it goes out, parameters only come in."""
    builder = draw(
        f"""
        dev0 s7  compute: ##########
        dev0 s20 {first}: .##.......
        dev0 s21 {second}: ......##..
        """,
        unit_ns=MS,
    )
    assert not waits_on_host(drawn(tmp_path, builder), 0)
    builder.nvtx("step 0", -900_000, 9 * MS)
    context = drawn(tmp_path, builder, steps="step")
    assert context.n_steps == 1
    assert waits_on_host(context, 0) is expected


def test_copies_in_a_row_could_start_earlier_together(tmp_path: Path) -> None:
    """Two copies right behind one another, 2 ms after the one before: 2 ms could be won, not 8."""
    scene = Scene()
    scene.run("compute", 7, 10, 0, 1 * MS)
    scene.run("h2d", 20, 20, 0, 1 * MS)
    reload(scene, 100, 3 * MS, 7 * MS)
    reload(scene, 200, 7 * MS, 11 * MS, event=5)
    finding = only(drawn(tmp_path, scene.builder), "late-h2d")
    assert finding.cost_ns == 2 * MS
    assert finding.title == "Compute waits for 1 of 3 H2D copies, issued too late"
    assert "They could have started 2.0 ms earlier" in finding.detail


def test_a_reload_cannot_start_before_its_own_data_has_left(tmp_path: Path) -> None:
    """Its D2H is done 1 ms before it starts; compute waits 6 ms."""
    scene = waiting()
    scene.run("d2h", 21, 15, 1 * MS, 2 * MS)
    assert only(drawn(tmp_path, scene.builder), "late-h2d").cost_ns == 1 * MS
    right_behind = waiting()
    right_behind.run("d2h", 21, 15, 1 * MS, 3 * MS - 5_000)
    assert fired(drawn(tmp_path, right_behind.builder), "late-h2d") == []


def test_data_of_another_size_holds_nothing_back(tmp_path: Path) -> None:
    scene = waiting()
    scene.run("d2h", 21, 15, 1 * MS, 2 * MS, n_bytes=101)
    assert only(drawn(tmp_path, scene.builder), "late-h2d").cost_ns == 6 * MS
