"""What could be won at most: a hidden share no schedule exceeds, a time no hiding gets below."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ..result.model import Bounds, Overlap, StepReport, TimeBudget
from .case import DeviceCase


def measure_bounds(
    case: DeviceCase, both: Overlap, budget: TimeBudget, steps: Sequence[StepReport] = ()
) -> Bounds:
    """Bounds over the measured time of a device; both are None where no transfer ran in it.

    `both` and `budget` are the device's numbers over that time. Of `steps` the median is taken.
    """
    if not both.wall_ns:
        return Bounds()
    # Whatever hides them, the copies of one direction take their time one after the other.
    if steps:
        left = round(
            median(
                max(step.duration_ns - step.both.exposed_ns, step.h2d.wall_ns, step.d2h.wall_ns)
                for step in steps
            )
        )
    else:
        left = max(budget.total_ns - both.exposed_ns, *_walls(case))
    return Bounds(_best_hidden_share(case, budget), left)


def _best_hidden_share(case: DeviceCase, budget: TimeBudget) -> float:
    """The most that any schedule of the same work could hide, behind compute or communication.

    Let A be the time with compute or communication, and L(d) the wall time of the transfers of
    direction d. Both directions can run at once, but no direction is assumed to go faster than it
    did. So in every schedule the wall time W of all transfers is at least L = max L(d), and what
    is hidden is at most A and at most W. Its share is at most min(1, A / W) <= min(1, A / L).

    The schedule that was read is one of these: `covered_share` never exceeds the bound. With
    `busy_ns` in place of the wall time it could, because two copies of one direction at the same
    time (a transfer kernel beside a copy, say) count twice there. Opaque graph time may be
    compute, so A includes it.
    """
    lanes = case.lanes
    opaque = lanes.opaque.subtract(lanes.active).intersect(case.window)
    active_ns = budget.compute_ns + budget.comm_ns + opaque.length
    return min(1.0, active_ns / max(_walls(case)))


def _walls(case: DeviceCase) -> list[int]:
    """Wall time of the transfers of each direction."""
    return [
        case.lanes.of(direction).union.intersect(case.window).length for direction in ("h2d", "d2h")
    ]
