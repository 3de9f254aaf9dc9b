"""Copies on streams of their own, and copies that neither kernels nor the host wait for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.arrays import BoolArray
from .edges import Edges
from .graph import Graph
from .moves import Matching, by_start, queues, relations
from .replayed import COPIES, OpKind


def apart(graph: Graph, matching: Matching, copies: BoolArray, *, awaited: bool = True) -> Graph:
    """The graph with some copies (n,) on streams of their own, one for each direction.

    A D2H keeps what it waits for; an H2D waits for its launch, its own D2H and events only. What
    stood behind a copy on its stream now stands behind what came before the copy, but a kernel
    right behind an H2D still waits for it, for it may need it. Without `awaited` no kernel waits
    for a D2H by an event either.
    """
    ops, n = graph.operations, len(graph.operations)
    moved = set(np.flatnonzero(copies).tolist())
    behind, _, latency = relations(graph, moved)
    stream, kind = ops.stream.tolist(), ops.kind.tolist()
    order: dict[tuple[int, int], int] = {}
    for source, node, lag in graph.order:
        same = max(source, node) < n and stream[source] == stream[node]
        if node in moved:
            keeps = not same or (source not in moved and kind[node] == OpKind.D2H)
        elif source not in moved:
            keeps = True
        else:
            for earlier in behind.of(source):
                order.setdefault((earlier, node), latency[node])
            if same:
                keeps = kind[source] == OpKind.H2D and kind[node] == OpKind.COMPUTE
            else:
                keeps = awaited or (node < n and kind[node] in COPIES)
        if keeps:
            order[source, node] = lag
    leaving, coming = (
        [copy for copy in by_start(ops, np.flatnonzero(copies)) if kind[copy] == one]
        for one in (OpKind.D2H, OpKind.H2D)
    )
    for copy in leaving:
        for earlier in behind.of(copy):
            order.setdefault((earlier, copy), latency[copy])
    order |= queues(graph, coming, leaving)
    for left, back in zip(matching.d2h.tolist(), matching.h2d.tolist(), strict=True):
        if copies[left] or copies[back]:
            order.setdefault((left, back), 0)
    return replace(graph, order=Edges.of((a, b, lag) for (a, b), lag in order.items()))


def unawaited(graph: Graph, copies: BoolArray) -> Graph:
    """The graph whose host waits for what came before some copies (n,), and not for them."""
    behind, _, _ = relations(graph, set(np.flatnonzero(copies).tolist()))
    host, n_others = graph.host, graph.n_nodes - len(copies)
    waits = graph.awaited & np.append(copies, np.zeros(n_others, np.bool_))[host.before]
    instead = Edges.of(
        (earlier, call, lag)
        for copy, call, lag in host.select(waits)
        for earlier in behind.of(copy)
    )
    awaited = np.concatenate((np.ones(len(instead), np.bool_), graph.awaited[~waits]))
    return replace(graph, host=Edges.joined((instead, host.select(~waits))), awaited=awaited)
