"""Copies issued at other times: as soon as their data allows, or so many copies earlier.

The copies leave their streams for one queue a direction, in the order in which they ran.
A D2H keeps what it waits for, and nothing waits for it any more but through a memory window; an
H2D is released by the end of its own D2H, and the kernels that wait for it still do.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from .calls import LONG_AGO_NS
from .edges import Edges
from .graph import Graph
from .replayed import COPIES, Operations, OpKind

SMALL_BYTES = 1 << 20
"""Smaller copies (losses, indices) stay where they are."""


@dataclass(frozen=True)
class Matching:
    """Tensors that leave and come back: `d2h` and `h2d` of shape (n,) index the operations.

    In order of time of the H2D. A reload takes what left last of its size in the same step,
    as a backward pass does; if there is nothing, what left first in a step before.
    """

    d2h: Int64Array
    h2d: Int64Array

    @classmethod
    def of(cls, ops: Operations, kept: BoolArray) -> Matching:
        """Match the copies of some operations, those of `kept` (n,) large enough to matter."""
        copies = np.flatnonzero(
            np.isin(ops.kind, COPIES) & kept & ~ops.fixed & (ops.n_bytes >= SMALL_BYTES)
        )
        out = ops.kind[copies] == OpKind.D2H
        # A tensor is there to come back once it has left.
        moment = np.where(out, ops.end_ns[copies], ops.start_ns[copies])
        copies = copies[np.lexsort((copies, ~out, moment))]
        away: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        pairs: list[tuple[int, int]] = []
        for op in copies.tolist():
            size = away[int(ops.device[op]), int(ops.n_bytes[op])]
            if ops.kind[op] == OpKind.D2H:
                size.append(op)
            elif size:
                same_step = ops.step[size[-1]] == ops.step[op]
                pairs.append((size.pop() if same_step else size.pop(0), op))
        found = np.array(pairs, np.int64).reshape(-1, 2)
        return cls(found[:, 0], found[:, 1])

    def __len__(self) -> int:
        return len(self.d2h)


def move_copies(
    graph: Graph,
    matching: Matching,
    *,
    earlier: int,
    window: int | None,
    best: bool = False,
    only: BoolArray | None = None,
) -> Graph:
    """The graph with its copies issued anew.

    `best`: every matched copy as soon as its data allows. `earlier`: each H2D when the one so many
    before it is issued now. `window`: what fills a D2H waits for the one so many before it. Of all
    operations (n,) only those of `only` move, then also copies that are not matched.
    """
    ops = graph.operations
    every_h2d, every_d2h = matching.h2d, matching.d2h
    if only is not None:
        every_h2d = np.union1d(every_h2d, np.flatnonzero(only & (ops.kind == OpKind.H2D)))
        every_d2h = np.flatnonzero(only & (ops.kind == OpKind.D2H))
    reloads = by_start(ops, every_h2d) if best or earlier else []
    moved_h2d = reloads if only is None else [copy for copy in reloads if only[copy]]
    moved_d2h = by_start(ops, every_d2h) if best or window is not None else []
    moved = set(moved_h2d) | set(moved_d2h)
    behind, after, latency = relations(graph, moved)
    order: dict[tuple[int, int], int] = {}
    for source, node, lag in graph.order:
        if source not in moved and node not in moved:
            order[source, node] = lag
    for copy in moved:
        consumes = ops.kind[copy] == OpKind.H2D
        for node in after[copy]:
            if node in moved:
                continue
            is_consumer = consumes and node < len(ops) and ops.kind[node] == OpKind.COMPUTE
            if is_consumer:
                order[copy, node] = latency[node]
            for source in behind.of(copy):
                order.setdefault((source, node), latency[node])
    for copy in moved_d2h:
        for source in behind.of(copy):
            order[source, copy] = latency[copy]
    for pair, lag in queues(graph, reloads, moved_d2h).items():
        if not moved.isdisjoint(pair):
            order.setdefault(pair, lag)
    order |= _released(graph, matching, reloads, behind, 0 if best else earlier, set(moved_h2d))
    if window is not None:
        order |= _windowed(moved_d2h, behind, window)
        # What is not moved either comes back no sooner than it has left.
        for left, back in zip(matching.d2h.tolist(), matching.h2d.tolist(), strict=True):
            order.setdefault((left, back), 0)
    return _with_order(graph, order, moved)


def _with_order(graph: Graph, order: dict[tuple[int, int], int], moved: set[int]) -> Graph:
    """The graph in which only copies that nothing else comes before are issued by the host."""
    issue = {node: source for source, node, _ in graph.host if node in moved}
    gone = np.zeros(graph.n_nodes, np.bool_)
    gone[list(moved)] = True
    kept = ~gone[graph.host.after] & ~(graph.awaited & gone[graph.host.before])
    earliest = np.where(gone, LONG_AGO_NS, graph.earliest_ns)
    waiting = {node for _, node in order}
    first = [copy for copy in moved if copy not in waiting]
    issues = Edges.of((issue[c], c, 0) for c in first if c in issue)
    return replace(
        graph,
        order=Edges.of((a, b, lag) for (a, b), lag in order.items()),
        host=Edges.joined((graph.host.select(kept), issues)),
        awaited=np.concatenate((graph.awaited[kept], np.zeros(len(issues), np.bool_))),
        earliest_ns=earliest,
    )


def relations(graph: Graph, moved: set[int]) -> tuple[Behind, dict[int, list[int]], dict[int, int]]:
    """What comes before copies that move, what comes after each node, and each node's latency."""
    before: defaultdict[int, list[int]] = defaultdict(list)
    after: defaultdict[int, list[int]] = defaultdict(list)
    latency: defaultdict[int, int] = defaultdict(int)
    for source, node, lag in graph.order:
        before[node].append(source)
        after[source].append(node)
        latency[node] = max(latency[node], lag)
    return Behind(graph.operations, before, moved), after, latency


