"""What could be won at most: drawings by eye, and no random trace beyond its bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysoverlap import Window, analyze
from nsysoverlap.measure.bounds import measure_bounds
from nsysoverlap.measure.case import DeviceCase, device_case
from nsysoverlap.measure.overlap import budget_sets
from nsysoverlap.result.model import Bounds, StepReport, TimeBudget
from nsysoverlap.roles.rules import classify
from nsysoverlap.steps.launches import Launches
from nsysoverlap.steps.plan import StepPlan
from nsysoverlap.trace.load import read_trace

from .brute import ROLES
from .tracebuilder import ALL_REDUCE, GEMM, TraceBuilder, build
from .traces import h200

US = 1000


def cases(path: Path, window: Window | None = None) -> list[DeviceCase]:
    classified = classify(read_trace(path))
    launches = Launches(classified.trace)
    return [
        device_case(classified, launches, device, StepPlan(), window or Window())
        for device in classified.trace.devices
    ]


def bounds(case: DeviceCase, steps: tuple[StepReport, ...] = ()) -> Bounds:
    budget = sum(budget_sets(case.lanes).measure(case.window.pieces()), TimeBudget())
    return measure_bounds(case, case.measure(case.split("both")), budget, steps)


@pytest.mark.parametrize(
    ("drawing", "best", "left_us"),
    [
        pytest.param(
            """
            dev0 s7  compute: ####........
            dev0 s20 h2d:     ..########..
            """,
            4 / 8,
            8,
            id="half as much compute as transfers",
        ),
        pytest.param(
            """
            dev0 s7  compute: ########....
            dev0 s20 h2d:     ........####
            """,
            1.0,
            8,
            id="enough compute, badly placed",
        ),
        pytest.param(
            """
            dev0 s7  compute: ###.........
            dev0 s9  comm:    ..###.......
            dev0 s20 h2d:     ....########
            """,
            5 / 8,
            8,
            id="communication hides too",
        ),
        pytest.param(
            """
            dev0 s7  compute: ####..............
            dev0 s20 h2d:     ....######........
            dev0 s21 d2h:     ..........########
            """,
            4 / 8,
            8,
            id="both directions could have run at once",
        ),
        pytest.param(
            """
            dev0 s7  compute: ####........
            dev0 s20 h2d:     ####........
            dev0 s21 h2d:     ####........
            """,
            1.0,
            4,
            id="two of one direction at once count once",
        ),
        pytest.param(
            """
            dev0 s7  memset:  ####........
            dev0 s8  d2d:     ..###.......
            dev0 s20 h2d:     ....########
            """,
            0.0,
            8,
            id="other work hides nothing",
        ),
        pytest.param(
            """
            dev0 s7  compute: ##..........
            dev0 s8  graph:   .####.......
            dev0 s20 h2d:     ....########
            """,
            5 / 8,
            8,
            id="opaque time may be compute",
        ),
    ],
)
def test_bounds_of_a_drawing(tmp_path: Path, drawing: str, best: float, left_us: int) -> None:
    (case,) = cases(build(tmp_path / "t.sqlite", drawing))
    assert bounds(case) == Bounds(best, left_us * US)


def test_bounds_are_over_the_measured_time(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        dev0 s7  compute: ##.....#####
        dev0 s20 h2d:     ...####.....
        """,
    )
    assert [bounds(case) for case in cases(path)] == [Bounds(1.0, 8 * US)]
    window = Window(end_ns=6 * US)
    assert [bounds(case) for case in cases(path, window)] == [Bounds(2 / 3, 3 * US)]


def test_of_several_steps_the_median(tmp_path: Path) -> None:
    builder = TraceBuilder()
    # Steps of 20, 24 and 30 us, 2, 8 and 4 of them exposed: 18, 16 and 26 are left.
    for start, end, exposed in ((0, 20, 2), (20, 44, 8), (44, 74, 4)):
        builder.nvtx(f"step {start}", start * US - 5000, end * US - 5001)
        builder.kernel(start * US, (end - exposed) * US)
        builder.copy((end - exposed) * US, end * US, "h2d", stream=20)
    path = builder.write(tmp_path / "t.sqlite")
    (device,) = analyze(path).devices
    assert [step.duration_ns for step in device.steps] == [20 * US, 24 * US, 30 * US]
    (case,) = cases(path)
    assert bounds(case, device.steps).window_ns_without_exposed == 18 * US
    assert bounds(case, device.steps[:2]).window_ns_without_exposed == 17 * US


