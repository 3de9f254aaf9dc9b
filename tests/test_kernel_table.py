"""Which kernels ran beside transfers, and which ran alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from nsysoverlap import Window
from nsysoverlap.measure.case import DeviceCase
from nsysoverlap.measure.kernels_beside import measure_kernels
from nsysoverlap.result.model import KernelReport
from nsysoverlap.roles.rules import Role
from nsysoverlap.trace.contents import short_name

from .casekit import Scene, device_cases
from .tracebuilder import ALL_REDUCE, build
from .traces import h200, h200_names

US = 1_000
REDUCE = short_name(ALL_REDUCE)


def table(path: Path, top: int = 20, window: Window | None = None) -> list[tuple[object, ...]]:
    """(name, role, n, us beside, us alone) of each row."""
    found = measure_kernels(device_cases(path, window=window), top)
    return [(k.name, k.role, k.n, k.beside_ns / US, k.alone_ns / US) for k in found]


def test_time_beside_transfers_and_alone(tmp_path: Path) -> None:
    drawing = """
        dev0 s7  kernel gemm:  ####..####......
        dev0 s9  comm:         ..........###...
        dev0 s11 memset:       .............##.
        dev0 s12 kernel idle:  ..............##
        dev0 s20 h2d:          ..##............
        dev0 s21 d2h:          .......####.....
        dev0 s22 d2h:          ........###.....
        dev0 s23 unified_h2d:  #...............
    """
    # Copies at once count once, and neither memsets nor migrations are transfers.
    assert table(build(tmp_path / "t.sqlite", drawing)) == [
        ("gemm", "compute", 2, 5, 3),
        (REDUCE, "comm", 1, 1, 2),
        ("idle", "compute", 1, 0, 2),
    ]


def test_launches_at_once_both_count(tmp_path: Path) -> None:
    drawing = """
        dev0 s7  kernel a: ####
        dev0 s8  kernel a: .###
        dev0 s20 h2d:      ..##
    """
    assert table(build(tmp_path / "t.sqlite", drawing)) == [("a", "compute", 2, 4, 3)]


def test_transfers_of_another_device_are_not_beside(tmp_path: Path) -> None:
    drawing = """
        dev0 s7  kernel a: ####......
        dev0 s20 h2d:      ......##..
        dev1 s7  kernel a: ......##..
        dev1 s20 h2d:      ####...#..
    """
    assert table(build(tmp_path / "t.sqlite", drawing)) == [("a", "compute", 2, 1, 5)]


def test_only_the_window_counts(tmp_path: Path) -> None:
    drawing = """
        dev0 s7  kernel a: ####..####
        dev0 s8  kernel b: ##........
        dev0 s20 h2d:      ..######..
    """
    path = build(tmp_path / "t.sqlite", drawing)
    # The launch at 0 reaches into the window but does not start in it; b lies outside.
    found = table(path, window=Window(3 * US, 9 * US))
    assert found == [("a", "compute", 1, 3, 1)]


def test_only_steps_count(tmp_path: Path) -> None:
    scene = Scene()
    for step in range(2):
        scene.label(f"step {step}", 100 * step, 100 * step + 50)
        scene.run("compute", 7, 100 * step + 10, 1000 * step + 100, 1000 * step + 300, name="a")
    scene.run("compute", 7, 500, 3000, 4000, name="after")
    scene.run("d2h", 20, 500, 200, 400)
    (case,) = scene.cases(tmp_path / "t.sqlite", "auto")
    assert measure_kernels([case]) == (KernelReport("a", "compute", 2, 100, 300),)


def test_names_are_short_and_alike_ones_count_as_one(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("compute", 7, 1, 10, 20, name="void ns::axpy<float>(float*)")
    scene.run("compute", 7, 2, 30, 35, name="void ns::axpy<double>(double*)")
    case = scene.case(tmp_path / "t.sqlite")
    assert measure_kernels([case]) == (KernelReport("axpy", "compute", 2, 0, 15),)


def test_transfer_kernels_hide_nothing(tmp_path: Path) -> None:
    drawing = f"""
        dev0 s7  kernel a:                             {"#" * 40}
        dev0 s20 kernel wrapped_dynamic_update_slice_2: {"#" * 30}.
    """
    assert table(build(tmp_path / "t.sqlite", drawing)) == [("a", "compute", 1, 30, 10)]


def test_the_top_by_either_time(tmp_path: Path) -> None:
    """a and b run beside the copy, c and d alone, e a little of both."""
    drawing = """
        dev0 s20 h2d:      ##########..........
        dev0 s1  kernel a: #####...............
        dev0 s2  kernel b: .....####...........
        dev0 s3  kernel c: ..........#####.....
        dev0 s4  kernel d: ...............####.
        dev0 s5  kernel e: .........##.........
    """
    path = build(tmp_path / "t.sqlite", drawing)
    rows = {
        "a": ("a", "compute", 1, 5, 0),
        "b": ("b", "compute", 1, 4, 0),
        "c": ("c", "compute", 1, 0, 5),
        "d": ("d", "compute", 1, 0, 4),
        "e": ("e", "compute", 1, 1, 1),
    }
    assert table(path, 1) == [rows[name] for name in "ac"]
    assert table(path, 2) == [rows[name] for name in "acbd"]
    assert table(path, 3) == [rows[name] for name in "acbde"]
    assert table(path, 9) == table(path, 3)
    assert table(path, 0) == []


def test_a_kernel_is_in_no_top_for_a_time_it_does_not_have(tmp_path: Path) -> None:
    """Only d runs beside the copy: a, alone and short, is not second in that."""
    drawing = """
        dev0 s20 h2d:      ###..........
        dev0 s1  kernel d: ###..........
        dev0 s2  kernel a: ...#.........
        dev0 s3  kernel b: ...###.......
        dev0 s4  kernel c: ...####......
    """
    path = build(tmp_path / "t.sqlite", drawing)
    assert [name for name, *_ in table(path, 2)] == ["c", "b", "d"]


def test_a_trace_without_kernels(tmp_path: Path) -> None:
    assert table(build(tmp_path / "t.sqlite", "dev0 s20 h2d: ##")) == []
    assert measure_kernels([]) == ()


def totals(case: DeviceCase) -> tuple[int, int, int]:
    """n, time beside and time alone of all launches, one at a time."""
    trace = case.classified.trace
    n = beside = alone = 0
    copies = case.rows.union.pieces()
    for window_start, window_end in case.window.pieces():
        for row, (start, end) in enumerate(
            zip(trace.kernels.start_ns.tolist(), trace.kernels.end_ns.tolist(), strict=True)
        ):
            if trace.stream_device[trace.kernels.stream[row]] != case.device.index:
                continue
            if case.classified.kernel_role[row] not in (Role.COMPUTE, Role.COMM):
                continue
            low, high = max(start, window_start), min(end, window_end)
            inside = max(0, high - low)
            with_copy = sum(max(0, min(high, e) - max(low, s)) for s, e in copies)
            n += window_start <= start < window_end
            beside += with_copy if inside else 0
            alone += inside - with_copy if inside else 0
    return n, beside, alone


@pytest.mark.parametrize("name", ["jax_unroll_lhs", "ddp_two_procs", "jax_scan_pipelined"])
def test_real_totals(name: str) -> None:
    cases = device_cases(h200(name), "auto")
    found = measure_kernels(cases, 10_000)
    one_by_one = [totals(case) for case in cases]
    assert (
        sum(k.n for k in found),
        sum(k.beside_ns for k in found),
        sum(k.alone_ns for k in found),
    ) == tuple(map(sum, zip(*one_by_one, strict=True)))
    assert sum(k.beside_ns for k in found) > 0


@pytest.mark.parametrize("name", h200_names())
def test_real_tables_are_ordered_and_limited(name: str) -> None:
    found = measure_kernels(device_cases(h200(name), "auto"), 3)
    lengths = [k.beside_ns + k.alone_ns for k in found]
    assert lengths == sorted(lengths, reverse=True)
    assert len(found) <= 6
    assert max(Counter((k.name, k.role) for k in found).values(), default=1) == 1
    assert bool(found) == (name not in ("jax_fsdp2_events_lost", "micro_graph_graph"))
