"""The split: how much transfer time lies behind compute, behind communication only, or exposed.

The sets behind the numbers are built once per group of transfers; any number of windows is then
measured by looking up lengths, so two thousand steps cost no more than one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.arrays import Int64Array
from ..core.intervals import IntervalSet
from ..core.records import dataclass
from ..result.model import Overlap, TimeBudget
from ..roles.rules import Role
from .lanes import Lanes, Transfers
from .waiting import WaitCounts, Waited


@dataclass(frozen=True)
class Split:
    """Transfers of one group and the disjoint parts of their wall time.

    `wall` is the union of the transfers; `hidden`, `comm` and `exposed` partition it.
    `under_other` is the part of `exposed` during which other work ran, `waited` the parts for which
    something waited, None where that is not asked.
    """

    transfers: Transfers
    wall: IntervalSet
    hidden: IntervalSet
    comm: IntervalSet
    exposed: IntervalSet
    under_other: IntervalSet
    waited: Waited | None = None

    def measure(
        self,
        windows: Sequence[tuple[int, int]],
        counted: Sequence[tuple[int, int]] | None = None,
    ) -> list[Overlap]:
        """One `Overlap` for each half-open window.

        Times are clipped to the window; n, bytes and whole copy durations belong to the window
        that holds a transfer's start. `counted` gives other windows for the latter, where the
        window was cut to what the device did.
        """
        start, end = _columns(windows)
        rows = self.transfers
        first, last = _columns(windows if counted is None else counted)
        low = np.searchsorted(rows.start_ns, first, side="left")
        high = np.maximum(np.searchsorted(rows.start_ns, last, side="left"), low)
        copy_ns = np.where(rows.n_bytes > 0, rows.end_ns - rows.start_ns, 0)
        counts = {
            "n": high - low,
            "n_by_kernel": _sum_between(rows.by_kernel.astype(np.int64), low, high),
            "bytes": _sum_between(rows.n_bytes, low, high),
            "bytes_estimated": _sum_between(rows.bytes_estimated, low, high),
            "copy_ns": _sum_between(copy_ns, low, high),
            "busy_ns": _summed_cover(rows.start_ns, rows.end_ns, start, end),
            "wall_ns": self.wall.covered(start, end),
            "hidden_by_compute_ns": self.hidden.covered(start, end),
            "hidden_by_comm_ns": self.comm.covered(start, end),
            "exposed_ns": self.exposed.covered(start, end),
            "exposed_under_other_ns": self.under_other.covered(start, end),
        }
        columns: WaitCounts = {name: values.tolist() for name, values in counts.items()}
        if self.waited is not None:
            columns |= self.waited.split(counts["exposed_ns"], start, end)
        return [
            Overlap(**{name: values[i] for name, values in columns.items()})
            for i in range(len(windows))
        ]


def split(transfers: Transfers, lanes: Lanes, waited: Waited | None = None) -> Split:
    """Partition the wall time of some transfers of a device by what else ran on it.

    `waited` holds the instants at which something waited for one of them.
    """
    wall = transfers.union
    unhidden = wall.subtract(lanes.compute)
    exposed = unhidden.subtract(lanes.comm)
    # Unified migrations are OTHER work for all transfers but themselves.
    unified = np.any(transfers.role >= Role.UNIFIED_H2D)
    other = lanes.other if unified else lanes.other.union(lanes.unified)
    return Split(
        transfers=transfers,
        wall=wall,
        hidden=wall.intersect(lanes.compute),
        comm=unhidden.intersect(lanes.comm),
        exposed=exposed,
        under_other=exposed.intersect(other),
        # Another transfer of the group may be hidden at the same instant, but nothing is then idle.
        waited=None if waited is None else waited.within(exposed),
    )


def _columns(windows: Sequence[tuple[int, int]]) -> tuple[Int64Array, Int64Array]:
    bounds = np.array(windows, dtype=np.int64).reshape(len(windows), 2)
    return bounds[:, 0], bounds[:, 1]


def _sum_between(values: Int64Array, low: Int64Array, high: Int64Array) -> Int64Array:
    """`values[low[i]:high[i]].sum()` for each i."""
    total = np.concatenate(([0], np.cumsum(values)))
    result: Int64Array = total[high] - total[low]
    return result


def _summed_cover(
    starts: Int64Array, ends: Int64Array, low: Int64Array, high: Int64Array
) -> Int64Array:
    """Sum of the durations of possibly overlapping spans, clipped to each `[low, high)`."""
    ends = np.sort(ends)
    before_start = np.concatenate(([0], np.cumsum(starts)))
    before_end = np.concatenate(([0], np.cumsum(ends)))

    def until(t: Int64Array) -> Int64Array:
        # Sum of (t - start) over begun spans less (t - end) over ended ones. Products may wrap
        # around int64; the difference of two such sums is small, and wrapping keeps it exact.
        begun = np.searchsorted(starts, t, side="left")
        ended = np.searchsorted(ends, t, side="left")
        result: Int64Array = (t * begun - before_start[begun]) - (t * ended - before_end[ended])
        return result

    return np.where(high > low, until(high) - until(low), 0)


@dataclass(frozen=True)
class BudgetSets:
    """Disjoint sets of instants by what the device was doing, first role first."""

    parts: tuple[tuple[str, IntervalSet], ...]

    def measure(self, windows: Sequence[tuple[int, int]]) -> list[TimeBudget]:
        """The time budget of each window; its parts sum to the window exactly."""
        starts, ends = _columns(windows)
        covered = {name: part.covered(starts, ends).tolist() for name, part in self.parts}
        budgets = []
        for i, (start, end) in enumerate(windows):
            busy = {name: values[i] for name, values in covered.items()}
            idle = end - start - sum(busy.values())
            if idle < 0:
                raise AssertionError(f"time budget exceeds its window [{start}, {end}): {busy}")
            budgets.append(TimeBudget(**busy, idle_ns=idle))
        return budgets


def budget_sets(lanes: Lanes) -> BudgetSets:
    """Each instant of a device to the first of compute, comm, transfer, other, opaque."""
    taken = IntervalSet.empty()
    parts = []
    for name, lane in (
        ("compute_ns", lanes.compute),
        ("comm_ns", lanes.comm),
        ("transfer_ns", lanes.of("both").union),
        ("other_ns", lanes.other.union(lanes.unified)),
        ("opaque_ns", lanes.opaque),
    ):
        parts.append((name, lane.subtract(taken)))
        taken = taken.union(lane)
    return BudgetSets(tuple(parts))
