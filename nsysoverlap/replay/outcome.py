"""What a replay comes to: step time, what is hidden and exposed, relief; as measured of a trace.

Times of operations, replayed or traced, are measured by the same code as a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.intervals import IntervalSet
from ..core.records import dataclass
from ..measure.lanes import Lanes, Transfers
from ..measure.overlap import split
from ..measure.relief import measure_relief, median_relief
from ..result.model import Overlap, Relief
from ..roles.rules import Role
from .replayed import TRANSFERS, Operations, OpKind, Segment

DIRECTIONS = ("h2d", "d2h", "both")


@dataclass(frozen=True)
class Timed:
    """Operations and when they ran; those that are not `kept` are no transfers.

    Columns have shape (n_operations,).
    """

    operations: Operations
    start_ns: Int64Array
    end_ns: Int64Array
    kept: BoolArray | None = None

    def union(self, device: int, kind: OpKind) -> IntervalSet:
        """Instants at which operations of a kind ran on a device."""
        ops = self.operations
        rows = (ops.device == device) & (ops.kind == kind)
        return IntervalSet.from_spans(self.start_ns[rows], self.end_ns[rows])

    def lanes(self, device: int) -> Lanes:
        """What ran on a device, as a report measures it."""
        ops, start_ns, end_ns = self.operations, self.start_ns, self.end_ns
        mine = ops.device == device
        moving = mine & np.isin(ops.kind, [kind for kinds in TRANSFERS.values() for kind in kinds])
        if self.kept is not None:
            moving &= self.kept
        rows = np.flatnonzero(moving)
        rows = rows[np.lexsort((rows, end_ns[rows], start_ns[rows]))]
        by_kernel = ops.table[rows] == 0
        is_h2d = np.isin(ops.kind[rows], TRANSFERS["h2d"])
        return Lanes(
            compute=self.union(device, OpKind.COMPUTE),
            comm=self.union(device, OpKind.COMM),
            other=self.union(device, OpKind.OTHER),
            unified=IntervalSet.empty(),
            opaque=IntervalSet.empty(),
            transfers=Transfers(
                start_ns=start_ns[rows],
                end_ns=end_ns[rows],
                n_bytes=np.where(by_kernel, 0, ops.n_bytes[rows]),
                bytes_estimated=np.where(by_kernel, ops.n_bytes[rows], 0),
                by_kernel=by_kernel,
                stream=ops.stream[rows],
                role=np.where(is_h2d, Role.H2D, Role.D2H).astype(np.int64),
                row=ops.row[rows],
            ),
            extent_ns=(int(start_ns[mine].min()), int(end_ns[mine].max())),
        )


@dataclass(frozen=True)
class DeviceOutcome:
    """The steps of one device for one process; what they come to is measured when it is asked for.

    Most of a search for the clock needs steps and compute only.
    """

    device: int
    windows: tuple[tuple[int, int], ...]
    run: Timed

    @property
    def steps_ns(self) -> tuple[int, ...]:
        """Length of each step."""
        return tuple(end - start for start, end in self.windows)

    @cached_property
    def h2d(self) -> Overlap:
        """The sum over the steps of one direction."""
        return self._split("h2d")

    @cached_property
    def d2h(self) -> Overlap:
        """The sum over the steps of the other."""
        return self._split("d2h")

    @cached_property
    def both(self) -> Overlap:
        """The sum over the steps of both together."""
        return self._split("both")

    @cached_property
    def relief(self) -> Relief:
        """That of the step in the middle."""
        return median_relief(measure_relief(self._lanes.of("both"), self.windows))

    @cached_property
    def compute_ns(self) -> int:
        """Time with compute, the sum over the steps."""
        first, last = self.windows[0][0], self.windows[-1][1]
        return self.run.union(self.device, OpKind.COMPUTE).clip(first, last).length

    @property
    def busy(self) -> float:
        """Share of the steps with compute."""
        return self.compute_ns / sum(self.steps_ns)

    @property
    def step_ns(self) -> int:
        """Mean step."""
        return sum(self.steps_ns) // len(self.windows)

    @cached_property
    def _lanes(self) -> Lanes:
        return self.run.lanes(self.device)

    def _split(self, direction: str) -> Overlap:
        lanes = self._lanes
        return sum(split(lanes.of(direction), lanes).measure(self.windows), Overlap())


@dataclass(frozen=True)
class Outcome:
    """The outcome on every device; devices work side by side, so the slowest one sets the step."""

    devices: tuple[DeviceOutcome, ...]

    @property
    def slowest(self) -> DeviceOutcome:
        """The device with the longest mean step."""
        return max(self.devices, key=lambda device: device.step_ns)

    @property
    def step_ns(self) -> int:
        """Mean step of the slowest device."""
        return self.slowest.step_ns

    def overlap(self, direction: str) -> Overlap:
        """The sum over devices and steps of `h2d`, `d2h` or `both`."""
        parts: list[Overlap] = [getattr(device, direction) for device in self.devices]
        return sum(parts, Overlap())

    def exposed_ns(self, direction: str) -> int:
        """Exposed time a step, the mean over devices."""
        n = sum(len(device.steps_ns) for device in self.devices)
        return self.overlap(direction).exposed_ns // n


@dataclass(frozen=True)
class Borders:
    """Where the steps of one device begin and end, in terms of operations.

    `operations` begin the steps; the last entry begins the step after the last, None where there
    is none: then the last step ends `tail_ns` behind the end of all work of the device.
    """

    device: int
    operations: tuple[int | None, ...]
    traced_ns: tuple[int, ...]
    tail_ns: int

    def at(self, start_ns: Int64Array, end_ns: Int64Array, mine: BoolArray) -> list[int]:
        """When they are, given when each operation started and ended; columns of shape (n,)."""
        last = int(end_ns[mine].max()) + self.tail_ns
        return [last if op is None else int(start_ns[op]) for op in self.operations]


def find_borders(ops: Operations, chosen: Segment) -> tuple[Borders, ...]:
    """The borders of every device and process of a segment."""
    found = []
    for (device, _), windows in chosen.windows.items():
        times = [*(window.start_ns for window in windows), windows[-1].end_ns]
        mine = np.flatnonzero(ops.device == device)
        mine = mine[np.argsort(ops.start_ns[mine], kind="stable")]
        starts = ops.start_ns[mine]
        places = [int(np.searchsorted(starts, time)) for time in times]
        begins = [
            int(mine[place]) if place < len(mine) and starts[place] == time else None
            for place, time in zip(places, times, strict=True)
        ]
        tail = times[-1] - int(ops.end_ns[mine].max()) if len(mine) else 0
        found.append(Borders(device, tuple(begins), tuple(times), tail))
    return tuple(found)


def outcome(run: Timed, borders: Sequence[Borders], traced: bool = False) -> Outcome:
    """Measure operations that ran at some times.

    With `traced` the steps are those of the trace, else they begin where their work does now.
    """
    devices = []
    for border in borders:
        mine = run.operations.device == border.device
        times = list(border.traced_ns) if traced else border.at(run.start_ns, run.end_ns, mine)
        devices.append(DeviceOutcome(border.device, tuple(pairwise(times)), run))
    return Outcome(tuple(devices))
