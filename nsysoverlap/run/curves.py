"""The curve over link rates that a page of one trace shows."""

from __future__ import annotations

from collections.abc import Callable

from ..core.garbage import collector_paused
from ..replay.link_curve import LinkCurve, enough_link, link_points
from ..replay.prepared import build_model
from ..replay.questions import sweep_factors
from ..roles.clock import ClockLaw
from .analysis import TraceCases
from .replaying import MOST_OPERATIONS, STEPS

SWEEP = "link=0.25:16"


class CurveBuilder:
    """Makes the curve of a trace while that is at hand."""

    def __init__(self, law: ClockLaw | None = None) -> None:
        self._law = law
        self.curve: LinkCurve | None = None
        """That of the last trace; None where nothing moves, is predicted, or it takes seconds."""

    def beside(self, take: Callable[[TraceCases], None] | None) -> Callable[[TraceCases], None]:
        """Takes in a trace after something else has."""

        def take_both(found: TraceCases) -> None:
            if take is not None:
                take(found)
            self.add(found)

        return take_both

    def add(self, found: TraceCases) -> None:
        """Take in what was measured of a trace."""
        self.curve = None
        moves = any(len(case.rows) for case in found.cases)
        if not found.plan.windows or not moves:
            return
        with collector_paused():
            model = build_model(
                found.classified, found.launches, found.plan.windows, STEPS, MOST_OPERATIONS
            )
            if isinstance(model, str) or model.withheld is not None or model.error is None:
                return
            points = link_points(model, sweep_factors(SWEEP), self._law)
        name = found.classified.trace.info.file_name
        self.curve = LinkCurve(name, model.error, points, enough_link(points))
