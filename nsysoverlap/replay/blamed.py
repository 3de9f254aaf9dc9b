"""Scenarios of some operations only, such as those that a finding blames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from .apart import apart, unawaited
from .calls import OWN_COST_NS
from .edges import Edges
from .engine import prepare
from .graph import Graph
from .moves import Matching, move_copies
from .prepared import Model
from .replayed import COPIES, Operations, OpKind
from .scenario import Changed, Scenario, change, without

KINDS = ("drop", "earlier", "not behind", "not awaited", "link", "pinned", "bytes")
"""Drop: nobody moves these bytes. Earlier: each H2D is issued when the one before it is now, and
what fills a D2H waits for the one before. Not behind: copies have streams of their own. Not
awaited: kernels do not wait for these D2H, nor the host for any of these copies, but for what came
before them. Link: copies run at so many GB/s. Pinned: so they do, and their asynchronous calls
return at once. Bytes: they move this share of their bytes.
"""


def changed_by(model: Model, kind: str, blamed: BoolArray, target: float | None = None) -> Changed:
    """What a scenario of one of `KINDS` changes; `blamed` (n,) are operations of the model.

    `target` is the rate of a link in GB/s (10^9 bytes/s), or the share of bytes. Copies that are
    as fast already stay as they are. Raises `ValueError` for a kind that there is not.
    """
    ops = model.operations
    plain = change(model, Scenario())
    if kind == "drop":
        return without(model, plain, blamed)
    if target is not None:
        plain = replace(plain, duration_ns=_shorter(ops, kind, blamed, target))
    if kind in ("link", "bytes"):
        return plain
    rewrites: dict[str, Callable[[Graph, Matching, BoolArray], Graph]] = {
        "earlier": _earlier,
        "not behind": apart,
        "not awaited": _not_awaited,
        "pinned": partial(_pinned, held_ns=model.held_ns),
    }
    if kind not in rewrites:
        raise ValueError(kind)
    calibrated = plain.calibrated
    copies = blamed & np.isin(ops.kind, COPIES) & ~ops.fixed
    matching = Matching.of(ops, plain.kept)
    graph = rewrites[kind](calibrated.plan.graph, matching, copies)
    return replace(plain, calibrated=replace(calibrated, plan=prepare(graph)))


def _shorter(ops: Operations, kind: str, blamed: BoolArray, target: float) -> Int64Array:
    duration = ops.duration_ns * target if kind == "bytes" else ops.n_bytes / target
    shorter = np.minimum(np.rint(duration).astype(np.int64), ops.duration_ns)
    kept = ~blamed | ops.fixed | (ops.n_bytes == 0)
    return np.where(kept, ops.duration_ns, shorter)


def _pinned(graph: Graph, _: Matching, copies: BoolArray, held_ns: Int64Array) -> Graph:
    """The graph in which the calls of some copies (n,) take no longer than other launches."""
    host, n, others = graph.host, len(copies), np.zeros(graph.n_nodes - len(copies), np.int64)
    spare = np.append(np.where(copies, np.maximum(held_ns - OWN_COST_NS, 0), 0), others)
    waits = graph.awaited & (spare[host.before] > 0)
    launch = (spare[host.after] > 0) & (host.before >= n)
    of_call = np.zeros(graph.n_nodes, np.int64)
    of_call[host.before[launch]] = spare[host.after[launch]]
    # A wait for the copy has replaced the length of its call.
    goes_on = (host.after >= n) & ~np.isin(host.after, host.after[waits])
    lag = np.maximum(host.lag_ns - np.where(goes_on, of_call[host.before], 0), 0)
    host = Edges(host.before, host.after, lag).select(~waits)
    return replace(graph, host=host, awaited=graph.awaited[~waits])


def _earlier(graph: Graph, matching: Matching, copies: BoolArray) -> Graph:
    return move_copies(graph, matching, earlier=1, window=1, only=copies)


def _not_awaited(graph: Graph, matching: Matching, copies: BoolArray) -> Graph:
    leaving = copies & (graph.operations.kind == OpKind.D2H)
    return unawaited(apart(graph, matching, leaving, awaited=False), copies)
