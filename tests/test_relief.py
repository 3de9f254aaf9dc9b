"""What was on the host at one time: drawings by eye, a queue one tensor at a time, real traces."""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from nsysoverlap import analyze
from nsysoverlap.cli.app import main
from nsysoverlap.measure.lanes import Transfers, device_lanes
from nsysoverlap.measure.relief import measure_relief, median_relief, relief_curve, stays
from nsysoverlap.result.model import Relief
from nsysoverlap.roles.rules import Role, classify
from nsysoverlap.steps.plan import StepSpec, plan_steps
from nsysoverlap.trace.load import read_trace

from .casekit import device_cases
from .tracebuilder import TraceBuilder, build
from .traces import PUBLIC, h200, public_traces

US = 1000


def transfers(path: Path) -> Transfers:
    """Transfers of all four kinds of the only device."""
    classified = classify(read_trace(path))
    assert len(classified.trace.devices) == 1
    return device_lanes(classified, 0).transfers


def drawn(tmp_path: Path, drawing: str, t0: int = 0) -> Transfers:
    return transfers(build(tmp_path / "t.sqlite", drawing, t0=t0))


@pytest.mark.parametrize(
    ("drawing", "expected"),
    [
        pytest.param(
            """
            dev0 s20 bytes=10 d2h: ##.##......
            dev0 s21 bytes=10 h2d: ......##.##
            """,
            (20, 20, 0),
            id="two away at once",
        ),
        pytest.param(
            """
            dev0 s20 bytes=10 d2h: ##...##....
            dev0 s21 bytes=10 h2d: ..##....##.
            """,
            (10, 20, 0),
            id="each back before the next left",
        ),
        pytest.param(
            """
            dev0 s20 bytes=10 d2h: ##.##.....
            dev0 s21 bytes=10 h2d: .....##.##
            """,
            (10, 20, 0),
            id="at one instant out and in net out",
        ),
        pytest.param(
            """
            dev0 s20 bytes=10 d2h: ......##.##
            dev0 s21 bytes=10 h2d: ##.##......
            """,
            (20, 20, 0),
            id="optimizer state comes in first and goes out last",
        ),
        pytest.param(
            """
            dev0 s20 bytes=10 d2h: ..##.......
            dev0 s21 bytes=10 h2d: #.....##...
            """,
            (10, 10, 0),
            id="neither below 0 nor above it alone",
        ),
        pytest.param(
            """
            dev0 s20 bytes=10 d2h: ##.........
            dev0 s20 bytes=7  d2h: ...##......
            dev0 s21 bytes=10 h2d: ......##...
            dev0 s21 bytes=5  h2d: .........##
            """,
            (10, 10, 12),
            id="sizes of one direction are left out",
        ),
        pytest.param(
            """
            dev0 s20 bytes=10 d2h: ##.##......
            dev0 s20 bytes=30 d2h: .......##..
            """,
            (0, 0, 50),
            id="nothing ever comes back",
        ),
        pytest.param(
            """
            dev0 s20 bytes=10 unified_d2h: ##.........
            dev0 s21 bytes=10 unified_h2d: .....##....
            """,
            (0, 0, 0),
            id="migrations are no offload",
        ),
        pytest.param(
            """
            dev0 s20 bytes=10 d2h: ##.........
            dev0 s7  compute:      ..##.......
            """,
            (0, 0, 10),
            id="one way only",
        ),
    ],
)
def test_relief_of_a_drawing(tmp_path: Path, drawing: str, expected: tuple[int, int, int]) -> None:
    (relief,) = measure_relief(drawn(tmp_path, drawing), [(0, 11 * US)])
    assert (relief.relief_bytes, relief.offloaded_bytes, relief.excluded_bytes) == expected


PAIR = """
dev0 s20 bytes=10 d2h: ####......####......
dev0 s21 bytes=10 h2d: ......##........##..
"""


def test_an_offload_counts_where_it_ends_and_a_reload_where_it_starts(tmp_path: Path) -> None:
    rows = drawn(tmp_path, PAIR)
    # The second D2H runs from 10 to 14, the first H2D from 6 to 8.
    windows = [(0, 7 * US), (7 * US, 12 * US), (12 * US, 20 * US)]
    assert measure_relief(rows, windows) == [Relief(10, 10, 0), Relief(), Relief(10, 10, 0)]


