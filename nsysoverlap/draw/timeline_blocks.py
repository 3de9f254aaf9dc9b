"""Merge spans to a bounded number of blocks without closing a gap that could be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.arrays import Int64Array
from ..core.intervals import IntervalSet

_SCATTER = 2_654_435_761
"""Odd and near 2^32 times the golden ratio: multiples of it modulo 2^32 spread evenly."""


@dataclass(frozen=True)
class SpanBlocks:
    """Spans in groups of neighbours; columns of shape (n_blocks,).

    `first` is the index of the first span of each block, `longest` that of its longest one,
    `n` how many it holds, `busy_ns` the time that they cover.
    """

    first: Int64Array
    longest: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array
    n: Int64Array
    busy_ns: Int64Array

    def summed(self, values: Int64Array) -> Int64Array:
        """A column of the spans, summed over each block."""
        if not len(self.first):
            return np.zeros(0, np.int64)
        result: Int64Array = np.add.reduceat(values, self.first)
        return result


def merge_spans(
    start_ns: Int64Array,
    end_ns: Int64Array,
    most: int,
    closeups: Sequence[tuple[int, int]] = (),
) -> SpanBlocks:
    """At most `most` blocks of the spans, which come sorted by start.

    The widest gaps stay, so what is lost is shorter than anything that is kept. Of gaps of equal
    width some stay, spread evenly over time. Spans that start within `closeups` stay for
    themselves as long as there is room.
    """
    first = _first_of_blocks(start_ns, end_ns, max(most, 1), closeups)
    n = np.diff(np.append(first, len(start_ns)))
    if not len(first):
        nothing = np.zeros(0, np.int64)
        return SpanBlocks(nothing, nothing, nothing, nothing, nothing, nothing)
    start, end = start_ns[first], np.maximum.reduceat(end_ns, first)
    if len(first) == len(start_ns):
        return SpanBlocks(first, first, start, end, n, end - start)
    block = np.repeat(np.arange(len(first)), n)
    longest = np.lexsort((end_ns - start_ns, block))[np.cumsum(n) - 1]
    busy = IntervalSet.from_spans(start_ns, end_ns).covered(start, end)
    return SpanBlocks(first, longest, start, end, n, busy)


def _first_of_blocks(
    start_ns: Int64Array, end_ns: Int64Array, most: int, closeups: Sequence[tuple[int, int]]
) -> Int64Array:
    n = len(start_ns)
    if n <= most:
        return np.arange(n)
    gap = start_ns[1:] - np.maximum.accumulate(end_ns)[:-1]
    for begin, end in closeups:
        inside = slice(*np.searchsorted(start_ns, [begin, end]).tolist())
        # Gap i lies before span i + 1: those on both sides of each span inside.
        gap[max(inside.start - 1, 0) : inside.stop] = np.iinfo(np.int64).max
    spread = np.arange(1, n) * _SCATTER & 0xFFFFFFFF
    widest = np.lexsort((spread, gap))[n - most :]
    return np.concatenate(([0], np.sort(widest) + 1))


def fair_shares(needs: Sequence[int], total: int) -> list[int]:
    """How many of `total` each need gets: who needs less than an equal part leaves the rest."""
    shares = [0] * len(needs)
    left = total
    by_need = sorted(range(len(needs)), key=needs.__getitem__)
    for place, i in enumerate(by_need):
        shares[i] = min(needs[i], left // (len(needs) - place))
        left -= shares[i]
    return shares


def longest(start_ns: Int64Array, end_ns: Int64Array, most: int) -> Int64Array:
    """Index of the `most` longest spans, in the order in which they come."""
    if len(start_ns) <= most:
        return np.arange(len(start_ns))
    order = np.argsort(start_ns - end_ns, kind="stable")
    result: Int64Array = np.sort(order[:most])
    return result
