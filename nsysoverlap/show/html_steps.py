"""Geometry of the chart of steps: a stacked bar each, and the hidden shares above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ..core.formatting import clean_text, format_ns
from ..result.model import DeviceReport, StepReport, format_share
from ..result.numbers import Overlap, TimeBudget
from .html_charts import BUDGET_TITLES, BarPart, _budget_times

WIDTH, HEIGHT = 960.0, 320.0
LEFT, RIGHT = 62.0, 950.0
SHARE_TOP, SHARE_BOTTOM = 12.0, 82.0
TOP, BOTTOM = 104.0, 290.0
MAX_BARS = 120
"""More steps than this share bars."""


@dataclass(frozen=True)
class StepBar:
    """One bar: its steps in words, and its parts from the bottom up (`x` is their y)."""

    x: float
    width: float
    segments: tuple[BarPart, ...]
    title: str
    label: str


@dataclass(frozen=True)
class Line:
    """Hidden share of one direction over the bars, as the points of polylines."""

    kind: str
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class StepChart:
    """Everything the template draws; `ticks` are (y, text) of the time axis."""

    title: str
    description: str
    columns: tuple[StepBar, ...]
    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, str], ...]
    legend: tuple[tuple[str, str], ...]
    note: str


def step_chart(device: DeviceReport, name: str) -> StepChart | None:
    """The steps of one device; None without steps."""
    steps = sorted(device.steps, key=lambda step: (step.start_ns, step.pid))
    if not steps:
        return None
    size = math.ceil(len(steps) / MAX_BARS)
    groups = [steps[i : i + size] for i in range(0, len(steps), size)]
    highest = max(_mean_ns(group) for group in groups) or 1
    width = (RIGHT - LEFT) / len(groups)
    columns = tuple(
        _column(group, LEFT + i * width, width, highest, i, len(groups))
        for i, group in enumerate(groups)
    )
    exposed = round(median(step.both.exposed_ns for step in steps))
    whole = round(median(step.duration_ns for step in steps))
    used = {segment.kind for column in columns for segment in column.segments}
    note = f"Each bar is the mean of {size} steps." if size > 1 else ""
    return StepChart(
        title=f"{name}: median step {format_ns(whole)}, median exposed {format_ns(exposed)}",
        description=". ".join(column.title for column in columns),
        columns=columns,
        lines=tuple(
            _line(kind, text, groups, width) for kind, text in (("h2d", "H2D"), ("d2h", "D2H"))
        ),
        ticks=_ticks(highest),
        legend=tuple((kind, text) for kind, text in BUDGET_TITLES.items() if kind in used),
        note=note,
    )


def _mean_ns(group: Sequence[StepReport]) -> float:
    return sum(step.duration_ns for step in group) / len(group)


def _column(
    group: Sequence[StepReport], x: float, width: float, highest: float, place: int, n: int
) -> StepBar:
    budget = sum((step.time_budget for step in group), TimeBudget())
    segments, y = [], BOTTOM
    for kind, ns in _budget_times(budget).items():
        height = (BOTTOM - TOP) * ns / len(group) / highest
        y -= height
        if ns:
            segments.append(BarPart(kind, round(y, 2), round(height, 2), "", ""))
    both = sum((step.both for step in group), Overlap())
    name = f"step {group[0].index}"
    if len(group) > 1:
        name = f"steps {group[0].index} to {group[-1].index}"
    parts = ", ".join(
        f"{BUDGET_TITLES[kind]} {format_ns(round(ns / len(group)))}"
        for kind, ns in _budget_times(budget).items()
        if ns
    )
    title = (
        f"{name}: {format_ns(round(_mean_ns(group)))}, {parts}; "
        f"{format_share(both.hidden_share)} of transfer time behind compute"
    )
    every = math.ceil(n / 20)
    gap = min(width * 0.2, 6)
    return StepBar(
        round(x + gap / 2, 2),
        round(width - gap, 2),
        tuple(segments),
        clean_text(title),
        str(group[0].index) if place % every == 0 else "",
    )


def _line(kind: str, name: str, groups: Sequence[Sequence[StepReport]], width: float) -> Line:
    points = []
    for i, group in enumerate(groups):
        part = sum((getattr(step, kind) for step in group), Overlap())
        if part.hidden_share is not None:
            y = SHARE_BOTTOM - (SHARE_BOTTOM - SHARE_TOP) * part.hidden_share
            points.append((round(LEFT + (i + 0.5) * width, 2), round(y, 2)))
    return Line(kind, name, tuple(points))


def _ticks(highest: float) -> tuple[tuple[float, str], ...]:
    """A few round times between 0 and the highest bar."""
    step = 10.0 ** math.floor(math.log10(highest))
    while highest / step < 2:
        step /= 2
    while highest / step > 5:
        step *= 2
    ticks = []
    for i in range(int(highest / step) + 1):
        y = BOTTOM - (BOTTOM - TOP) * i * step / highest
        ticks.append((round(y, 2), format_ns(round(i * step))))
    return tuple(ticks)
