"""Merging spans: what is kept, what is counted, against a slow and plain way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoverlap.draw.timeline_blocks import fair_shares, longest, merge_spans


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_few_spans_stay_as_they_are_even_if_they_overlap() -> None:
    blocks = merge_spans(ints(0, 5, 20), ints(10, 8, 30), 3)
    assert blocks.start_ns.tolist() == [0, 5, 20]
    assert blocks.end_ns.tolist() == [10, 8, 30]
    assert blocks.busy_ns.tolist() == [10, 3, 10]
    assert blocks.n.tolist() == [1, 1, 1]


def test_the_widest_gaps_stay() -> None:
    #   ##.##...##.##......##
    blocks = merge_spans(ints(0, 3, 8, 11, 19), ints(2, 5, 10, 13, 21), 3)
    assert blocks.start_ns.tolist() == [0, 8, 19]
    assert blocks.end_ns.tolist() == [5, 13, 21]
    assert blocks.n.tolist() == [2, 2, 1]
    assert blocks.busy_ns.tolist() == [4, 4, 2]
    assert blocks.summed(ints(1, 2, 3, 4, 5)).tolist() == [3, 7, 5]


def test_the_longest_names_the_block() -> None:
    blocks = merge_spans(ints(0, 3, 9, 100), ints(1, 8, 10, 101), 2)
    assert blocks.longest.tolist() == [1, 3]


def test_equal_gaps_are_kept_evenly_over_time() -> None:
    start = np.arange(10_000, dtype=np.int64) * 10
    blocks = merge_spans(start, start + 9, 100)
    assert len(blocks.first) == 100
    assert blocks.n.max() < 5 * 100
    assert blocks.n.sum() == 10_000


def test_spans_of_a_closeup_stay_for_themselves() -> None:
    start = np.arange(100, dtype=np.int64) * 10
    blocks = merge_spans(start, start + 9, 8, [(500, 530)])
    assert {500, 510, 520, 530} <= set(blocks.start_ns.tolist())
    alone = blocks.n == 1
    assert {500, 510, 520} <= set(blocks.start_ns[alone].tolist())
    assert len(blocks.first) == 8


def test_the_longest_spans_in_order() -> None:
    assert longest(ints(0, 10, 20, 30), ints(5, 11, 28, 34), 2).tolist() == [0, 2]
    assert longest(ints(0, 10), ints(5, 11), 2).tolist() == [0, 1]


def test_nothing() -> None:
    blocks = merge_spans(ints(), ints(), 5)
    assert len(blocks.first) == 0
    assert blocks.summed(ints()).tolist() == []


spans = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)), max_size=40).map(
    lambda pairs: sorted((start, start + length) for start, length in pairs)
)


@given(spans, st.integers(1, 45))
def test_blocks_hold_the_same_instants(pairs: list[tuple[int, int]], most: int) -> None:
    start, end = ints(*(s for s, _ in pairs)), ints(*(e for _, e in pairs))
    blocks = merge_spans(start, end, most)
    assert len(blocks.first) == min(most, len(pairs))
    assert blocks.n.sum() == len(pairs)
    covered = {t for s, e in pairs for t in range(s, e)}
    drawn = zip(blocks.start_ns.tolist(), blocks.end_ns.tolist(), strict=True)
    kept = [set(range(s, e)) for s, e in drawn]
    assert covered <= set().union(*kept)
    if len(pairs) > most:
        assert blocks.busy_ns.tolist() == [len(covered & block) for block in kept]
        closed = longest_run(set().union(*kept) - covered)
        apart = blocks.start_ns[1:] - np.maximum.accumulate(blocks.end_ns)[:-1]
        assert closed <= max(apart.min(initial=1000), 0)


def longest_run(instants: set[int]) -> int:
    """Length of the longest gap that was closed."""
    best = run = 0
    for t in range(min(instants, default=0), max(instants, default=0) + 1):
        run = run + 1 if t in instants else 0
        best = max(best, run)
    return best


@pytest.mark.parametrize(
    ("needs", "total", "shares"),
    [
        ([5, 5], 100, [5, 5]),
        ([5, 500], 100, [5, 95]),
        ([500, 500, 10], 100, [45, 45, 10]),
        ([0, 7], 3, [0, 3]),
        ([], 3, []),
    ],
)
def test_fair_shares(needs: list[int], total: int, shares: list[int]) -> None:
    assert fair_shares(needs, total) == shares