class Behind:
    """What a moved copy waits for, looking through other moved copies.

    Of each stream only the last operation: the others come before it anyway.
    """

    def __init__(self, ops: Operations, before: dict[int, list[int]], moved: set[int]) -> None:
        self._stream, self._n = ops.stream.tolist(), len(ops)
        self._before, self._moved = before, moved
        self._known: dict[int, tuple[int, ...]] = {}
        # A copy waits for what was issued before it, so that is known by then.
        for copy in sorted(moved):
            self._known[copy] = self._of(copy)

    def of(self, copy: int) -> tuple[int, ...]:
        """The nodes that a copy waits for."""
        return self._known[copy] if copy in self._known else self._of(copy)

    def _of(self, copy: int) -> tuple[int, ...]:
        last: dict[int, int] = {}
        for node in self._before[copy]:
            for source in self._known.get(node, ()) if node in self._moved else (node,):
                key = self._stream[source] if source < self._n else -source
                last[key] = max(source, last.get(key, source))
        return tuple(sorted(last.values()))


def by_start(ops: Operations, copies: Int64Array) -> list[int]:
    """Copies (n,) in the order in which they ran."""
    found: list[int] = copies[np.lexsort((copies, ops.start_ns[copies]))].tolist()
    return found


def queues(graph: Graph, h2d: list[int], d2h: list[int]) -> dict[tuple[int, int], int]:
    """One queue for each engine, in the order given."""
    order = {}
    for copies in (h2d, d2h):
        last: dict[int, int] = {}
        for copy in copies:
            engine = int(graph.engine[copy])
            if engine in last:
                order[last[engine], copy] = 0
            last[engine] = copy
    return order


def _released(
    graph: Graph,
    matching: Matching,
    h2d: list[int],
    behind: Behind,
    earlier: int,
    moved: set[int],
) -> dict[tuple[int, int], int]:
    """What each moved H2D waits for now: its own D2H, and what the one so many before waited for.

    0 of them stands for its own D2H alone.
    """
    order = {}
    own = dict(zip(matching.h2d.tolist(), matching.d2h.tolist(), strict=True))
    by_engine: defaultdict[int, list[int]] = defaultdict(list)
    for copy in h2d:
        if copy in moved and copy in own:
            order[own[copy], copy] = 0
        by_engine[int(graph.engine[copy])].append(copy)
    for copies in by_engine.values() if earlier else ():
        for before, copy in zip(copies, copies[earlier:], strict=False):
            if copy in moved:
                for source in behind.of(before):
                    order[source, copy] = 0
    return order


def _windowed(d2h: list[int], behind: Behind, window: int) -> dict[tuple[int, int], int]:
    """What fills a D2H may only start when the D2H so many before it is done."""
    order = {}
    for i in range(window, len(d2h)):
        earlier = d2h[i - window]
        filled = max(behind.of(earlier), default=-1)
        for source in behind.of(d2h[i]):
            # Copies that one kernel fills leave together.
            if source > filled:
                order[earlier, source] = 0
    return order
