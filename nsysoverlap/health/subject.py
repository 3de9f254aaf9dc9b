"""What the checks look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
from ..core.window import Window
from ..result.model import DeviceReport, HealthEntry
from ..roles.rules import Classified, Role
from ..steps.launches import Launches
from ..trace.contents import Activities


@dataclass(frozen=True)
class Case:
    """What the checks look at: the classified trace, what launched it and what was measured."""

    classified: Classified
    launches: Launches
    devices: Sequence[DeviceReport]
    window: Window

    @cached_property
    def copies_by_device(self) -> Int64Array:
        """Host copies with a MEMCPY row that touch the window; shape (n_devices,)."""
        trace = self.classified.trace
        host = np.isin(self.classified.copy_role, (Role.H2D, Role.D2H))
        touching = host & touches(trace.copies, self.window)
        on_device = trace.stream_device[trace.copies.stream[touching]]
        return np.bincount(on_device, minlength=len(trace.devices))

    @property
    def has_transfers(self) -> bool:
        """Whether any transfer, by copy or by kernel, reaches into the window."""
        return any(device.both.n or device.both.wall_ns for device in self.devices)

    @property
    def has_rows(self) -> bool:
        """Whether the trace holds any GPU activity."""
        return any(len(table) for table in self.classified.trace.tables.values())


Check = Callable[[Case], Iterator[HealthEntry]]


def touches(rows: Activities, window: Window) -> BoolArray:
    """Mask (n,) of the rows that start in the window or reach into it."""
    return (rows.start_ns < window.high) & (
        (rows.end_ns > window.low) | (rows.start_ns >= window.low)
    )
