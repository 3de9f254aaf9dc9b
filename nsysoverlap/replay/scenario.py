"""A scenario: what is different, and the replay of a trace with that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import BoolArray, Int64Array
from ..core.errors import UsageError
from ..core.formatting import number_of
from ..core.records import dataclass
from .calibrate import Calibrated
from .engine import prepare
from .moves import Matching, move_copies
from .prepared import Model
from .replayed import TRANSFERS, Operations, OpKind

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Link:
    """How fast one direction of the link is: so many times as now, or GB/s (10^9 bytes/s)."""

    times: float = 1.0
    gb_per_s: float | None = None


@dataclass(frozen=True)
class Scenario:
    """Changes that are made together; by default there are none.

    `drop` tells transfers that do not happen, by the name of their operation. `n_bytes` is the
    share of bytes that still moves. `earlier` copies ahead of now each H2D is issued; `window`
    copies may be on their way out at once, None for as now. `compute` and `memory` are speeds of
    kernels, relative to now. `best` issues each copy as soon as its data allows.
    """

    name: str = "as now"
    h2d: Link = Link()
    d2h: Link = Link()
    drop: Callable[[str], bool] | None = None
    n_bytes: float = 1.0
    earlier: int = 0
    window: int | None = None
    compute: float = 1.0
    memory: float = 1.0
    best: bool = False
    arithmetic: bool = False
    """Whether it is of another GPU: arithmetic that nobody has tested."""
    notes: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether copies are issued at other times."""
        return self.best or self.earlier > 0 or self.window is not None


@dataclass(frozen=True)
class Changed:
    """A calibrated graph as a scenario changes it: run it with `duration_ns`.

    Transfers that are not `kept` have gone.
    """

    calibrated: Calibrated
    duration_ns: Int64Array
    kept: BoolArray
    notes: tuple[str, ...] = ()


def change(
    model: Model, scenario: Scenario, op_names: Callable[[], list[str]] | None = None
) -> Changed:
    """Apply a scenario. `op_names` gives the name of the operation behind each row.

    Raises `UsageError` where nothing matches `drop`.
    """
    ops = model.operations
    duration: FloatArray = ops.duration_ns.astype(np.float64)
    notes: list[str] = list(scenario.notes)
    for direction, link in (("h2d", scenario.h2d), ("d2h", scenario.d2h)):
        moving = np.isin(ops.kind, TRANSFERS[direction])
        speed = _speed(ops, moving, link)
        if speed != 1 and np.any(moving & (ops.table == 0)):
            notes.append("transfers made by kernels are taken to run at the link's rate too")
        duration[moving] *= scenario.n_bytes / speed
    if scenario.compute != 1 or scenario.memory != 1:
        duration = _scale_kernels(model, duration, scenario)
    changed = Changed(
        model.calibrated,
        np.rint(duration).astype(np.int64),
        np.ones(len(ops), np.bool_),
        tuple(dict.fromkeys(notes)),
    )
    changed.duration_ns[ops.fixed] = ops.duration_ns[ops.fixed]
    if scenario.drop is not None:
        changed = without(model, changed, _named(ops, scenario, op_names() if op_names else []))
    if scenario.moves:
        graph = move_copies(
            changed.calibrated.plan.graph,
            Matching.of(ops, changed.kept),
            earlier=scenario.earlier,
            window=scenario.window,
            best=scenario.best,
        )
        changed = replace(changed, calibrated=replace(changed.calibrated, plan=prepare(graph)))
    return changed


def _speed(ops: Operations, moving: BoolArray, link: Link) -> float:
    """How many times as fast as now a direction is."""
    if link.gb_per_s is None:
        return link.times
    rated = moving & (ops.n_bytes > 0) & (ops.end_ns > ops.start_ns)
    if not rated.any():
        # Nothing moves that way, so nothing gets faster.
        return 1.0
    now = float(ops.n_bytes[rated].sum()) / float(ops.duration_ns[rated].sum())
    return link.gb_per_s / now


def _scale_kernels(model: Model, duration: FloatArray, scenario: Scenario) -> FloatArray:
    ops = model.operations
    matrix = model.is_matrix_kernel
    compute = ops.kind == OpKind.COMPUTE
    duration = duration.copy()
    duration[compute & matrix] /= scenario.compute
    duration[compute & ~matrix] /= scenario.memory
    duration[(ops.kind == OpKind.OTHER)] /= scenario.memory
    return duration


def _named(ops: Operations, scenario: Scenario, names: list[str]) -> BoolArray:
    """The transfers that a scenario drops."""
    assert scenario.drop is not None
    moving = np.isin(ops.kind, [kind for kinds in TRANSFERS.values() for kind in kinds])
    gone = np.zeros(len(ops), np.bool_)
    rows = np.flatnonzero(moving)
    gone[rows] = [scenario.drop(names[row]) for row in rows.tolist()]
    if not gone.any():
        known = sorted({names[row].split(" ")[0] for row in rows.tolist()})
        raise UsageError(
            f"no transfer is of an operation that matches ({scenario.name}).",
            f"Transfers here are of {', '.join(known[:3])}; a . matches all."
            if known
            else "There are no transfers in the replayed steps.",
        )
    return gone


def without(model: Model, changed: Changed, gone: BoolArray) -> Changed:
    """The operations of `gone` (n,) take no time and no engine, and nobody waits for them.

    Kernels that only lay a tensor out for one of these copies go with it.
    """
    packing = (model.packs >= 0) & gone[model.packs]
    notes = changed.notes
    if packing.any():
        n = round(np.count_nonzero(packing) / model.segment.n_steps)
        kernels = number_of(n, "kernel")
        notes += (f"with the copies go {kernels} a step that only laid tensors out for them",)
    calibrated = changed.calibrated
    graph, free = calibrated.plan.graph, (gone | packing) & ~calibrated.operations.fixed
    graph = graph.unawaited(free)
    graph = replace(graph, engine=np.where(free, -1, graph.engine)).prompt(free)
    return replace(
        changed,
        calibrated=replace(calibrated, plan=prepare(graph)),
        duration_ns=np.where(free, 0, changed.duration_ns),
        kept=changed.kept & ~gone,
        notes=notes,
    )
