"""Operations: what issued each transfer, what it cost, what followed, and how much is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from nsysoverlap import Window
from nsysoverlap.measure.case import DeviceCase
from nsysoverlap.measure.operations import measure_operations, transfer_labels
from nsysoverlap.measure.overlap import split
from nsysoverlap.result.model import Attribution, OperationReport, Overlap

from .casekit import Scene, device_cases
from .tracebuilder import build
from .traces import h200, h200_names

ADDITIVE = ("n", "n_by_kernel", "bytes", "bytes_estimated", "busy_ns", "copy_ns")
WALL = ("wall_ns", "hidden_by_compute_ns", "hidden_by_comm_ns", "exposed_ns")


def labelled(case: DeviceCase) -> list[tuple[str, str, bool]]:
    """(op, label, attributed) of each transfer."""
    found = transfer_labels(case)
    columns = (found.op.tolist(), found.label.tolist(), found.attributed.tolist())
    return list(zip(*columns, strict=True))


def copy_under(tmp_path: Path, *texts: str, graph: bool = False, at: int | None = 50) -> DeviceCase:
    """One copy launched at 50 inside the ranges, the first one outermost."""
    scene = Scene()
    for depth, text in enumerate(texts):
        scene.label(text, 10 + depth, 90 - depth)
    scene.run("d2h", 20, at, 100, 200, api="cudaMemcpyAsync_v3020", graph=graph)
    return scene.case(tmp_path / "t.sqlite")


THUNK = "Thunk:#name=jit(f)/slice,hlo_op=copy-start.3,unique_hlo_op_id=7#"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([THUNK], ("copy-start.3", "jit(f)/slice", True)),
        (["XlaModule:#hlo_module=jit_f,program_id=1#", THUNK, THUNK], None),
        ([THUNK, "my copy"], ("my copy", "", True)),
        (["XlaModule:#hlo_module=jit_f,program_id=1#"], ("jit_f", "", True)),
        (["Thunk:#broken"], ("Thunk:#broken", "", True)),
        (["layer 12"], ("layer 12", "", True)),
        # An operation is the same one in every step.
        (["step 12"], ("step N", "", True)),
        (["train#step_num=12#"], ("train#step_num=N#", "", True)),
        ([""], ("cudaMemcpyAsync", "", False)),
        ([], ("cudaMemcpyAsync", "", False)),
    ],
)
def test_the_innermost_label_names_the_operation(
    tmp_path: Path, texts: list[str], expected: tuple[str, str, bool] | None
) -> None:
    found = labelled(copy_under(tmp_path, *texts))
    assert found == [expected or ("copy-start.3", "jit(f)/slice", True)]


def test_a_range_that_closed_before_the_launch_names_nothing(tmp_path: Path) -> None:
    scene = Scene()
    scene.label("earlier", 10, 40)
    scene.label("other thread", 10, 90, tid=2)
    scene.label("other process", 10, 90, pid=2000)
    scene.run("d2h", 20, 50, 100, 200, api="cuMemcpyDtoHAsync_v2")
    assert labelled(scene.case(tmp_path / "t.sqlite")) == [("cuMemcpyDtoHAsync", "", False)]


def test_without_a_call_the_operation_is_unknown(tmp_path: Path) -> None:
    assert labelled(copy_under(tmp_path, THUNK, at=None)) == [("unknown", "", False)]


@pytest.mark.parametrize(
    ("texts", "op", "attributed"),
    [
        (["Thunk:#name=jit(f),hlo_op=command_buffer_77#"], "command_buffer_77", True),
        ([], "cudaGraphLaunch", False),
    ],
)
def test_copies_of_a_graph_carry_the_label_of_its_launch(
    tmp_path: Path, texts: list[str], op: str, attributed: bool
) -> None:
    assert labelled(copy_under(tmp_path, *texts, graph=True)) == [(op, "graph", attributed)]


def test_transfer_kernels_have_a_label_too(tmp_path: Path) -> None:
    scene = Scene()
    scene.label(THUNK, 10, 90)
    scene.run("compute", 7, 50, 100, 30_100, name="wrapped_dynamic_update_slice_2")
    (report,), known = measure_operations([scene.case(tmp_path / "t.sqlite")], None)
    assert (report.op, report.direction, report.overlap.n_by_kernel) == ("copy-start.3", "d2h", 1)
    # One block of 256 threads, 8 bytes each.
    assert known == Attribution(2048, 2048, 30_000, 30_000)


def test_a_table_by_operation_and_direction(tmp_path: Path) -> None:
    """gemm         ###...#....
    d2h  copy.1   ..##.......    a half exposed
    h2d  copy.1   .....#.....    exposed, gemm next
    d2h  copy.2   .......####    exposed, nothing follows
    """
    scene = Scene()
    for i, (kind, op, start, end) in enumerate(
        [("d2h", "copy.1", 120, 140), ("h2d", "copy.1", 150, 160), ("d2h", "copy.2", 170, 210)]
    ):
        scene.label(f"Thunk:#hlo_op={op},unique_hlo_op_id={i}#", 10 * i, 10 * i + 9)
        scene.run(kind, 20 + i, 10 * i + 2, start, end, n_bytes=1000 * (i + 1))
    scene.run("compute", 7, 40, 100, 130, name="first")
    scene.run("compute", 7, 41, 160, 170, name="void second<int>(int)")
    case = scene.case(tmp_path / "t.sqlite")
    reports, known = measure_operations([case], 2)
    assert [
        (r.op, r.label, r.direction, r.overlap.bytes, r.overlap.exposed_ns, r.exposed_per_step_ns)
        for r in reports
    ] == [
        ("copy.2", "", "d2h", 3000, 40, 20),
        ("copy.1", "", "d2h", 1000, 10, 5),
        ("copy.1", "", "h2d", 2000, 10, 5),
    ]
    assert [r.followed_by for r in reports] == [None, "second", "second"]
    assert known == Attribution(6000, 6000, 60, 60)


def test_numbering_tells_operations_apart(tmp_path: Path) -> None:
    scene = Scene()
    for i, op in enumerate(["copy-start.3", "copy-start.4", "copy-start.3"]):
        scene.label(f"Thunk:#hlo_op={op}#", 10 * i, 10 * i + 9)
        scene.run("d2h", 20, 10 * i + 1, 100 + 10 * i, 105 + 10 * i)
    reports, _ = measure_operations([scene.case(tmp_path / "t.sqlite")], None)
    assert {(r.op, r.overlap.n) for r in reports} == {("copy-start.3", 2), ("copy-start.4", 1)}
    assert [r.exposed_per_step_ns for r in reports] == [None, None]


def test_followed_by_is_what_most_of_the_time_was_followed_by(tmp_path: Path) -> None:
    """20 ns before a, twice 15 before the two forms of b, 25 with nothing after."""
    scene = Scene()
    for start, end in ((0, 20), (100, 115), (200, 215), (300, 325)):
        scene.run("h2d", 20, start - 50, start, end, api="cudaMemcpyAsync_v3020")
    for start, name in ((30, "a"), (120, "void b<int>(int)"), (220, "void b<float>(float)")):
        scene.run("compute", 7, 1, start, start + 5, name=name)
    (report,), _ = measure_operations([scene.case(tmp_path / "t.sqlite")], None)
    assert report.overlap.exposed_ns == 75
    assert report.followed_by == "b"


@pytest.mark.parametrize(("tail", "expected"), [(30, "a"), (40, None), (41, None)])
def test_followed_by_nothing(tmp_path: Path, tail: int, expected: str | None) -> None:
    scene = Scene()
    scene.run("h2d", 20, 1, 10, 50, api="cudaMemcpyAsync_v3020")
    scene.run("compute", 7, 2, 60, 70, name="a")
    scene.run("h2d", 20, 3, 100, 100 + tail, api="cudaMemcpyAsync_v3020")
    (report,), _ = measure_operations([scene.case(tmp_path / "t.sqlite")], None)
    assert report.followed_by == expected


def test_devices_add(tmp_path: Path) -> None:
    """The same operation on two GPUs; what followed is judged over both."""
    scene = Scene()
    for device, (length, name) in enumerate([(100, "a"), (300, "b")]):
        scene.label("Thunk:#hlo_op=copy-start.1#", 10 * device, 10 * device + 9)
        scene.run("h2d", 20, 10 * device + 1, 1000, 1000 + length, device=device)
        scene.run("compute", 7, 30, 2000, 2010, device=device, name=name)
    cases = scene.cases(tmp_path / "t.sqlite")
    assert len(cases) == 2
    (report,), known = measure_operations(cases, 3)
    assert (report.overlap.n, report.overlap.exposed_ns) == (2, 400)
    # Side by side: in each of 3 steps one of the two loses 33 ns and the other 100 ns.
    assert (report.exposed_per_step_ns, report.followed_by) == (67, "b")
    assert known == Attribution(200, 200, 400, 400)


def test_copies_at_once_count_for_both_operations(tmp_path: Path) -> None:
    scene = Scene()
    for i in range(2):
        scene.label(f"op {i}", 10 * i, 10 * i + 9)
        scene.run("h2d", 20 + i, 10 * i + 1, 100, 200)
    case = scene.case(tmp_path / "t.sqlite")
    reports, known = measure_operations([case], None)
    assert [r.overlap.wall_ns for r in reports] == [100, 100]
    assert case.measure(case.split("h2d")).wall_ns == 100
    assert sum(r.overlap.busy_ns for r in reports) == case.measure(case.split("h2d")).busy_ns
    assert known.exposed_ns == 200


def test_what_lies_outside_the_window_is_left_out(tmp_path: Path) -> None:
    scene = Scene()
    for i, start in enumerate([100, 300, 500]):
        scene.label(f"op {i}", 10 * i, 10 * i + 9)
        scene.run("h2d", 20, 10 * i + 1, start, start + 100)
    path = scene.builder.write(tmp_path / "t.sqlite")
    (case,) = device_cases(path, window=Window(150, 350))
    reports, known = measure_operations([case], None)
    # Op 0 reaches in: its time counts, its bytes belong to where it began.
    assert {(r.op, r.overlap.n, r.overlap.bytes, r.overlap.exposed_ns) for r in reports} == {
        ("op 0", 0, 0, 50),
        ("op 1", 1, 100, 50),
    }
    assert known == Attribution(100, 100, 100, 100)


def test_followed_by_counts_the_window_only(tmp_path: Path) -> None:
    """100 ns before a of which 10 are in the window, and 20 before b."""
    scene = Scene()
    scene.run("h2d", 20, 1, 100, 200, api="cudaMemcpyAsync_v3020")
    scene.run("compute", 7, 2, 200, 210, name="a")
    scene.run("h2d", 20, 3, 220, 240, api="cudaMemcpyAsync_v3020")
    scene.run("compute", 7, 4, 250, 260, name="b")
    path = scene.builder.write(tmp_path / "t.sqlite")
    for window, expected in ((Window(), "a"), (Window(190, 300), "b")):
        (report,), _ = measure_operations(device_cases(path, window=window), None)
        assert report.followed_by == expected


def test_attribution_counts_what_is_known(tmp_path: Path) -> None:
    scene = Scene()
    scene.label("op 0", 0, 9)
    scene.run("h2d", 20, 1, 100, 200, n_bytes=700)
    scene.run("h2d", 20, 11, 300, 400, n_bytes=200)
    scene.run("compute", 20, 12, 500, 510)
    scene.run("h2d", 20, None, 600, 650, n_bytes=100)
    scene.run("compute", 20, 13, 700, 710)
    _, known = measure_operations([scene.case(tmp_path / "t.sqlite")], None)
    assert known == Attribution(700, 1000, 200, 250)


def test_nothing_is_resolved_where_blocking_is_unknown(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("h2d", 20, 1, 100, 200, graph=True)
    scene.run("compute", 20, 2, 300, 310)
    reports, known = measure_operations([scene.case(tmp_path / "t.sqlite", schema="3.7")], None)
    assert [r.overlap.blocking_ns for r in reports] == [None]
    assert (known.resolved_ns, known.exposed_ns) == (0, 100)


def test_no_transfers(tmp_path: Path) -> None:
    cases = device_cases(build(tmp_path / "t.sqlite", "dev0 s7 compute: ##"))
    assert measure_operations(cases, 4) == ((), Attribution())
    assert measure_operations([], None) == ((), Attribution())
    assert labelled(cases[0]) == []


def assert_reconciles(cases: Sequence[DeviceCase], reports: Sequence[OperationReport]) -> None:
    """Operations of a direction against the devices' totals of it."""
    for direction in ("h2d", "d2h"):
        mine = sum((r.overlap for r in reports if r.direction == direction), Overlap())
        whole = sum((case.measure(case.split(direction)) for case in cases), Overlap())
        for name in ADDITIVE:
            assert getattr(mine, name) == getattr(whole, name), name
        for name in WALL:
            assert getattr(mine, name) >= getattr(whole, name), name
        assert (mine.blocking_ns or 0) >= (whole.blocking_ns or 0)


