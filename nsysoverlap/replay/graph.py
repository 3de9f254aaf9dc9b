"""The graph of a replay: operations and launches, and what has to come before what.

A node is an operation of the GPU, a call of the host, or a point where a CUDA graph is done. An
edge `(before, after, lag)` says that `after` is not ready earlier than `lag` ns behind the end of
`before`. A node ends its duration after it starts; calls have none and "end" when they begin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
from ..steps.launches import Launches
from ..trace.contents import Trace
from ..trace.host import HostSide
from .call_edges import link_calls
from .calls import LONG_AGO_NS, HostChains, host_chains
from .collectives import collective_groups
from .edges import Edge, Edges
from .replayed import COPIES, UNKNOWN, Operations

Frontier = dict[int, tuple[int, int]]
"""Stream -> (place in the order of issue, node): the last work of each stream to wait for."""


@dataclass(frozen=True)
class Graph:
    """Nodes `0 .. len(operations) - 1` are the operations, those behind them calls and joins.

    `order` are edges between operations, `host` those that begin or end at a call. `earliest_ns`
    (n_nodes,) is when a node may be ready at the earliest, for what came before the replay.
    `engine` (n_operations,) counts the copy engines, -1 for none; `group` the collectives.
    """

    operations: Operations
    n_nodes: int
    order: Edges
    host: Edges
    awaited: BoolArray
    """Those of `host` that stand for a wait of the host on the GPU; shape (len(host),)."""
    earliest_ns: Int64Array
    engine: Int64Array
    group: Int64Array
    group_cost_ns: tuple[int, ...] = ()

    @property
    def n_engines(self) -> int:
        """Number of copy engines with copies."""
        return int(self.engine.max(initial=-1)) + 1

    def prompt(self, nodes: BoolArray) -> Graph:
        """The same with some operations (n,) that start without any latency."""
        at_once = self._of_operations(nodes)

        def prompted(edges: Edges) -> Edges:
            return edges.later(np.where(at_once[edges.after], np.minimum(-edges.lag_ns, 0), 0))

        return replace(self, order=prompted(self.order), host=prompted(self.host))

    def with_order(self, edges: Iterable[Edge]) -> Graph:
        """The same with more edges between operations."""
        return replace(self, order=Edges.joined((self.order, Edges.of(edges))))

    def unawaited(self, nodes: BoolArray) -> Graph:
        """The same with a host that does not wait for some operations (n,)."""
        kept = ~(self.awaited & self._of_operations(nodes)[self.host.before])
        return replace(self, host=self.host.select(kept), awaited=self.awaited[kept])

    def _of_operations(self, mask: BoolArray) -> BoolArray:
        """A mask of operations as one of all nodes."""
        return np.concatenate((mask, np.zeros(self.n_nodes - len(mask), np.bool_)))


@dataclass
class _Building:
    frontier: defaultdict[int, Frontier] = field(default_factory=lambda: defaultdict(dict))
    order: dict[tuple[int, int], int] = field(default_factory=dict)
    snapshots: dict[int, Frontier] = field(default_factory=dict)


def build_graph(trace: Trace, launches: Launches, ops: Operations) -> Graph:
    """The graph of some operations."""
    chains = host_chains(trace, launches, ops)
    building = _Building()
    n_nodes = _order(trace, ops, chains, building)
    links = link_calls(chains, building.snapshots, n_nodes)
    n_nodes += len(chains)
    earliest = np.full(n_nodes, LONG_AGO_NS, np.int64)
    earliest[: len(ops)][ops.fixed] = ops.start_ns[ops.fixed]
    unknown = (ops.call == UNKNOWN) & ~ops.fixed
    # Whoever launched it, it was not there before it ran.
    earliest[: len(ops)][unknown] = ops.start_ns[unknown]
    earliest[n_nodes - len(chains) :] = links.earliest_ns
    group, cost = collective_groups(ops)
    return Graph(
        operations=ops,
        n_nodes=n_nodes,
        order=Edges.of((a, b, 0) for a, b in building.order),
        host=links.edges,
        awaited=links.awaited,
        earliest_ns=earliest,
        engine=_engines(trace, ops),
        group=group,
        group_cost_ns=cost,
    )


def _engines(trace: Trace, ops: Operations) -> Int64Array:
    """One engine for each process, device and direction; fixed copies need none any more."""
    process = np.array([s.global_pid for s in trace.streams], np.int64)[ops.stream]
    engine = np.full(len(ops), -1, np.int64)
    copies = np.flatnonzero(np.isin(ops.kind, COPIES))
    if len(copies):
        key = np.stack((process[copies], ops.device[copies], ops.kind[copies]))
        engine[copies] = np.unique(key, axis=1, return_inverse=True)[1].reshape(-1)
    return engine


RECORD, WAIT, ISSUE = range(3)
_OVERLAP_NS = 5_000


def _order(trace: Trace, ops: Operations, chains: HostChains, building: _Building) -> int:
    """Fill in who waits for whom on the GPU; the number of operations and joins."""
    n_nodes = len(ops)
    graph: list[int] = []
    of_call = -1
    order = building.order
    call, from_graph = ops.call.tolist(), ops.from_graph.tolist()
    fixed = ops.fixed.tolist()
    for place, (what, which, where, source) in enumerate(_events(trace.host, ops, chains)):
        if graph and not (what == ISSUE and from_graph[which] and call[which] == of_call):
            n_nodes = _close(ops, building, graph, place, n_nodes)
            graph = []
        if what == RECORD:
            found = building.frontier.values() if where < 0 else [building.frontier[where]]
            building.snapshots[which] = _merged(found)
        elif what == WAIT:
            snapshot = building.snapshots[source]
            building.frontier[where] = _merged([building.frontier[where], snapshot])
        elif from_graph[which] and call[which] != UNKNOWN:
            graph.append(which)
            of_call = call[which]
        else:
            before = building.frontier[where]
            if not fixed[which]:
                for _, node in before.values():
                    order[node, which] = 0
            building.frontier[where] = {where: (place, which)}
    if graph:
        n_nodes = _close(ops, building, graph, len(ops) * 4, n_nodes)
    return n_nodes


def _merged(frontiers: Iterable[Frontier]) -> Frontier:
    result: Frontier = {}
    for one in frontiers:
        for stream, found in one.items():
            if found[0] >= result.get(stream, (-1, 0))[0]:
                result[stream] = found
    return result


def _events(host: HostSide, ops: Operations, chains: HostChains) -> list[tuple[int, int, int, int]]:
    """(what, which, stream, source) of records, waits and operations, in the order of the host.

    Of records `which` is the number of the wait that looks at it, later those of `host_waits`.
    """
    waits = host.waits
    low = int(ops.issued_ns[0]) if len(ops) else 0
    high = int(ops.issued_ns[-1]) if len(ops) else 0
    nothing = np.zeros(len(ops), np.int64)
    parts: list[tuple[Any, ...]] = [
        (ops.issued_ns, ISSUE, np.arange(len(ops)), ops.stream, nothing)
    ]
    n = 0
    if waits is not None and len(waits):
        n = len(waits)
        row = np.flatnonzero((waits.wait_ns >= low) & (waits.wait_ns <= high))
        parts.append((waits.record_ns[row], RECORD, row, waits.record_stream[row], row))
        parts.append((waits.wait_ns[row], WAIT, row, waits.wait_stream[row], row))
    number = np.arange(len(chains.wait_stream)) + n
    parts.append((chains.wait_before_ns, RECORD, number, chains.wait_stream, number))
    time = np.concatenate([part[0] for part in parts])
    what = np.concatenate([np.full(len(part[0]), part[1]) for part in parts])
    columns = [np.concatenate([part[i] for part in parts]).astype(np.int64) for i in (2, 3, 4)]
    order = np.lexsort((columns[0], what, time))
    # Operations issued at one instant keep their own order.
    return list(zip(*(column[order].tolist() for column in (what, *columns)), strict=True))


def _close(ops: Operations, building: _Building, nodes: list[int], place: int, n_nodes: int) -> int:
    """Put the nodes of one CUDA graph launch in; one more node stands for its end.

    Inner edges are not in a trace. What is kept is the order in which it ran: a node waits for
    the last of each kind that had ended before it began.
    """
    streams = {int(ops.stream[node]) for node in nodes}
    before = _merged(building.frontier[stream] for stream in streams)
    nodes = sorted(nodes, key=lambda node: (ops.start_ns[node], ops.end_ns[node], node))
    ended: list[tuple[int, int, int]] = []
    latest: dict[int, tuple[int, int]] = {}
    for node in nodes:
        start = int(ops.start_ns[node])
        done = [one for one in ended if one[0] <= start]
        for end, other, kind in sorted(done):
            latest[kind] = (end, other)
        ended = [one for one in ended if one[0] > start]
        if not ops.fixed[node]:
            for _, other in before.values():
                building.order[other, node] = 0
            for _, other in latest.values():
                building.order[other, node] = 0
        # The next one may begin while the last blocks of this one end.
        early = min(_OVERLAP_NS, int(ops.end_ns[node] - ops.start_ns[node]) // 2)
        ended.append((int(ops.end_ns[node]) - early, node, int(ops.kind[node])))
    join = n_nodes
    for node in {other for _, other in latest.values()} | {other for _, other, _ in ended}:
        building.order[node, join] = 0
    for stream in streams:
        building.frontier[stream] = {stream: (place, join)}
    return n_nodes + 1
