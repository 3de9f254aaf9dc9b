"""The host in a replay: when each call begins, given the calls and the GPU work before it.

Calls of a thread follow each other with the time between them as it was ("think time"). Where
the host waited for the GPU, the wait is modelled and not its length: calls that block, pauses
that end right after all earlier GPU work, and launches into a full queue.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
from ..steps.launches import Launches
from ..steps.stalls import PAUSE_NS, RESUMED_NS, Stalls
from ..trace.contents import Trace
from .replayed import UNKNOWN, Operations

LONG_AGO_NS = -(2**61)
"""Before any time of a trace, and far enough from the end of int64 to add to."""
OWN_COST_NS = 12_000
"""No call that waited for the GPU takes longer than this of its own."""
QUEUE_LENGTH = 1_022
"""Unfinished operations of a stream with which a launch on it still returns at once."""
_NEARLY_FULL = 900
Return = tuple[tuple[int, int], ...]
"""(node, lag): a call returns `lag` ns behind each of them at the earliest."""


@dataclass(frozen=True)
class HostChains:
    """The calls of the replayed steps, by start; columns of shape (n,).

    `wait` is the place of the call in `wait_stream` and `wait_before_ns`, -1 for a call that is no
    wait: it returns when all work on that stream (-1: on all of them) launched before then is done.
    `after_pause`: before it the process stood still until all earlier GPU work was done. `queue` is
    the operation that must be done before a launch returns, -1 for none. `thread_process` and
    `stream_process` are the processes of the trace's threads and streams.
    """

    ops: Operations
    start_ns: Int64Array
    end_ns: Int64Array
    thread: Int64Array
    launched: tuple[tuple[int, ...], ...]
    wait: Int64Array
    wait_stream: Int64Array
    wait_before_ns: Int64Array
    first_wait: int
    blocked: BoolArray
    queue: Int64Array
    after_pause: BoolArray
    thread_process: Int64Array
    stream_process: Int64Array

    def __len__(self) -> int:
        return len(self.start_ns)


def host_chains(trace: Trace, launches: Launches, ops: Operations) -> HostChains:
    """The calls that launched some operations, and the waits between them."""
    calls, waits = trace.host.calls, trace.host.host_waits
    own = (ops.call != UNKNOWN) & ~ops.fixed
    launching = np.unique(ops.call[own])
    low, high = (
        (int(ops.issued_ns[own].min()), int(ops.issued_ns[own].max())) if own.any() else (0, 0)
    )
    starts = calls.start_ns[waits.call]
    waiting = np.flatnonzero((starts >= low) & (starts <= high))
    call = np.union1d(launching, waits.call[waiting])
    start, end = calls.start_ns[call].astype(np.int64), calls.end_ns[call].astype(np.int64)
    wait = np.full(len(call), -1, np.int64)
    wait[np.searchsorted(call, waits.call[waiting])] = np.arange(len(waiting))
    launched: list[list[int]] = [[] for _ in range(len(call))]
    rows = np.flatnonzero(own)
    for op, place in zip(
        rows.tolist(), np.searchsorted(call, ops.call[rows]).tolist(), strict=True
    ):
        launched[place].append(op)
    thread = calls.thread[call].astype(np.int64)
    return HostChains(
        ops=ops,
        start_ns=start,
        end_ns=end,
        thread=thread,
        launched=tuple(tuple(found) for found in launched),
        wait=wait,
        wait_stream=waits.stream[waiting].astype(np.int64),
        wait_before_ns=waits.before_ns[waiting].astype(np.int64),
        first_wait=len(trace.host.waits) if trace.host.waits is not None else 0,
        blocked=_blocked(ops, start, end),
        queue=_queue(ops, launched),
        after_pause=_after_pause(trace, launches.stalls, call),
        thread_process=trace.host.thread_pid,
        stream_process=np.array([stream.global_pid for stream in trace.streams], np.int64),
    )


def _after_pause(trace: Trace, stalls: Stalls, call: Int64Array) -> BoolArray:
    """Which calls are the first of theirs after a pause; `call` rises."""
    process = trace.host.thread_pid[trace.host.calls.thread[call]]
    found = np.zeros(len(call), np.bool_)
    pauses = np.flatnonzero(stalls.next_call >= 0)
    for one in np.unique(process).tolist():
        own = np.flatnonzero(process == one)
        mine = pauses[stalls.global_pid[pauses] == one]
        place = np.searchsorted(call[own], stalls.next_call[mine])
        found[own[place[place < len(own)]]] = True
    return found


def _blocked(ops: Operations, start: Int64Array, end: Int64Array) -> BoolArray:
    """Long calls that began while the queue of some stream was nearly full."""
    blocked = np.zeros(len(start), np.bool_)
    long = np.flatnonzero(end - start > OWN_COST_NS)
    for stream in np.unique(ops.stream).tolist():
        own = ops.stream == stream
        if np.count_nonzero(own) >= _NEARLY_FULL:
            issued = np.searchsorted(np.sort(ops.issued_ns[own]), start[long])
            ended = np.searchsorted(np.sort(ops.end_ns[own]), start[long])
            blocked[long] |= issued - ended >= _NEARLY_FULL
    return blocked


def _queue(ops: Operations, launched: list[list[int]]) -> Int64Array:
    """For each call the operation whose end makes room for what it launches."""
    before = np.full(len(ops), -1, np.int64)
    for stream in np.unique(ops.stream).tolist():
        own = np.flatnonzero(ops.stream == stream)
        before[own[QUEUE_LENGTH:]] = own[: max(0, len(own) - QUEUE_LENGTH)]
    return np.array([before[found[-1]] if found else -1 for found in launched], np.int64)


@dataclass(frozen=True)
class _Returns:
    """What a call's return waits for: `always`, and those that stand for a wait for the GPU."""

    always: Return
    awaited: Return = ()


