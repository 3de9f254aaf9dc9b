"""A timeline in a bounded number of blocks, without closing a gap that could be seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.arrays import Int64Array
from ..core.formatting import short_kernel
from ..core.intervals import IntervalSet
from ..run.analysis import TraceCases
from .timeline import DeviceTimeline, Lane, Stretches, Timeline, picked, with_host
from .timeline_host import HostRow

MAX_BLOCKS = 32_000
"""Of all lanes of all devices; some 25 bytes each in a page."""
MAX_HOST_BLOCKS = 8_000
"""Of all rows of host threads."""
MAX_CURVE = 6_000
"""Points of all curves."""
MAX_NAMES = 2_000
MAX_NAME = 120
RARE_NAME = "(one of many other names)"
"""Stands for the names beyond `MAX_NAMES`."""
_SCATTER = 2_654_435_761
"""Odd and near 2^32 times the golden ratio: multiples of it modulo 2^32 spread evenly."""


def timelines_of(found: TraceCases) -> tuple[DeviceTimeline, ...]:
    """The devices of a trace, for `TimelineBuilder.add`; may be sent to another process."""
    return tuple(map(with_host, found.cases))


class TimelineBuilder:
    """Collects the devices of one trace after another, then makes the timeline of all."""

    def __init__(self) -> None:
        self._devices: list[DeviceTimeline] = []

    def add(self, devices: Iterable[DeviceTimeline]) -> None:
        """Take in the devices of a trace."""
        self._devices += devices

    def build(
        self,
        most: int = MAX_BLOCKS,
        closeups: Sequence[Sequence[tuple[int, int]]] = (),
        opened: int = 0,
    ) -> Timeline:
        """The timeline in about `most` blocks, shared out by what each lane needs.

        `closeups` are stretches of each device's time in which nothing is to be merged. `opened`
        is the device that is looked at first: half of the blocks are its own if it needs them.
        """
        shares = _shares([_needs(device) for device in self._devices], most, opened)
        host_needs = [[len(row.start_ns) for row in d.host] for d in self._devices]
        host_shares = _shares(host_needs, min(most, MAX_HOST_BLOCKS), opened)
        names = _Names()
        near = [_around(one) for one in closeups] or [[] for _ in self._devices]
        devices = []
        for i, device in enumerate(self._devices):
            share = iter(shares[i])
            lanes = [_merged(lane, device, next(share), names, near[i]) for lane in device.lanes]
            exposed = {
                name: _longest_stretches(one, next(share)) for name, one in device.exposed.items()
            }
            hosts = [
                _merged_row(row, most, names)
                for row, most in zip(device.host, host_shares[i], strict=True)
            ]
            curve = device.curve and device.curve.thinned(MAX_CURVE // len(self._devices))
            devices.append(
                replace(device, lanes=tuple(lanes), exposed=exposed, host=tuple(hosts), curve=curve)
            )
        texts = tuple(names.codes)
        return Timeline(texts, tuple(replace(device, texts=texts) for device in devices), opened)


def _needs(device: DeviceTimeline) -> list[int]:
    return [*map(len, device.lanes), *(one.n_all for one in device.exposed.values())]


def _shares(needs: Sequence[Sequence[int]], most: int, opened: int) -> list[list[int]]:
    """`most` blocks shared out over the lanes of all devices, half of them first to one."""
    if not needs:
        return []
    own = fair_shares(needs[opened], most // 2 if len(needs) > 1 else most)
    rest = [[] if i == opened else list(one) for i, one in enumerate(needs)]
    others = iter(fair_shares([n for one in rest for n in one], most - sum(own)))
    return [own if i == opened else [next(others) for _ in one] for i, one in enumerate(rest)]


def _around(stretches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches with as much time on either side, so that what is beside them is seen too."""
    return [(start - (end - start), end + (end - start)) for start, end in stretches]


