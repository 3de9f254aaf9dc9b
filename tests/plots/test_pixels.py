"""Nothing visible is lost, and what is drawn stays in bounds, for any set of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoverlap.core.intervals import IntervalSet
from nsysoverlap.draw.pixels import (
    COLUMNS,
    EXACT,
    MAX_STEPS,
    PixelColumns,
    distinct,
    every,
    longest_of_each,
)

WIDTH = 10
STRETCH = PixelColumns(0, COLUMNS * WIDTH)
"""Columns of ten units."""


@st.composite
def interval_sets(draw: st.DrawFn) -> IntervalSet:
    """Any set, with gaps and lengths around the width of a column."""
    lengths = draw(st.lists(st.integers(1, 25), min_size=2, max_size=160))
    edges = np.cumsum([draw(st.integers(0, 50)), *lengths])
    edges = edges[: len(edges) // 2 * 2]
    return IntervalSet.from_spans(edges[::2], edges[1::2])


@settings(deadline=None)
@given(interval_sets())
def test_heights_times_widths_sum_to_the_time_filled(spans: IntervalSet) -> None:
    bars = STRETCH.bars(spans)
    area = (bars.share * (bars.end_ns - bars.start_ns)).sum()
    assert area == pytest.approx(spans.clip(0, COLUMNS * WIDTH).length)
    assert ((bars.share > 0) & (bars.share <= 1)).all()


@settings(deadline=None)
@given(interval_sets())
def test_spans_of_two_columns_keep_their_edges(spans: IntervalSet) -> None:
    inside = spans.clip(0, COLUMNS * WIDTH)
    long = inside.ends - inside.starts >= EXACT * WIDTH
    exact = STRETCH.bars(spans).select(~STRETCH.bars(spans).thin)
    assert exact.start_ns.tolist() == inside.starts[long].tolist()
    assert exact.end_ns.tolist() == inside.ends[long].tolist()
    assert (exact.share == 1).all()


@settings(deadline=None)
@given(interval_sets())
def test_a_thin_bar_is_one_column_with_the_share_that_short_spans_fill(spans: IntervalSet) -> None:
    inside = spans.clip(0, COLUMNS * WIDTH)
    filled = dict.fromkeys(range(COLUMNS), 0)
    for start, end in inside.pieces():
        for instant in range(start, end) if end - start < EXACT * WIDTH else ():
            filled[instant // WIDTH] += 1
    bars = STRETCH.bars(spans)
    thin = bars.select(bars.thin)
    assert (thin.end_ns - thin.start_ns == WIDTH).all()
    found = dict(zip((thin.start_ns // WIDTH).tolist(), thin.share.tolist(), strict=True))
    assert found == {column: n / WIDTH for column, n in filled.items() if n}


@settings(deadline=None)
@given(interval_sets())
def test_every_instant_of_an_interval_is_under_a_bar(spans: IntervalSet) -> None:
    bars = STRETCH.bars(spans)
    under = IntervalSet.from_spans(bars.start_ns, bars.end_ns)
    assert not spans.clip(0, COLUMNS * WIDTH).subtract(under)


def test_no_width_is_made_up_for_what_is_thin() -> None:
    bars = STRETCH.bars(IntervalSet.from_spans([104], [105]))
    assert (bars.start_ns.tolist(), bars.end_ns.tolist()) == ([100], [110])
    assert bars.share.tolist() == [0.1]


def test_the_last_column_may_be_shorter() -> None:
    stretch = PixelColumns(0, COLUMNS * WIDTH + 4)
    bars = stretch.bars(IntervalSet.from_spans([COLUMNS * WIDTH + 1], [COLUMNS * WIDTH + 3]))
    assert (bars.end_ns - bars.start_ns).tolist() == [4]
    assert bars.share.tolist() == [0.5]


def test_what_is_outside_the_stretch_is_not_drawn() -> None:
    bars = PixelColumns(100, 100 + COLUMNS * WIDTH).bars(IntervalSet.from_spans([0, 50], [20, 150]))
    assert (bars.start_ns.tolist(), bars.end_ns.tolist()) == ([100], [150])


def test_a_million_intervals_become_few_bars() -> None:
    start = np.arange(1_000_000, dtype=np.int64) * 1000
    bars = PixelColumns(0, 1_000_000_000).bars(IntervalSet.from_spans(start, start + 250))
    assert len(bars) <= COLUMNS + 1
    assert bars.share.mean() == pytest.approx(0.25, abs=0.01)


def test_what_is_drawn_by_its_share_is_known() -> None:
    assert STRETCH.thins(IntervalSet.from_spans([0, 50], [20, 69]))
    assert not STRETCH.thins(IntervalSet.from_spans([0, 50], [20, 70]))
    assert not STRETCH.thins(IntervalSet.empty())


def test_no_slow_step_is_lost() -> None:
    lengths = [10] * 5_000
    lengths[4_321] = 11
    shown, rule = longest_of_each(lengths, float)
    assert len(shown) <= MAX_STEPS
    assert 11 in shown
    assert rule == "each bar is the longest of 50 in a row"
    assert longest_of_each(lengths[:MAX_STEPS], float) == (lengths[:MAX_STEPS], "")


def test_a_thinned_curve_keeps_peaks_and_ends() -> None:
    times = np.arange(0, COLUMNS * WIDTH, 1, dtype=np.int64)
    values = np.zeros(len(times), np.int64)
    values[[7_003, 7_777]] = [9, -4]
    at, level = STRETCH.thin(times, values)
    assert len(at) <= 3 * COLUMNS
    assert dict(zip(at.tolist(), level.tolist(), strict=True))[7_003] == 9
    assert level.min() == -4
    assert (at[0], at[-1]) == (times[0], times[-1])
    assert (np.diff(at) > 0).all()


def test_a_short_curve_stays_as_it_is() -> None:
    at, level = STRETCH.thin(np.array([1, 5]), np.array([2, 3]))
    assert (at.tolist(), level.tolist()) == ([1, 5], [2, 3])


def test_of_points_on_one_another_one_is_drawn() -> None:
    x = np.array([0.5, 0.5, 0.5, 0.7])
    y = np.array([0.1, 0.1, 0.9, 0.1])
    assert distinct(x, y).tolist() == [True, False, True, True]


@pytest.mark.parametrize(
    ("count", "nth"), [(0, 1), (10, 1), (11, 2), (20, 2), (21, 5), (100, 10), (101, 20), (500, 50)]
)
def test_every_nth_is_round(count: int, nth: int) -> None:
    assert every(count, 10) == nth
