"""Project host ranges onto the GPU timeline.

A marker is a host range; its launches say where a step's work begins on each device. Step i of a
device is `[border i, border i + 1)`, where border i is the first start of computation or
communication that step i launched: a copy fetched early must not cut the step before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..roles.rules import Classified, Role
from ..trace.model import pid_of
from .launches import Launches
from .markers import Marker, step_label

_WORK = (Role.COMPUTE, Role.COMM, Role.OPAQUE)
_TRANSFERS = (Role.H2D, Role.D2H)
_FAR = np.iinfo(np.int64).max


@dataclass(frozen=True)
class StepWindow:
    """One step of one process on one device; `[start_ns, end_ns)` on the GPU timeline.

    `marked_by` is the row of `HostSide.ranges` that marks it, None for a guess.
    """

    device: int
    global_pid: int
    index: int
    label: str
    start_ns: int
    end_ns: int
    marked_by: int | None = None

    @property
    def pid(self) -> int:
        """Plain process id."""
        return pid_of(self.global_pid)


class Projection:
    """GPU rows with their device, role, times and launch calls, over all four tables."""

    def __init__(self, classified: Classified, launches: Launches) -> None:
        trace = classified.trace
        tables = trace.tables
        self.host = trace.host
        self.devices = trace.devices
        self.start = np.concatenate([t.start_ns for t in tables.values()])
        self.end = np.concatenate([t.end_ns for t in tables.values()])
        self.role = np.concatenate([classified.roles[name] for name in tables])
        self.device = np.concatenate([trace.stream_device[t.stream] for t in tables.values()])
        self.call = np.concatenate([launches.of(table) for table in tables.values()])
        self.is_work = np.isin(self.role, _WORK)

    def windows(self, marker: Marker) -> tuple[StepWindow, ...]:
        """The marker's steps on every device; () where its ranges launched no work."""
        owner = self._owners(marker, own_thread=True)
        if not (self.is_work & (owner >= 0)).any():
            # The range is on one thread and the launches are on others.
            owner = self._owners(marker, own_thread=False)
        found: list[StepWindow] = []
        pids = self.host.thread_pid[self.host.ranges.thread[marker.ranges]]
        for device in self.devices:
            for pid in np.unique(pids).tolist():
                found.extend(self._device_windows(marker, owner, device.index, pid, pids))
        return tuple(found)

    def _owners(self, marker: Marker, *, own_thread: bool) -> Int64Array:
        """Which of the marker's ranges launched each row, by index into it; -1 for none."""
        ranges, calls = self.host.ranges, self.host.calls
        owner = np.full(len(self.start), -1, np.int64)
        launched = np.flatnonzero(self.call >= 0)
        at = calls.start_ns[self.call[launched]]
        thread = calls.thread[self.call[launched]].astype(np.int64)
        group = ranges.thread[marker.ranges].astype(np.int64)
        if not own_thread:
            thread, group = self.host.thread_pid[thread], self.host.thread_pid[group]
        for key in np.unique(group).tolist():
            own = np.flatnonzero(group == key)
            mine = np.flatnonzero(thread == key)
            start = ranges.start_ns[marker.ranges[own]]
            end = ranges.end_ns[marker.ranges[own]]
            i = np.searchsorted(start, at[mine], side="right") - 1
            inside = (i >= 0) & (at[mine] <= end[np.maximum(i, 0)])
            owner[launched[mine[inside]]] = own[i[inside]]
        return owner

    def _device_windows(
        self, marker: Marker, owner: Int64Array, device: int, pid: int, pids: Int64Array
    ) -> list[StepWindow]:
        here = self.device == device
        owned = here & (owner >= 0)
        owned[owned] = pids[owner[owned]] == pid
        work = np.flatnonzero(owned & self.is_work)
        border = np.full(len(marker.ranges), _FAR, np.int64)
        np.minimum.at(border, owner[work], self.start[work])
        steps = np.flatnonzero(border != _FAR)
        if not len(steps):
            return []
        steps = steps[np.argsort(border[steps], kind="stable")]
        # Two ranges whose work begins at the same instant cannot both be steps.
        steps = steps[np.concatenate(([True], np.diff(border[steps]) > 0))]
        borders = border[steps]
        first = self._leading(owned & (owner == steps[0]), here, int(borders[0]))
        last = self._trailing(marker, owner, steps[-1], here, int(borders[-1]))
        edges = [first, *borders[1:].tolist(), last]
        rows = marker.ranges[steps]
        labels = [step_label(self.host.texts[text]) for text in self.host.ranges.text[rows]]
        return [
            StepWindow(device, pid, i, labels[i], edges[i], edges[i + 1], row)
            for i, row in enumerate(rows.tolist())
        ]

    def _leading(
        self,
        own: BoolArray,
        here: BoolArray,
        border: int,
    ) -> int:
        """Start of the first step: its own transfers before the border, back to what was before."""
        lead = own & np.isin(self.role, _TRANSFERS) & (self.start < border)
        if not lead.any():
            return border
        before = here & ~own & (self.start < border)
        previous_end = int(self.end[before].max()) if before.any() else -_FAR
        return min(border, max(int(self.start[lead].min()), previous_end))

    def _trailing(
        self,
        marker: Marker,
        owner: Int64Array,
        step: int,
        here: BoolArray,
        border: int,
    ) -> int:
        """End of the last step: the end of everything launched during its range."""
        own = here & (owner == step)
        launched = np.flatnonzero(here & (self.call >= 0))
        at = self.host.calls.start_ns[self.call[launched]]
        of_range = marker.ranges[step]
        thread = self.host.calls.thread[self.call[launched]]
        same = (
            self.host.thread_pid[thread] == self.host.thread_pid[self.host.ranges.thread[of_range]]
        )
        during = same & (at >= self.host.ranges.start_ns[of_range])
        during &= at <= self.host.ranges.end_ns[of_range]
        own[launched[during]] = True
        return max(int(self.end[own].max()), border + 1)
