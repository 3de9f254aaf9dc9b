"""What the model takes from the trace: start latencies, and how copies take turns.

Latencies are constant: for each kind of operation and of what it last waited for the median over
all steps but the one that is replayed, so that no step is explained by itself.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
from .arbitration import Arbitration, Decision, learn
from .calls import LONG_AGO_NS
from .engine import Plan, Replayed, prepare, replay
from .graph import Graph
from .occupancy import held_up
from .replayed import Operations

PROMPT_NS = 20_000
"""A start later than this behind what it waited for has another reason than latency."""

_LOOK_AHEAD = 16
"""Copies behind a choice that are looked at as those that had waited for it."""


class Bound(IntEnum):
    """What an operation last waited for."""

    STREAM = 0
    EVENT = 1
    HOST = 2
    ENGINE = 3


@dataclass(frozen=True)
class Calibrated:
    """A graph with its durations, latencies and turns; columns of shape (n_operations,).

    The latency behind an operation or a launch is in the edge to what waits for it;
    `engine_latency_ns` is that behind the copy before on the same engine.
    """

    plan: Plan
    duration_ns: Int64Array
    engine_latency_ns: Int64Array
    arbitration: Arbitration

    @property
    def operations(self) -> Operations:
        """What is replayed."""
        return self.plan.graph.operations

    def run(self, duration_ns: Int64Array | None = None) -> Replayed:
        """Replay with other durations, of shape (n_operations,), or with those of the trace."""
        own = self.duration_ns if duration_ns is None else duration_ns
        return replay(self.plan, own.tolist(), self.engine_latency_ns.tolist(), self.arbitration)


def calibrate(graph: Graph) -> Calibrated:
    """Latencies and turns of a graph, from the times that its operations had."""
    ops = graph.operations
    held = held_up(ops, _released(graph)[0])
    released, bound = _released(graph.with_order(held))
    free = _free_since(graph)
    residual = np.maximum(ops.start_ns - np.maximum(released, free), 0)
    bound = np.where(free > released, Bound.ENGINE, bound)
    counted = ~ops.fixed & (released > LONG_AGO_NS)
    latency = {one: _medians(ops, residual, counted & (bound == one)) for one in Bound}
    for one, other in ((Bound.STREAM, Bound.EVENT), (Bound.EVENT, Bound.STREAM)):
        unseen = latency[one] < 0
        latency[one] = np.where(unseen, latency[other], latency[one])
    latency = {one: np.maximum(found, 0) for one, found in latency.items()}
    return Calibrated(
        plan=prepare(_with_latencies(graph, latency).with_order(held)),
        duration_ns=ops.duration_ns,
        engine_latency_ns=latency[Bound.ENGINE],
        arbitration=learn(_decisions(graph, released)),
    )


def _with_latencies(graph: Graph, latency: dict[Bound, Int64Array]) -> Graph:
    """The graph with a latency in each edge to an operation, by what the operation waits for."""
    ops = graph.operations
    n = len(ops)
    stream = np.concatenate((ops.stream, np.full(graph.n_nodes - n, -1, np.int64)))
    by_stream, by_event, by_host = (
        # Calls and joins have no latency of their own.
        np.concatenate((latency[one], np.zeros(graph.n_nodes - n, np.int64)))
        for one in (Bound.STREAM, Bound.EVENT, Bound.HOST)
    )
    order, host = graph.order, graph.host
    same = (order.before < n) & (stream[order.before] == stream[order.after])
    added = np.where(same, by_stream[order.after], by_event[order.after])
    return replace(graph, order=order.later(added), host=host.later(by_host[host.after]))


def _released(graph: Graph) -> tuple[Int64Array, Int64Array]:
    """When each operation could have started for what it waits for on GPU and host, and which."""
    ops = graph.operations
    n = len(ops)
    by = np.full((3, graph.n_nodes), LONG_AGO_NS, np.int64)
    end = np.full(graph.n_nodes, LONG_AGO_NS, np.int64)
    end[:n] = ops.end_ns
    edges = graph.order
    stream = np.full(graph.n_nodes, -1, np.int64)
    stream[:n] = ops.stream
    joins = edges.select(edges.after >= n)
    np.maximum.at(end, joins.after, end[joins.before])
    same = stream[edges.before] == stream[edges.after]
    for which, mask in ((Bound.STREAM, same), (Bound.EVENT, ~same)):
        some = edges.select(mask)
        np.maximum.at(by[which], some.after, end[some.before] + some.lag_ns)
    issued = ~ops.fixed & (ops.call >= 0)
    by[Bound.HOST, :n][issued] = ops.issued_ns[issued]
    by = by[:, :n]
    return by.max(axis=0), by.argmax(axis=0)


def _free_since(graph: Graph) -> Int64Array:
    """For each copy the end of the one before it on its engine."""
    ops = graph.operations
    free = np.full(len(ops), LONG_AGO_NS, np.int64)
    for number in range(graph.n_engines):
        own = np.flatnonzero(graph.engine == number)
        own = own[np.lexsort((own, ops.start_ns[own]))]
        free[own[1:]] = ops.end_ns[own[:-1]]
    return free


def _medians(ops: Operations, residual: Int64Array, counted: BoolArray) -> Int64Array:
    """For each operation the median residual of its kind in the other steps; -1 for none."""
    result = np.full(len(ops), -1, np.int64)
    for kind in np.unique(ops.kind).tolist():
        own = ops.kind == kind
        mine = counted & own
        prompt = mine & (residual < PROMPT_NS)
        source = prompt if prompt.any() else mine
        if not source.any():
            continue
        for step in np.unique(ops.step[own]).tolist():
            others = source & (ops.step != step)
            found = residual[others if others.any() else source]
            result[own & (ops.step == step)] = int(np.median(found))
    return result


def _decisions(graph: Graph, released: Int64Array) -> list[Decision]:
    """Every time that copies of several streams had waited for an engine, and which went.

    Where the next copy of the stream that was just served could go on, nothing was decided.
    """
    ops = graph.operations
    found: list[Decision] = []
    columns = (ops.start_ns, ops.end_ns, ops.issued_ns, ops.stream, released)
    start, end, issued, stream, ready = (column.tolist() for column in columns)
    for number in range(graph.n_engines):
        own = np.flatnonzero(graph.engine == number).tolist()
        own.sort(key=lambda op: (start[op], op))
        if len({stream[op] for op in own}) < 2:
            continue
        for i in range(1, len(own)):
            free, last = end[own[i - 1]], stream[own[i - 1]]
            late: set[int] = set()
            for op in own[i : i + _LOOK_AHEAD]:
                if issued[op] > free:
                    break
                if ready[op] < free:
                    late.add(stream[op])
            took = stream[own[i]]
            if len(late) > 1 and last not in late and took in late:
                found.append(Decision(last, tuple(sorted(late)), took))
    return found
