"""The replay itself: when each node starts and ends, given the durations of operations.

Times of nodes that need no copy engine follow from those before them at once. Copies wait for
their engine; of those that wait the next one is chosen as CUDA was seen to choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ..core.arrays import Int64Array
from ..core.records import dataclass
from .arbitration import Arbitration
from .calls import LONG_AGO_NS
from .edges import Edges
from .graph import Graph


class CycleError(Exception):
    """Some nodes wait for each other, so that none of them can ever start."""


@dataclass(frozen=True)
class Replayed:
    """Start and end of every node of a graph, in ns, and what was done by each copy engine."""

    start_ns: list[int]
    end_ns: list[int]
    engine_order: list[list[int]]


Successors = list[list[tuple[int, int]]]


@dataclass(frozen=True)
class Plan:
    """A graph made ready to run: `after[v]` are (node, lag), `n_before` counts edges to each.

    `ready_ns` is when a node is ready for what is known beforehand. `folded` are calls and joins
    `(node, other, lag)` that end `lag` ns behind another node whatever happens, and do not run.
    """

    graph: Graph
    after: Successors
    n_before: list[int]
    ready_ns: list[int]
    first: list[int]
    folded: list[tuple[int, int, int]]
    engine: list[int]
    group: list[int]
    special: list[bool]
    """Whether a node needs an engine or is part of a collective."""
    group_size: dict[int, int]
    stream: list[int]
    started_ns: list[int]
    fixed_free: list[int]


def prepare(graph: Graph) -> Plan:
    """Lay out a graph for `replay`; the same plan serves for any durations."""
    ops = graph.operations
    edges, root, lag = _folded(graph, Edges.joined((graph.order, graph.host)))
    edges, ready = _known(graph, edges, root)
    n_before = np.bincount(edges.after, minlength=graph.n_nodes)
    own = np.arange(graph.n_nodes)
    gone = np.flatnonzero(root != own)
    free = [LONG_AGO_NS] * graph.n_engines
    engine, end = graph.engine.tolist(), ops.end_ns.tolist()
    for op in np.flatnonzero(ops.fixed & (graph.engine >= 0)).tolist():
        number = engine[op]
        free[number] = max(free[number], end[op])
        engine[op] = -1
    group = graph.group.tolist()
    special = [a >= 0 or b >= 0 for a, b in zip(engine, group, strict=True)]
    special += [False] * (graph.n_nodes - len(ops))
    sizes = Counter(number for number in group if number >= 0)
    return Plan(
        graph=graph,
        after=_successors(edges, graph.n_nodes),
        n_before=n_before.tolist(),
        ready_ns=ready.tolist(),
        first=np.flatnonzero((n_before == 0) & (root == own))[::-1].tolist(),
        folded=list(zip(*(one.tolist() for one in (gone, root[gone], lag[gone])), strict=True)),
        engine=engine,
        group=group,
        special=special,
        group_size=dict(sizes),
        stream=ops.stream.tolist(),
        started_ns=ops.start_ns.tolist(),
        fixed_free=free,
    )


def _folded(graph: Graph, edges: Edges) -> tuple[Edges, Int64Array, Int64Array]:
    """Edges without calls and joins that follow one other node only, and what those follow.

    Half the nodes are calls that follow the one before: without them a replay takes half as long.
    For every node the one that it ends behind, itself where it is not folded, and how long behind.
    """
    n, own = graph.n_nodes, np.arange(graph.n_nodes)
    single = np.bincount(edges.after, minlength=n) == 1
    single &= (own >= len(graph.operations)) & (graph.earliest_ns == LONG_AGO_NS)
    root, lag = own.copy(), np.zeros(n, np.int64)
    mine = single[edges.after]
    root[edges.after[mine]] = edges.before[mine]
    lag[edges.after[mine]] = edges.lag_ns[mine]
    for _ in range(n.bit_length()):
        if not single[root].any():
            break
        lag, root = lag + lag[root], root[root]
    # What still leads to such a node goes round in a circle: the replay will find that.
    circle = single[root]
    root, lag = np.where(circle, own, root), np.where(circle, 0, lag)
    edges = edges.select(root[edges.after] == edges.after)
    return Edges(root[edges.before], edges.after, edges.lag_ns + lag[edges.before]), root, lag


def _known(graph: Graph, edges: Edges, root: Int64Array) -> tuple[Edges, Int64Array]:
    """Edges without those from calls that nothing comes before, and when nodes are ready for it."""
    n = graph.n_nodes
    begins = (np.bincount(edges.after, minlength=n) == 0) & (root == np.arange(n))
    begins[: len(graph.operations)] = False
    known = begins[edges.before]
    ready = graph.earliest_ns.copy()
    early = edges.select(known)
    np.maximum.at(ready, early.after, ready[early.before] + early.lag_ns)
    return edges.select(~known), ready


def _successors(edges: Edges, n_nodes: int) -> Successors:
    order = np.argsort(edges.before, kind="stable")
    pairs = list(zip(edges.after[order].tolist(), edges.lag_ns[order].tolist(), strict=True))
    ends = np.cumsum(np.bincount(edges.before, minlength=n_nodes)).tolist()
    starts = [0, *ends[:-1]]
    return [pairs[a:b] for a, b in zip(starts, ends, strict=True)]


def replay(
    plan: Plan,
    duration_ns: Sequence[int],
    engine_latency_ns: Sequence[int],
    arbitration: Arbitration,
) -> Replayed:
    """Run a graph. `duration_ns` and `engine_latency_ns` have one value an operation.

    A copy starts its engine's latency behind the copy before it. Raises `CycleError`.
    """
    run = _Run(plan, duration_ns)
    run.settle(list(plan.first))
    while (chosen := run.next_engine()) >= 0:
        waiting, order = run.waiting[chosen], run.orders[chosen]
        node = arbitration.choose(
            waiting, order, run.free[chosen], run.ready, plan.stream, plan.started_ns
        )
        waiting.remove(node)
        start = run.ready[node]
        if run.free[chosen] > LONG_AGO_NS:
            start = max(start, run.free[chosen] + engine_latency_ns[node])
        order.append(node)
        run.free[chosen] = start + duration_ns[node]
        run.settle(run.released([node], run.free[chosen]))
    if any(run.left) or any(len(run.together[g]) < n for g, n in plan.group_size.items()):
        raise CycleError
    for folded, other, lag in plan.folded:
        run.end[folded] = run.end[other] + lag
    return Replayed(run.starts(), run.end, run.orders)


class _Run:
    """The state of one replay: when nodes are `ready`, how many each still waits for, and ends."""

    def __init__(self, plan: Plan, duration_ns: Sequence[int]) -> None:
        graph, n_ops = plan.graph, len(duration_ns)
        self._plan, self._duration = plan, duration_ns
        self._total = [*duration_ns, *([0] * (graph.n_nodes - n_ops))]
        self.ready, self.left = list(plan.ready_ns), list(plan.n_before)
        self.end = [0] * graph.n_nodes
        self.free = list(plan.fixed_free)
        self.waiting: list[list[int]] = [[] for _ in self.free]
        self.orders: list[list[int]] = [[] for _ in self.free]
        self.together: dict[int, list[int]] = {number: [] for number in plan.group_size}

    def settle(self, stack: list[int]) -> None:
        """Find the times of nodes that wait for nothing more, and of all that follow from them."""
        plan, ready, left, end, total = self._plan, self.ready, self.left, self.end, self._total
        special, after, pop, push = plan.special, plan.after, stack.pop, stack.append
        while stack:
            node = pop()
            if special[node]:
                stack += self._special(node)
                continue
            done = end[node] = ready[node] + total[node]
            for other, lag in after[node]:
                at = done + lag
                if at > ready[other]:
                    ready[other] = at
                if left[other] == 1:
                    push(other)
                left[other] -= 1

    def _special(self, node: int) -> list[int]:
        """A copy waits for its engine; the last kernel of a collective ends all of them."""
        plan = self._plan
        if plan.engine[node] >= 0:
            self.waiting[plan.engine[node]].append(node)
            return []
        number = plan.group[node]
        together = self.together[number]
        together.append(node)
        if len(together) < plan.group_size[number]:
            return []
        last = max(self.ready[one] for one in together)
        return self.released(together, last + plan.graph.group_cost_ns[number])

    def released(self, nodes: list[int], done: int) -> list[int]:
        """End some nodes; those that now wait for nothing more."""
        found = []
        for node in nodes:
            self.end[node] = done
            for other, lag in self._plan.after[node]:
                self.ready[other] = max(self.ready[other], done + lag)
                self.left[other] -= 1
                if not self.left[other]:
                    found.append(other)
        return found

    def next_engine(self) -> int:
        """The engine that starts its next copy first; -1 where no copy waits.

        What is not ready yet waits for some copy that has not ended, so it cannot come before this.
        """
        best, at = -1, 0
        for number, nodes in enumerate(self.waiting):
            if nodes:
                begins = max(self.free[number], min(self.ready[node] for node in nodes))
                if best < 0 or begins < at:
                    best, at = number, begins
        return best

    def starts(self) -> list[int]:
        """When each node started: a collective's kernels wait for each other while they run."""
        starts = [end - length for end, length in zip(self.end, self._duration, strict=False)]
        for nodes in self.together.values():
            for node in nodes:
                starts[node] = min(self.ready[node], self.end[node])
        return starts + self.end[len(starts) :]