def _has(case: DeviceCase, report: OperationReport) -> bool:
    """Whether transfers of the operation start in the measured time of the device."""
    labels, role = transfer_labels(case), {"h2d": 2, "d2h": 3}[report.direction]
    mine = (labels.op == report.op) & (labels.label == report.label) & (case.rows.role == role)
    return bool((mine & case.counted.contains(case.rows.start_ns)).any())


@pytest.mark.parametrize("steps", ["auto", "none"])
@pytest.mark.parametrize("name", h200_names())
def test_real_operations_reconcile_with_the_devices(name: str, steps: str) -> None:
    cases = device_cases(h200(name), steps)
    reports, known = measure_operations(cases, 4)
    assert_reconciles(cases, reports)
    assert known.total_bytes == sum(r.overlap.bytes + r.overlap.bytes_estimated for r in reports)
    assert known.attributed_bytes <= known.total_bytes
    assert known.resolved_ns <= known.exposed_ns
    exposed = [r.overlap.exposed_ns for r in reports]
    assert exposed == sorted(exposed, reverse=True)
    assert len({(r.op, r.label, r.direction) for r in reports}) == len(reports)
    for report in reports:
        part = report.overlap
        assert part.blocking_ns is None or part.blocking_ns <= part.exposed_ns
        n_devices = sum(_has(case, report) for case in cases)
        assert report.exposed_per_step_ns == round(part.exposed_ns / (4 * n_devices))
    moved = sum(case.measure(case.split("both")).n for case in cases)
    assert sum(r.overlap.n for r in reports) == moved


