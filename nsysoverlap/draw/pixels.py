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
MAX_STEPS = 120
"""Bars of a chart of steps."""
EXACT = 2
"""Columns from which on a span is drawn from its start to its end."""


@dataclass(frozen=True)
class Bars:
    """What to draw of a set: columns of shape (n,), the exact bars first.

    A bar is `share` of a lane high: 1 for exact ones, and for `thin` ones, each a column wide, how
    much of the column the spans fill that are too short to be drawn from start to end. So heights
    times widths sum to the length of the set.
    """

    start_ns: Int64Array
    end_ns: Int64Array
    share: NDArray[np.float64]
    thin: BoolArray

    def __len__(self) -> int:
        return len(self.start_ns)

    def select(self, picked: BoolArray) -> Bars:
        """The bars that a mask (n,) picks."""
        return Bars(
            self.start_ns[picked], self.end_ns[picked], self.share[picked], self.thin[picked]
        )


@dataclass(frozen=True)
class PixelColumns:
    """A stretch of time cut into about `COLUMNS` columns of `width_ns` each."""

    start_ns: int
    end_ns: int

    @property
    def width_ns(self) -> int:
        """Width of a column, at least 1 ns."""
        return max(1, (self.end_ns - self.start_ns) // COLUMNS)

    def bars(self, spans: IntervalSet) -> Bars:
        """The part of a set inside the stretch as no more bars than can be told apart.

        The page draws by the same rule (`drawBlocks` in timeline-blocks.js): no width is made up.
        """
        inside = spans.clip(self.start_ns, self.end_ns)
        exact = self._exact(inside)
        short = IntervalSet(inside.starts[~exact], inside.ends[~exact])
        first = (short.starts - self.start_ns) // self.width_ns
        last = (short.ends - 1 - self.start_ns) // self.width_ns
        # Shorter than two columns, a span touches three at most.
        filled = np.zeros((self.end_ns - self.start_ns) // self.width_ns + 1, np.bool_)
        for column in (first, np.minimum(first + 1, last), last):
            filled[column] = True
        touched = np.flatnonzero(filled)
        left = self.start_ns + touched * self.width_ns
        right = np.minimum(left + self.width_ns, self.end_ns)
        n_exact = int(np.count_nonzero(exact))
        share = np.concatenate((np.ones(n_exact), short.covered(left, right) / (right - left)))
        return Bars(
            np.concatenate((inside.starts[exact], left)),
            np.concatenate((inside.ends[exact], right)),
            share,
            np.arange(len(share)) >= n_exact,
        )

    def _exact(self, inside: IntervalSet) -> BoolArray:
        result: BoolArray = inside.ends - inside.starts >= EXACT * self.width_ns
        return result

    def thins(self, spans: IntervalSet) -> bool:
        """Whether `bars` draws anything by its share of a column."""
        return not self._exact(spans.clip(self.start_ns, self.end_ns)).all()

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


def longest_of_each(steps: Sequence[T], length: Callable[[T], float]) -> tuple[list[T], str]:
    """At most `MAX_STEPS` steps, and the rule in words, '' where each is drawn.

    Of several in a row the longest stands for all, so that no slow step is lost.
    """
    n = every(len(steps), MAX_STEPS)
    shown = [max(steps[i : i + n], key=length) for i in range(0, len(steps), n)]
    return shown, f"each bar is the longest of {n} in a row" if n > 1 else ""


def every(count: int, at_most: int) -> int:
    """A round n such that drawing each n-th of `count` things draws no more than `at_most`."""
    n = 1
    while count > at_most * n:
        # 1, 2, 5, 10, 20, 50, ...
        n = n * 5 // 2 if str(n).startswith("2") else n * 2
    return n
