"""The split and the time budget: drawings by eye, random traces against the brute-force model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysoverlap import Window, analyze
from nsysoverlap.measure.overlap import _summed_cover
from nsysoverlap.result.model import DeviceReport, Overlap, TimeBudget

from . import brute
from .tracebuilder import ALL_REDUCE, GEMM, TraceBuilder, build

DIRECTIONS = ("h2d", "d2h", "both", "unified_h2d", "unified_d2h")
MEASURED = (
    "n",
    "busy_ns",
    "wall_ns",
    "hidden_by_compute_ns",
    "hidden_by_comm_ns",
    "exposed_ns",
    "exposed_under_other_ns",
)


def only_device(path: Path, window: Window | None = None) -> DeviceReport:
    (device,) = analyze(path, window=window).devices
    return device


def microseconds(overlap: Overlap) -> tuple[int, int, int, int]:
    """Wall, behind compute, behind communication only, exposed."""
    parts = (
        overlap.wall_ns,
        overlap.hidden_by_compute_ns,
        overlap.hidden_by_comm_ns,
        overlap.exposed_ns,
    )
    assert all(part % 1000 == 0 for part in parts)
    return tuple(part // 1000 for part in parts)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("drawing", "expected"),
    [
        pytest.param(
            """
            dev0 s7  compute: .####....##.
            dev0 s20 h2d:     ...####.....
            """,
            (4, 2, 0, 2),
            id="partly hidden",
        ),
        pytest.param(
            """
            dev0 s7  compute: ####........
            dev0 s20 h2d:     ....####....
            """,
            (4, 0, 0, 4),
            id="touching is not overlapping",
        ),
        pytest.param(
            """
            dev0 s7  compute: ##########..
            dev0 s20 h2d:     ..####......
            """,
            (4, 4, 0, 0),
            id="nested",
        ),
        pytest.param(
            """
            dev0 s7  compute: ..####......
            dev0 s8  compute: ..####......
            dev0 s20 h2d:     ..####......
            """,
            (4, 4, 0, 0),
            id="two kernels over one copy hide it once",
        ),
        pytest.param(
            """
            dev0 s7  compute: ..##........
            dev0 s20 h2d:     .####.......
            dev0 s21 h2d:     ...####.....
            """,
            (6, 2, 0, 4),
            id="two copies at once count once",
        ),
        pytest.param(
            """
            dev0 s7  compute: .##.........
            dev0 s9  comm:    ..####......
            dev0 s20 h2d:     .#######....
            """,
            (7, 2, 3, 2),
            id="compute comes before communication",
        ),
        pytest.param(
            """
            dev0 s7  memset:  .###........
            dev0 s8  d2d:     ..####......
            dev0 s20 h2d:     .######.....
            """,
            (6, 0, 0, 6),
            id="memsets and on-device copies hide nothing",
        ),
        pytest.param(
            """
            dev1 s7  compute: ######......
            dev0 s20 h2d:     .####.......
            """,
            (4, 0, 0, 4),
            id="another GPU hides nothing",
        ),
        pytest.param(
            """
            pid2 dev0 s7  compute: ######......
            pid1 dev0 s20 h2d:     .####.......
            """,
            (4, 4, 0, 0),
            id="another process on the same proven GPU does hide",
        ),
        pytest.param(
            """
            dev0 s9  peer:    .##.........
            dev0 s20 h2d:     .####.......
            """,
            (4, 0, 2, 2),
            id="a peer copy is communication",
        ),
        pytest.param(
            """
            dev0 s9  staged_h2d: .##.........
            dev0 s20 h2d:        .####.......
            """,
            (4, 0, 2, 2),
            id="a host-staged peer copy is communication, not offload",
        ),
    ],
)
def test_h2d_split(tmp_path: Path, drawing: str, expected: tuple[int, int, int, int]) -> None:
    devices = analyze(build(tmp_path / "t.sqlite", drawing)).devices
    overlap = sum((device.h2d for device in devices), Overlap())
    assert microseconds(overlap) == expected


def test_time_budget_gives_each_instant_to_the_first_role(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        dev0 s7  compute: ####...........#
        dev0 s9  comm:    ..####..........
        dev0 s20 h2d:     ....####........
        dev0 s8  memset:  .......##.......
        dev0 s11 graph:   ........###.....
        """,
    )
    budget = only_device(path).time_budget
    assert {name: ns // 1000 for name, ns in asdict(budget).items()} == {
        "compute_ns": 5,
        "comm_ns": 2,
        "transfer_ns": 2,
        "other_ns": 1,
        "opaque_ns": 2,
        "idle_ns": 4,
    }


