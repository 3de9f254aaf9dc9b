"""From the case of one device to its part of the report."""

from __future__ import annotations

from collections.abc import Mapping

from ..result.model import (
    DeviceReport,
    Gpu,
    LinkReport,
    Memory,
    OpaqueBounds,
    OutsideSteps,
    Relief,
    StepReport,
    TimeBudget,
)
from ..roles.links import LinkOverride, link_for
from ..roles.rules import Role
from ..trace.contents import Device
from .bounds import measure_bounds
from .case import DeviceCase
from .comm_kernels import measure_collectives
from .effective import measure_effective
from .lanes import TRANSFER_ROLES, Transfers
from .overlap import BudgetSets, Split, budget_sets
from .per_stream import measure_streams
from .relief import measure_relief, median_relief

BEST_COPY_BYTES = 64_000_000
"""Smaller copies say more about latency than about the link."""


def measure_device(case: DeviceCase, links: LinkOverride | None) -> DeviceReport:
    """All numbers of one device over its measured time; `links` replace the table of peaks."""
    device, windows = case.device, case.window.pieces()
    nowhere = (case.lanes.extent_ns[0],) * 2
    splits = {direction: case.split(direction) for direction in TRANSFER_ROLES}
    measured = {direction: case.measure(split) for direction, split in splits.items()}
    doing = budget_sets(case.lanes)
    steps = _step_reports(case, splits, doing)
    budget = sum(doing.measure(windows), TimeBudget())
    return DeviceReport(
        trace=case.classified.trace.info.file_name,
        pid=device.pid,
        device_id=device.device_id,
        gpu=Gpu(device.gpu.id, device.gpu.name, device.gpu.uuid),
        window_ns=(windows[0][0], windows[-1][1]) if windows else nowhere,
        **measured,
        time_budget=budget,
        collectives=measure_collectives(case),
        streams=measure_streams(case),
        link=_link(device, case.rows, links),
        opaque_bounds=_opaque_bounds(case),
        steps=steps,
        outside_steps=_outside(case, splits),
        relief=_relief(case, steps),
        memory=_memory(case),
        effective=measure_effective(case),
        bounds=measure_bounds(case, measured["both"], budget, steps),
    )


def _outside(case: DeviceCase, splits: Mapping[str, Split]) -> OutsideSteps | None:
    if not case.stepped:
        return None
    return OutsideSteps(case.outside(splits["h2d"]), case.outside(splits["d2h"]))


def _step_reports(
    case: DeviceCase, splits: Mapping[str, Split], doing: BudgetSets
) -> tuple[StepReport, ...]:
    if not case.steps:
        return ()
    windows = [(step.start_ns, step.end_ns) for step in case.steps]
    columns = [splits[name].measure(windows) for name in ("h2d", "d2h", "both")]
    budgets = doing.measure(windows)
    reliefs = measure_relief(case.offloading, windows)
    return tuple(
        StepReport(
            index=step.index,
            label=step.label,
            pid=step.pid,
            start_ns=step.start_ns,
            end_ns=step.end_ns,
            h2d=columns[0][i],
            d2h=columns[1][i],
            both=columns[2][i],
            time_budget=budgets[i],
            relief=reliefs[i],
        )
        for i, step in enumerate(case.steps)
    )


def _relief(case: DeviceCase, steps: tuple[StepReport, ...]) -> Relief | None:
    """Relief of the device: of the step in the middle, or over the window; None without one."""
    windows = case.window.pieces()
    if steps:
        return median_relief([step.relief for step in steps])
    if not windows:
        return None
    return measure_relief(case.offloading, windows, comes_in_first=False)[0]


def _memory(case: DeviceCase) -> Memory | None:
    """What the manifest beside the trace says, of each of its devices; None without one."""
    manifest = case.classified.trace.info.manifest
    if manifest is None or manifest.problem:
        return None
    return Memory(
        manifest.peak_bytes,
        manifest.planned_bytes,
        manifest.host_bytes,
        manifest.control,
        manifest.control_peak_bytes,
    )


def _link(device: Device, transfers: Transfers, override: LinkOverride | None) -> LinkReport:
    """Link peaks of the GPU beside the fastest large copy of the whole trace."""
    peak = link_for(device.gpu.name)
    best: dict[Role, float | None] = {}
    for role in (Role.H2D, Role.D2H):
        large = (transfers.role == role) & (transfers.n_bytes >= BEST_COPY_BYTES)
        # A copy without length has no rate.
        large &= transfers.end_ns > transfers.start_ns
        rows = transfers.select(large)
        rates = rows.n_bytes / (rows.end_ns - rows.start_ns)
        best[role] = float(rates.max()) if len(rates) else None
    h2d, d2h, source = (peak.h2d_gbps, peak.d2h_gbps, peak.source) if peak else (None, None, "")
    if override is not None:
        h2d, d2h, source = override.h2d, override.d2h, "as given by the user"
    return LinkReport(h2d, d2h, source or "unknown", best[Role.H2D], best[Role.D2H])


def _opaque_bounds(case: DeviceCase) -> OpaqueBounds | None:
    """Hidden shares if opaque graph time were idle, and if it were all compute."""
    lanes = case.lanes
    if not lanes.opaque.intersect(case.window).length:
        return None

    def bounds(direction: str) -> tuple[float, float] | None:
        wall = lanes.of(direction).union.intersect(case.window)
        low = wall.intersect(lanes.compute).length
        high = wall.intersect(lanes.compute.union(lanes.opaque)).length
        return (low / wall.length, high / wall.length) if wall.length else None

    return OpaqueBounds(bounds("h2d"), bounds("d2h"), bounds("both"))