class _Names:
    """Gives each text a code; of too many the later ones share one."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self._known: dict[str, int] = {}

    def code(self, text: str) -> int:
        """The code of a name, shortened so that both ends are seen."""
        if text not in self._known:
            short = short_kernel(text, MAX_NAME).rstrip() or "(no name)"
            if len(self.codes) >= MAX_NAMES and short not in self.codes:
                short = RARE_NAME
            self._known[text] = self.codes.setdefault(short, len(self.codes))
        return self._known[text]


def _merged(
    lane: Lane,
    device: DeviceTimeline,
    most: int,
    names: _Names,
    closeups: Sequence[tuple[int, int]],
) -> Lane:
    blocks = merge_spans(lane.start_ns, lane.end_ns, most, closeups)
    columns = picked(lane, blocks.longest)
    used, place = np.unique(columns["name"], return_inverse=True)
    codes = np.array([names.code(device.texts[i]) for i in used.tolist()], np.int64)
    exposed = device.exposed.get(lane.kind)
    if exposed is not None:
        columns["exposed_ns"] = exposed.spans.covered(blocks.start_ns, blocks.end_ns)
    columns |= {
        "start_ns": blocks.start_ns,
        "end_ns": blocks.end_ns,
        "name": codes[place.reshape(-1)],
        "n": blocks.n,
        "busy_ns": blocks.busy_ns,
        "n_bytes": blocks.summed(lane.n_bytes),
        "estimated": blocks.summed(lane.estimated),
    }
    return Lane(lane.kind, **columns)


def _merged_row(row: HostRow, most: int, names: _Names) -> HostRow:
    blocks = merge_spans(row.start_ns, row.end_ns, most)
    used, place = np.unique(row.name[blocks.longest], return_inverse=True)
    codes = np.array([names.code(row.texts[i]) for i in used.tolist()], np.int64)
    name = codes[place.reshape(-1)]
    return replace(row, start_ns=blocks.start_ns, end_ns=blocks.end_ns, name=name, texts=())


def _longest_stretches(exposed: Stretches, most: int) -> Stretches:
    kept = longest(exposed.start_ns, exposed.end_ns, most)
    return replace(exposed, start_ns=exposed.start_ns[kept], end_ns=exposed.end_ns[kept])


@dataclass(frozen=True)
class SpanBlocks:
    """Spans in groups of neighbours; columns of shape (n_blocks,).

    `first` is the index of the first span of each block, `longest` that of its longest one,
    `n` how many it holds, `busy_ns` the time that they cover.
    """

    first: Int64Array
    longest: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array
    n: Int64Array
    busy_ns: Int64Array

    def summed(self, values: Int64Array) -> Int64Array:
        """A column of the spans, of shape (n_spans,), summed over each block: (n_blocks,)."""
        if not len(self.first):
            return np.zeros(0, np.int64)
        result: Int64Array = np.add.reduceat(values, self.first)
        return result


def merge_spans(
    start_ns: Int64Array,
    end_ns: Int64Array,
    most: int,
    closeups: Sequence[tuple[int, int]] = (),
) -> SpanBlocks:
    """At most `most` blocks of the spans (n,), which come sorted by start.

    The widest gaps stay, so what is lost is shorter than anything that is kept. Of gaps of equal
    width some stay, spread evenly over time. Spans that start within `closeups` stay for
    themselves as long as there is room.
    """
    first = _first_of_blocks(start_ns, end_ns, max(most, 1), closeups)
    n = np.diff(np.append(first, len(start_ns)))
    if not len(first):
        nothing = np.zeros(0, np.int64)
        return SpanBlocks(nothing, nothing, nothing, nothing, nothing, nothing)
    start, end = start_ns[first], np.maximum.reduceat(end_ns, first)
    if len(first) == len(start_ns):
        return SpanBlocks(first, first, start, end, n, end - start)
    block = np.repeat(np.arange(len(first)), n)
    longest = np.lexsort((end_ns - start_ns, block))[np.cumsum(n) - 1]
    busy = IntervalSet.from_spans(start_ns, end_ns).covered(start, end)
    return SpanBlocks(first, longest, start, end, n, busy)


def _first_of_blocks(
    start_ns: Int64Array, end_ns: Int64Array, most: int, closeups: Sequence[tuple[int, int]]
) -> Int64Array:
    n = len(start_ns)
    if n <= most:
        return np.arange(n)
    gap = start_ns[1:] - np.maximum.accumulate(end_ns)[:-1]
    for begin, end in closeups:
        inside = slice(*np.searchsorted(start_ns, [begin, end]).tolist())
        # Gap i lies before span i + 1: those on both sides of each span inside.
        gap[max(inside.start - 1, 0) : inside.stop] = np.iinfo(np.int64).max
    spread = np.arange(1, n) * _SCATTER & 0xFFFFFFFF
    widest = np.lexsort((spread, gap))[n - most :]
    return np.concatenate(([0], np.sort(widest) + 1))


def fair_shares(needs: Sequence[int], total: int) -> list[int]:
    """How many of `total` each need gets: who needs less than an equal part leaves the rest."""
    shares = [0] * len(needs)
    left = total
    by_need = sorted(range(len(needs)), key=needs.__getitem__)
    for place, i in enumerate(by_need):
        shares[i] = min(needs[i], left // (len(needs) - place))
        left -= shares[i]
    return shares


def longest(start_ns: Int64Array, end_ns: Int64Array, most: int) -> Int64Array:
    """Index of the `most` longest of spans (n,), in the order in which they come."""
    if len(start_ns) <= most:
        return np.arange(len(start_ns))
    order = np.argsort(start_ns - end_ns, kind="stable")
    result: Int64Array = np.sort(order[:most])
    return result
