"""Kernels that wait for room: ready on a stream of their own, but the processors are taken.

A persistent matrix product or a transfer made by a kernel takes all of them, and a kernel or copy
of another stream begins when it is done, or when its last blocks thin out. A trace shows it: the
start comes long after all that was waited for, right at the end of a kernel that ran meanwhile.
That order is kept as an edge, for it is the only one that a trace can show.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import Int64Array
from ..core.records import dataclass
from .replayed import COPIES, Operations, OpKind

FloatArray = NDArray[np.float64]
LATE_NS = 20_000
"""So late a start has another reason than latency."""
_HOLDS_NS = 20_000
"""Shorter kernels hold nothing up for long."""
_THINS_OUT = 0.5
"""Room can come after this share of a kernel, not before."""


_NEAR = 8
"""So many kernels that ended about then are looked at."""


@dataclass(frozen=True)
class Held:
    """Operations `after` began when kernels `before` had run for a `share` of their duration.

    Columns have shape (n,).
    """

    before: Int64Array
    after: Int64Array
    share: FloatArray


def held_up(ops: Operations, released_ns: Int64Array) -> list[tuple[int, int, int]]:
    """Edges `(kernel, operation, lag)` to operations that waited for room; lags are at most 0.

    `released_ns` (n,) is when each had all else that it waited for. The share of the kernel that
    had run is the median of the same kernel over the other steps.
    """
    duration = ops.duration_ns
    held = _found(ops, released_ns, duration)
    share = _typical(held, ops.name[held.before], ops.step[held.after])
    lag = -np.rint((1 - share) * duration[held.before]).astype(np.int64)
    return list(zip(held.before.tolist(), held.after.tolist(), lag.tolist(), strict=True))


def _typical(held: Held, name: Int64Array, step: Int64Array) -> FloatArray:
    """The median share of the same kernel in other steps; the own one where there are none."""
    share = held.share.copy()
    order = np.argsort(name, kind="stable")
    starts = np.flatnonzero(np.diff(name[order], prepend=-2))
    for rows in np.split(order, starts[1:]) if len(order) else []:
        own = step[rows]
        for one in np.unique(own).tolist():
            others = np.sort(held.share[rows[own != one]])
            n = len(others)
            if n:
                share[rows[own == one]] = (others[(n - 1) // 2] + others[n // 2]) / 2
    return share


def _found(ops: Operations, released_ns: Int64Array, duration: Int64Array) -> Held:
    late = ~ops.fixed & (ops.start_ns - released_ns > LATE_NS) & ~np.isin(ops.kind, COPIES)
    holds = (ops.table == 0) & (duration >= _HOLDS_NS) & (ops.kind != OpKind.COMM)
    parts = [
        _on_device(ops, np.flatnonzero(late & mine), np.flatnonzero(holds & mine))
        for device in np.unique(ops.device[late]).tolist()
        for mine in [ops.device == device]
    ]
    nothing = np.empty(0, np.int64)
    kernel = np.concatenate([nothing, *(kernel for kernel, _ in parts)])
    after = np.concatenate([nothing, *(after for _, after in parts)])
    share = np.minimum(1.0, (ops.start_ns[after] - ops.start_ns[kernel]) / duration[kernel])
    kept = share >= _THINS_OUT
    return Held(kernel[kept], after[kept], share[kept])


def _on_device(
    ops: Operations, late: Int64Array, kernels: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """For late operations the first kernel to end about then that ran meanwhile, where one did."""
    kernels = kernels[np.argsort(ops.end_ns[kernels], kind="stable")]
    begins, stream = ops.start_ns[late], ops.stream[late]
    place = np.searchsorted(ops.end_ns[kernels], begins - LATE_NS)
    chosen = np.full(len(late), -1, np.int64)
    for ahead in range(_NEAR):
        open_ = np.flatnonzero((chosen < 0) & (place + ahead < len(kernels)))
        near = kernels[place[open_] + ahead]
        fits = (
            (ops.start_ns[near] < begins[open_] - _HOLDS_NS)
            & (ops.stream[near] != stream[open_])
            & (near != late[open_])
        )
        chosen[open_[fits]] = near[fits]
    return chosen[chosen >= 0], late[chosen >= 0]
