"""Everything known of one device while it is analysed; what the later stages look at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ..core.intervals import IntervalSet
from ..core.records import dataclass
from ..core.window import EARLIEST, LATEST, Window
from ..result.model import Overlap
from ..roles.rules import Classified, Role
from ..steps.launches import Launches
from ..steps.plan import StepPlan
from ..steps.projection import StepWindow
from ..trace.contents import Device
from ..trace.schema import BLOCKING_COPY_API
from .lanes import Lanes, Transfers, device_lanes
from .overlap import Split, split
from .waiting import Pieces, exposed_pieces, launch_of_transfers

_WAITED = {"h2d": Role.H2D, "d2h": Role.D2H, "both": None}
"""Directions for which it is stated who waited, and the role of their rows, None for any."""


@dataclass(frozen=True)
class DeviceCase:
    """One device: its lanes, its transfers, and the time that is measured.

    `window` holds the measured instants: the union of the kept steps, else the device's activity
    cut to the asked window. Transfers count where `counted` holds their start. `steps` are the
    kept steps, empty without; `stepped` says whether steps are measured, on any device.
    """

    classified: Classified
    launches: Launches
    device: Device
    lanes: Lanes
    window: IntervalSet
    counted: IntervalSet
    steps: tuple[StepWindow, ...] = ()
    stepped: bool = False

    @cached_property
    def rows(self) -> Transfers:
        """All h2d and d2h transfers of the device, also those outside the window."""
        return self.lanes.of("both")

    @cached_property
    def offloading(self) -> Transfers:
        """The rows that may be offload: not those of a call that returns when its copy is done.

        A program loads and stores its data so; what offloads does not stand still for it.
        """
        host = self.classified.trace.host
        blocking = [bool(BLOCKING_COPY_API.match(name)) for name in host.api_names]
        call = launch_of_transfers(self.classified, self.launches, self.rows)
        held = np.zeros(len(call), np.bool_)
        held[call >= 0] = np.array(blocking, np.bool_)[host.calls.name[call[call >= 0]]]
        return self.rows.select(~held) if held.any() else self.rows

    @cached_property
    def pieces(self) -> Pieces:
        """Exposed pieces of `rows`, with what followed and whether it waited."""
        return exposed_pieces(self.classified, self.launches, self.device.index, self.lanes)

    def keep(self, pieces: Pieces) -> None:
        """Have `pieces` be those that another process found."""
        self.__dict__["pieces"] = pieces

    def split(self, direction: str) -> Split:
        """The split of one direction: h2d, d2h, both, unified_h2d, unified_d2h.

        Made anew each time, for its sets are as large as the trace.
        """
        waited = None
        if direction in _WAITED:
            role = _WAITED[direction]
            waited = self.pieces.waited(None if role is None else self.rows.role == role)
        return split(self.lanes.of(direction), self.lanes, waited)

    def measure(self, split: Split) -> Overlap:
        """Numbers of one direction over the measured time."""
        counted = self.counted.pieces()
        # An asked window may hold no activity of this device.
        windows = self.window.pieces() or [(0, 0)] * len(counted)
        return sum(split.measure(windows, counted), Overlap())

    def measure_quickly(self, direction: str) -> Overlap:
        """The same without who waited, which takes long to find out."""
        return self.measure(split(self.lanes.of(direction), self.lanes))

    def outside(self, split: Split) -> Overlap:
        """Numbers of one direction over all other time of the device."""
        edges = [EARLIEST, *(edge for piece in self.window.pieces() for edge in piece), LATEST]
        return sum(split.measure(list(zip(edges[::2], edges[1::2], strict=True))), Overlap())


def device_case(
    classified: Classified, launches: Launches, device: Device, plan: StepPlan, window: Window
) -> DeviceCase:
    """What is to be measured of one device."""
    lanes = device_lanes(classified, device.index)
    steps = plan.of(device.index)
    stepped = plan.marker is not None
    if stepped:
        measured = counted = _union([(step.start_ns, step.end_ns) for step in steps])
    else:
        counted = _union([(window.low, window.high)])
        measured = _union([lanes.extent_ns]).clip(window.low, window.high)
    return DeviceCase(classified, launches, device, lanes, measured, counted, steps, stepped)


def _union(spans: Sequence[tuple[int, int]]) -> IntervalSet:
    return IntervalSet.from_spans(
        np.array([start for start, _ in spans], np.int64),
        np.array([end for _, end in spans], np.int64),
    )
