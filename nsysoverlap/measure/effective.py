"""What hiding cost: how fast copies ran beside work, how much longer work ran beside transfers.

Kernels are compared with launches of the same name and shape only, and only where durations hardly
spread: persistent GEMM kernels use one grid for every shape and one NCCL kernel name covers all
message sizes, so that without this test slowdowns are invented. Launches that ran beside the other
kind of work (compute beside a collective, or the reverse) are compared among themselves: a GEMM
runs 25 % longer beside NCCL, which is not the transfers' doing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
from ..result.model import Effective, Rate, Slowdown
from ..result.parts import MAX_SPREAD
from ..roles.rules import Role
from ..trace.contents import Kernels
from .case import DeviceCase

MIN_RATE_BYTES = 1 << 20
"""Smaller copies show latency rather than the link."""
MIN_LAUNCHES = 3

FloatArray = NDArray[np.float64]


def measure_effective(case: DeviceCase) -> Effective | None:
    """Rates and slowdowns over the measured time of a device; None where no transfer ran in it."""
    transfers = case.rows.union
    if not transfers.intersect(case.window):
        return None
    return Effective(
        h2d_hidden=_rate(case, Role.H2D, hidden=True),
        h2d_exposed=_rate(case, Role.H2D, hidden=False),
        d2h_hidden=_rate(case, Role.D2H, hidden=True),
        d2h_exposed=_rate(case, Role.D2H, hidden=False),
        compute=_slowdown(case, Role.COMPUTE),
        comm=_slowdown(case, Role.COMM),
    )


def _rate(case: DeviceCase, role: Role, *, hidden: bool) -> Rate:
    """GB/s of the copies of one direction of which at least half ran beside work, or did not."""
    rows, duration = case.rows, case.rows.end_ns - case.rows.start_ns
    beside = 2 * case.lanes.active.covered(rows.start_ns, rows.end_ns) >= duration
    picked = (rows.role == role) & (beside == hidden) & case.counted.contains(rows.start_ns)
    # Transfer kernels have no bytes that are known for sure, so they drop out too.
    picked &= (rows.n_bytes >= MIN_RATE_BYTES) & (duration > 0)
    if not picked.any():
        return Rate()
    n_bytes, ns = rows.n_bytes[picked], duration[picked]
    p10, p90 = np.percentile(n_bytes / ns, (10, 90)).tolist()
    return Rate(len(ns), int(n_bytes.sum()) / int(ns.sum()), p10, p90)


def _slowdown(case: DeviceCase, role: Role) -> Slowdown:
    launches = _launches(case, role)
    beside, alone = _Spread.of(launches, launches.beside), _Spread.of(launches, ~launches.beside)
    comparable = beside.tight & alone.tight
    own = launches.beside & comparable[launches.kind]
    if not own.any():
        return Slowdown(beside_ns=launches.beside_ns)
    ns, expected_ns = launches.ns[own], alone.p50[launches.kind[own]]
    p10, p90 = np.percentile(ns / expected_ns, (10, 90)).tolist()
    return Slowdown(
        n_beside=len(ns),
        n_alone=int(alone.n[comparable].sum()),
        beside_ns=launches.beside_ns,
        compared_ns=int(ns.sum()),
        cost_ns=round(float((ns - expected_ns).sum())),
        # Weighted by time: a thousand tiny kernels must not outvote the GEMM.
        ratio=float(ns.sum() / expected_ns.sum()),
        p10_ratio=p10,
        p90_ratio=p90,
    )


@dataclass(frozen=True)
class _Launches:
    """Kernel launches of one role and known shape that ran mostly under a transfer (`beside`) or
    under none; columns of shape (n,), in order of kind, then duration.

    `kind` numbers what is comparable. `beside_ns` also holds launches of unknown shape.
    """

    kind: Int64Array
    ns: Int64Array
    beside: BoolArray
    beside_ns: int


def _launches(case: DeviceCase, role: Role) -> _Launches:
    """The launches of one role that start in the measured time of the device."""
    trace = case.classified.trace
    row = case.classified.kernel_rows(case.device.index, role)
    row = row[case.counted.contains(trace.kernels.start_ns[row])]
    start, end = trace.kernels.start_ns[row], trace.kernels.end_ns[row]
    ns, under = end - start, case.rows.union.covered(start, end)
    beside = (2 * under >= ns) & (under > 0)
    company = case.lanes.comm if role == Role.COMPUTE else case.lanes.compute
    accompanied = 2 * company.covered(start, end) >= ns
    key = 2 * _name_and_shape(trace.kernels, row) + accompanied
    kept = (key >= 0) & (ns > 0) & (beside | (under == 0))
    key, own_ns, own_beside = _sorted(key[kept], ns[kept], beside[kept])
    kind = np.cumsum(np.diff(key, prepend=-1) != 0) - 1
    return _Launches(kind, own_ns, own_beside, int(ns[beside].sum()))


def _sorted(
    key: Int64Array, ns: Int64Array, beside: BoolArray
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """The columns in order of key, then duration."""
    if len(key) and int(key.max()) < 2**22 and int(ns.max()) < 2**40:
        # All three fit into one number, and numbers are sorted a good deal faster than rows.
        packed = np.sort(key << 41 | ns << 1 | beside)
        return packed >> 41, packed >> 1 & (2**40 - 1), (packed & 1).astype(np.bool_)
    order = np.lexsort((ns, key))
    return key[order], ns[order], beside[order]


def _name_and_shape(kernels: Kernels, row: Int64Array) -> Int64Array:
    """For each kernel row a number for its name, grid and block; -1 where the shape is unknown."""
    n_shapes = len(kernels.shapes.grid)
    shape = kernels.shape[row].astype(np.int64)
    known = kernels.shapes.threads[shape] > 0
    return np.where(known, kernels.name[row].astype(np.int64) * n_shapes + shape, -1)


@dataclass(frozen=True)
class _Spread:
    """How many of some launches there are of each kind and how long they take; shape (n_kinds,).

    Percentiles are those of `numpy.percentile`, and 0 for a kind without launches.
    """

    n: Int64Array
    p10: FloatArray
    p50: FloatArray
    p90: FloatArray

    @classmethod
    def of(cls, launches: _Launches, picked: BoolArray) -> _Spread:
        n_kinds = int(launches.kind.max(initial=-1)) + 1
        ordered = launches.ns[picked]
        n = np.bincount(launches.kind[picked], minlength=n_kinds)
        first = (np.cumsum(n) - n)[n > 0]

        def percentile(share: float) -> FloatArray:
            place = share * (n[n > 0] - 1)
            below, above = np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
            low, high = ordered[first + below], ordered[first + above]
            result = np.zeros(n_kinds)
            result[n > 0] = low + (high - low) * (place - below)
            return result

        return cls(n, percentile(0.1), percentile(0.5), percentile(0.9))

    @property
    def tight(self) -> BoolArray:
        """Whether there are enough launches of a kind, all of about one duration."""
        result: BoolArray = (self.n >= MIN_LAUNCHES) & (self.p90 <= MAX_SPREAD * self.p10)
        return result
