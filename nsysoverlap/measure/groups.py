"""The split for many groups of transfers at once: streams, operations."""

from __future__ import annotations

import numpy as np

from ..core.arrays import Int64Array
from ..core.intervals import IntervalSet
from ..result.model import Overlap
from .case import DeviceCase
from .waiting import WaitCounts, wait_counts


def measure_groups(case: DeviceCase, group: Int64Array, n_groups: int) -> list[Overlap]:
    """One `Overlap` for each group of `case.rows`, over the measured time of the device.

    `group` (n,) says which group each transfer belongs to, -1 for none. Equal to
    `split(...).measure(...)` of each group, without a loop over groups: there may be thousands.
    """
    lanes, rows = case.lanes, case.rows
    idle_other = lanes.other.union(lanes.unified).subtract(lanes.active)
    wall = _union_by_group(group, rows.start_ns, rows.end_ns)
    n = case.counted.contains(rows.start_ns).astype(np.int64)
    columns = {
        "n": n,
        "n_by_kernel": n * rows.by_kernel,
        "bytes": n * rows.n_bytes,
        "bytes_estimated": n * rows.bytes_estimated,
        "copy_ns": n * (rows.n_bytes > 0) * (rows.end_ns - rows.start_ns),
        "busy_ns": case.window.covered(rows.start_ns, rows.end_ns),
    }
    sums = {name: _sum_by(group, values, n_groups) for name, values in columns.items()}
    covered = {
        name: _covered_by_group(lane.intersect(case.window), wall, n_groups)
        for name, lane in (
            ("active", lanes.active),
            ("hidden_by_compute_ns", lanes.compute),
            ("exposed_under_other_ns", idle_other),
        )
    }
    active = covered.pop("active")
    sums |= covered
    sums["wall_ns"] = _covered_by_group(case.window, wall, n_groups)
    sums["hidden_by_comm_ns"] = active - covered["hidden_by_compute_ns"]
    sums["exposed_ns"] = sums["wall_ns"] - active
    pieces, of = case.pieces, group[case.pieces.transfer]
    lists: WaitCounts = {name: values.tolist() for name, values in sums.items()}
    lists |= wait_counts(
        sums["exposed_ns"],
        *(
            _covered_by_group(case.window, _union_by_group(of, since, pieces.end_ns), n_groups)
            for since in (pieces.blocked_ns, pieces.held_ns, pieces.doubtful_ns)
        ),
    )
    return [Overlap(**{name: values[i] for name, values in lists.items()}) for i in range(n_groups)]


_Spans = tuple[Int64Array, Int64Array, Int64Array]
"""Group, start and end, by group, then time."""


def _union_by_group(group: Int64Array, starts: Int64Array, ends: Int64Array) -> _Spans:
    """The union of the spans of each group; spans of group -1 are left out."""
    grouped = group >= 0
    group, starts, ends = group[grouped], starts[grouped], ends[grouped]
    if not len(group):
        return group, starts, ends
    low, high = int(starts.min()), int(ends.max())
    width = high - low + 1
    if width * (int(group.max()) + 1) < 2**62:
        # One set for all groups, laid end to end.
        shift = group * width - low
        union = IntervalSet.from_spans(starts + shift, ends + shift)
        of_union = union.starts // width
        shift = of_union * width - low
        return of_union, union.starts - shift, union.ends - shift
    # The same in ranks, where times would overflow.
    times, rank = np.unique(np.concatenate((starts, ends)), return_inverse=True)
    width = len(times) + 1
    first, last = np.split(rank.reshape(-1), 2)
    union = IntervalSet.from_spans(first + group * width, last + group * width)
    return union.starts // width, times[union.starts % width], times[union.ends % width]


def _covered_by_group(lane: IntervalSet, spans: _Spans, n_groups: int) -> Int64Array:
    group, starts, ends = spans
    return _sum_by(group, lane.covered(starts, ends), n_groups)


def _sum_by(group: Int64Array, values: Int64Array, n_groups: int) -> Int64Array:
    total = np.zeros(n_groups, np.int64)
    # Not bincount with weights: its float sums lose nanoseconds.
    np.add.at(total, group[group >= 0], values[group >= 0])
    return total
