"""Geometry of the chart of steps: a stacked bar each, and the hidden shares above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ..core.formatting import clean_text, format_ns
from ..draw.pixels import every, longest_of_each
from ..result.model import DeviceReport, StepReport, format_share
from .html_charts import BUDGET_TITLES, BarPart, _budget_times

WIDTH, HEIGHT = 960.0, 320.0
LEFT, RIGHT = 62.0, 950.0
SHARE_TOP, SHARE_BOTTOM = 12.0, 82.0
TOP, BOTTOM = 104.0, 290.0
MAX_BARS = 120
"""Of more steps, the longest of several in a row is drawn."""
MAX_NUMBERED = 20


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
    shown, rule = longest_of_each(steps, MAX_BARS, lambda step: step.duration_ns)
    highest = max(step.duration_ns for step in shown) or 1
    width = (RIGHT - LEFT) / len(shown)
    columns = tuple(
        _column(step, LEFT + i * width, width, highest, i, len(shown))
        for i, step in enumerate(shown)
    )
    exposed = round(median(step.both.exposed_ns for step in steps))
    whole = round(median(step.duration_ns for step in steps))
    used = {segment.kind for column in columns for segment in column.segments}
    return StepChart(
        title=f"{name}: median step {format_ns(whole)}, median exposed {format_ns(exposed)}",
        description=". ".join(column.title for column in columns),
        columns=columns,
        lines=tuple(
            _line(kind, text, shown, width) for kind, text in (("h2d", "H2D"), ("d2h", "D2H"))
        ),
        ticks=_ticks(highest),
        legend=tuple((kind, text) for kind, text in BUDGET_TITLES.items() if kind in used),
        note=f"{rule[:1].upper()}{rule[1:]}; the shares are that step's." if rule else "",
    )


def _column(
    step: StepReport, x: float, width: float, highest: float, place: int, n: int
) -> StepBar:
    segments, y, times = [], BOTTOM, _budget_times(step.time_budget)
    for kind, ns in times.items():
        height = (BOTTOM - TOP) * ns / highest
        y -= height
        if ns:
            segments.append(BarPart(kind, round(y, 2), round(height, 2), "", ""))
    parts = ", ".join(f"{BUDGET_TITLES[kind]} {format_ns(ns)}" for kind, ns in times.items() if ns)
    title = (
        f"step {step.index}: {format_ns(step.duration_ns)}, {parts}; "
        f"{format_share(step.both.hidden_share)} of transfer time behind compute"
    )
    gap = min(width * 0.2, 6)
    return StepBar(
        round(x + gap / 2, 2),
        round(width - gap, 2),
        tuple(segments),
        clean_text(title),
        str(step.index) if place % every(n, MAX_NUMBERED) == 0 else "",
    )


def _line(kind: str, name: str, steps: Sequence[StepReport], width: float) -> Line:
    points = []
    for i, step in enumerate(steps):
        hidden = getattr(step, kind).hidden_share
        if hidden is not None:
            y = SHARE_BOTTOM - (SHARE_BOTTOM - SHARE_TOP) * hidden
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
