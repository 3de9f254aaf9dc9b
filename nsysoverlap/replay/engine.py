"""The replay itself: when each node starts and ends, given the durations of operations.

Times of nodes that need no copy engine follow from those before them at once. Copies wait for
their engine; of those that wait the next one is chosen as CUDA was seen to choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..core.records import dataclass
from .arbitration import Arbitration
from .calls import LONG_AGO_NS
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
    """A graph made ready to run: `after[v]` are (node, lag), `n_before` counts edges to each."""

    graph: Graph
    after: Successors
    n_before: list[int]
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
    after: Successors = [[] for _ in range(graph.n_nodes)]
    n_before = [0] * graph.n_nodes
    for edges in (graph.order, graph.host):
        for before, node, lag in edges:
            after[before].append((node, lag))
            n_before[node] += 1
    free = [LONG_AGO_NS] * graph.n_engines
    engine, fixed, end = graph.engine.tolist(), ops.fixed.tolist(), ops.end_ns.tolist()
    for op, number in enumerate(engine):
        if number >= 0 and fixed[op]:
            free[number] = max(free[number], end[op])
            engine[op] = -1
    group = graph.group.tolist()
    special = [a >= 0 or b >= 0 for a, b in zip(engine, group, strict=True)]
    special += [False] * (graph.n_nodes - len(ops))
    sizes = Counter(number for number in group if number >= 0)
    return Plan(
        graph,
        after,
        n_before,
        engine,
        group,
        special,
        dict(sizes),
        ops.stream.tolist(),
        ops.start_ns.tolist(),
        free,
    )


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
    run.settle([node for node in range(plan.graph.n_nodes - 1, -1, -1) if not plan.n_before[node]])
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
    return Replayed(run.starts(), run.end, run.orders)


class _Run:
    """The state of one replay: when nodes are `ready`, how many each still waits for, and ends."""

    def __init__(self, plan: Plan, duration_ns: Sequence[int]) -> None:
        graph, n_ops = plan.graph, len(duration_ns)
        self._plan, self._duration = plan, duration_ns
        self._total = [*duration_ns, *([0] * (graph.n_nodes - n_ops))]
        self.ready, self.left = list(graph.earliest_ns), list(plan.n_before)
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
