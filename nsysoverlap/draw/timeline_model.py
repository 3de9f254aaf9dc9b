"""What ran when on each device, in a bounded number of blocks: plain data to draw from.

A block stands for one activity, or for several where a lane has more than can be drawn; how many,
and for how much of the block something ran, it says itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..core.arrays import Int64Array

LANES = ("compute", "comm", "d2h", "h2d", "other", "opaque")
"""Lanes of a device from top to bottom."""


@dataclass(frozen=True)
class Lane:
    """The blocks of one role, sorted by start; every column has shape (n,).

    `kind` is one of `LANES`. `name` indexes `Timeline.names` and is that of the longest activity
    in the block, `stream` the stream it ran on. `n` counts the activities, `busy_ns` is the time
    during which one of them ran. `n_bytes` and `exposed_ns` are 0 but for transfers.
    `n_activities` is the sum of `n`.
    """

    kind: str
    start_ns: Int64Array
    end_ns: Int64Array
    name: Int64Array
    stream: Int64Array
    n: Int64Array
    busy_ns: Int64Array
    n_bytes: Int64Array
    exposed_ns: Int64Array
    n_activities: int

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class Stretches:
    """The longest exposed stretches of one direction, by start; columns of shape (n,).

    Half-open, and each as long as it was. `n_all` and `all_ns` are of all stretches there are.
    """

    start_ns: Int64Array
    end_ns: Int64Array
    n_all: int
    all_ns: int


@dataclass(frozen=True)
class StepMark:
    """One step: `[start_ns, end_ns)` on the GPU timeline and what to call it."""

    start_ns: int
    end_ns: int
    label: str


@dataclass(frozen=True)
class DeviceTimeline:
    """One device of the trace file `trace`.

    `[start_ns, end_ns)` holds all of its activity. `measured` are the stretches that the report
    speaks of. `exposed` is keyed h2d and d2h.
    """

    trace: str
    start_ns: int
    end_ns: int
    measured: tuple[tuple[int, int], ...]
    steps: tuple[StepMark, ...]
    lanes: tuple[Lane, ...]
    exposed: Mapping[str, Stretches]


@dataclass(frozen=True)
class Timeline:
    """All devices of all traces, in the order of the report's; `names` as `Lane.name` wants."""

    names: tuple[str, ...]
    devices: tuple[DeviceTimeline, ...]