def link_calls(
    chains: HostChains, snapshots: Mapping[int, dict[int, tuple[int, int]]], first: int
) -> Links:
    """Edges from and to the calls, which are the nodes from `first` on.

    `snapshots` holds what was launched by the time that a wait looks at.
    """
    links = Links(chains, snapshots, first)
    links.walk()
    return links


class Links:
    """One walk over the calls in the order in which they began.

    `edges` are all, `awaited` those of them that stand for a wait of the host for the GPU;
    `earliest_ns` is the start of a call that nothing comes before.
    """

    def __init__(
        self, chains: HostChains, snapshots: Mapping[int, dict[int, tuple[int, int]]], first: int
    ) -> None:
        self._chains, self._snapshots, self._first = chains, snapshots, first
        self._ops = chains.ops
        self._end = chains.ops.end_ns.tolist()
        self.edges: list[tuple[int, int, int]] = []
        self.awaited: list[tuple[int, int, int]] = []
        self.earliest_ns = np.full(len(chains), LONG_AGO_NS, np.int64)
        self._paused: dict[int, tuple[int, tuple[int, ...]]] = {}
        """Process -> what it had launched before its last pause; see `_launched_by`."""
        self._issued = 0
        self._latest: dict[int, tuple[int, int]] = {}
        """Stream -> (last end so far, last operation), of what was launched so far."""

    def walk(self) -> None:
        """Fill in everything."""
        chains = self._chains
        last: dict[int, tuple[int, _Returns]] = {}
        columns = (chains.start_ns, chains.end_ns, chains.thread)
        for i, (start, end, thread) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            node = self._first + i
            self._advance(start)
            mine = last.get(thread)
            if not self._enter(node, start, thread, mine, last):
                self.earliest_ns[i] = start
            for op in chains.launched[i]:
                self.edges.append((node, op, 0))
            last[thread] = (end, self._returns(i, node, start, end))

    def _advance(self, until: int) -> None:
        ops = self._ops
        issued, n = ops.issued_ns, len(ops)
        while self._issued < n and issued[self._issued] < until:
            op = self._issued
            stream, end = int(ops.stream[op]), self._end[op]
            known = self._latest.get(stream)
            self._latest[stream] = (max(end, known[0] if known else end), op)
            self._issued += 1

    def _enter(
        self,
        node: int,
        start: int,
        thread: int,
        mine: tuple[int, _Returns] | None,
        last: Mapping[int, tuple[int, _Returns]],
    ) -> bool:
        """Edges to a call from what came before it; whether there is anything."""
        idle = start - mine[0] if mine else None
        if mine and idle is not None and idle <= PAUSE_NS:
            self._follow(node, idle, mine[1])
            return True
        process = int(self._chains.thread_process[thread])
        if self._chains.after_pause[node - self._first]:
            self._paused[process] = self._launched_by(process)
        if mine and self._resume(node, start, mine, self._paused.get(process)):
            return True
        # Another thread was at work meanwhile: it handed over, as a backward pass does.
        others = [
            found
            for other, found in last.items()
            if other != thread
            and found[0] <= start
            and self._chains.thread_process[other] == process
        ]
        latest = max((found for found in others), key=lambda found: found[0], default=None)
        if latest is not None and (mine is None or latest[0] > mine[0]):
            self._follow(node, start - latest[0], latest[1])
            return True
        if mine and idle is not None:
            self._follow(node, idle, mine[1])
        return mine is not None

    def _follow(self, node: int, think: int, returns: _Returns) -> None:
        self.edges += [(before, node, lag + think) for before, lag in returns.always]
        waits = [(before, node, lag + think) for before, lag in returns.awaited]
        self.edges += waits
        self.awaited += waits

    def _launched_by(self, process: int) -> tuple[int, tuple[int, ...]]:
        """When all that a process had launched was done, and the last operation of each stream."""
        own = self._chains.stream_process
        found = [one for stream, one in self._latest.items() if own[stream] == process]
        return max((end for end, _ in found), default=LONG_AGO_NS), tuple(op for _, op in found)

    def _resume(
        self,
        node: int,
        start: int,
        mine: tuple[int, _Returns],
        paused: tuple[int, tuple[int, ...]] | None,
    ) -> bool:
        """Whether a thread went on because all that its process had launched was done.

        All threads of a process pause together, and each of them goes on by itself.
        """
        if paused is None:
            return False
        drained, operations = paused
        if not mine[0] < drained <= start <= drained + RESUMED_NS:
            return False
        waited = _Returns(mine[1].always, tuple((op, 0) for op in operations))
        self._follow(node, start - drained, waited)
        return True

    def _returns(self, i: int, node: int, start: int, end: int) -> _Returns:
        chains, length = self._chains, end - start
        queue = int(chains.queue[i])
        always = [(queue, 0)] if queue >= 0 else []
        awaited: list[tuple[int, int]] = []
        cost = min(length, OWN_COST_NS) if chains.blocked[i] else length
        if chains.wait[i] >= 0:
            nodes = self._snapshots[chains.first_wait + int(chains.wait[i])].values()
            awaited, blocks = self._waiting([n for _, n in nodes], start, end)
            cost = min(length, OWN_COST_NS) if blocks else length
        elif length > OWN_COST_NS and chains.launched[i]:
            own = max(chains.launched[i], key=lambda op: self._end[op])
            if start < self._end[own] <= end:
                awaited = [(own, end - self._end[own])]
                cost = min(length, OWN_COST_NS)
        return _Returns(((node, cost), *always), tuple(awaited))

    def _waiting(
        self, nodes: list[int], start: int, end: int
    ) -> tuple[list[tuple[int, int]], bool]:
        """What a synchronising call waits for, each with its lag, and whether it had to wait."""
        known = [node for node in nodes if node < len(self._end)]
        done = max((self._end[node] for node in known), default=start)
        if done > end:
            # It returned before that was done, so it cannot have waited for it.
            return [], False
        lag = end - done if done > start else 0
        return [(node, lag) for node in nodes], done > start
