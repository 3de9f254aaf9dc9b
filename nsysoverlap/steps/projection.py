"""Project host ranges onto the GPU timeline.

A marker is a host range; its launches say where a step's work begins on each device. Step i of a
device is `[border i, border i + 1)`, where border i is the first start of computation or
communication that step i launched: a copy fetched early must not cut the step before it.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
from ..roles.rules import Classified, Role
from ..trace.contents import pid_of
from .choice import Candidate, Launched
from .launches import Launches
from .markers import Marker, candidate_markers, step_label

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
        self.pid = np.concatenate([trace.stream_pid[t.stream] for t in tables.values()])

    @property
    def pids(self) -> set[int]:
        """Processes that ran kernels or graphs."""
        return set(np.unique(self.pid[self.is_work]).tolist())

    def candidates(self) -> list[Candidate]:
        """All ranges that may mark steps, with the GPU time that they launched."""
        launched = Launched(self.host, self.call, self.start, self.end)
        return [launched.weigh(marker) for marker in candidate_markers(self.host)]

    def windows(self, marker: Marker) -> tuple[StepWindow, ...]:
        """The marker's steps on every device; () where its ranges launched no work."""
        owner = self._owners(marker, own_thread=True)
        if not (self.is_work & (owner >= 0)).any():
            # The range is on one thread and the launches are on others.
            owner = self._owners(marker, own_thread=False)
        during = self._owners(marker, own_thread=False)
        return tuple(
            window
            for device in self.devices
            for window in self._device_windows(marker, owner, during, device.index)
        )

    def _owners(self, marker: Marker, *, own_thread: bool) -> Int64Array:
        """Which of the marker's steps launched each row; -1 for none."""
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
            owner[launched[mine[inside]]] = marker.step[own[i[inside]]]
        return owner

    def _device_windows(
        self, marker: Marker, owner: Int64Array, during: Int64Array, device: int
    ) -> list[StepWindow]:
        here = self.device == device
        owned = here & (owner >= 0)
        work = np.flatnonzero(owned & self.is_work)
        border = np.full(marker.n_steps, _FAR, np.int64)
        np.minimum.at(border, owner[work], self.start[work])
        steps = np.flatnonzero(border != _FAR)
        if not len(steps):
            return []
        steps = steps[np.argsort(border[steps], kind="stable")]
        # Two ranges whose work begins at the same instant cannot both be steps.
        steps = steps[np.concatenate(([True], np.diff(border[steps]) > 0))]
        borders = border[steps]
        first = self._leading(owned & (owner == steps[0]), here, int(borders[0]))
        own = here & ((owner == steps[-1]) | (during == steps[-1]))
        ended = self.host.ranges.end_ns[marker.ranges[marker.step == steps[-1]]]
        # Rows of cut-down exports do not say which process they are of.
        others = here & ~own & np.isin(self.pid, (marker.global_pid, 0))
        last = last_end(borders, int(self.end[own].max()), int(ended.max()), self.start[others])
        edges = [first, *borders[1:].tolist(), last]
        rows = marker.ranges[np.searchsorted(marker.step, steps)]
        labels = [step_label(self.host.texts[text]) for text in self.host.ranges.text[rows]]
        return [
            StepWindow(device, marker.global_pid, i, labels[i], edges[i], edges[i + 1], row)
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


def last_end(borders: Int64Array, gpu_end: int, host_end: int | None, others: Int64Array) -> int:
    """Where the last step ends, whose last GPU row ends at `gpu_end` and host range at `host_end`.

    `borders` are the starts of all steps, of shape (n_steps,).

    What the host does after the last GPU event (a CPU optimizer) belongs to the step as it does in
    the steps before: up to the end of its range or to the shortest of the periods before,
    whichever is later than the last GPU event and earlier than the other, and never past the next
    GPU row of `others`, which are starts. One period alone may hold a warm-up, so it tells nothing.
    """
    gpu_end = max(gpu_end, int(borders[-1]) + 1)
    ends = [] if host_end is None else [host_end]
    if len(borders) > 2:
        ends.append(int(borders[-1]) + int(np.diff(borders).min()))
    later = [end for end in ends if end > gpu_end]
    after = others[others >= gpu_end]
    if not later:
        return gpu_end
    return min(min(later), int(after.min()) if len(after) else min(later))
