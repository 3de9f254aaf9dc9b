"""Bytes on the host over time: what offloading had put there, as a step function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.arrays import Int64Array
from ..measure.case import DeviceCase
from ..measure.relief import relief_curve


@dataclass(frozen=True)
class Curve:
    """Bytes on the host over time, a step function: `n_bytes[i]` from `at_ns[i]` on, shape (n,)."""

    at_ns: Int64Array
    n_bytes: Int64Array

    @property
    def peak(self) -> int:
        """Most bytes on the host at one time."""
        return int(self.n_bytes.max())

    def thinned(self, most: int) -> Curve:
        """About `most` points; of each stretch of time its lowest, highest and last value stay."""
        if len(self.at_ns) <= most:
            return self
        start, end = int(self.at_ns[0]), int(self.at_ns[-1])
        width = max((end - start) * 3 // max(most, 3), 1)
        return Curve(*thin_steps(self.at_ns, self.n_bytes, (self.at_ns - start) // width))


def host_curve(case: DeviceCase) -> Curve | None:
    """What offloading had on the host, above the least of each step (or of the window)."""
    times, levels = [], []
    spans = [(step.start_ns, step.end_ns) for step in case.steps] or case.window.pieces()
    for span in spans:
        at, level = relief_curve(case.rows, span)
        times.append(at)
        levels.append(level - level.min())
    if not any(level.any() for level in levels):
        return None
    # Steps of processes that share a GPU overlap, and so do their curves: a sum would mix them.
    order = np.argsort(np.concatenate(times), kind="stable")
    return Curve(np.concatenate(times)[order], np.concatenate(levels)[order])


def thin_steps(
    times: Int64Array, values: Int64Array, column: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """A step function with its lowest, highest and last value in each column, in order.

    `times`, `values` and `column` have shape (n,), times and columns rising.
    """
    order = np.lexsort((values, column))
    border = np.flatnonzero(np.diff(column))
    first = np.concatenate(([0], border + 1))
    last = np.concatenate((border, [len(times) - 1]))
    kept = np.unique(np.concatenate((order[first], order[last], last)))
    return times[kept], values[kept]
