"""The step and its exposed time against the rate of the host link."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.records import dataclass
from ..roles.clock import ClockLaw
from .answer import ENOUGH, SweepPoint
from .predict import predict
from .prepared import Model
from .scenario import Link, Scenario


@dataclass(frozen=True)
class LinkCurve:
    """The curve of one trace; `replay_error` is that of the unmodified replay, signed."""

    path: str
    replay_error: float
    points: tuple[SweepPoint, ...]
    enough_link: float | None


def link_points(
    model: Model, factors: Sequence[float], law: ClockLaw | None
) -> tuple[SweepPoint, ...]:
    """One point for each multiple of the rate of now."""
    points = []
    for times in factors:
        link = Link(times)
        found = predict(model, Scenario(f"link {times:g}x", h2d=link, d2h=link), law)
        step, exposed = found.outcome.step_ns, found.outcome.exposed_ns("both")
        points.append(SweepPoint(times, step, found.step_low_ns, found.step_high_ns, exposed))
    return tuple(points)


def enough_link(points: Sequence[SweepPoint]) -> float | None:
    """The least multiple of the link with which at most `ENOUGH` of the step is exposed.

    Between points by straight lines on the logarithm.
    """
    for i, point in enumerate(points):
        if point.exposed_ns <= ENOUGH * point.step_ns:
            if i == 0:
                return point.times
            before = points[i - 1]
            high = before.exposed_ns / before.step_ns - ENOUGH
            low = point.exposed_ns / point.step_ns - ENOUGH
            share = high / (high - low) if high > low else 1.0
            return float(before.times * (point.times / before.times) ** share)
    return None
