"""The exponent of the clock law, fitted on two traces of one program that load a GPU unequally.

Such as one that offloads and waits, and one that keeps its tensors on the device. What runs in both
is compared: kernels of the same name, grid and block that run equally often a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..core.formatting import format_share
from ..core.records import dataclass
from ..roles.clock import ClockLaw
from ..roles.rules import Classified
from ..steps.launches import Launches
from ..steps.projection import StepWindow
from .outcome import Timed, find_borders, outcome
from .replayed import OpKind, operations, segment

Key = tuple[str, tuple[int, ...]]
"""Name of a kernel, its grid and block."""

_LEAST_MATCHED = 0.1
"""Share of the kernel time, of either trace, that must be of kernels that run in both."""
_LEAST_APART = 0.05
"""Logarithm of the quotient of both busy shares below which chance is larger than the clock."""
_NOISE = 0.01
"""So much faster the kernels of the busier trace may be, for chance, when nothing slows them."""


@dataclass(frozen=True)
class Load:
    """The steady steps of one trace on its slowest GPU: share with compute, and its kernels.

    `kernels` holds how often each runs a step, and its mean duration in ns.
    """

    busy: float
    kernels: dict[Key, tuple[float, float]]

    @property
    def kernel_ns(self) -> float:
        """Kernel time of a step."""
        return sum(n * mean for n, mean in self.kernels.values())


@dataclass(frozen=True)
class PairFit:
    """A law, and the share of the first trace's kernel time that it rests on."""

    law: ClockLaw
    matched_share: float
    ratio: float
    """How much longer the same kernels take in the busier trace: the median, by time."""


def load_of(
    classified: Classified, launches: Launches, windows: Sequence[StepWindow]
) -> Load | None:
    """What a trace shows of its steady steps; None with fewer than two, or without kernels."""
    chosen = segment(classified, launches, windows, None)
    if chosen is None:
        return None
    trace, ops = classified.trace, operations(classified, launches, chosen)
    if not np.any((ops.kind == OpKind.COMPUTE) & ~ops.fixed):
        return None
    run, borders = Timed(ops, ops.start_ns, ops.end_ns), find_borders(ops, chosen)
    slowest = outcome(run, borders, traced=True).slowest
    mine = (ops.kind == OpKind.COMPUTE) & (ops.table == 0) & ~ops.fixed
    mine &= ops.device == slowest.device
    shapes, shape = trace.kernels.shapes, trace.kernels.shape[ops.row[mine]].astype(np.int64)
    key = ops.name[mine] * len(shapes.grid) + shape
    if not len(key):
        return None
    distinct, first, which = np.unique(key, return_index=True, return_inverse=True)
    n = np.bincount(which, minlength=len(distinct))
    total = np.bincount(which, weights=ops.duration_ns[mine], minlength=len(distinct))
    names, steps = ops.name[mine][first].tolist(), len(slowest.steps_ns)
    kernels = {
        (trace.names[name], (*shapes.grid[s].tolist(), *shapes.block[s].tolist())): (a / steps, b)
        for name, s, a, b in zip(
            names, shape[first].tolist(), n.tolist(), (total / n).tolist(), strict=True
        )
    }
    return Load(slowest.busy, kernels)


def apart(one: Load, other: Load, floor: float) -> float:
    """Logarithm of the quotient of the busy shares, the other's above; 0 where that is too little.

    Below the floor the clock does not rise any more.
    """
    far = math.log(max(other.busy, floor) / max(one.busy, floor))
    return far if abs(far) >= _LEAST_APART else 0.0


def fit_pair(one: Load, other: Load, floor: float) -> PairFit | str:
    """The law that explains how much slower the same kernels are in the busier trace, or why none.

    The median by time: a kernel that has the same name but other work does not move it.
    """
    idle, busy = sorted((one, other), key=lambda load: load.busy)
    shares = f"{format_share(idle.busy)} and {format_share(busy.busy)}"
    far = apart(idle, busy, floor)
    if not far:
        return (
            f"both keep the GPU about equally busy ({shares} of a step), or less than the floor "
            f"of {floor:g}"
        )
    alike = [
        (then / now, n * now, n * then)
        for key, (n, now) in idle.kernels.items()
        for m, then in [busy.kernels.get(key, (0.0, 0.0))]
        if now > 0 and abs(n - m) < 0.01
    ]
    found = np.array(alike, float).reshape(-1, 3)
    sums = found.sum(axis=0)
    matched = min(sums[1] / idle.kernel_ns, sums[2] / busy.kernel_ns) if len(found) else 0.0
    if matched < _LEAST_MATCHED:
        return f"only {format_share(matched)} of their kernel time is of the same kernels"
    found = found[np.argsort(found[:, 0], kind="stable")]
    weight = np.cumsum(found[:, 1])
    ratio = float(found[np.searchsorted(weight, weight[-1] / 2), 0])
    exponent = math.log(ratio) / far
    if ratio < 1 - _NOISE or exponent > 1:
        return (
            f"the same kernels take {ratio:.3f}x as long in the busier one (GPU busy {shares}), "
            "which no clock explains"
        )
    return PairFit(ClockLaw(max(0.0, exponent), floor), float(matched), ratio)
