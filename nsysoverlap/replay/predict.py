"""Predictions: scenarios of one trace, each as a range over what clocks may do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.records import dataclass
from ..roles.clock import CALIBRATED_SPREAD, DEFAULT_LAW, ClockLaw
from .outcome import Outcome
from .prepared import Model
from .replayed import OpKind
from .scenario import Changed, Scenario, change

_ROUNDS = 6
_CLOSE = 2e-4
"""Share by which the clock may still move when it is taken as settled."""


@dataclass(frozen=True)
class Prediction:
    """What a scenario comes to: `outcome` with compute at its traced speed, and a range.

    With a calibrated clock law `outcome` is the one by that law.
    """

    scenario: Scenario
    outcome: Outcome
    step_low_ns: int
    step_high_ns: int
    notes: tuple[str, ...] = ()

    @property
    def width(self) -> float:
        """Width of the range, a share of its high end."""
        return 1 - self.step_low_ns / self.step_high_ns if self.step_high_ns else 0.0


def predict(
    model: Model,
    scenario: Scenario,
    law: ClockLaw | None = None,
    op_names: Callable[[], list[str]] | None = None,
) -> Prediction:
    """Replay a scenario; `law` is a calibrated one, None where nothing was calibrated.

    Raises `UsageError` for a scenario that the trace does not allow, and `CycleError`.
    """
    return of_changed(model, scenario, change(model, scenario, op_names), law)


def of_changed(
    model: Model, scenario: Scenario, changed: Changed, law: ClockLaw | None = None
) -> Prediction:
    """The same for what a scenario has changed already."""
    plain = run(model, changed)
    settled = by_law(model, changed, plain, law or DEFAULT_LAW)
    if law is not None and law.on_kernels:
        middle = settled.step_ns
        spread = CALIBRATED_SPREAD if settled.step_ns != plain.step_ns else 0.0
        low, high = round(middle * (1 - spread)), round(middle * (1 + spread))
        return Prediction(scenario, settled, low, high, changed.notes)
    steps = sorted((plain.step_ns, settled.step_ns))
    return Prediction(scenario, plain, steps[0], steps[1], changed.notes)


def run(model: Model, changed: Changed, slowdown: float = 1.0) -> Outcome:
    """Replay what a scenario changed, with compute kernels so many times as slow."""
    duration = changed.duration_ns
    if slowdown != 1:
        ops = model.operations
        scaled = (ops.kind == OpKind.COMPUTE) & ~ops.fixed
        duration = np.where(scaled, np.rint(duration * slowdown), duration).astype(np.int64)
    return model.measure(changed.calibrated.run(duration), changed.kept)


def by_law(model: Model, changed: Changed, plain: Outcome, law: ClockLaw) -> Outcome:
    """The outcome when the clock has settled for the share of the step that is then busy."""
    base = (model.replayed or model.now).slowest.busy
    # Faster kernels of another GPU are no less work for its clock, so time at that speed counts.
    found, slowdown = plain, 1.0
    for _ in range(_ROUNDS):
        wanted = law.slowdown(base, found.slowest.busy)
        if abs(wanted - slowdown) < _CLOSE:
            break
        slowdown = wanted
        found = run(model, changed, slowdown)
    return found
