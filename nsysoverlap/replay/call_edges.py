"""When each call of the host begins, given the calls and the GPU work before it.

Calls of a thread follow each other with the time between them as it was ("think time"). Where
the host waited for the GPU, the wait is modelled and not its length: calls that block, pauses
that end right after all earlier GPU work, and launches into a full queue.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
from ..steps.stalls import PAUSE_NS, RESUMED_NS
from .calls import LONG_AGO_NS, OWN_COST_NS, HostChains
from .edges import Edge, Edges

Waits = list[tuple[int, int]]
"""(node, lag): a call returns `lag` ns behind each of them at the earliest."""
Snapshots = Mapping[int, Mapping[int, tuple[int, int]]]


@dataclass(frozen=True)
class CallEdges:
    """Edges from and to the calls of a graph.

    `awaited` (n_edges,) tells those that stand for a wait of the host for the GPU; `earliest_ns`
    (n,) is the start of a call that nothing comes before.
    """

    edges: Edges
    awaited: BoolArray
    earliest_ns: Int64Array


def link_calls(chains: HostChains, snapshots: Snapshots, first: int) -> CallEdges:
    """The edges of some calls, which are the nodes from `first` on.

    `snapshots` holds what was launched by the time that a wait looks at.
    """
    cost, waits = _returns(chains, snapshots)
    found = _Sources.of(chains)
    call = np.flatnonzero(found.source >= 0)
    source, think = found.source[call], found.think_ns[call]
    full = chains.queue[source] >= 0
    at_once = np.zeros(len(chains.launched), np.int64)
    waiting = np.isin(source, list(waits)) | np.isin(call, list(found.resumed))
    awaited: list[Edge] = []
    for i in call[waiting].tolist():
        for_these = found.resumed.get(i)
        if for_these is None:
            for_these = waits[int(found.source[i])]
        lag = int(found.think_ns[i])
        awaited += [(node, i + first, behind + lag) for node, behind in for_these]
    edges = Edges.joined(
        (
            Edges.of(awaited),
            Edges(source + first, call + first, cost[source] + think),
            Edges(chains.queue[source[full]], call[full] + first, think[full]),
            Edges(chains.launched_by + first, chains.launched, at_once),
        )
    )
    earliest = np.where(found.source < 0, chains.start_ns, LONG_AGO_NS)
    return CallEdges(edges, np.arange(len(edges)) < len(awaited), earliest)


@dataclass(frozen=True)
class _Sources:
    """What each call follows: the call `source`, -1 for none, so long after it returned.

    Columns have shape (n,). `resumed` holds, by call, what the host waited for in a pause before
    it; that replaces what its source returned for.
    """

    source: Int64Array
    think_ns: Int64Array
    resumed: dict[int, Waits]

    @classmethod
    def of(cls, chains: HostChains) -> _Sources:
        before = _before(chains.thread)
        idle = chains.start_ns - chains.end_ns[before]
        follows = (before >= 0) & (idle <= PAUSE_NS)
        found = cls(np.where(follows, before, -1), np.where(follows, idle, 0), {})
        search = _Search(chains)
        # Process -> what it had launched before its last pause.
        paused: dict[int, tuple[int, Waits]] = {}
        for i in np.flatnonzero(~follows).tolist():
            start, mine = int(chains.start_ns[i]), int(before[i])
            process = int(chains.thread_process[chains.thread[i]])
            if chains.after_pause[i]:
                paused[process] = search.launched(process, start)
            drained, waits = paused.get(process, (LONG_AGO_NS, []))
            mine_end = int(chains.end_ns[mine]) if mine >= 0 else 0
            # All threads of a process pause together, and each of them goes on by itself.
            if mine >= 0 and mine_end < drained <= start <= drained + RESUMED_NS:
                found.resumed[i] = waits
                found.source[i], found.think_ns[i] = mine, start - drained
                continue
            # Another thread was at work meanwhile: it handed over, as a backward pass does.
            other = search.other(i, process, start)
            if other >= 0 and (mine < 0 or chains.end_ns[other] > mine_end):
                mine = other
            if mine >= 0:
                found.source[i], found.think_ns[i] = mine, start - int(chains.end_ns[mine])
        return found


def _before(thread: Int64Array) -> Int64Array:
    """The call before each on its thread, -1 for none; shape (n,)."""
    order = np.argsort(thread, kind="stable")
    before = np.full(len(thread), -1, np.int64)
    same = thread[order[1:]] == thread[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


class _Search:
    """What else a process had done before some instant."""

    def __init__(self, chains: HostChains) -> None:
        ops = chains.ops
        self._chains = chains
        threads, first = np.unique(chains.thread, return_index=True)
        self._calls = {
            one: np.flatnonzero(chains.thread == one) for one in threads[np.argsort(first)].tolist()
        }
        self._work = {
            stream: (own, ops.issued_ns[own], np.maximum.accumulate(ops.end_ns[own]))
            for stream in np.unique(ops.stream).tolist()
            for own in [np.flatnonzero(ops.stream == stream)]
        }

    def launched(self, process: int, until_ns: int) -> tuple[int, Waits]:
        """When all that a process had launched was done, and the last operation of each stream."""
        drained, waits = LONG_AGO_NS, []
        for stream, (own, issued, done) in self._work.items():
            n = int(np.searchsorted(issued, until_ns))
            if n and self._chains.stream_process[stream] == process:
                drained = max(drained, int(done[n - 1]))
                waits.append((int(own[n - 1]), 0))
        return drained, waits

    def other(self, call: int, process: int, start_ns: int) -> int:
        """The call of another thread that returned last before then, -1 for none."""
        chains, latest = self._chains, -1
        for thread, own in self._calls.items():
            n = int(np.searchsorted(own, call))
            if not n or thread == chains.thread[call] or chains.thread_process[thread] != process:
                continue
            one = int(own[n - 1])
            if chains.end_ns[one] <= start_ns and (
                latest < 0 or chains.end_ns[one] > chains.end_ns[latest]
            ):
                latest = one
        return latest


def _returns(chains: HostChains, snapshots: Snapshots) -> tuple[Int64Array, dict[int, Waits]]:
    """How long each call takes by itself (n,), and what those that wait for the GPU return for."""
    length = chains.end_ns - chains.start_ns
    capped = np.minimum(length, OWN_COST_NS)
    cost = np.where(chains.blocked, capped, length)
    ends = chains.ops.end_ns
    waits: dict[int, Waits] = {}
    for i in np.flatnonzero(chains.wait >= 0).tolist():
        nodes = [n for _, n in snapshots[chains.first_wait + int(chains.wait[i])].values()]
        start, end = int(chains.start_ns[i]), int(chains.end_ns[i])
        waits[i], blocks = _waiting(ends, nodes, start, end)
        cost[i] = capped[i] if blocks else length[i]
    # A launch that goes on until its own work is done waits for that.
    by, launched = chains.launched_by, chains.launched
    order = np.lexsort((-launched, ends[launched], by))
    order = order[np.diff(by[order], append=-1) != 0]
    by, last = by[order], launched[order]
    holds = (chains.wait[by] < 0) & (length[by] > OWN_COST_NS)
    holds &= (chains.start_ns[by] < ends[last]) & (ends[last] <= chains.end_ns[by])
    by, last = by[holds], last[holds]
    cost[by] = capped[by]
    lag = chains.end_ns[by] - ends[last]
    found = zip(last.tolist(), lag.tolist(), strict=True)
    waits |= {i: [one] for i, one in zip(by.tolist(), found, strict=True)}
    return cost, waits


def _waiting(ends: Int64Array, nodes: list[int], start: int, end: int) -> tuple[Waits, bool]:
    """What a synchronising call waits for, each with its lag, and whether it had to wait."""
    done = max((int(ends[node]) for node in nodes if node < len(ends)), default=start)
    if done > end:
        # It returned before that was done, so it cannot have waited for it.
        return [], False
    lag = end - done if done > start else 0
    return [(node, lag) for node in nodes], done > start
