"""The bound by order: how short a step can get when every copy runs as soon as its data allows.

Each D2H starts from the end of what filled it, each H2D from the end of its own D2H, in the order
in which they are issued now, on the engines as they are, with compute at its traced speed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.records import dataclass
from .engine import CycleError
from .moves import Matching
from .outcome import Outcome
from .predict import run
from .prepared import Model
from .replayed import TRANSFERS
from .scenario import Scenario, change

ROUND_TRIP = 0.5
"""With less relief than this, tensors come back right after they left."""


@dataclass(frozen=True)
class OrderBound:
    """No order of the same copies makes the step shorter than `step_ns`.

    `window` copies may be on the device at once beside those that compute is at; None for no
    limit. `bytes_kept` of the offloaded bytes are then on the device when fewest are.
    """

    window: int | None
    step_ns: int
    outcome: Outcome
    bytes_kept: int


def order_bounds(model: Model, windows: Sequence[int | None]) -> tuple[OrderBound, ...] | str:
    """The bounds for some memory windows, rising; why there are none, where there are not.

    What fits a narrow window fits a wider one, so that the step never grows with it.
    """
    if model.withheld is not None or model.replayed is None:
        return model.withheld or "there is no replay"
    moved = model.now.overlap("both")
    if not moved.n:
        return "no transfers"
    relief = model.now.slowest.relief
    if relief.offloaded_bytes and relief.relief_bytes < ROUND_TRIP * relief.offloaded_bytes:
        percent = 100 * relief.relief_bytes / relief.offloaded_bytes
        return (
            f"tensors come back right after they left (relief {percent:.0f} %), so that no other "
            "order of their copies can be told from this one"
        )
    if not len(Matching.of(model.operations, np.ones(len(model.operations), np.bool_))):
        return "no tensor leaves and comes back"
    found: list[OrderBound] = []
    try:
        for window in windows:
            changed = change(model, Scenario("best", best=True, window=window))
            outcome = run(model, changed)
            step = min([_clipped(model, outcome), *(one.step_ns for one in found)])
            kept = outcome.slowest.relief.offloaded_bytes - outcome.slowest.relief.relief_bytes
            found.append(OrderBound(window, step, outcome, kept))
    except CycleError:
        return "issued anew, its copies would wait for each other"
    return tuple(found)


def _clipped(model: Model, outcome: Outcome) -> int:
    """The traced schedule is one of all, and no engine can work faster than it does."""
    device = outcome.slowest
    n = len(device.steps_ns)
    walls = device.h2d.wall_ns // n, device.d2h.wall_ns // n
    return max(min(outcome.step_ns, model.now.step_ns), *walls)


def copies_per_layer(model: Model, op_names: Sequence[str]) -> int | None:
    """How many D2H copies belong to a layer; None where the trace does not tell.

    In a loop over layers the same few operations copy again and again.
    """
    ops = model.operations
    rows = np.flatnonzero(np.isin(ops.kind, TRANSFERS["d2h"]) & (ops.step == 0))
    names = {op_names[row] for row in rows.tolist()}
    if not names or len(rows) < 2 * len(names) or len(rows) % len(names):
        return None
    return len(names)
