"""Metrics by name and scope: what a gate may ask for, and what any number is called.

    h2d.hidden@worst-rank
    --- ------ ----------
    direction, quantity, scope

`METRICS` holds every name with its unit and meaning; the tables of `docs/gate.md` are made of it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from ..core.errors import UsageError
from ..core.limits import Unit
from .columns import Column
from .model import DIRECTIONS, UNIFIED_DIRECTIONS, Memory, Overlap, Relief, TimeBudget
from .numbers import BUDGET_ROLES
from .quantities import MEMORY, OVERLAP, RELIEF


class Scope(StrEnum):
    """Over what a metric is taken."""

    TOTAL = "total"
    WORST_DEVICE = "worst-device"
    WORST_RANK = "worst-rank"
    WORST_STEP = "worst-step"
    STEP_MEDIAN = "step-median"
    STEP_MEAN = "step-mean"

    @property
    def of_steps(self) -> bool:
        """Whether it asks for steps."""
        return self in (Scope.WORST_STEP, Scope.STEP_MEDIAN, Scope.STEP_MEAN)


SCOPES: Mapping[Scope, str] = {
    Scope.TOTAL: "all devices of all traces, summed; shares of the sums",
    Scope.WORST_DEVICE: "the device that is furthest from meeting the limit",
    Scope.WORST_RANK: "likewise; a rank is one trace",
    Scope.WORST_STEP: "likewise; a step is one step on one device",
    Scope.STEP_MEDIAN: "the median over the steps of a device; of several devices the worst",
    Scope.STEP_MEAN: "the mean over the steps of a device; of several devices the worst",
}
"""What each scope is over."""
STEP_MEDIAN, STEP_MEAN = "median step", "mean step"
"""What stands beside a number a step, wherever one is shown."""


@dataclass(frozen=True)
class Part:
    """What a metric is taken of: the whole report, or one device, rank or step of it.

    `name` is for messages. `overlaps` by direction; what a part does not hold is left out.
    `unclear` names the directions whose split opaque CUDA graphs leave open, `absent` those of
    which the part's device holds no transfer: with nothing to expose, 0 is no achievement.
    `no_memory` says why a manifest that lies beside the trace gives no memory.
    """

    name: str
    overlaps: Mapping[str, Overlap]
    budget: TimeBudget
    relief: Relief | None = None
    memory: Memory | None = None
    step_ns: int | None = None
    unclear: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    no_memory: str = ""


_CHECK_OFFLOAD = "Check that offloading was on when it was captured."
_RECAPTURE_NODES = "Capture again with `nsys profile --cuda-graph-trace=node`."


class NoValueError(Exception):
    """A part has no value; the message (a phrase) says why, the hint (a sentence) what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


Take = Callable[[Part], Fraction]


@dataclass(frozen=True)
class Metric:
    """One documented quantity. `more_is_better` is None where a number is neither.

    `take` gives its value for a part and raises `NoValueError` where there is none.
    """

    name: str
    unit: Unit
    meaning: str
    take: Take
    more_is_better: bool | None = None
    default_scope: Scope = Scope.TOTAL


_WORDS = {
    "h2d": "H2D transfers",
    "d2h": "D2H transfers",
    "both": "host transfers",
    "unified_h2d": "unified-memory migrations to the device",
    "unified_d2h": "unified-memory migrations to the host",
}


def _of_direction(direction: str, column: Column[Overlap]) -> Take:
    """Of the transfers of a direction: times and shares only where there are any to speak of."""
    what = _WORDS[direction]
    timed = column.unit in (Unit.SHARE, Unit.TIME)

    def take(part: Part) -> Fraction:
        if direction not in part.overlaps:
            raise NoValueError(f"{part.name}: {what} are not counted per step")
        overlap = part.overlaps[direction]
        if column.unit is Unit.SHARE and overlap.n and not overlap.wall_ns:
            raise NoValueError(f"{part.name}: {what} took no time at all")
        nothing = timed and direction in part.absent
        if nothing or (column.unit is Unit.SHARE and not overlap.wall_ns):
            raise NoValueError(f"{part.name} has no {what}", _CHECK_OFFLOAD)
        # Opaque graphs leave open how the time splits, but not how long it was.
        if timed and column.name != "wall_ns" and direction in part.unclear:
            raise NoValueError(
                f"{part.name}: CUDA graphs recorded as a whole ran beside {what}", _RECAPTURE_NODES
            )
        value = column.take(overlap)
        if value is None:
            raise NoValueError(f"{part.name}{column.absent.format(what=what)}")
        return Fraction(value)

    return take