def test_at_an_edge_an_end_belongs_before_and_a_start_after(tmp_path: Path) -> None:
    rows = drawn(tmp_path, PAIR)
    before, after = measure_relief(rows, [(0, 14 * US), (14 * US, 20 * US)])
    assert before == Relief(10, 20, 0)
    assert after == Relief(0, 0, 10)
    before, after = measure_relief(rows, [(0, 6 * US), (6 * US, 20 * US)])
    assert before == Relief(0, 0, 10)
    assert after == Relief(10, 10, 0)


def test_windows_may_overlap_and_hold_nothing(tmp_path: Path) -> None:
    rows = drawn(tmp_path, PAIR)
    found = measure_relief(rows, [(0, 20 * US), (0, 10 * US), (30 * US, 40 * US), (5 * US, 5 * US)])
    assert found == [Relief(10, 20, 0), Relief(10, 10, 0), Relief(), Relief()]
    assert measure_relief(rows, []) == []


def test_negative_and_large_times(tmp_path: Path) -> None:
    for t0 in (-9_000_000, 1_700_000_000_000_000_000):
        rows = drawn(tmp_path, PAIR, t0)
        assert measure_relief(rows, [(t0, t0 + 20 * US)]) == [Relief(10, 20, 0)]


def test_curve_is_what_lies_on_the_host(tmp_path: Path) -> None:
    rows = drawn(
        tmp_path,
        """
        dev0 s20 bytes=10 d2h: .##.##.......
        dev0 s21 bytes=10 h2d: ......##..##.
        dev0 s22 bytes=99 h2d: #............
        """,
    )
    times, level = relief_curve(rows, (0, 13 * US))
    # At 6 a tensor leaves as another comes back.
    assert (times // US).tolist() == [0, 3, 6, 10]
    assert level.tolist() == [0, 10, 10, 0]
    empty = relief_curve(rows, (13 * US, 20 * US))
    assert (empty[0].tolist(), empty[1].tolist()) == ([13 * US], [0])
    reload_first = relief_curve(rows, (6 * US, 10 * US))
    assert (reload_first[0].tolist(), reload_first[1].tolist()) == ([6 * US], [0])


def test_stays_are_matched_by_size_first_out_first_in(tmp_path: Path) -> None:
    rows = drawn(
        tmp_path,
        """
        dev0 s20 bytes=10 d2h: .##.##..............
        dev0 s22 bytes=33 d2h: ...#................
        dev0 s21 bytes=10 h2d: #......##..##..#....
        dev0 s23 bytes=33 h2d: .............#......
        dev0 s24 bytes=50 h2d: ..................#.
        """,
    )
    found = stays(rows, (0, 20 * US))
    # Out at 3 and 6 of the one size, back at 7 and 11; the reload at 15 finds none left.
    assert (found.ns // US).tolist() == [4, 5, 9]
    assert (rows.end_ns[found.d2h] // US).tolist() == [3, 6, 4]
    assert (rows.start_ns[found.h2d] // US).tolist() == [7, 11, 13]
    assert len(stays(rows, (4 * US, 6 * US)).ns) == 0
    assert (stays(rows, (4 * US, 20 * US)).ns // US).tolist() == [1]


def test_what_comes_back_unmatched_does_not_reach_into_another_size(tmp_path: Path) -> None:
    rows = drawn(
        tmp_path,
        """
        dev0 s20 bytes=10 d2h: ....#...............
        dev0 s21 bytes=10 h2d: #.#......#..........
        dev0 s22 bytes=33 d2h: .#..................
        dev0 s23 bytes=33 h2d: ...#.#.#............
        """,
    )
    found = stays(rows, (0, 20 * US))
    assert (found.ns // US).tolist() == [1, 4]
    assert (rows.start_ns[found.h2d] // US).tolist() == [3, 9]
    assert len(stays(rows, (15 * US, 20 * US)).ns) == 0


def test_median_relief_is_that_of_one_step() -> None:
    steps = [Relief(30, 60, 1), Relief(10, 90, 2), Relief(20, 40, 3), Relief(40, 41, 4)]
    assert median_relief(steps[:3]) == Relief(20, 40, 3)
    assert median_relief(steps) == Relief(20, 40, 3)
    assert median_relief([]) == Relief()


class Move(NamedTuple):
    """One transfer of a random trace."""

    out: bool
    start: int
    length: int
    size: int


MOVES = st.lists(
    st.builds(Move, st.booleans(), st.integers(-8, 20), st.integers(0, 6), st.integers(1, 3)),
    max_size=25,
)


def columns(moves: list[Move], by_kernel: bool) -> Transfers:
    """Transfers as the lanes hand them over; kernels carry estimated bytes."""
    ordered = sorted(moves, key=lambda move: (move.start, move.length))
    n = len(ordered)
    size = np.array([move.size for move in ordered], np.int64)
    start = np.array([move.start for move in ordered], np.int64)
    kernel = np.array([by_kernel and move.out for move in ordered], np.bool_)
    return Transfers(
        start_ns=start,
        end_ns=start + np.array([move.length for move in ordered], np.int64),
        n_bytes=np.where(kernel, 0, size),
        bytes_estimated=np.where(kernel, size, 0),
        by_kernel=kernel,
        stream=np.zeros(n, np.int32),
        role=np.array([Role.D2H if m.out else Role.H2D for m in ordered], np.int64),
        row=np.arange(n),
    )


def inside(moves: list[Move], window: tuple[int, int]) -> list[tuple[int, bool, int]]:
    """(instant, out, size) of what happens in a window."""
    low, high = window
    out = [(m.start + m.length, True, m.size) for m in moves if m.out]
    back = [(m.start, False, m.size) for m in moves if not m.out]
    return [e for e in out if low < e[0] <= high] + [e for e in back if low <= e[0] < high]


@given(
    moves=MOVES, window=st.tuples(st.integers(-10, 10), st.integers(0, 30)), kernel=st.booleans()
)
def test_relief_equals_the_level_at_every_instant(
    moves: list[Move], window: tuple[int, int], kernel: bool
) -> None:
    window = (window[0], window[0] + window[1])
    events = inside(moves, window)
    both = {e[2] for e in events if e[1]} & {e[2] for e in events if not e[1]}
    counted = [e for e in events if e[2] in both]
    levels = [
        sum(size if out else -size for at, out, size in counted if at <= instant)
        for instant in range(window[0] - 1, window[1] + 1)
    ]
    assert measure_relief(columns(moves, kernel), [window]) == [
        Relief(
            # No more than ever left: what comes in twice frees nothing.
            min(max(levels) - min(levels), sum(size for _, out, size in counted if out)),
            sum(size for _, out, size in counted if out),
            sum(size for _, _, size in events if size not in both),
        )
    ]
    times, level = relief_curve(columns(moves, kernel), window)
    at = np.searchsorted(times, np.arange(window[0], window[1] + 1), side="right") - 1
    assert level[at].tolist() == levels[1:]
    assert np.all(np.diff(times) > 0)


@given(moves=MOVES, window=st.tuples(st.integers(-10, 10), st.integers(0, 30)))
def test_stays_equal_a_queue_for_each_size(moves: list[Move], window: tuple[int, int]) -> None:
    window = (window[0], window[0] + window[1])
    away: dict[int, deque[int]] = defaultdict(deque)
    expected = []
    for at, out, size in sorted(inside(moves, window), key=lambda e: (e[0], not e[1])):
        if out:
            away[size].append(at)
        elif away[size]:
            expected.append((at, at - away[size].popleft(), size))
    rows = columns(moves, by_kernel=False)
    found = stays(rows, window)
    assert found.ns.tolist() == (rows.start_ns[found.h2d] - rows.end_ns[found.d2h]).tolist()
    assert rows.n_bytes[found.d2h].tolist() == rows.n_bytes[found.h2d].tolist()
    together = zip(
        rows.start_ns[found.h2d].tolist(),
        found.ns.tolist(),
        rows.n_bytes[found.h2d].tolist(),
        strict=True,
    )
    assert sorted(together) == sorted(expected)
    assert np.all(np.diff(rows.start_ns[found.h2d]) >= 0)


@pytest.mark.parametrize(
    ("name", "relief", "offloaded", "excluded"),
    [
        ("jax_unroll_nolhs", 3_221_225_472, 12_884_901_888, 0),
        ("jax_unroll_lhs", 805_306_368, 12_884_901_888, 0),
        ("jax_scan_lhs", 3_221_225_472, 12_884_901_888, 0),
        ("jax_scan_pipelined", 7_516_192_768, 30_064_771_072, 0),
        ("jax_scan_pipelined_graph_node", 7_516_192_768, 30_064_771_072, 0),
        ("jax_fsdp2_lhs", 402_653_184, 6_442_450_944, 0),
        ("micro_hidden", 0, 0, 805_306_368),
        ("micro_managed", 0, 0, 0),
    ],
)
def test_relief_of_real_traces(name: str, relief: int, offloaded: int, excluded: int) -> None:
    classified = classify(read_trace(h200(name)))
    assert classified.trace.devices
    for device in classified.trace.devices:
        lanes = device_lanes(classified, device.index)
        found = measure_relief(lanes.transfers, [lanes.extent_ns])
        assert found == [Relief(relief, offloaded, excluded)]


@pytest.mark.parametrize(
    ("name", "share", "low_ms", "high_ms"),
    [("jax_unroll_lhs", 0.25, 0.1, 2.0), ("jax_unroll_nolhs", 1.0, 100.0, 250.0)],
)
def test_how_long_tensors_of_a_real_step_stayed_away(
    name: str, share: float, low_ms: float, high_ms: float
) -> None:
    classified = classify(read_trace(h200(name)))
    windows = [(s.start_ns, s.end_ns) for s in plan_steps(classified, StepSpec()).of(0)]
    rows = device_lanes(classified, 0).transfers
    reliefs = measure_relief(rows, windows)
    assert [relief.relief_share for relief in reliefs] == [share] * 4
    assert median_relief(reliefs) == reliefs[0]
    for window in windows:
        found = stays(rows, window)
        assert len(found.ns) == 8
        assert low_ms < np.median(found.ns) / 1e6 < high_ms


def loads_and_stores(api: str, times: int = 3) -> TraceBuilder:
    """What a program computes comes in and its result, of the same size, goes out; again."""
    builder = TraceBuilder()
    for at in range(0, 6 * times, 6):
        builder.copy(at * US, (at + 2) * US, "h2d", 1_000_000, stream=7, api=api)
        builder.kernel((at + 2) * US, (at + 4) * US, "saxpy", stream=7)
        builder.copy((at + 4) * US, (at + 6) * US, "d2h", 1_000_000, stream=7, api=api)
    return builder


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("api", ["cudaMemcpy_v3020", "cudaMemcpyAsync_v3020"])
def test_what_is_loaded_and_stored_relieves_nothing(tmp_path: Path, api: str, marked: bool) -> None:
    """Only bytes that left and came back were freed; a result is no tensor that will return."""
    builder = loads_and_stores(api)
    for i in range(3 * marked):
        builder.nvtx(f"step {i}", (6 * i) * US, (6 * i + 6) * US - 1)
    (device,) = analyze(builder.write(tmp_path / "t.sqlite")).devices
    assert device.relief is not None
    # Of asynchronous copies in steps it cannot be told from optimizer state, which comes back.
    could_be_state = marked and "Async" in api
    assert bool(device.relief.offloaded_bytes) == could_be_state


def test_what_leaves_and_comes_back_does(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        dev0 s7  compute:              ####..####
        dev0 s20 bytes=1000000 d2h:    .##.......
        dev0 s21 bytes=1000000 h2d:    ....##....
        """,
    )
    (device,) = analyze(path).devices
    assert device.relief == Relief(1_000_000, 1_000_000, 0)


@pytest.mark.parametrize("steps", ["auto", "^saxpy$"])
def test_a_public_program_that_loads_and_stores(steps: str) -> None:
    """saxpy, five times: x and y come in, y goes out, each with cudaMemcpy."""
    path = PUBLIC / "v2022.2.1-pipit-saxpy-nonlazy.sqlite"
    if not path.exists():
        pytest.skip("the public traces are not part of the repository")
    report = analyze(path, steps=steps)
    assert [device.relief for device in report.devices] == [Relief()]
    assert {step.relief for device in report.devices for step in device.steps} <= {Relief()}
    page = CliRunner().invoke(main, ["report", str(path), "--steps", steps]).stdout
    assert "on the host at once" not in page
    assert "Nothing came back" not in page


@pytest.mark.parametrize("path", public_traces())
def test_relief_of_public_traces_only_where_bytes_came_back(path: Path) -> None:
    """Whatever is said to be relieved left, by an asynchronous copy, and came back after that."""
    report = analyze(path)
    for case, device in zip(device_cases(path, "auto"), report.devices, strict=True):
        relief = device.relief or Relief()
        assert relief.relief_bytes <= relief.offloaded_bytes
        if relief.relief_bytes and not device.steps:
            whole = (int(case.window.starts[0]), int(case.window.ends[-1]))
            assert len(stays(case.offloading, whole).ns)
