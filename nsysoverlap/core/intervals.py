"""Exact algebra on sets of half-open integer intervals.

An `IntervalSet` is sorted and disjoint by construction, so nothing computed from one can
count an instant twice. Times are int64; this module does not know what they are times of.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from .arrays import BoolArray, Int64Array
from .records import dataclass

_FEW = 4


def _integers(values: ArrayLike) -> Int64Array:
    """One-dimensional int64 array; refuses floats, which cannot hold every nanosecond."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise ValueError("times must be a one-dimensional array of integers")
    return array.astype(np.int64, copy=False)


def _count_until(times: Int64Array, instants: Int64Array) -> Int64Array:
    """How many of the rising `times` lie at or before each instant; shape of `instants`."""
    few = len(times) * _FEW < len(instants)
    if few and (instants[1:] >= instants[:-1]).all():
        # Both rise, and placing the few among the many takes fewer steps.
        place = np.searchsorted(instants, times, side="left")
        steps = np.diff(place, prepend=0, append=len(instants))
        return np.repeat(np.arange(len(times) + 1), steps)
    return np.searchsorted(times, instants, side="right")


@dataclass(frozen=True, eq=False)
class IntervalSet:
    """A set of instants, held as sorted disjoint half-open `[start, end)` int64 intervals.

    Build one with `from_spans`; the constructor trusts its arguments. `starts` and `ends` have
    shape (n,), `ends[i] < starts[i + 1]`: touching intervals are joined.
    """

    starts: Int64Array
    ends: Int64Array

    @classmethod
    def empty(cls) -> IntervalSet:
        """The set without any instant."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing)

    @classmethod
    def from_spans(cls, starts: ArrayLike, ends: ArrayLike) -> IntervalSet:
        """Union of the spans `[starts[i], ends[i])`, given in any order.

        Spans with `end <= start` hold no instant and are left out. Raises `ValueError` where
        `starts` and `ends` are not of equal length.
        """
        start, end = _integers(starts), _integers(ends)
        if start.shape != end.shape:
            raise ValueError("starts and ends must be of equal length")
        filled = end > start
        if not filled.all():
            start, end = start[filled], end[filled]
        if len(start) == 0:
            return cls.empty()
        if np.any(start[1:] < start[:-1]):
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reach = np.maximum.accumulate(end)
        # A new interval begins where a span starts after everything before it has ended.
        first = np.concatenate(([True], start[1:] > reach[:-1]))
        last = np.concatenate((first[1:], [True]))
        return cls(start[first], reach[last])

    def __len__(self) -> int:
        return len(self.starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.ends, other.ends)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _before(self) -> Int64Array:
        """Length of all intervals before interval i; shape (n + 1,)."""
        return np.concatenate(([0], np.cumsum(self.ends - self.starts))).astype(np.int64)

    @property
    def length(self) -> int:
        """Number of instants in the set."""
        return int(self._before[-1])

    def union(self, other: IntervalSet) -> IntervalSet:
        """Instants in either set."""
        if len(other) == 0:
            return self
        if len(self) == 0:
            return other
        return IntervalSet.from_spans(
            np.concatenate((self.starts, other.starts)), np.concatenate((self.ends, other.ends))
        )

    def intersect(self, other: IntervalSet) -> IntervalSet:
        """Instants in both sets."""
        if len(self) == 0 or len(other) == 0:
            return IntervalSet.empty()
        if other._spans(self):
            return self
        if self._spans(other):
            return other
        # Intervals of `other` that reach into interval i of self are lo[i] .. hi[i] - 1.
        lo = np.searchsorted(other.ends, self.starts, side="right")
        hi = np.searchsorted(other.starts, self.ends, side="left")
        count = hi - lo
        mine = np.repeat(np.arange(len(self)), count)
        offset = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count)
        theirs = np.repeat(lo, count) + offset
        return IntervalSet(
            np.maximum(self.starts[mine], other.starts[theirs]),
            np.minimum(self.ends[mine], other.ends[theirs]),
        )

    def _spans(self, other: IntervalSet) -> bool:
        """Whether one interval holds all of another set, as the window of a whole trace does."""
        inside: bool = self.starts[0] <= other.starts[0] and other.ends[-1] <= self.ends[0]
        return bool(len(self) == 1 and inside)

    def subtract(self, other: IntervalSet) -> IntervalSet:
        """Instants in this set but not in the other."""
        if len(self) == 0 or len(other) == 0:
            return self
        # Intervals of `other` that reach into interval i of self are lo[i] .. hi[i] - 1; what is
        # left are the count[i] gaps before, between and after them.
        lo = np.searchsorted(other.ends, self.starts, side="right")
        count = np.searchsorted(other.starts, self.ends, side="left") - lo + 1
        mine = np.repeat(np.arange(len(self)), count)
        first = np.cumsum(count) - count
        theirs = np.arange(len(mine)) + np.repeat(lo - first, count)
        starts, ends = self.starts[mine], self.ends[mine]
        # All gaps but the first begin where one of theirs ends, all but the last end at a start.
        later, earlier = np.ones(len(mine), np.bool_), np.ones(len(mine), np.bool_)
        later[first] = earlier[first + count - 1] = False
        starts[later] = other.ends[theirs[later] - 1]
        ends[earlier] = other.starts[theirs[earlier]]
        filled = ends > starts
        return IntervalSet(starts[filled], ends[filled])

    def clip(self, start: int, end: int) -> IntervalSet:
        """Instants of the set inside `[start, end)`."""
        if end <= start:
            return IntervalSet.empty()
        return self.intersect(IntervalSet(np.array([start], np.int64), np.array([end], np.int64)))

    def contains(self, instants: ArrayLike) -> BoolArray:
        """Whether each instant lies in the set; shape (n,)."""
        at = _integers(instants)
        if len(self) == 0:
            return np.zeros(len(at), np.bool_)
        if len(self) == 1:
            return (at >= self.starts) & (at < self.ends)
        before = np.searchsorted(self.starts, at, side="right") - 1
        inside: BoolArray = (before >= 0) & (at < self.ends[np.maximum(before, 0)])
        return inside

    def pieces(self) -> list[tuple[int, int]]:
        """The intervals as pairs."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def covered(self, starts: ArrayLike, ends: ArrayLike) -> Int64Array:
        """How much of each span `[starts[i], ends[i])` lies in the set; shape (n,).

        Spans with `end <= start` give 0. Fast when the spans come sorted by start.
        """
        start, end = _integers(starts), _integers(ends)
        if len(self) == 0:
            return np.zeros(len(start), np.int64)
        if len(self) == 1:
            # A window, usually: cutting both ends needs no search.
            low, high = np.maximum(start, self.starts), np.minimum(end, self.ends)
        else:
            low, high = self._measure_until(start), self._measure_until(end)
        result: Int64Array = np.maximum(high - low, 0)
        return result

    def _measure_until(self, instants: Int64Array) -> Int64Array:
        """Length of the part of the set before each instant."""
        at = _count_until(self.starts, instants)
        at -= 1
        before = at < 0
        result: Int64Array = np.minimum(instants, self.ends[at])
        result -= self.starts[at]
        result += self._before[at]
        if before.any():
            # Before all intervals -1 looked at the last one.
            result[before] = 0
        return result


def merge_groups(
    group: Int64Array, start: Int64Array, end: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The union of spans within each group, as (group, start, end) of disjoint spans.

    All of shape (n,), in any order; linear but for sorting, however many groups there are.
    """
    filled = end > start
    group, start, end = group[filled], start[filled], end[filled]
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], end[order]
    if not len(group):
        return group, start, end
    # The latest end so far within the group, in ranks: groups times times could overflow.
    ends, width = np.sort(end), len(end) + 1
    place = group * width + np.searchsorted(ends, end)
    reach = ends[np.maximum.accumulate(place) - group * width]
    first = np.append(True, (group[1:] != group[:-1]) | (start[1:] > reach[:-1]))
    return group[first], start[first], reach[np.append(first[1:], True)]
