"""Which kernels ran beside transfers, and which ran with nothing of that kind beside them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from ..core.arrays import Int64Array
from ..result.model import KernelReport
from ..roles.rules import Role
from ..trace.contents import short_name
from .case import DeviceCase

DeviceKernels = list[tuple[tuple[str, str], list[int]]]
"""(name, role) of kernels, and of each its launches, time beside transfers and time alone."""
_ROLE_NAMES = {Role.COMPUTE: "compute", Role.COMM: "comm"}


def measure_kernels(
    cases: Sequence[DeviceCase], top: int = 20, measured: Sequence[DeviceKernels] | None = None
) -> tuple[KernelReport, ...]:
    """The `top` kernel names by time beside h2d and d2h transfers, and the `top` by time alone.

    Over all devices, longest first; names whose short form is the same count as one. Times are
    summed over launches, which may run at the same time, and cut to the measured time. `measured`
    are the `device_kernels` of the cases, where at hand.
    """
    if measured is None:
        measured = [device_kernels(case) for case in cases]
    sums: dict[tuple[str, str], list[int]] = {}
    for device in measured:
        for key, values in device:
            total = sums.setdefault(key, [0, 0, 0])
            total[:] = [one + other for one, other in zip(total, values, strict=True)]
    reports = [KernelReport(*key, *values) for key, values in sums.items()]
    kept = set(_longest(reports, "beside_ns", top)) | set(_longest(reports, "alone_ns", top))
    return tuple(sorted(kept, key=lambda r: (-(r.beside_ns + r.alone_ns), r.name, r.role)))


def _longest(reports: Sequence[KernelReport], name: str, top: int) -> list[KernelReport]:
    value = attrgetter(name)
    ordered = sorted(reports, key=lambda r: (-value(r), r.name, r.role))
    return [report for report in ordered[:top] if value(report)]


def device_kernels(case: DeviceCase) -> DeviceKernels:
    """(name, role) with n, time beside and time alone, for each distinct name of a device."""
    trace = case.classified.trace
    kernels, role = trace.kernels, case.classified.kernel_role
    here = trace.rows_on(case.device.index, "kernel")
    mine = here[(role[here] == Role.COMPUTE) | (role[here] == Role.COMM)]
    start, end = kernels.start_ns[mine], kernels.end_ns[mine]
    beside_ns = case.rows.union.intersect(case.window).covered(start, end)
    inside_ns = case.window.covered(start, end)
    columns = (case.counted.contains(start), beside_ns, inside_ns - beside_ns)
    return sums_by_name(case, mine, columns)


def sums_by_name(
    case: DeviceCase, rows: Int64Array, columns: Sequence[np.ndarray]
) -> list[tuple[tuple[str, str], list[int]]]:
    """(name, role) with the sums of `columns` for each distinct name of some kernels `rows` (n,).

    Columns have shape (n,), integers or bools. Names whose short form is the same come twice.
    """
    trace = case.classified.trace
    sums = np.zeros((len(columns), len(trace.names) * len(Role)), np.int64)
    key = trace.kernels.name[rows].astype(np.int64) * len(Role) + case.classified.kernel_role[rows]
    for total, values in zip(sums, columns, strict=True):
        # Not bincount with weights: its float sums lose nanoseconds.
        np.add.at(total, key, values.astype(np.int64))
    found = np.flatnonzero(sums.any(axis=0))
    return [
        ((short_name(trace.names[code // len(Role)]), _ROLE_NAMES[Role(code % len(Role))]), values)
        for code, values in zip(found.tolist(), sums[:, found].T.tolist(), strict=True)
    ]