@pytest.mark.parametrize("name", ["jax_fsdp2_lhs", "jax_scan_pipelined", "ddp_two_procs"])
def test_each_operation_is_the_split_of_its_own_transfers(name: str) -> None:
    cases = device_cases(h200(name), "auto")
    reports, _ = measure_operations(cases, None)
    assert len(reports) > 1 or name == "ddp_two_procs"
    for report in reports:
        whole = Overlap()
        for case in cases:
            labels = transfer_labels(case)
            role = {"h2d": 2, "d2h": 3}[report.direction]
            mine = (labels.op == report.op) & (labels.label == report.label)
            mine &= case.rows.role == role
            own = split(case.rows.select(mine), case.lanes, case.pieces.waited(mine))
            whole += sum(own.measure(case.window.pieces()), Overlap())
        assert report.overlap == whole


def test_jax_unrolled_names_its_copies() -> None:
    cases = device_cases(h200("jax_unroll_lhs"), "auto")
    reports, known = measure_operations(cases, 4)
    assert len(reports) == 16
    assert all(r.op.startswith("copy-start") and r.label == "" for r in reports)
    assert all(r.overlap.n == 4 for r in reports)
    assert known.attributed_bytes == known.total_bytes == 25_769_803_776
    assert known.resolved_ns == known.exposed_ns
    # What the scheduler could not hide is the reloads.
    assert [r.direction for r in reports[:6]] == ["h2d"] * 6
    assert {r.followed_by for r in reports[:6]} == {"wrapped_slice_32"}


