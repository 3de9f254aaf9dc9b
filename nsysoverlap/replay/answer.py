"""What a what-if question is answered with: plain numbers, as they stand in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core.arrays import BoolArray
from ..core.json_model import Count, Document, Later, Share
from .bound import OrderBound
from .outcome import DIRECTIONS, Outcome
from .path import CriticalPath
from .predict import Prediction
from .prepared import Model
from .replayed import TRANSFERS
from .scenario import change
from .windows import CopyWindows, copy_windows

N_COPIES = 5


@dataclass(frozen=True)
class DirectionAnswer:
    """One direction in the replayed steps: share behind compute, exposed time a step.

    Exposed time is the mean over devices.
    """

    hidden_share: Share | None
    exposed_ns: Count


@dataclass(frozen=True)
class ExposedOp:
    """Exposed time a step of the copies of one operation in one direction."""

    op: str
    direction: str
    exposed_ns: Count


@dataclass(frozen=True)
class ScenarioAnswer:
    """One scenario: the step with compute at its traced speed, and its range.

    `step_ns` is that by the clock law where one was calibrated. `tested` says that scenarios of
    this kind were held against a measurement, `arithmetic` that it is of another GPU, which
    nobody tested. `windows` are those of the copies: how long each could take unnoticed.
    """

    name: str
    step_ns: Count
    step_low_ns: Count
    step_high_ns: Count
    h2d: DirectionAnswer
    d2h: DirectionAnswer
    both: DirectionAnswer
    relief_bytes: int
    offloaded_bytes: int
    exposed_ops: tuple[ExposedOp, ...]
    windows: CopyWindows
    tested: bool
    arithmetic: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class BoundAnswer:
    """No order of the copies makes a step shorter, with so many copies beside compute at once.

    `window` None stands for no limit; `window_words` says it in words. `kept_bytes` of the
    offloaded bytes then stay on the device.
    """

    window: int | None
    window_words: str
    step_ns: Count
    exposed_h2d_ns: Count
    exposed_d2h_ns: Count
    kept_bytes: int


@dataclass(frozen=True)
class FindingAnswer:
    """What a step wins without the cause of a finding: a range.

    `scenario` says what was replayed, and is null where nothing was: then `reason` says why.
    `tested` says that scenarios of this kind were held against a measurement.
    """

    code: str
    title: str
    cost_ns: Count
    scenario: str | None
    gain_low_ns: int | None
    gain_high_ns: int | None
    tested: bool
    reason: str | None


@dataclass(frozen=True)
class PathPart:
    """Time a step that one kind of work adds to the critical path."""

    kind: str
    ns: Count


@dataclass(frozen=True)
class PathOp:
    """Time a step that one kernel or copy adds to the critical path."""

    name: str
    kind: str
    ns: Count


@dataclass(frozen=True)
class SweepPoint:
    """The step and what is exposed of it with so many times the link rate."""

    times: float
    step_ns: Count
    step_low_ns: Count
    step_high_ns: Count
    exposed_ns: Count


@dataclass(frozen=True)
class WhatIf(Document):
    """The replay of one trace and what it answers.

    `replay_error` is signed, a share of the step; `withheld` says why nothing is predicted, and
    is null where it is. `bound_withheld` says why there is no bound by order. `enough_link` is
    the least multiple of the link rate in the sweep with which at most 2 % of the step is exposed.
    `findings` are there where they were asked for, or nothing else was.
    """

    json_format: ClassVar = ("nsysoverlap.whatif", 1)
    path: str
    basis: str
    n_steps: Count
    step_ns: Count | None
    replay_step_ns: Count | None
    replay_error: float | None
    worst_step_error: float | None
    withheld: str | None
    clock: str
    now: ScenarioAnswer | None
    scenarios: tuple[ScenarioAnswer, ...]
    bounds: tuple[BoundAnswer, ...]
    bound_withheld: str | None
    critical_path: tuple[PathPart, ...]
    critical_ops: tuple[PathOp, ...]
    sweep: tuple[SweepPoint, ...]
    enough_link: float | None
    notes: tuple[str, ...]
    findings: Later[tuple[FindingAnswer, ...]] = ()


ENOUGH = 0.02
"""Share of the step that may stay exposed where the link is called enough."""


def scenario_answer(
    model: Model, prediction: Prediction, op_names: Sequence[str], tested: bool
) -> ScenarioAnswer:
    """One prediction as plain numbers."""
    scenario, outcome = prediction.scenario, prediction.outcome
    changed = change(model, scenario, lambda: list(op_names))
    run = changed.calibrated.run(changed.duration_ns)
    relief = outcome.slowest.relief
    return ScenarioAnswer(
        name=scenario.name,
        step_ns=outcome.step_ns,
        step_low_ns=prediction.step_low_ns,
        step_high_ns=prediction.step_high_ns,
        **{direction: direction_answer(outcome, direction) for direction in DIRECTIONS},
        relief_bytes=relief.relief_bytes,
        offloaded_bytes=relief.offloaded_bytes,
        exposed_ops=_exposed_ops(model, run.start_ns, run.end_ns, changed.kept, op_names),
        windows=copy_windows(model, changed, run),
        tested=tested,
        arithmetic=scenario.arithmetic,
        notes=prediction.notes,
    )


def direction_answer(outcome: Outcome, direction: str) -> DirectionAnswer:
    """The split of one direction."""
    return DirectionAnswer(outcome.overlap(direction).hidden_share, outcome.exposed_ns(direction))


def bound_answer(bound: OrderBound, words: str) -> BoundAnswer:
    """One bound as plain numbers."""
    return BoundAnswer(
        bound.window,
        words,
        bound.step_ns,
        bound.outcome.exposed_ns("h2d"),
        bound.outcome.exposed_ns("d2h"),
        bound.bytes_kept,
    )


def path_answer(path: CriticalPath) -> tuple[PathPart, ...]:
    """The critical path by kind."""
    return tuple(PathPart(kind, ns) for kind, ns in path.by_kind().items())


def path_ops(path: CriticalPath, names: Sequence[str], most: int = 8) -> tuple[PathOp, ...]:
    """The operations that add most to the path, by name."""
    total: dict[tuple[str, str], int] = {}
    for piece in path.pieces:
        if piece.operation is not None:
            key = names[piece.operation], piece.kind
            total[key] = total.get(key, 0) + piece.end_ns - piece.start_ns
    ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:most]
    return tuple(PathOp(name, kind, ns // path.n_steps) for (name, kind), ns in ordered)


def _exposed_ops(
    model: Model,
    start_ns: list[int],
    end_ns: list[int],
    kept: BoolArray,
    op_names: Sequence[str],
) -> tuple[ExposedOp, ...]:
    ops = model.operations
    n = len(ops)
    start, end = np.array(start_ns[:n], np.int64), np.array(end_ns[:n], np.int64)
    total: dict[tuple[str, str], int] = {}
    devices = 0
    for border in model.borders:
        mine = ops.device == border.device
        edges = border.at(start, end, mine)
        devices += len(edges) - 1
        for direction, kinds in TRANSFERS.items():
            rows = np.flatnonzero(mine & kept & np.isin(ops.kind, kinds))
            exposed = model.idle(border.device, start, end, edges).covered(start[rows], end[rows])
            for row, ns in zip(rows.tolist(), exposed.tolist(), strict=True):
                key = op_names[row], direction
                total[key] = total.get(key, 0) + ns
    ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        ExposedOp(name, direction, ns // devices)
        for (name, direction), ns in ordered[:N_COPIES]
        if ns // devices
    )