def test_nothing_without_transfers(tmp_path: Path) -> None:
    (case,) = cases(build(tmp_path / "t.sqlite", "dev0 s7 compute: ####"))
    assert bounds(case) == Bounds()
    (case,) = cases(h200("jax_unroll_save"))
    assert bounds(case) == Bounds()


SPANS = st.lists(
    st.tuples(st.sampled_from(ROLES), st.integers(0, 40), st.integers(1, 15), st.integers(7, 10)),
    min_size=1,
    max_size=14,
)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(spans=SPANS, window=st.none() | st.tuples(st.integers(0, 30), st.integers(1, 30)))
def test_no_trace_hides_more_than_its_bound(
    tmp_path: Path,
    spans: list[tuple[str, int, int, int]],
    window: tuple[int, int] | None,
) -> None:
    builder = TraceBuilder()
    for role, start, length, stream in spans:
        # Time 0 to 0 would mean "no timestamp", hence the offset.
        begin, end = start + 1, start + 1 + length
        if role in ("compute", "comm"):
            name = GEMM if role == "compute" else ALL_REDUCE
            builder.kernel(begin, end, name=name, stream=stream)
        elif role == "other":
            builder.memset(begin, end, stream=stream)
        elif role == "opaque":
            builder.graph(begin, end, stream=stream)
        else:
            builder.copy(begin, end, role, stream=stream)
    asked = Window(window[0], sum(window)) if window else None
    (case,) = cases(builder.write(tmp_path / "t.sqlite"), asked)
    found, both = bounds(case), case.measure(case.split("both"))
    if both.covered_share is None:
        assert found == Bounds()
        return
    assert found.best_hidden_share is not None
    assert both.covered_share <= found.best_hidden_share <= 1
    # Not even if all opaque time were compute.
    wall, lanes = case.split("both").wall.intersect(case.window), case.lanes
    covered = wall.intersect(lanes.active.union(lanes.opaque)).length
    assert covered / both.wall_ns <= found.best_hidden_share
    # Copies of one direction take their time one after the other, whatever hides them.
    walls = [case.measure(case.split(name)).wall_ns for name in ("h2d", "d2h")]
    left = max(case.window.length - both.exposed_ns, *walls)
    assert found.window_ns_without_exposed == left


@pytest.mark.parametrize(
    ("name", "best"),
    [("micro_serial", 0.5675), ("micro_pageable", 0.1376), ("jax_unroll_lhs", 1.0)],
)
def test_best_share_of_real_traces(name: str, best: float) -> None:
    (case,) = cases(h200(name))
    assert bounds(case).best_hidden_share == pytest.approx(best, abs=5e-5)


@pytest.mark.parametrize("name", ["jax_unroll_nolhs", "jax_unroll_lhs"])
def test_saving_on_the_device_plus_exposed_time_predicts_the_step(name: str) -> None:
    """As `docs/metric.md` explains it: a little high, because the saved run never pauses."""

    def median_step(steps: tuple[StepReport, ...]) -> int:
        return sorted(step.duration_ns for step in steps)[len(steps) // 2]

    (saved,) = analyze(h200("jax_unroll_save")).devices
    (device,) = analyze(h200(name)).devices
    (case,) = cases(h200(name))
    left = bounds(case, device.steps).window_ns_without_exposed
    assert left is not None
    assert 0.96 < left / median_step(saved.steps) < 1
    exposed = sorted(step.both.exposed_ns for step in device.steps)[2]
    predicted = median_step(saved.steps) + exposed
    assert 1 < predicted / median_step(device.steps) < 1.04
