"""Fewer marks than rows: what a picture of some width can show, and nothing visible lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import BoolArray, Int64Array
from ..core.intervals import IntervalSet
from .host_curve import thin_steps

COLUMNS = 1500
"""Columns over the width of a plot: a pixel each on a picture 2,000 pixels wide."""


DENSE = 4
"""Columns from which on a block with closed gaps is drawn by the share that is filled."""


SOLID = 0.95
"""Share from which on a block with closed gaps is solid after all: such gaps matter to nobody."""


@dataclass(frozen=True)
class Bars:
    """What to draw of a set: bars in order of time, columns of shape (n,).

    `share` is how much of `[start_ns, end_ns)` the set fills. It is 1 but where many intervals
    stand too close to draw each; there a bar is one column wide and `dense`.
    """

    start_ns: Int64Array
    end_ns: Int64Array
    share: NDArray[np.float64]
    dense: BoolArray

    def __len__(self) -> int:
        return len(self.start_ns)

    def select(self, picked: BoolArray) -> Bars:
        """The bars that a mask (n,) picks."""
        return Bars(
            self.start_ns[picked], self.end_ns[picked], self.share[picked], self.dense[picked]
        )


@dataclass(frozen=True)
class PixelColumns:
    """A stretch of time cut into `COLUMNS` columns of `width_ns` each."""

    start_ns: int
    end_ns: int

    @property
    def width_ns(self) -> int:
        """Width of a column, at least 1 ns."""
        return max(1, (self.end_ns - self.start_ns) // COLUMNS)

    def bars(self, spans: IntervalSet) -> Bars:
        """The part of a set inside the stretch as no more bars than can be told apart.

        Gaps shorter than a column are closed; what is shorter than a column is widened to one
        where there is room. So each interval shows, and of each gap that is left open at least
        half is. A block of four columns and more with closed gaps becomes dense bars, unless the
        gaps are next to nothing.
        """
        inside = spans.clip(self.start_ns, self.end_ns)
        if not len(inside):
            nothing = np.empty(0, np.int64)
            return Bars(nothing, nothing, np.empty(0), np.empty(0, np.bool_))
        gap = inside.starts[1:] - inside.ends[:-1]
        is_open = gap >= self.width_ns
        first = np.flatnonzero(np.concatenate(([True], is_open)))
        last = np.flatnonzero(np.concatenate((is_open, [True])))
        start, end = inside.starts[first], inside.ends[last]
        dense = (last > first) & (end - start >= DENSE * self.width_ns)
        dense &= inside.covered(start, end) < SOLID * (end - start)
        room = np.concatenate(([self.width_ns], gap[is_open] // 4, [self.width_ns]))
        grow = np.maximum(self.width_ns - (end - start), 0)
        wide_start = start - np.minimum(grow // 2, room[:-1])
        wide_end = end + np.minimum(grow - grow // 2, room[1:])
        cut_start, cut_end = self._cut(start[dense], end[dense])
        filled = inside.covered(cut_start, cut_end) / (cut_end - cut_start)
        starts = np.concatenate((wide_start[~dense], cut_start))
        ends = np.concatenate((wide_end[~dense], cut_end))
        n_plain = len(starts) - len(cut_start)
        order = np.argsort(starts, kind="stable")
        share = np.concatenate((np.ones(n_plain), filled))
        is_dense = np.arange(len(starts)) >= n_plain
        return Bars(starts[order], ends[order], share[order], is_dense[order])

    def _cut(self, start: Int64Array, end: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Blocks cut into pieces of one column; the last of each may be shorter."""
        n_pieces = -(-(end - start) // self.width_ns)
        block = np.repeat(np.arange(len(start)), n_pieces)
        place = np.arange(len(block)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
        piece = start[block] + place * self.width_ns
        return piece, np.minimum(piece + self.width_ns, end[block])

    def closes_gaps(self, spans: IntervalSet) -> bool:
        """Whether `bars` closes any gap."""
        inside = spans.clip(self.start_ns, self.end_ns)
        return bool((inside.starts[1:] - inside.ends[:-1] < self.width_ns).any())

    def thin(self, times: Int64Array, values: Int64Array) -> tuple[Int64Array, Int64Array]:
        """A step function with its lowest, highest and last value in each column, in order.

        `times` (n,) are sorted. A function of no more points than that is returned as it is.
        """
        if len(times) <= 3 * COLUMNS:
            return times, values
        return thin_steps(times, values, (times - self.start_ns) // self.width_ns)


def distinct(x: np.ndarray, y: np.ndarray, columns: int = 1000) -> BoolArray:
    """Which points of a scatter to draw: one of those that would lie on one another.

    `x` and `y` (n,) are positions between 0 and 1; on a grid of `columns` by `columns` cells the
    first point of each cell is kept.
    """
    cell = (x * columns).astype(np.int64) * (columns + 1) + (y * columns).astype(np.int64)
    kept = np.zeros(len(x), np.bool_)
    kept[np.unique(cell, return_index=True)[1]] = True
    return kept


T = TypeVar("T")


def longest_of_each(
    steps: Sequence[T], at_most: int, length: Callable[[T], float]
) -> tuple[list[T], str]:
    """No more steps than can be drawn, and the rule in words, '' where each is drawn.

    Of several in a row the longest stands for all, so that no slow step is lost.
    """
    n = every(len(steps), at_most)
    shown = [max(steps[i : i + n], key=length) for i in range(0, len(steps), n)]
    return shown, f"each bar is the longest of {n} in a row" if n > 1 else ""


def every(count: int, at_most: int) -> int:
    """A round n such that drawing each n-th of `count` things draws no more than `at_most`."""
    n = 1
    while count > at_most * n:
        # 1, 2, 5, 10, 20, 50, ...
        n = n * 5 // 2 if str(n).startswith("2") else n * 2
    return n
