"""Kernels that wait for room: ready on a stream of their own, but the processors are taken.

A persistent matrix product or a transfer made by a kernel takes all of them, and a kernel or copy
of another stream begins when it is done, or when its last blocks thin out. A trace shows it: the
start comes long after all that was waited for, right at the end of a kernel that ran meanwhile.
That order is kept as an edge, for it is the only one that a trace can show.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ..core.arrays import Int64Array
from ..core.records import dataclass
from .replayed import COPIES, Operations, OpKind

LATE_NS = 20_000
"""So late a start has another reason than latency."""
_HOLDS_NS = 20_000
"""Shorter kernels hold nothing up for long."""
_THINS_OUT = 0.5
"""Room can come after this share of a kernel, not before."""


@dataclass(frozen=True)
class Held:
    """Operation `after` began when kernel `before` had run for a `share` of its duration."""

    before: int
    after: int
    share: float


def held_up(ops: Operations, released_ns: Int64Array) -> list[tuple[int, int, int]]:
    """Edges `(kernel, operation, lag)` to operations that waited for room; lags are at most 0.

    `released_ns` (n,) is when each had all else that it waited for. The share of the kernel that
    had run is the median of the same kernel over the other steps.
    """
    found = _found(ops, released_ns)
    by_name: defaultdict[int, list[Held]] = defaultdict(list)
    for one in found:
        by_name[int(ops.name[one.before])].append(one)
    edges = []
    duration = ops.duration_ns
    for one in found:
        alike = by_name[int(ops.name[one.before])]
        others = [a.share for a in alike if ops.step[a.after] != ops.step[one.after]]
        share = float(np.median(others)) if others else one.share
        edges.append((one.before, one.after, -round((1 - share) * int(duration[one.before]))))
    return edges


def _found(ops: Operations, released_ns: Int64Array) -> list[Held]:
    late = ~ops.fixed & (ops.start_ns - released_ns > LATE_NS) & ~np.isin(ops.kind, COPIES)
    holds = (ops.table == 0) & (ops.duration_ns >= _HOLDS_NS)
    found: list[Held] = []
    for device in np.unique(ops.device[late]).tolist():
        kernels = np.flatnonzero(holds & (ops.device == device))
        kernels = kernels[np.argsort(ops.end_ns[kernels], kind="stable")]
        ends = ops.end_ns[kernels]
        for op in np.flatnonzero(late & (ops.device == device)).tolist():
            start = int(ops.start_ns[op])
            first = int(np.searchsorted(ends, start - LATE_NS))
            near = kernels[first : first + 8]
            near = near[
                (ops.start_ns[near] < start - _HOLDS_NS)
                & (ops.stream[near] != ops.stream[op])
                & (near != op)
                & (ops.kind[near] != OpKind.COMM)
            ]
            if len(near):
                kernel = int(near[0])
                length = int(ops.duration_ns[kernel])
                share = min(1.0, (start - int(ops.start_ns[kernel])) / length)
                if share >= _THINS_OUT:
                    found.append(Held(kernel, op, share))
    return found
