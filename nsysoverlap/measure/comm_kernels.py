"""Communication kernels of a device by name: how long they ran, and how long beside no compute."""

from __future__ import annotations

from ..result.parts import Collective, combine_collectives
from ..roles.rules import Role
from .case import DeviceCase
from .kernels_beside import sums_by_name


def measure_collectives(case: DeviceCase) -> tuple[Collective, ...]:
    """One row a kernel name, most exposed first; times are cut to the measured time."""
    kernels = case.classified.trace.kernels
    here = case.classified.trace.rows_on(case.device.index, "kernel")
    mine = here[case.classified.kernel_role[here] == Role.COMM]
    if not len(mine):
        return ()
    start, end = kernels.start_ns[mine], kernels.end_ns[mine]
    busy_ns = case.window.covered(start, end)
    beside_ns = case.lanes.compute.intersect(case.window).covered(start, end)
    columns = (case.counted.contains(start), busy_ns, busy_ns - beside_ns)
    sums = sums_by_name(case, mine, columns)
    return combine_collectives([Collective(name, *values) for (name, _), values in sums])
