"""The critical path: what a step's length is made of, walked backwards through a replay."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ..core.records import dataclass
from .engine import Replayed
from .prepared import Model, times
from .replayed import OpKind

HOST = "host"
LATENCY = "start latency"
_NAMES = {
    OpKind.COMPUTE: "compute",
    OpKind.COMM: "communication",
    OpKind.H2D: "H2D copies",
    OpKind.KERNEL_H2D: "H2D copies",
    OpKind.D2H: "D2H copies",
    OpKind.KERNEL_D2H: "D2H copies",
    OpKind.OTHER: "other GPU work",
}


@dataclass(frozen=True)
class Piece:
    """`[start_ns, end_ns)` of the path: an operation (its index), or time of another `kind`."""

    kind: str
    operation: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class CriticalPath:
    """Pieces in order of time, without gaps; `n_steps` steps long."""

    pieces: tuple[Piece, ...]
    n_steps: int

    def by_kind(self) -> dict[str, int]:
        """Time per step by kind, most first; sums to the step but for rounding."""
        total: defaultdict[str, int] = defaultdict(int)
        for piece in self.pieces:
            total[piece.kind] += piece.end_ns - piece.start_ns
        ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
        return {kind: ns // self.n_steps for kind, ns in ordered}


def critical_path(model: Model, run: Replayed) -> CriticalPath:
    """The path of the slowest device's steps in a replay of the model's own graph."""
    outcome = model.measure(run)
    border = model.borders[outcome.devices.index(outcome.slowest)]
    ops = model.operations
    start, end = times(run, len(ops))
    mine = ops.device == border.device
    edges = border.at(start, end, mine)
    walker = _Walker(model, run)
    last = border.operations[-1]
    if last is None:
        # Nothing follows: the step ends with the last of its work, and maybe a tail of the host.
        last = int(np.flatnonzero(mine)[np.argmax(end[mine])])
        walker.add(HOST, None, run.end_ns[last], edges[-1])
        walker.walk(last, run.end_ns[last], edges[0])
    else:
        walker.enter(last, run.start_ns[last], edges[0])
    return CriticalPath(tuple(reversed(walker.pieces)), len(edges) - 1)


class _Walker:
    def __init__(self, model: Model, run: Replayed) -> None:
        graph = model.calibrated.plan.graph
        self._run, self._graph = run, graph
        self._n = len(graph.operations)
        self._kind = graph.operations.kind.tolist()
        self._before: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for edges in (graph.order, graph.host):
            for source, node, lag in edges:
                self._before[node].append((source, lag))
        self._engine_before = {
            node: order[i - 1] for order in run.engine_order for i, node in enumerate(order) if i
        }
        self._members: defaultdict[int, list[int]] = defaultdict(list)
        for node in np.flatnonzero(graph.group >= 0).tolist():
            self._members[int(graph.group[node])].append(node)
        self._engine_latency = model.calibrated.engine_latency_ns.tolist()
        self.pieces: list[Piece] = []

    def add(self, kind: str, operation: int | None, start: int, end: int) -> None:
        if end > start:
            self.pieces.append(Piece(kind, operation, start, end))

    def walk(self, node: int, until: int, begin: int) -> None:
        """From an instant in a node's run back to `begin`."""
        while until > begin:
            until, found = self._through(node, until, begin)
            if found is None:
                self.add(HOST, None, begin, until)
                return
            node = found

    def enter(self, node: int, until: int, begin: int) -> None:
        """The same from before a node began."""
        before, found = self._behind(node, until, begin)
        if found is None:
            self.add(HOST, None, begin, before)
        else:
            self.walk(found, before, begin)

    def _through(self, node: int, until: int, begin: int) -> tuple[int, int | None]:
        """Over a node's own time, and what was before it."""
        if node < self._n:
            group = int(self._graph.group[node])
            if group >= 0:
                node = max(self._members[group], key=lambda one: (self._run.start_ns[one], one))
            start = self._run.start_ns[node]
            if start < until:
                self.add(_NAMES[OpKind(self._kind[node])], node, max(start, begin), until)
                until = max(start, begin)
        return self._behind(node, until, begin)

    def _behind(self, node: int, until: int, begin: int) -> tuple[int, int | None]:
        """Over what lies between a node's start and what it waited for; that instant and node."""
        if until <= begin:
            return begin, None
        end = self._run.end_ns
        found = [(end[source] + lag, source) for source, lag in self._before[node]]
        if node in self._engine_before:
            other = self._engine_before[node]
            found.append((end[other] + self._engine_latency[node], other))
        if not found:
            return until, None
        start = self._run.start_ns[node] if node < self._n else until
        bound = [source for ready, source in found if ready == start] or [max(found)[1]]
        source = min(bound)
        before = max(begin, min(end[source], until))
        self.add(LATENCY if node < self._n else HOST, None, before, until)
        return before, source
