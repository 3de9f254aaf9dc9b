"""Collectives: kernels of several GPUs that start together at the earliest and end together."""

from __future__ import annotations

import numpy as np

from ..core.arrays import Int64Array
from .replayed import Operations, OpKind

_OVERLAPPING_SHARE = 0.95
"""So many of the groups must have run at the same time, else these are not collectives."""


def collective_groups(ops: Operations) -> tuple[Int64Array, tuple[int, ...]]:
    """The collective of each operation (n,), -1 for none, and the own time that each takes.

    The k-th kernel of a name on every device that runs it is one collective. Its own time is that
    from the last start to the first end: before that its kernels wait for each other.
    """
    group = np.full(len(ops), -1, np.int64)
    cost: list[int] = []
    comm = np.flatnonzero((ops.kind == OpKind.COMM) & (ops.table == 0) & ~ops.fixed)
    for name in np.unique(ops.name[comm]).tolist():
        own = comm[ops.name[comm] == name]
        devices = np.unique(ops.device[own]).tolist()
        if len(devices) < 2:
            continue
        rows = [own[ops.device[own] == device] for device in devices]
        rows = [each[np.argsort(ops.start_ns[each], kind="stable")] for each in rows]
        n = min(len(each) for each in rows)
        together = np.stack([each[:n] for each in rows])
        last = ops.start_ns[together].max(axis=0)
        first = ops.end_ns[together].min(axis=0)
        if np.count_nonzero(first > last) < _OVERLAPPING_SHARE * n:
            continue
        group[together] = np.arange(len(cost), len(cost) + n)
        cost += np.maximum(first - last, 0).tolist()
    return group, tuple(cost)