def test_both_gpus_of_a_process_share_their_operations() -> None:
    cases = device_cases(h200("jax_fsdp2_lhs"), "auto")
    assert len(cases) == 2
    reports, known = measure_operations(cases, 4)
    assert len(reports) == 16
    assert {r.overlap.n for r in reports} == {8}
    assert all(r.op.startswith("copy-start") for r in reports)
    assert known.attributed_bytes == known.total_bytes


def test_scan_copies_carry_their_scope() -> None:
    cases = device_cases(h200("jax_scan_lhs"), "auto")
    reports, _ = measure_operations(cases, 4)
    assert [(r.op, r.direction, r.label.rsplit("/", 1)[-1]) for r in reports] == [
        ("wrapped_dynamic-slice", "h2d", "dynamic_slice"),
        ("wrapped_dynamic-update-slice", "d2h", "dynamic_update_slice"),
    ]


def test_command_buffers_are_labelled_graph() -> None:
    cases = device_cases(h200("jax_scan_pipelined_graph_node"), "auto")
    reports, known = measure_operations(cases, 4)
    assert {(r.op, r.label, r.direction, r.overlap.n) for r in reports} == {
        ("command_buffer_77", "graph", "h2d", 64),
        ("command_buffer_22", "graph", "d2h", 56),
        ("command_buffer_62", "graph", "d2h", 8),
    }
    assert known.attributed_bytes == known.total_bytes > 0
    assert known.resolved_ns == 0 < known.exposed_ns


def test_labels_come_row_by_row() -> None:
    (case,) = device_cases(h200("jax_scan_pipelined"), "auto")
    labels = transfer_labels(case)
    assert len(labels.op) == len(labels.label) == len(labels.attributed) == len(case.rows)
    assert labels.attributed.all()
    by_kernel = labels.op[case.rows.by_kernel]
    assert set(by_kernel) == {"wrapped_dynamic-update-slice.2", "wrapped_dynamic-update-slice.3"}
    assert np.array_equal(labels.op, [labels.keys[code][0] for code in labels.code])
