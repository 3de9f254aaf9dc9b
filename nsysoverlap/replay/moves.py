"""Copies issued at other times: as soon as their data allows, or so many copies earlier.

The copies leave their streams for one queue a direction, in the order in which they ran.
A D2H keeps what it waits for, and nothing waits for it any more but through a memory window; an
H2D is released by the end of its own D2H, and the kernels that wait for it still do.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
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
    graph: Graph, matching: Matching, *, earlier: int, window: int | None, best: bool
) -> Graph:
    """The graph with its copies issued anew.

    `best`: every matched copy as soon as its data allows. `earlier`: each H2D when the one so many
    before it is issued now. `window`: what fills a D2H waits for the one so many before it.
    """
    ops = graph.operations
    moved_h2d = _by_start(ops, matching.h2d) if best or earlier else []
    moved_d2h = _by_start(ops, matching.d2h) if best or window is not None else []
    moved = set(moved_h2d) | set(moved_d2h)
    before: defaultdict[int, list[int]] = defaultdict(list)
    after: defaultdict[int, list[int]] = defaultdict(list)
    for source, node, _ in graph.order:
        before[node].append(source)
        after[source].append(node)
    behind = _Behind(ops, before, moved)
    latency: defaultdict[int, int] = defaultdict(int)
    for _, node, lag in graph.order:
        latency[node] = max(latency[node], lag)
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
    issue = {node: source for source, node, _ in graph.host if node in moved}
    order |= _queues(graph, moved_h2d, moved_d2h)
    order |= _released(graph, matching, moved_h2d, behind, after, earlier, best)
    if window is not None:
        order |= _windowed(moved_d2h, behind, window)
        # What is not moved either comes back no sooner than it has left.
        for left, back in zip(matching.d2h.tolist(), matching.h2d.tolist(), strict=True):
            order.setdefault((left, back), 0)
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


class _Behind:
    """What a moved copy waits for, looking through other moved copies.

    Of each stream only the last operation: the others come before it anyway.
    """

    def __init__(self, ops: Operations, before: dict[int, list[int]], moved: set[int]) -> None:
        self._stream, self._n = ops.stream.tolist(), len(ops)
        self._known: dict[int, tuple[int, ...]] = {}
        # A copy waits for what was issued before it, so that is known by then.
        for copy in sorted(moved):
            last: dict[int, int] = {}
            for node in before[copy]:
                for source in self._known.get(node, ()) if node in moved else (node,):
                    key = self._stream[source] if source < self._n else -source
                    last[key] = max(source, last.get(key, source))
            self._known[copy] = tuple(sorted(last.values()))

    def of(self, copy: int) -> tuple[int, ...]:
        return self._known[copy]


def _by_start(ops: Operations, copies: Int64Array) -> list[int]:
    found: list[int] = copies[np.lexsort((copies, ops.start_ns[copies]))].tolist()
    return found


def _queues(graph: Graph, h2d: list[int], d2h: list[int]) -> dict[tuple[int, int], int]:
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
    behind: _Behind,
    after: dict[int, list[int]],
    earlier: int,
    best: bool,
) -> dict[tuple[int, int], int]:
    """What each H2D waits for now: its own D2H, and what the H2D so many before it waited for."""
    order = {}
    own = dict(zip(matching.h2d.tolist(), matching.d2h.tolist(), strict=True))
    by_engine: defaultdict[int, list[int]] = defaultdict(list)
    for copy in h2d:
        order[own[copy], copy] = 0
        by_engine[int(graph.engine[copy])].append(copy)
    if best:
        return order
    for copies in by_engine.values():
        for i, copy in enumerate(copies):
            if i >= earlier:
                for source in behind.of(copies[i - earlier]):
                    order[source, copy] = 0
    return order


def _windowed(d2h: list[int], behind: _Behind, window: int) -> dict[tuple[int, int], int]:
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
