"""Nothing visible is lost, and what is drawn stays in bounds, for any set of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysoverlap.core.intervals import IntervalSet
from nsysoverlap.draw.pixels import COLUMNS, DENSE, Bars, PixelColumns, distinct, every

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


def sets(bars: Bars) -> IntervalSet:
    return IntervalSet.from_spans(bars.start_ns, bars.end_ns)


def test_columns_of_a_short_stretch_are_one_ns() -> None:
    assert PixelColumns(0, 5).width_ns == 1
    assert STRETCH.width_ns == WIDTH


@settings(deadline=None)
@given(interval_sets())
def test_every_instant_of_an_interval_is_under_a_bar(spans: IntervalSet) -> None:
    assert not spans.subtract(sets(STRETCH.bars(spans)))


@settings(deadline=None)
@given(interval_sets())
def test_a_gap_of_a_column_stays_at_least_half_open(spans: IntervalSet) -> None:
    gaps = IntervalSet.from_spans(spans.ends[:-1], spans.starts[1:])
    bars = sets(STRETCH.bars(spans))
    for start, end in gaps.pieces():
        if end - start >= WIDTH:
            assert (end - start) - bars.clip(start, end).length >= (end - start) / 2


@settings(deadline=None)
@given(interval_sets())
def test_a_bar_is_a_column_wide_where_there_is_room(spans: IntervalSet) -> None:
    bars = STRETCH.bars(spans)
    plain = bars.select(~bars.dense)
    assert (plain.end_ns - plain.start_ns >= min(WIDTH, 1 + 2 * (WIDTH // 4))).all()


@settings(deadline=None)
@given(interval_sets())
def test_dense_bars_hold_as_much_as_the_set_there(spans: IntervalSet) -> None:
    bars = STRETCH.bars(spans)
    dense = bars.select(bars.dense)
    filled = (dense.share * (dense.end_ns - dense.start_ns)).sum()
    assert filled == pytest.approx(spans.intersect(sets(dense)).length)
    assert (bars.select(~bars.dense).share == 1).all()
    assert (dense.end_ns - dense.start_ns <= WIDTH).all()


@settings(deadline=None)
@given(interval_sets())
def test_bars_do_not_overlap_and_come_in_order(spans: IntervalSet) -> None:
    bars = STRETCH.bars(spans)
    assert (bars.start_ns[1:] >= bars.end_ns[:-1]).all()


def test_intervals_far_apart_are_drawn_as_they_are() -> None:
    bars = STRETCH.bars(IntervalSet.from_spans([100, 400], [200, 430]))
    assert (bars.start_ns.tolist(), bars.end_ns.tolist()) == ([100, 400], [200, 430])
    assert not bars.dense.any()


def test_what_is_outside_the_stretch_is_not_drawn() -> None:
    bars = PixelColumns(100, 100 + COLUMNS * WIDTH).bars(IntervalSet.from_spans([0, 50], [20, 150]))
    assert (bars.start_ns.tolist(), bars.end_ns.tolist()) == ([100], [150])


def test_a_million_intervals_become_few_bars() -> None:
    start = np.arange(1_000_000, dtype=np.int64) * 1000
    bars = PixelColumns(0, 1_000_000_000).bars(IntervalSet.from_spans(start, start + 250))
    assert len(bars) <= 2 * COLUMNS
    assert bars.share.mean() == pytest.approx(0.25, abs=0.01)


def test_a_block_below_a_few_columns_is_solid() -> None:
    start = np.arange(0, WIDTH * (DENSE - 1), 2)
    bars = STRETCH.bars(IntervalSet.from_spans(start, start + 1))
    assert len(bars) == 1
    assert bars.share.tolist() == [1]


def test_closed_gaps_are_known() -> None:
    assert STRETCH.closes_gaps(IntervalSet.from_spans([0, 29], [20, 40]))
    assert not STRETCH.closes_gaps(IntervalSet.from_spans([0, 30], [20, 40]))
    assert not STRETCH.closes_gaps(IntervalSet.empty())


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


def test_a_block_with_gaps_of_next_to_nothing_is_solid() -> None:
    start = np.arange(0, 100 * WIDTH, 100)
    assert len(STRETCH.bars(IntervalSet.from_spans(start, start + 99))) == 1
    assert len(STRETCH.bars(IntervalSet.from_spans(start, start + 92))) == 100
