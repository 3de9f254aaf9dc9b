"""Guess steps from the repeating pattern of kernels, for traces that nothing marks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

import numpy as np

from ..core.arrays import BoolArray, Int64Array, rows_by_key
from ..core.records import dataclass
from ..roles.rules import Classified, Role
from ..trace.contents import Activities, short_name
from .projection import StepWindow, last_end

_ALIKE = 0.95
"""Two stretches are alike where they share so much of their kernels."""
_ANCHORS = 3
"""Kernels tried for each number of repetitions."""
_EVEN = 0.5
"""Of what begins a step at least so many occurrences are as far from the next as the median."""
_TRIES = 48
"""Kernels that are looked at for a pattern."""
_BEGINNINGS = 12
"""Kernels of the pattern that are looked at as beginnings of a step, the likeliest first."""
_MOST = 4096
"""More repetitions than that are no steps."""
_LAUNCHES, _NAMES, _STEPS = 4, 3, 3
"""A pattern that is taken for a step has so many launches of so many kernels, so many times."""
_TILES = 0.95
"""It holds at least this share of the time that kernels, and all, ran. Layers of a model repeat
too, but leave out what comes before and after them."""
_SAME_LEVEL = 0.01
"""Differences in bytes on the host of this part of the whole say nothing."""
_SPREAD = 0.25
"""And its repetitions differ by no more than this part of their median."""


@dataclass(frozen=True)
class Guess:
    """Steps of one process on one device: `borders` (n + 1,) begin each and end the last one.

    `label` is the kernel that begins a step. `n_whole` of them are whole: the end of the trace may
    cut the last one. `share` is how much of what the process ran on the device they hold.
    """

    device: int
    global_pid: int
    label: str
    borders: Int64Array
    n_whole: int
    share: float
    n_launches: int
    n_names: int

    @property
    def regular(self) -> bool:
        """Whether it may be taken without being asked for."""
        lengths = np.diff(self.borders)[: self.n_whole]
        return bool(
            len(lengths) >= _STEPS
            and self.n_launches >= _LAUNCHES
            and self.n_names >= _NAMES
            and self.share >= _TILES
            and np.ptp(lengths) <= _SPREAD * np.median(lengths)
        )

    @property
    def period_ns(self) -> int:
        """Median time of the whole steps."""
        return int(np.median(np.diff(self.borders)[: self.n_whole]))

    def windows(self) -> Iterator[StepWindow]:
        """Its steps."""
        edges = self.borders.tolist()
        for i, start in enumerate(edges[:-1]):
            yield StepWindow(self.device, self.global_pid, i, self.label, start, edges[i + 1])


def guess_steps(classified: Classified) -> tuple[list[Guess], list[int]]:
    """What repeats on each device for each process, and the processes of which nothing does."""
    found, without = [], []
    for device in classified.trace.devices:
        ran = _Ran(classified, device.index)
        for pid in device.global_pids:
            if pid not in ran.compute:
                continue
            guess = _Work.of(ran, pid).guess()
            if guess is None:
                without.append(pid)
            else:
                found.append(guess)
    return found, without


@dataclass(frozen=True)
class _Pattern:
    """Kernels by name that a step holds, `steps` as (n, 2) places, and how many are whole."""

    typical: Int64Array
    steps: Int64Array
    whole: int
    share: float


@dataclass(frozen=True)
class _Ran:
    """What ran on a device, by process: each row is looked at once, however many there are."""

    classified: Classified
    device: int

    @cached_property
    def compute(self) -> dict[int, Int64Array]:
        """Compute kernels of each process that has any; rising."""
        rows = self.classified.kernel_rows(self.device, Role.COMPUTE)
        return self._split(rows, self.classified.trace.kernels)

    @cached_property
    def tables(self) -> dict[str, dict[int, Int64Array]]:
        """Rows of each table of each process."""
        trace = self.classified.trace
        return {
            kind: self._split(trace.rows_on(self.device, kind), table)
            for kind, table in trace.tables.items()
        }

    def _split(self, rows: Int64Array, table: Activities) -> dict[int, Int64Array]:
        pids = self.classified.trace.stream_pid[table.stream[rows]]
        return {pid: rows[mine] for pid, mine in rows_by_key(pids)}


@dataclass(frozen=True)
class _Work:
    """Compute kernels of one process on one device in order of start.

    `rows` (n,) indexes the kernels, `name` (n,) numbers their names from 0 in order of appearance.
    """

    ran: _Ran
    global_pid: int
    rows: Int64Array
    name: Int64Array
    n_names: int

    @classmethod
    def of(cls, ran: _Ran, global_pid: int) -> _Work:
        rows = ran.compute[global_pid]
        names, first, name = np.unique(
            ran.classified.trace.kernels.name[rows], return_index=True, return_inverse=True
        )
        place = np.empty(len(names), np.int64)
        place[np.argsort(first)] = np.arange(len(names))
        return cls(ran, global_pid, rows, place[name.reshape(-1)], len(names))

    @cached_property
    def starts(self) -> Int64Array:
        """Start of each kernel."""
        return self.ran.classified.trace.kernels.start_ns[self.rows]

    @cached_property
    def ends(self) -> Int64Array:
        """End of each kernel."""
        return self.ran.classified.trace.kernels.end_ns[self.rows]

    def guess(self) -> Guess | None:
        """The shortest stretch of kernels that repeats and holds most, None where none does.

        Of the kernels that occur once in it that one begins a step which leaves fewest bytes on
        the host, then most whole steps, then the longest pause before.
        """
        best: _Pattern | None = None
        for at in islice(self._anchors(), _TRIES):
            typical = np.median(self._held(at[:-1], at[1:]), axis=0).astype(np.int64)
            found = self._pattern(at, typical) if typical.sum() > 1 else None
            if found is not None and (best is None or found.share > best.share):
                best = found
            if best is not None and best.share >= _TILES:
                break
        return None if best is None else self._rotated(best)

    def _anchors(self) -> Iterator[Int64Array]:
        """Places of kernels that may occur once a step: the more often, the earlier."""
        count = np.bincount(self.name, minlength=self.n_names)
        for n in np.unique(count)[::-1].tolist():
            if 2 <= n <= _MOST:
                for anchor in np.flatnonzero(count == n)[:_ANCHORS].tolist():
                    at = np.flatnonzero(self.name == anchor)
                    apart = np.diff(at)
                    even = np.abs(apart - np.median(apart)) <= (1 - _ALIKE) * np.median(apart)
                    if even.mean() >= _EVEN:
                        yield at

    def _held(self, first: Int64Array, last: Int64Array) -> Int64Array:
        """Kernels by name of stretches of places, shape (stretches, names)."""
        length = last - first
        stretch = np.repeat(np.arange(len(first)), length)
        place = np.arange(length.sum()) + np.repeat(first - np.cumsum(length) + length, length)
        key = stretch * self.n_names + self.name[place]
        return np.bincount(key, minlength=len(first) * self.n_names).reshape(-1, self.n_names)

    def _pattern(self, at: Int64Array, typical: Int64Array) -> _Pattern | None:
        """The longest run of stretches that hold the typical kernels, from one of `at` to the next.

        The last stretch ends after as many kernels as are typical, for what follows may be other
        work. A beginning of one that the trace cuts off, and an end before the first, belong to it.
        """
        n, size = len(self.name), int(typical.sum())
        end = int(at[-1]) + size
        last = np.append(at[1:], n if n - end <= (1 - _ALIKE) * size else end)
        held = self._held(at, last)
        shared = np.minimum(held, typical).sum(axis=1)
        first, whole = _longest_run(shared >= _ALIKE * np.maximum(held.sum(axis=1), size))
        if not whole:
            return None
        steps = np.stack([at, last], axis=1)[first : first + whole]
        cut = first + whole == len(at) - 1 and last[-1] == n
        if cut and shared[-1] >= _ALIKE * held[-1].sum():
            steps = np.concatenate([steps, [[at[-1], n]]])
        head = self._held(np.array([0]), steps[:1, 0])[0]
        is_end = head.sum() <= size and np.minimum(head, typical).sum() >= _ALIKE * head.sum()
        tiled = self._share(0 if is_end else int(steps[0, 0]), int(steps[-1, 1]))
        return _Pattern(typical, steps, whole, tiled)

    def _share(self, first: int, last: int) -> float:
        """How much of what ran does so from one place to another, of compute or of all: less."""
        length = self.ends - self.starts
        compute = length[first:last].sum() / max(int(length.sum()), 1)
        start, end = self._all
        after = self.starts[last] if last < len(self.starts) else np.iinfo(np.int64).max
        # What comes before the first kernel at all, such as its data, is part of the first step.
        inside = start < after
        if first:
            inside &= start >= self.starts[first]
        return float(min(compute, (end - start)[inside].sum() / max(int((end - start).sum()), 1)))

    @cached_property
    def _all(self) -> tuple[Int64Array, Int64Array]:
        """Starts and ends of all that the process ran on the device, copies included."""
        spans = []
        for kind, table in self.ran.classified.trace.tables.items():
            rows = self.ran.tables[kind].get(self.global_pid, self.rows[:0])
            spans.append((table.start_ns[rows], table.end_ns[rows]))
        return np.concatenate([a for a, _ in spans]), np.concatenate([b for _, b in spans])

    def _rotated(self, found: _Pattern) -> Guess | None:
        """The guess that begins where a step most likely does."""
        typical = found.typical
        times, level = self._offloaded
        coarse = max(1.0, float(np.ptp(level)) * _SAME_LEVEL)
        pause = self.starts - np.concatenate(
            (self.starts[:1], np.maximum.accumulate(self.ends)[:-1])
        )

        def likely(at: Int64Array) -> tuple[int, float]:
            on_host = level[np.searchsorted(times, self.starts[at], side="right")]
            # A capture is often begun where a step begins.
            before = np.inf if at[0] == 0 else float(np.median(pause[at]))
            return round(on_host.mean() / coarse), -before

        places = [np.flatnonzero(self.name == one) for one in np.flatnonzero(typical == 1).tolist()]
        places = sorted((at for at in places if 2 <= len(at) <= _MOST), key=likely)[:_BEGINNINGS]
        patterns = [one for at in places if (one := self._pattern(at, typical)) and one.whole > 1]
        if not patterns:
            return None

        def rank(one: _Pattern) -> tuple[int, int, float]:
            on_host, before = likely(one.steps[:, 0])
            return on_host, -one.whole, before

        best = min(patterns, key=rank)
        trace = self.ran.classified.trace
        name = trace.names[int(trace.kernels.name[self.rows[best.steps[0, 0]]])]
        return Guess(
            self.ran.device,
            self.global_pid,
            short_name(name),
            self._borders(best),
            best.whole,
            best.share,
            int(typical.sum()),
            int(np.count_nonzero(typical)),
        )

    def _borders(self, found: _Pattern) -> Int64Array:
        """Start of each step, and the end of the last one."""
        first, last = int(found.steps[-1, 0]), int(found.steps[-1, 1])
        begin = self.starts[found.steps[:, 0]]
        after = int(self.starts[last]) if last < len(self.starts) else np.iinfo(np.int64).max
        start, end = self._all
        # What started before the next kernel belongs to the last step, such as its last copy.
        mine = (start >= begin[-1]) & (start < after)
        kernel_end = int(self.ends[first:last].max())
        gpu_end = max(kernel_end, min(int(end[mine].max(initial=kernel_end)), after))
        if found.whole < len(found.steps):
            return np.append(begin, gpu_end)
        return np.append(begin, last_end(begin, gpu_end, None, start[start >= after]))

    @cached_property
    def _offloaded(self) -> tuple[Int64Array, Int64Array]:
        """Times (n,) and bytes on the host (n + 1,) before, between and after them.

        As relief counts: sizes that move both ways, from the end of a D2H to the start of an H2D.
        """
        classified = self.ran.classified
        copies = classified.trace.copies
        rows = self.ran.tables["memcpy"].get(self.global_pid, self.rows[:0])
        role, n_bytes = classified.copy_role[rows], copies.n_bytes[rows]
        out, back = role == Role.D2H, role == Role.H2D
        both: BoolArray = np.isin(n_bytes, np.intersect1d(n_bytes[out], n_bytes[back]))
        out, back = out & both, back & both
        times = np.concatenate([copies.end_ns[rows[out]], copies.start_ns[rows[back]]])
        moved = np.concatenate([n_bytes[out], -n_bytes[back]])
        order = np.argsort(times, kind="stable")
        return times[order], np.concatenate(([0], np.cumsum(moved[order])))


def _longest_run(values: BoolArray) -> tuple[int, int]:
    """First index and length of the longest run of true values; length 0 for none."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], values, [False])).astype(np.int8)))
    first, last = edges[::2], edges[1::2]
    if not len(first):
        return 0, 0
    longest = int(np.argmax(last - first))
    return int(first[longest]), int(last[longest] - first[longest])
