"""The curve over link rates that a page of one trace shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ..core.garbage import collector_paused
from ..replay.link_curve import LinkCurve, enough_link, link_points
from ..replay.prepared import Model
from ..replay.questions import sweep_factors
from ..roles.clock import ClockLaw
from .analysis import TraceCases
from .replaying import MOST_OPERATIONS

SWEEP = "link=0.25:16"
T = TypeVar("T")
Both = tuple[T, LinkCurve | None]


class CurveBuilder:
    """Takes in the curve of a trace beside something else that is made of the trace."""

    def __init__(self, law: ClockLaw | None = None) -> None:
        self._law = law
        self.curve: LinkCurve | None = None
        """That of the last trace; None where nothing moves, is predicted, or it takes seconds."""

    def beside(self, keep: Callable[[TraceCases], T]) -> Callable[[TraceCases], Both[T]]:
        """Makes a curve of a trace, too; may be sent to another process, as `keep` may."""
        return partial(_both, keep=keep, law=self._law)

    def taken_with(self, take: Callable[[T], None]) -> Callable[[Both[T]], None]:
        """Takes in what `beside` made."""

        def take_both(both: Both[T]) -> None:
            take(both[0])
            self.curve = both[1]

        return take_both


def _both(found: TraceCases, keep: Callable[[TraceCases], T], law: ClockLaw | None) -> Both[T]:
    return keep(found), link_curve(found, law)


def link_curve(found: TraceCases, law: ClockLaw | None) -> LinkCurve | None:
    """The curve of a trace; None where nothing moves, is predicted, or it would take seconds."""
    model = found.model
    if not isinstance(model, Model) or model.withheld is not None or model.error is None:
        return None
    if len(model.operations) > MOST_OPERATIONS:
        return None
    with collector_paused():
        points = link_points(model, sweep_factors(SWEEP), law)
    name = found.classified.trace.info.file_name
    return LinkCurve(name, model.error, points, enough_link(points))
