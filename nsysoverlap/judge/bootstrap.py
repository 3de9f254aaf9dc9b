"""Whether a drop is real: a seeded bootstrap over steps.

A step is resampled whole, with all its devices: they run it together and are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.records import dataclass
from ..result.model import OverlapReport

Floats = NDArray[np.float64]

MIN_STEPS = 5
"""Fewer say nothing about their own spread."""
REPLICATES = 4_000
SEED = 20_250_101
_CHUNK = 1_000_000
_TOLERANCE = 1e-12


class Sample(Protocol):
    """Observations that a share was computed from."""

    @property
    def n(self) -> int:
        """How many there are."""

    @property
    def what(self) -> str:
        """What one of them is."""

    @property
    def share(self) -> float:
        """The share over all of them."""

    def replicates(self, rng: np.random.Generator) -> Floats:
        """The share of `REPLICATES` samples drawn anew with replacement."""


@dataclass(frozen=True)
class StepSample:
    """Hidden and wall time of each step, ns, shape (n,); their share is the ratio of sums."""

    hidden_ns: NDArray[np.int64]
    wall_ns: NDArray[np.int64]

    @property
    def n(self) -> int:
        """Number of steps."""
        return len(self.wall_ns)

    @property
    def what(self) -> str:
        """What one of them is."""
        return "step"

    @property
    def share(self) -> float:
        """Hidden share over all steps."""
        return float(self.hidden_ns.sum() / self.wall_ns.sum())

    def replicates(self, rng: np.random.Generator) -> Floats:
        """Hidden shares of resampled steps."""
        parts = []
        for size in _chunks(self.n):
            weights = rng.multinomial(self.n, np.full(self.n, 1 / self.n), size=size)
            # A draw of nothing but steps without transfers has no share; it counts as unhidden.
            parts.append(weights @ self.hidden_ns / np.maximum(weights @ self.wall_ns, 1))
        return np.concatenate(parts)


@dataclass(frozen=True)
class RunSample:
    """Shares of earlier runs, shape (n,); their share is the median."""

    shares: Floats

    @property
    def n(self) -> int:
        """Number of runs."""
        return len(self.shares)

    @property
    def what(self) -> str:
        """What one of them is."""
        return "run"

    @property
    def share(self) -> float:
        """Median share."""
        return float(np.median(self.shares))

    def replicates(self, rng: np.random.Generator) -> Floats:
        """Medians of resampled runs."""
        return np.concatenate(
            [
                np.median(self.shares[rng.integers(0, self.n, (size, self.n))], axis=1)
                for size in _chunks(self.n)
            ]
        )


def _chunks(n: int) -> Sequence[int]:
    """`REPLICATES` in portions that keep memory small."""
    size = max(1, _CHUNK // n)
    full, rest = divmod(REPLICATES, size)
    return [size] * full + ([rest] if rest else [])


@dataclass(frozen=True)
class Interval:
    """A share with its confidence interval from n steps or runs."""

    share: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Drop:
    """How far a share fell, with its confidence interval, and both sides of it.

    `n_needed` steps of this spread would tell the drop from the allowed one; None where no
    number of them would.
    """

    now: Interval
    then: Interval
    low: float
    high: float
    n_needed: int | None

    def exceeds(self, allowed: float) -> bool | None:
        """Whether the drop is larger than `allowed`; None where the steps cannot tell."""
        if self.low > allowed + _TOLERANCE:
            return True
        return False if self.high <= allowed + _TOLERANCE else None


def steps_sample(report: OverlapReport, direction: str) -> StepSample | None:
    """Hidden and wall time of a direction per step index, over all devices; None without steps."""
    sums: dict[int, list[int]] = {}
    for device in report.devices:
        for step in device.steps:
            overlap = getattr(step, direction)
            pair = sums.setdefault(step.index, [0, 0])
            pair[0] += overlap.hidden_by_compute_ns
            pair[1] += overlap.wall_ns
    table = np.array([sums[index] for index in sorted(sums)], dtype=np.int64).reshape(-1, 2)
    return StepSample(table[:, 0], table[:, 1]) if table[:, 1].any() else None


def measure_drop(now: Sample, then: Sample | float, allowed: float, level: float) -> Drop:
    """The drop from `then` (a sample, or a number known exactly) to `now` at a level, 0..1.

    The same input always gives the same output.
    """
    rng = np.random.default_rng(SEED)
    after = now.replicates(rng)
    before = np.full(REPLICATES, then) if isinstance(then, float) else then.replicates(rng)
    before_share = then if isinstance(then, float) else then.share
    low, high = _bounds(before - after, level)
    now_interval = Interval(now.share, *_bounds(after, level), now.n)
    then_interval = Interval(
        before_share, *_bounds(before, level), 0 if isinstance(then, float) else then.n
    )
    needed = _needed(now_interval, then_interval, allowed)
    return Drop(now_interval, then_interval, low, high, needed)


def _bounds(values: Floats, level: float) -> tuple[float, float]:
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def _needed(now: Interval, then: Interval, allowed: float) -> int | None:
    """Steps after which the interval of the drop no longer holds `allowed`.

    The half width of `now` shrinks with the root of n, that of `then` stays as it is.
    """
    gap = abs(then.share - now.share - allowed)
    room = gap**2 - ((then.high - then.low) / 2) ** 2
    if room <= 0:
        return None
    half = (now.high - now.low) / 2
    return max(MIN_STEPS, math.ceil(now.n * half**2 / room))
