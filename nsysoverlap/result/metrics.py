"""Metrics by name and scope, evaluated on a report: what a gate may ask for.

    h2d.hidden@worst-rank
    --- ------ ----------
    direction, quantity, scope

`METRICS` holds every name with its unit and meaning; `docs/gate.md` lists them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from ..core.errors import UsageError
from ..core.limits import Unit
from .model import DIRECTIONS, UNIFIED_DIRECTIONS, Overlap, Relief, TimeBudget


class Scope(StrEnum):
    """Over what a metric is taken."""

    TOTAL = "total"
    """All devices of all traces together."""
    WORST_DEVICE = "worst-device"
    WORST_RANK = "worst-rank"
    """A rank is one trace."""
    WORST_STEP = "worst-step"
    """A step is one step on one device."""
    STEP_MEDIAN = "step-median"
    """The median over the steps of a device; of several devices the worst."""

    @property
    def of_steps(self) -> bool:
        """Whether it asks for steps."""
        return self in (Scope.WORST_STEP, Scope.STEP_MEDIAN)


@dataclass(frozen=True)
class Part:
    """What a metric is taken of: the whole report, or one device, rank or step of it.

    `name` is for messages. `overlaps` by direction; what a part does not hold is left out.
    `unclear` names the directions whose split opaque CUDA graphs leave open, `absent` those of
    which the part's device holds no transfer: with nothing to expose, 0 is no achievement.
    """

    name: str
    overlaps: Mapping[str, Overlap]
    budget: TimeBudget
    relief: Relief | None = None
    step_ns: int | None = None
    unclear: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()


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


def _overlap(part: Part, direction: str) -> Overlap:
    if direction not in part.overlaps:
        raise NoValueError(f"{part.name}: {_WORDS[direction]} are not counted per step")
    return part.overlaps[direction]


def _time(direction: str, count: Callable[[Overlap], int | None]) -> Take:
    """A time in ns of a direction that the part's device has."""

    def take(part: Part) -> Fraction:
        overlap = _overlap(part, direction)
        if direction in part.absent:
            raise NoValueError(f"{part.name} has no {_WORDS[direction]}", _CHECK_OFFLOAD)
        ns = count(overlap)
        if ns is None:
            raise NoValueError(f"{part.name}: the trace cannot tell which time was blocking")
        return Fraction(ns)

    return take


def _split(direction: str, count: Callable[[Overlap], int | None]) -> Take:
    """A part of the wall time in ns, which opaque graphs can make unknowable."""
    time = _time(direction, count)

    def take(part: Part) -> Fraction:
        if direction in part.unclear:
            raise NoValueError(
                f"{part.name}: CUDA graphs recorded as a whole ran beside {_WORDS[direction]}",
                _RECAPTURE_NODES,
            )
        return time(part)

    return take


def _share(direction: str, count: Callable[[Overlap], int]) -> Take:
    ns = _split(direction, count)

    def take(part: Part) -> Fraction:
        overlap = _overlap(part, direction)
        if overlap.n and not overlap.wall_ns:
            raise NoValueError(f"{part.name}: {_WORDS[direction]} took no time at all")
        if not overlap.wall_ns:
            raise NoValueError(f"{part.name} has no {_WORDS[direction]}", _CHECK_OFFLOAD)
        return ns(part) / overlap.wall_ns

    return take


def _count(direction: str, count: Callable[[Overlap], int]) -> Take:
    return lambda part: Fraction(count(_overlap(part, direction)))


def _rate(direction: str) -> Take:
    def take(part: Part) -> Fraction:
        overlap = _overlap(part, direction)
        if not (overlap.bytes and overlap.copy_ns):
            raise NoValueError(f"{part.name} has no copies among its {_WORDS[direction]}")
        return Fraction(overlap.bytes, overlap.copy_ns)

    return take


