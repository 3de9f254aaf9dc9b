"""How much time each copy has before something waits for it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ..core.json_model import Count
from ..core.records import dataclass
from .engine import Replayed
from .prepared import Model
from .replayed import COPIES
from .scenario import Changed


@dataclass(frozen=True)
class CopyWindows:
    """The copies of the replayed steps that something waits for.

    A copy's window runs from when it could start to when what waits for it could. `n_short` have
    one shorter than the copy, `n_none` one of no length; `median_ns` is the window in the middle.
    """

    n: Count
    n_short: Count
    n_none: Count
    median_ns: Count | None


def copy_windows(model: Model, changed: Changed, run: Replayed) -> CopyWindows:
    """The windows in a replay."""
    graph, ops = changed.calibrated.plan.graph, model.operations
    n = len(ops)
    copies = np.isin(ops.kind, COPIES) & changed.kept & ~ops.fixed & (ops.step >= 0)
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    mine = set(np.flatnonzero(copies).tolist())
    is_copy = np.isin(ops.kind, COPIES).tolist()
    for before, node, _ in graph.order:
        if before in mine and node < n and not is_copy[node]:
            waiting[before].append(node)
    wanted = mine | {node for nodes in waiting.values() for node in nodes}
    ready: dict[int, dict[int, int]] = {node: {} for node in wanted}
    for edges in (graph.order, graph.host):
        for before, node, lag in edges:
            if node in ready:
                ready[node][before] = run.end_ns[before] + lag
    lengths = []
    for copy, nodes in waiting.items():
        begins = max(ready[copy].values(), default=run.start_ns[copy])
        others = [
            max((at for before, at in ready[node].items() if before != copy), default=begins)
            for node in nodes
        ]
        length = run.end_ns[copy] - run.start_ns[copy]
        lengths.append((max(0, min(others) - begins), length))
    windows = [window for window, _ in lengths]
    return CopyWindows(
        n=len(lengths),
        n_short=sum(window < length for window, length in lengths),
        n_none=sum(window == 0 for window in windows),
        median_ns=int(np.median(windows)) if windows else None,
    )
