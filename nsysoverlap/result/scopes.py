"""The value of a metric over a scope of a report, and of which part it is."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..core.formatting import number_of
from .device_names import device_names, rank_name
from .metrics import Metric, NoValueError, Part, Scope
from .model import (
    DIRECTIONS,
    UNIFIED_DIRECTIONS,
    DeviceReport,
    Memory,
    Overlap,
    OverlapReport,
    Relief,
    StepReport,
    TimeBudget,
)

_MARK_STEPS = "Put an NVTX range around each step, or say with --steps how to find them."
_ALL_DIRECTIONS = (*DIRECTIONS, *UNIFIED_DIRECTIONS)


@dataclass(frozen=True)
class Measured:
    """A value and the part it is of; `reason` says why there is none."""

    value: Fraction | None
    where: str = ""
    reason: str = ""


def measure(report: OverlapReport, metric: Metric, scope: Scope, *, least: bool) -> Measured:
    """The metric over the scope. Worst is the least value where `least` is set, else the most.

    One part without a value leaves the whole without: a device that moved nothing must not
    pass unseen beside others that did.
    """
    try:
        groups = _step_parts(report) if scope.of_steps else [_parts(report, scope)]
        if scope in _MIDDLES:
            found = [_middle(group, metric, _MIDDLES[scope]) for group in groups]
        else:
            found = [(metric.take(part), part.name) for group in groups for part in group]
        if not found:
            raise NoValueError("the report holds no device")
    except NoValueError as missing:
        return Measured(None, reason=f"{missing}. {missing.hint}".rstrip())
    value, where = (min if least else max)(found, key=lambda pair: pair[0])
    return Measured(value, where if len(found) > 1 or scope.of_steps else "")


def has_steps(report: OverlapReport) -> bool:
    """Whether any device of the report has steps."""
    return any(device.steps for device in report.devices)


def _parts(report: OverlapReport, scope: Scope) -> list[Part]:
    if scope is Scope.WORST_DEVICE:
        names = device_names(report)
        return [_sum(report, n, [d]) for n, d in zip(names, report.devices, strict=True)]
    if scope is Scope.WORST_RANK:
        return [
            _sum(
                report,
                rank_name(trace),
                [device for device in report.devices if device.trace == trace.path],
            )
            for trace in report.traces
        ]
    whole = "the trace" if len(report.traces) < 2 else "the whole"
    return [_sum(report, whole, report.devices)]


def _sum(report: OverlapReport, name: str, devices: Sequence[DeviceReport]) -> Part:
    return Part(
        name=name,
        overlaps={
            direction: sum((getattr(d, direction) for d in devices), Overlap())
            for direction in _ALL_DIRECTIONS
        },
        budget=sum((d.time_budget for d in devices), TimeBudget()),
        relief=_sum_relief(devices),
        memory=_most_memory(devices),
        unclear=frozenset().union(*(_unclear(device) for device in devices)),
        absent=_absent(devices),
        no_memory=_no_memory(report, devices),
    )


def _sum_relief(devices: Sequence[DeviceReport]) -> Relief | None:
    known = [device.relief for device in devices if device.relief is not None]
    if len(known) < len(devices) or not known:
        return None
    return Relief(
        sum(r.relief_bytes for r in known),
        sum(r.offloaded_bytes for r in known),
        sum(r.excluded_bytes for r in known),
    )


def _most_memory(devices: Sequence[DeviceReport]) -> Memory | None:
    """The most of each size over the devices; None where the memory of one is not known."""
    known = [device.memory for device in devices if device.memory is not None]
    if len(known) < len(devices) or not known:
        return None

    def most(sizes: Sequence[int | None]) -> int | None:
        return None if None in sizes else max(size or 0 for size in sizes)

    return Memory(
        allocated_peak_bytes=most([m.peak_bytes for m in known]),
        planned_bytes=most([m.planned_bytes for m in known]),
        host_bytes=most([m.host_bytes for m in known]),
    )


def _no_memory(report: OverlapReport, devices: Sequence[DeviceReport]) -> str:
    """What is wrong with the first manifest of the devices that cannot be read; '' for none."""
    traces = {device.trace for device in devices}
    bad = (e for e in report.health if e.code == "manifest-unreadable" and e.trace in traces)
    return next((entry.message.rstrip(".") for entry in bad), "")


def _unclear(device: DeviceReport) -> frozenset[str]:
    """Directions of which opaque graphs leave open how much was hidden."""
    bounds = device.opaque_bounds
    pairs = {direction: getattr(bounds, direction, None) for direction in DIRECTIONS}
    return frozenset(d for d, pair in pairs.items() if pair is not None and pair[0] != pair[1])


def _absent(devices: Sequence[DeviceReport]) -> frozenset[str]:
    return frozenset(d for d in _ALL_DIRECTIONS if not any(_moves(getattr(o, d)) for o in devices))


def _moves(overlap: Overlap) -> bool:
    """Whether there are transfers, also such as began before the window and count there."""
    return bool(overlap.n or overlap.wall_ns)


def _step_parts(report: OverlapReport) -> list[list[Part]]:
    """The steps of each device. Raises `NoValueError` where a device that moved data has none."""
    if not has_steps(report):
        raise NoValueError("the trace has no steps", _MARK_STEPS)
    groups = []
    for name, device in zip(device_names(report), report.devices, strict=True):
        if device.steps:
            several = len(report.devices) > 1
            groups.append([_step_part(s, device, name if several else "") for s in device.steps])
        elif _moves(device.both):
            raise NoValueError(f"{name} has no steps", _MARK_STEPS)
    return groups


def _step_part(step: StepReport, device: DeviceReport, owner: str) -> Part:
    return Part(
        name=f"step {step.index} of {owner}" if owner else f"step {step.index}",
        overlaps={direction: getattr(step, direction) for direction in DIRECTIONS},
        budget=step.time_budget,
        relief=step.relief,
        step_ns=step.duration_ns,
        unclear=_unclear(device),
        absent=_absent([device]),
    )


_Middle = Callable[[Sequence[Fraction]], Fraction]
_MIDDLES: dict[Scope, _Middle] = {
    Scope.STEP_MEDIAN: statistics.median,
    Scope.STEP_MEAN: statistics.mean,
}


def _middle(parts: Sequence[Part], metric: Metric, middle: _Middle) -> tuple[Fraction, str]:
    """Over the steps of one device, named after the device and the number of steps."""
    values = [metric.take(part) for part in parts]
    owner = parts[0].name.partition(" of ")[2]
    steps = number_of(len(values), "step")
    name = f"{steps} of {owner}" if owner else steps
    return middle(values), name