def _direction_metrics(direction: str) -> list[Metric]:
    what = _WORDS[direction]

    def name(quantity: str) -> str:
        return f"{direction}.{quantity}"

    share, time = Unit.SHARE, Unit.TIME
    return [
        Metric(
            name("hidden"), share, f"share of the time of {what} that ran behind compute",
            _share(direction, lambda o: o.hidden_by_compute_ns), True,
        ),
        Metric(
            name("covered"), share, f"share of {what} behind compute or communication",
            _share(direction, lambda o: o.hidden_by_compute_ns + o.hidden_by_comm_ns), True,
        ),
        Metric(
            name("exposed"), share, f"share of {what} behind neither",
            _share(direction, lambda o: o.exposed_ns), False,
        ),
        Metric(
            name("wall_ms"), time, f"time during which {what} ran",
            _time(direction, lambda o: o.wall_ns), False,
        ),
        Metric(
            name("hidden_ms"), time, f"time of {what} behind compute",
            _split(direction, lambda o: o.hidden_by_compute_ns), True,
        ),
        Metric(
            name("exposed_ms"), time, f"time of {what} behind neither compute nor communication",
            _split(direction, lambda o: o.exposed_ns), False,
        ),
        Metric(
            name("blocking_ms"), time, f"exposed time of {what} that compute waited for",
            _split(direction, lambda o: o.blocking_ns), False,
        ),
        Metric(
            name("bytes"), Unit.BYTES, f"bytes of {what}; those of transfer kernels estimated",
            _count(direction, lambda o: o.bytes + o.bytes_estimated), None,
        ),
        Metric(name("n"), Unit.COUNT, f"number of {what}", _count(direction, lambda o: o.n)),
        Metric(name("gb_per_s"), Unit.RATE, f"rate of {what}", _rate(direction), True),
    ]  # fmt: skip


def _relief(take: Callable[[Relief], int]) -> Take:
    def value(part: Part) -> Fraction:
        if part.relief is None:
            raise NoValueError(f"{part.name}: relief was not measured")
        return Fraction(take(part.relief))

    return value


def _relief_share(part: Part) -> Fraction:
    offloaded = _relief(lambda r: r.offloaded_bytes)(part)
    if not offloaded:
        raise NoValueError(f"{part.name} offloaded nothing that came back")
    return _relief(lambda r: r.relief_bytes)(part) / offloaded


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


_OTHERS = [
    Metric(
        "relief", Unit.SHARE, "share of the offloaded bytes that was ever away at once",
        _relief_share, True,
    ),
    Metric(
        "relief_bytes", Unit.BYTES, "device memory that offloading freed at one time",
        _relief(lambda r: r.relief_bytes), True,
    ),
    Metric(
        "offloaded_bytes", Unit.BYTES, "bytes that went to the host and came back",
        _relief(lambda r: r.offloaded_bytes),
    ),
    Metric("step_ms", Unit.TIME, "time of a step", _step_time, False, Scope.STEP_MEDIAN),
    *(
        Metric(
            f"budget.{role}", Unit.SHARE, f"share of the window whose time budget is {role}",
            _budget(role), {"compute": True}.get(role, None if role in ("comm", "other") else False)
        )
        for role in ("compute", "comm", "transfer", "other", "opaque", "idle")
    ),
]  # fmt: skip

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        *(m for d in (*DIRECTIONS, *UNIFIED_DIRECTIONS) for m in _direction_metrics(d)),
        *_OTHERS,
    )
}


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
            f"{what}: step_ms has no scope {scope.value}.", "Use step-median or worst-step."
        )
    return metric, scope


def _nearest(wrong: str, known: list[str], noun: str) -> str:
    near = difflib.get_close_matches(wrong.lower(), known, n=1, cutoff=0.4)
    if near:
        return f"Did you mean {near[0]!r}?"
    shown = ", ".join(known) if len(known) < 10 else "h2d.hidden, d2h.exposed_ms, step_ms"
    return f"The {noun} are listed in docs/gate.md, such as {shown}."
