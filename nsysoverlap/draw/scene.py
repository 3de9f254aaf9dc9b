"""What a timeline shows, before anything is drawn: lanes of devices, as interval sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.errors import UsageError
from ..core.formatting import format_bytes, format_ns
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..measure.lanes import TRANSFER_ROLES
from ..result.metrics import STEP_MEAN
from ..result.numbers import Overlap, format_share, share
from ..steps.projection import StepWindow
from .host_curve import Curve, host_curve
from .plot_cases import Subject, device_name
from .plot_titles import exposed_finding
from .style import LABELS, legible
from .timeline import ALWAYS, DIRECTIONS, DeviceTimeline, Lane, device_timeline

NOTHING = "none"
MAX_DEVICES = 8
"""Of more, those are drawn that expose most, unless asked otherwise."""


@dataclass(frozen=True)
class DeviceScene:
    """One device, what stands beside each lane that is drawn, and its curve if it offloads."""

    name: str
    timeline: DeviceTimeline
    notes: Mapping[str, str]
    curve: Curve | None

    @property
    def steps(self) -> tuple[StepWindow, ...]:
        """The steps that are marked."""
        return self.timeline.steps

    @property
    def lanes(self) -> list[Lane]:
        """The lanes that are drawn, from top to bottom."""
        return [lane for lane in self.timeline.lanes if lane.kind in self.notes]

    def exposed(self, lane: Lane) -> IntervalSet:
        """The part of a lane that nothing hides."""
        found = self.timeline.exposed.get(lane.kind)
        return IntervalSet.empty() if found is None else found.spans

    def hidden(self, lane: Lane) -> IntervalSet:
        """The rest of it."""
        return lane.union.subtract(self.exposed(lane))


@dataclass(frozen=True)
class Scene:
    """A stretch of time on some devices; `finding` and `details` are for the title."""

    start_ns: int
    end_ns: int
    devices: tuple[DeviceScene, ...]
    finding: str
    details: str


def timeline_scene(subject: Subject, devices: Sequence[int] | None = None) -> Scene:
    """The scene of the measured time; `devices` are indices into `Trace.devices`.

    Raises `UsageError` for a device that the trace does not have, or without GPU activity.
    """
    name = subject.trace.info.file_name
    if not subject.cases:
        raise UsageError(
            f"{name}: no GPU activity to draw.", "`nsysoverlap info` shows what was recorded."
        )
    cases = _chosen(subject.cases, devices, name)
    start, end = _extent(subject, cases)
    total = {d: sum((case.measure_quickly(d) for case in cases), Overlap()) for d in TRANSFER_ROLES}
    n_steps, n_devices = max(subject.n_steps, 1), len(cases)
    finding = exposed_finding(
        total["h2d"],
        total["d2h"],
        n_steps * n_devices,
        f" in the {STEP_MEAN}"
        if subject.n_steps > 1
        else f" in {subject.span}"
        if subject.n_steps
        else "",
        sum(case.lanes.opaque.intersect(case.window).length for case in cases),
        total["unified_h2d"].bytes + total["unified_d2h"].bytes,
    )
    parts = [legible(name, 60), _which(cases, len(subject.cases)), subject.span]
    if n_devices > 1:
        parts.append("exposed: mean of the devices")
    return Scene(
        start_ns=start,
        end_ns=end,
        devices=tuple(_device_scene(case, subject) for case in cases),
        finding=finding,
        details=" · ".join(parts),
    )


def _chosen(
    cases: Sequence[DeviceCase], devices: Sequence[int] | None, name: str
) -> list[DeviceCase]:
    if devices is not None:
        unknown = [index for index in devices if not 0 <= index < len(cases)]
        if unknown:
            raise UsageError(
                f"{name}: there is no device {unknown[0]}.",
                f"It has devices 0 to {len(cases) - 1}.",
            )
        return [cases[index] for index in dict.fromkeys(devices)]
    if len(cases) <= MAX_DEVICES:
        return list(cases)
    worst = sorted(cases, key=lambda case: -case.measure_quickly("both").exposed_ns)[:MAX_DEVICES]
    return sorted(worst, key=lambda case: case.device.index)


def _which(cases: Sequence[DeviceCase], n_all: int) -> str:
    if len(cases) == 1:
        return device_name(cases[0].device)
    if len(cases) == n_all:
        return f"{n_all} devices"
    return f"{len(cases)} of {n_all} devices, those that expose most"


def _extent(subject: Subject, cases: Sequence[DeviceCase]) -> tuple[int, int]:
    """The window asked for, with open sides closed by what was measured."""
    measured = [case.window for case in cases if len(case.window)]
    window = subject.options.window
    ends = [case.lanes.extent_ns for case in cases]
    start = min((int(m.starts[0]) for m in measured), default=min(e[0] for e in ends))
    end = max((int(m.ends[-1]) for m in measured), default=max(e[1] for e in ends))
    start = start if window.start_ns is None else window.start_ns
    end = end if window.end_ns is None else window.end_ns
    # One activity of no length still makes a picture.
    return start, max(end, start + 1)


def _device_scene(case: DeviceCase, subject: Subject) -> DeviceScene:
    device = device_timeline(case, subject.borders.of(case.device.index))
    notes = {lane.kind: _note(case, lane) for lane in device.lanes}
    # Lanes that are empty in the measured time are left out, but for those one looks for.
    kept = {kind: note for kind, note in notes.items() if note != NOTHING or kind in ALWAYS}
    return DeviceScene(device_name(case.device), device, kept, host_curve(case))


def _note(case: DeviceCase, lane: Lane) -> str:
    if lane.kind not in DIRECTIONS:
        return _percent(lane.union.intersect(case.window).length, case.window.length)
    measured = case.measure_quickly(lane.kind)
    if not measured.wall_ns:
        return NOTHING
    return f"{format_ns(measured.exposed_ns)} of {format_ns(measured.wall_ns)} exposed"


def _percent(part: int, whole: int) -> str:
    return f"{format_share(share(part, whole))} of the time" if part else NOTHING


def lane_label(part: str) -> str:
    """The name of a lane beside it."""
    return "on the host" if part == "curve" else LABELS[part]


def curve_note(curve: Curve) -> str:
    """What stands right of a curve."""
    return f"up to {format_bytes(curve.peak)}"
