"""Which track a slice goes on: slices of one track must not overlap unless they nest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..core.arrays import Int64Array
from .perfetto_events import Events, named

FIRST_DEVICE = 1 << 24
"""Process ids of GPUs; those of hosts have 24 bits."""
FIRST_TRACK = 1 << 25
"""Thread ids of tracks that are no host thread."""
_SPARE_PROCESS = 1 << 26
FIRST_HOST = 1 << 20
"""Places below those of all GPUs."""


@dataclass
class Tracks:
    """Hands out the ids of a file and remembers how its tracks are to be called.

    `events` are those of the trace that is being written, and `title` stands before the names of
    its processes.
    """

    metadata: list[str] = field(default_factory=list)
    events: Events = field(default_factory=Events)
    title: str = ""
    _used: set[int] = field(default_factory=set)
    _next: int = FIRST_TRACK
    _arrows: int = 0

    def process(self, pid: int, name: str, first_place: int) -> int:
        """A group of tracks, below those before it; a free id replaces one that is taken."""
        n = len(self._used)
        pid = _SPARE_PROCESS + n if pid in self._used else pid
        self._used.add(pid)
        self.metadata.append(named("process", pid, 0, self.title + name, first_place + n))
        return pid

    def arrow(self) -> int:
        """The number of one more arrow."""
        self._arrows += 1
        return self._arrows

    def track(self, pid: int, name: str, place: int) -> tuple[int, int]:
        """One track of a group, as `(pid, tid)`."""
        tid, self._next = self._next, self._next + 1
        self.metadata.append(named("thread", pid, tid, name, place))
        return pid, tid

    def tracks(self, pid: int, name: str, place: int, n: int) -> list[tuple[int, int]]:
        """As many tracks of one name as it takes."""
        names = [name, *(f"{name} ({i + 1})" for i in range(1, n))]
        return [self.track(pid, one, place) for one in names]

    def take_metadata(self) -> Iterator[str]:
        """What was named since the last call."""
        taken, self.metadata = self.metadata, []
        yield from taken


def disjoint(start_ns: Int64Array, end_ns: Int64Array) -> Int64Array:
    """Number of the track of each slice so that none of a track overlap; they come by start.

    Everything has shape (n,).
    """
    if np.all(start_ns[1:] >= end_ns[:-1]):
        return np.zeros(len(start_ns), np.int64)
    ends: list[int] = []
    places = []
    for start, end in zip(start_ns.tolist(), end_ns.tolist(), strict=True):
        place = next((i for i, other in enumerate(ends) if other <= start), len(ends))
        if place == len(ends):
            ends.append(end)
        ends[place] = end
        places.append(place)
    return np.array(places, np.int64)


def nested(start_ns: Int64Array, end_ns: Int64Array) -> Int64Array:
    """As `disjoint`, but slices may lie within others; they come by start, then longest first.

    Everything has shape (n,).
    """
    if np.all(start_ns[1:] >= end_ns[:-1]):
        return np.zeros(len(start_ns), np.int64)
    open_ends: list[list[int]] = []
    places = []
    for start, end in zip(start_ns.tolist(), end_ns.tolist(), strict=True):
        place = 0
        for stack in open_ends:
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or end <= stack[-1]:
                break
            place += 1
        if place == len(open_ends):
            open_ends.append([])
        open_ends[place].append(end)
        places.append(place)
    return np.array(places, np.int64)
