"""Which of several copies that wait for one engine goes next: learned from the trace."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from ..core.records import dataclass

SAME_STREAM_WITHIN_NS = 3_000
"""The next copy of the stream whose copy just ended still goes first when ready so soon."""
TIED_NS = 20_000
"""Copies released so close to each other on an idle engine race: they go as they went."""
_MOST_STREAMS = 5
_FEWEST = 3
"""Decisions needed before a cycle is taken from them."""


@dataclass(frozen=True)
class Arbitration:
    """The next copy of the same stream first; else by `cycle` of streams, else by time of release.

    `cycle` is () where the trace shows none. Of copies released at nearly the same time on an idle
    engine no rule tells which goes first (two steps of one program differ), so the trace does.
    """

    cycle: tuple[int, ...] = ()

    def choose(
        self,
        waiting: Sequence[int],
        done: Sequence[int],
        free_ns: int,
        ready_ns: Sequence[int],
        stream: Sequence[int],
        started_ns: Sequence[int],
    ) -> int:
        """The copy that an engine free since `free_ns` takes; `done` are those it did before.

        `started_ns` is when each started in the trace.
        """
        if len(waiting) == 1:
            return waiting[0]
        last = stream[done[-1]] if done else -1
        if done:
            for node in waiting:
                if stream[node] == last and ready_ns[node] <= free_ns + SAME_STREAM_WITHIN_NS:
                    return node
        late = [node for node in waiting if ready_ns[node] < free_ns]
        if len(late) > 1 and last in self.cycle:
            place = {s: i for i, s in enumerate(self.cycle)}
            at, n = place[last], len(self.cycle)
            if all(stream[node] in place for node in late):
                return min(late, key=lambda node: ((place[stream[node]] - at - 1) % n, node))
        first = min(waiting, key=lambda node: (ready_ns[node], stream[node], node))
        if ready_ns[first] < free_ns:
            return first
        tied = [node for node in waiting if ready_ns[node] - ready_ns[first] <= TIED_NS]
        return min(tied, key=lambda node: (started_ns[node], stream[node], node))


@dataclass(frozen=True)
class Decision:
    """One choice seen: the stream of the copy before, those that had waited, and which went."""

    last: int
    streams: tuple[int, ...]
    took: int


def learn(decisions: Sequence[Decision]) -> Arbitration:
    """The cycle of streams that explains most of the choices between streams, if one does.

    It must explain more of them than going by time of release alone would by chance of order:
    at least three choices, and nine in ten.
    """
    streams = sorted({s for one in decisions for s in (*one.streams, one.last)})
    if len(decisions) < _FEWEST or not 2 < len(streams) <= _MOST_STREAMS:
        return Arbitration()
    best = max(
        ((streams[0], *rest) for rest in permutations(streams[1:])),
        key=lambda cycle: (_explained(decisions, cycle), cycle),
    )
    enough = _explained(decisions, best) >= 0.9 * len(decisions)
    return Arbitration(best) if enough else Arbitration()


def _explained(decisions: Sequence[Decision], cycle: tuple[int, ...]) -> int:
    place, n = {s: i for i, s in enumerate(cycle)}, len(cycle)
    return sum(
        min(one.streams, key=lambda s: (place[s] - place[one.last] - 1) % n) == one.took
        for one in decisions
    )