def test_bandwidth_is_bytes_over_whole_copies(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        dev0 s7  compute:             .######
        dev0 s20 bytes=100000 h2d:    AABB...
        """,
    )
    assert only_device(path).h2d.gb_per_s == pytest.approx(50.0)
    # The window cuts the second copy in half: its time is clipped, its rate is not.
    windowed = only_device(path, Window(2000, 3000)).h2d
    assert (windowed.wall_ns, windowed.bytes, windowed.gb_per_s) == (1000, 100_000, 50.0)


def test_the_rate_counts_a_copy_of_one_byte_and_none_of_no_bytes(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy(1_000, 2_000, "h2d", 1)
    builder.copy(3_000, 5_000, "h2d", 0)
    h2d = only_device(builder.write(tmp_path / "t.sqlite")).h2d
    assert (h2d.wall_ns, h2d.copy_ns, h2d.gb_per_s) == (3_000, 1_000, 0.001)


def test_sums_within_bounds_are_none_where_the_bounds_hold_nothing() -> None:
    """[0, 5), [2, 9) and [4, 6) within [3, 8), [4, 4), [8, 3) and all."""
    starts, ends, low, high = (
        np.array(times, np.int64) for times in ([0, 2, 4], [5, 9, 6], [3, 4, 8, 0], [8, 4, 3, 10])
    )
    assert _summed_cover(starts, ends, low, high).tolist() == [2 + 5 + 2, 0, 0, 5 + 7 + 2]


def test_an_overlap_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(AssertionError, match="does not add up"):
        Overlap(wall_ns=10, hidden_by_compute_ns=4, exposed_ns=5)


# Random traces. A span is (role, start, length, stream).
SPANS = st.lists(
    st.tuples(
        st.sampled_from(brute.ROLES),
        st.integers(0, 40),
        st.integers(1, 15),
        st.integers(7, 10),
    ),
    min_size=1,
    max_size=14,
)
RELAXED = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
Spans = list[tuple[str, int, int, int]]


def write(spans: Spans, path: Path, *, seed: int | None = None, shift: int = 0) -> Path:
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
            builder.copy(begin, end, role, n_bytes=length * 8, stream=stream)
    return builder.write(path, shuffle_seed=seed, shift_ns=shift)


def as_brute(spans: Spans) -> list[brute.Span]:
    return [(role, start + 1, start + 1 + length) for role, start, length, _ in spans]


def agrees(device: DeviceReport, spans: list[brute.Span], window: brute.Window) -> None:
    for direction in DIRECTIONS:
        overlap = asdict(getattr(device, direction))
        expected = brute.overlap(spans, direction, window)
        assert {name: overlap[name] for name in MEASURED} == expected, direction
    assert asdict(device.time_budget) == brute.time_budget(spans, window)


@RELAXED
@given(spans=SPANS)
def test_random_traces_equal_the_brute_force_model(tmp_path: Path, spans: Spans) -> None:
    drawn = as_brute(spans)
    agrees(only_device(write(spans, tmp_path / "t.sqlite")), drawn, brute.extent(drawn))


@RELAXED
@given(
    spans=SPANS, seed=st.integers(0, 99), shift=st.sampled_from([0, -5, 1_700_000_000_000_000_000])
)
def test_order_of_rows_and_time_base_do_not_matter(
    tmp_path: Path, spans: Spans, seed: int, shift: int
) -> None:
    plain = only_device(write(spans, tmp_path / "plain.sqlite"))
    moved = only_device(write(spans, tmp_path / "moved.sqlite", seed=seed, shift=shift))
    assert (moved.time_budget, moved.streams) == (plain.time_budget, plain.streams)
    for direction in DIRECTIONS:
        assert getattr(moved, direction) == getattr(plain, direction)
    assert moved.window_ns == (plain.window_ns[0] + shift, plain.window_ns[1] + shift)


@pytest.mark.slow
@RELAXED
@given(spans=SPANS, data=st.data())
def test_adjacent_windows_add_up(tmp_path: Path, spans: Spans, data: st.DataObject) -> None:
    path = write(spans, tmp_path / "t.sqlite")
    whole = only_device(path)
    first, last = whole.window_ns
    if last - first < 2:
        return
    cut = data.draw(st.integers(first + 1, last - 1))
    left, right = only_device(path, Window(None, cut)), only_device(path, Window(cut, None))
    agrees(left, as_brute(spans), (first, cut))
    assert left.time_budget + right.time_budget == whole.time_budget
    for direction in DIRECTIONS:
        assert getattr(left, direction) + getattr(right, direction) == getattr(whole, direction)


def test_sums_of_huge_times_stay_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    builder = TraceBuilder()
    base, total = 4_000_000_000_000_000_000, 0
    for i in range(3_000):
        start, length = base + 1_000 * i, int(rng.integers(1, 5_000))
        builder.copy(start, start + length, "d2h", stream=20 + i % 3)
        total += length
    device = only_device(builder.write(tmp_path / "t.sqlite"))
    assert device.d2h.busy_ns == total
    assert isinstance(device.time_budget, TimeBudget)
