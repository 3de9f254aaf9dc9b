"""`IntervalSet` against Python sets of integers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoverlap.core.intervals import IntervalSet, merge_groups

# Spans of a small range touch, nest, repeat and run backwards all the time.
INSTANT = st.integers(-5, 30)
SPAN = st.tuples(INSTANT, INSTANT)
SPANS = st.lists(SPAN, max_size=12)
EPOCH_NS = 1_700_000_000_000_000_000

Spans = list[tuple[int, int]]


def of(spans: Spans) -> IntervalSet:
    return IntervalSet.from_spans([start for start, _ in spans], [end for _, end in spans])


def drawn(picture: str) -> IntervalSet:
    return of([(i, i + 1) for i, cell in enumerate(picture) if cell == "#"])


def model(spans: Spans) -> set[int]:
    return {instant for start, end in spans for instant in range(start, end)}


def members(intervals: IntervalSet) -> set[int]:
    return model(list(zip(intervals.starts.tolist(), intervals.ends.tolist(), strict=True)))


def assert_is(intervals: IntervalSet, expected: set[int]) -> None:
    """Same instants, and held in the one canonical way."""
    assert members(intervals) == expected
    assert intervals.length == len(expected)
    assert intervals.starts.dtype == intervals.ends.dtype == np.int64
    assert (intervals.starts < intervals.ends).all()
    assert (intervals.ends[:-1] < intervals.starts[1:]).all(), "sorted, disjoint, not touching"


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ("union", "##########..###"),
        ("intersect", "...#..#........"),
        ("subtract", "##..##......###"),
    ],
)
def test_drawn_operations(operation: str, result: str) -> None:
    a = drawn("##.####.....###")
    b = drawn("..##..####.....")
    assert getattr(a, operation)(b) == drawn(result)


def test_touching_spans_are_one_interval() -> None:
    joined = of([(4, 8), (0, 4)])
    assert joined.starts.tolist() == [0]
    assert joined.ends.tolist() == [8]


def test_a_long_span_swallows_later_short_ones() -> None:
    assert of([(0, 10), (1, 2), (3, 4), (12, 13)]) == of([(0, 10), (12, 13)])


@given(SPANS)
def test_from_spans_holds_every_instant_once(spans: Spans) -> None:
    assert_is(of(spans), model(spans))


@given(st.permutations([(0, 4), (4, 6), (9, 12), (10, 11), (15, 15), (20, 18), (9, 12)]))
def test_order_of_spans_does_not_matter(spans: Spans) -> None:
    assert of(spans) == of([(0, 6), (9, 12)])


@given(SPANS, SPANS)
def test_operations_agree_with_sets(a: Spans, b: Spans) -> None:
    assert_is(of(a).union(of(b)), model(a) | model(b))
    assert_is(of(a).intersect(of(b)), model(a) & model(b))
    assert_is(of(a).subtract(of(b)), model(a) - model(b))


@given(SPANS, INSTANT, INSTANT)
def test_clip_agrees_with_sets(a: Spans, start: int, end: int) -> None:
    assert_is(of(a).clip(start, end), model(a) & set(range(start, end)))


@given(SPANS, SPANS)
def test_covered_agrees_with_sets(a: Spans, queries: Spans) -> None:
    starts, ends = [s for s, _ in queries], [e for _, e in queries]
    expected = [len(model(a) & model([query])) for query in queries]
    covered = of(a).covered(starts, ends)
    assert covered.dtype == np.int64
    assert covered.tolist() == expected


@given(SPANS, st.lists(INSTANT, min_size=40, max_size=80), st.booleans())
def test_covered_of_many_spans_by_few_intervals(
    spans: Spans, starts: list[int], rising: bool
) -> None:
    starts = sorted(starts) if rising else starts
    expected = [len(model(spans) & set(range(start, start + 3))) for start in starts]
    assert of(spans).covered(starts, np.array(starts) + 3).tolist() == expected


@given(SPANS, SPANS, SPANS)
def test_identities(a_spans: Spans, b_spans: Spans, c_spans: Spans) -> None:
    a, b, c = of(a_spans), of(b_spans), of(c_spans)
    assert a.union(b) == b.union(a)
    assert a.intersect(b) == b.intersect(a)
    assert a.union(b).union(c) == a.union(b.union(c))
    assert a.intersect(b.union(c)) == a.intersect(b).union(a.intersect(c))
    assert (
        a.subtract(b.union(c))
        == a.subtract(b).subtract(c)
        == a.subtract(b).intersect(a.subtract(c))
    )
    assert a.intersect(b).union(a.subtract(b)) == a
    assert a.subtract(a) == IntervalSet.empty()
    assert a.union(b).length == a.length + b.length - a.intersect(b).length
    assert int(a.covered(b.starts, b.ends).sum()) == a.intersect(b).length


@given(SPANS, INSTANT, INSTANT, INSTANT)
def test_adjacent_clips_add_up(a: Spans, first: int, second: int, third: int) -> None:
    low, middle, high = sorted((first, second, third))
    whole = of(a).clip(low, high)
    assert of(a).clip(low, middle).union(of(a).clip(middle, high)) == whole
    assert of(a).clip(low, middle).length + of(a).clip(middle, high).length == whole.length


@given(SPANS, SPANS, st.sampled_from([EPOCH_NS, -EPOCH_NS, 1]))
def test_a_shift_moves_the_result_and_nothing_else(a: Spans, b: Spans, shift: int) -> None:
    late_a = of([(start + shift, end + shift) for start, end in a])
    late_b = of([(start + shift, end + shift) for start, end in b])
    for operation in ("union", "intersect", "subtract"):
        here = getattr(of(a), operation)(of(b))
        there = getattr(late_a, operation)(late_b)
        assert there == IntervalSet(here.starts + shift, here.ends + shift)
        assert there.length == here.length
    starts, ends = late_b.starts, late_b.ends
    assert late_a.covered(starts, ends).tolist() == of(a).covered(of(b).starts, of(b).ends).tolist()


def test_single_nanoseconds_survive_at_epoch_times() -> None:
    a = of([(EPOCH_NS + 1, EPOCH_NS + 2), (EPOCH_NS + 3, EPOCH_NS + 5)])
    assert a.length == 3
    assert a.covered([EPOCH_NS], [EPOCH_NS + 4]).tolist() == [2]
    assert a.subtract(of([(EPOCH_NS + 4, EPOCH_NS + 9)])).ends.tolist() == [
        EPOCH_NS + 2,
        EPOCH_NS + 4,
    ]


def test_empty_set() -> None:
    empty = IntervalSet.empty()
    assert_is(empty, set())
    assert of([]) == empty == of([(3, 3), (5, 2)])
    assert empty.covered([0, 1], [5, 1]).tolist() == [0, 0]
    assert of([(0, 2)]).covered([], []).tolist() == []


@pytest.mark.parametrize(
    ("starts", "ends", "why"),
    [
        ([0, 1], [1], "equal length"),
        ([[0]], [[1]], "one-dimensional"),
        ([0.0, 1.0], [1.0, 2.0], "integers"),
    ],
)
def test_misshapen_spans_are_refused(starts: list[int], ends: list[int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        IntervalSet.from_spans(starts, ends)


def test_operations_leave_their_arguments_alone() -> None:
    a, b = of([(0, 5), (7, 9)]), of([(4, 8)])
    before = [array.copy() for s in (a, b) for array in (s.starts, s.ends)]
    a.union(b), a.intersect(b), a.subtract(b), a.clip(1, 8), a.covered([0], [9])
    after = [array for s in (a, b) for array in (s.starts, s.ends)]
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 10)), max_size=20))
def test_the_union_within_groups(spans: list[tuple[int, int, int]]) -> None:
    columns = np.array(spans, np.int64).reshape(-1, 3).T
    group, start, end = merge_groups(columns[0], columns[1], columns[1] + columns[2])
    found = list(zip(group.tolist(), start.tolist(), end.tolist(), strict=True))
    assert found == sorted(found)
    instants = [(g, t) for g, s, e in found for t in range(s, e)]
    assert len(instants) == len(set(instants))
    assert set(instants) == {(g, t) for g, s, n in spans for t in range(s, s + n)}
    touching = [a for a, b in pairwise(found) if a[0] == b[0] and a[2] >= b[1]]
    assert touching == []