def _of_relief(column: Column[Relief]) -> Take:
    def take(part: Part) -> Fraction:
        if part.relief is None:
            raise NoValueError(f"{part.name}: relief was not measured")
        value = column.take(part.relief)
        if value is None:
            raise NoValueError(f"{part.name}{column.absent}")
        return Fraction(value)

    return take


_SAY_MEMORY = "docs/record.md shows how a program leaves its peak beside the trace."


def _of_memory(column: Column[Memory]) -> Take:
    def take(part: Part) -> Fraction:
        if part.memory is None:
            why = part.no_memory or "no manifest lies beside the trace"
            raise NoValueError(f"{part.name}: {why}", _SAY_MEMORY)
        value = column.take(part.memory)
        if value is None:
            key = column.name.replace("_bytes", "_gib")
            raise NoValueError(f"{part.name}: the manifest has no memory.{key}", _SAY_MEMORY)
        return Fraction(value)

    return take


def _budget(role: str) -> Take:
    def take(part: Part) -> Fraction:
        if (part.budget.opaque_ns or part.unclear) and role != "opaque":
            raise NoValueError(
                f"{part.name}: CUDA graphs recorded as a whole leave the budget open",
                _RECAPTURE_NODES,
            )
        if not part.budget.total_ns:
            raise NoValueError(f"{part.name} has no GPU time")
        return Fraction(getattr(part.budget, f"{role}_ns"), part.budget.total_ns)

    return take


def _step_time(part: Part) -> Fraction:
    if part.step_ns is None:
        raise NoValueError(f"{part.name} is not a step")
    return Fraction(part.step_ns)


_GOOD_ROLES = {"compute": True, "comm": None, "other": None}
"""Of the other roles the less the better."""

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        *(
            Metric(
                f"{direction}.{column.metric}", column.unit, column.meaning,
                _of_direction(direction, column), column.more_is_better,
            )
            for direction in (*DIRECTIONS, *UNIFIED_DIRECTIONS)
            for column in OVERLAP
            if column.metric
        ),
        *(
            Metric(c.metric, c.unit, c.meaning, _of_relief(c), c.more_is_better)
            for c in RELIEF
            if c.metric
        ),
        *(
            Metric(
                c.metric, c.unit, c.meaning, _of_memory(c), c.more_is_better, Scope.WORST_DEVICE
            )
            for c in MEMORY
        ),
        Metric(
            "step_ms", Unit.TIME, "time of a step; its scope is `step-median` unless another is "
            "given", _step_time, False, Scope.STEP_MEDIAN,
        ),
        *(
            Metric(
                f"budget.{role}", Unit.SHARE, "part of the time budget", _budget(role),
                _GOOD_ROLES.get(role, False),
            )
            for role in BUDGET_ROLES
        ),
    )
}  # fmt: skip


_OF_MEMORY = frozenset(column.name for column in MEMORY)


def parse_metric(text: str, what: str) -> tuple[Metric, Scope]:
    """`NAME` or `NAME@SCOPE`. Raises `UsageError`, with the nearest name, for an unknown one."""
    name, at, scope_text = (part.strip() for part in text.partition("@"))
    metric = METRICS.get(name)
    if metric is None:
        raise UsageError(
            f"{what}: there is no metric {name!r}.", _nearest(name, list(METRICS), "metrics")
        )
    scopes = [scope.value for scope in Scope]
    if at and scope_text not in scopes:
        raise UsageError(
            f"{what}: there is no scope {scope_text!r}.", _nearest(scope_text, scopes, "scopes")
        )
    scope = Scope(scope_text) if at else metric.default_scope
    if metric.name == "step_ms" and not scope.of_steps:
        raise UsageError(
            f"{what}: step_ms has no scope {scope.value}.",
            "Use step-median, step-mean or worst-step.",
        )
    if metric.name in _OF_MEMORY and scope not in (Scope.WORST_DEVICE, Scope.WORST_RANK):
        raise UsageError(
            f"{what}: {metric.name} has no scope {scope.value}.", "Use worst-device or worst-rank."
        )
    if scope is Scope.STEP_MEAN and metric.unit in (Unit.SHARE, Unit.RATE):
        raise UsageError(
            f"{what}: the mean of a {metric.unit} over steps says nothing.",
            f"Use {metric.name}@total, the quotient of the sums.",
        )
    return metric, scope


def _nearest(wrong: str, known: list[str], noun: str) -> str:
    near = difflib.get_close_matches(wrong.lower(), known, n=1, cutoff=0.4)
    if near:
        return f"Did you mean {near[0]!r}?"
    shown = ", ".join(known) if len(known) < 10 else "h2d.hidden, d2h.exposed_ms, step_ms"
    return f"The {noun} are listed in docs/gate.md, such as {shown}."
