"""The chart of steps, in percent of its size: a stacked bar each, and the hidden shares above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ..core.formatting import clean_text, format_ns
from ..draw.pixels import every, longest_of_each
from ..result.model import DeviceReport, StepReport, format_share
from ..result.quantities import BUDGET_TITLES
from .html_charts import DIRECTIONS, BarPart, budget_times

MAX_NUMBERED = 20


@dataclass(frozen=True)
class StepBar:
    """One bar: its steps in words, and its parts from the bottom up, `width` being their height.

    `at` is its left edge in percent of the chart; `minor` labels go where there is little room.
    """

    at: float
    segments: tuple[BarPart, ...]
    title: str
    label: str
    minor: bool


@dataclass(frozen=True)
class Line:
    """Hidden share of one direction over the bars, as points in percent from the top left."""

    kind: str
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class StepChart:
    """Everything the template draws; `ticks` are (percent from the bottom, text) of times."""

    title: str
    description: str
    columns: tuple[StepBar, ...]
    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, str], ...]
    legend: tuple[tuple[str, str], ...]
    note: str

    @property
    def wide(self) -> float:
        """Percent of the chart that a bar takes."""
        return 100 / len(self.columns)


def step_chart(device: DeviceReport, name: str) -> StepChart | None:
    """The steps of one device; None without steps."""
    steps = sorted(device.steps, key=lambda step: (step.start_ns, step.pid))
    if not steps:
        return None
    shown, rule = longest_of_each(steps, lambda step: step.duration_ns)
    highest = max(step.duration_ns for step in shown) or 1
    columns = tuple(_column(step, highest, i, len(shown)) for i, step in enumerate(shown))
    exposed = round(median(step.both.exposed_ns for step in steps))
    whole = round(median(step.duration_ns for step in steps))
    used = {segment.kind for column in columns for segment in column.segments}
    return StepChart(
        title=f"{name}: median step {format_ns(whole)}, median exposed {format_ns(exposed)}",
        description=". ".join(column.title for column in columns),
        columns=columns,
        lines=tuple(_line(kind, text, shown) for kind, text in DIRECTIONS.items()),
        ticks=_ticks(highest),
        legend=tuple((kind, text) for kind, text in BUDGET_TITLES.items() if kind in used),
        note=f"{rule[:1].upper()}{rule[1:]}; the shares are that step's." if rule else "",
    )


def _column(step: StepReport, highest: float, place: int, n: int) -> StepBar:
    times = budget_times(step.time_budget)
    segments = tuple(
        BarPart(kind, round(100 * ns / highest, 3), "", "") for kind, ns in times.items() if ns
    )
    parts = ", ".join(f"{BUDGET_TITLES[kind]} {format_ns(ns)}" for kind, ns in times.items() if ns)
    title = (
        f"step {step.index}: {format_ns(step.duration_ns)}, {parts}; "
        f"{format_share(step.both.hidden_share)} of transfer time behind compute"
    )
    nth = every(n, MAX_NUMBERED)
    label = str(step.index) if place % nth == 0 else ""
    minor = n > MAX_NUMBERED // 2 and place // nth % 2 == 1
    return StepBar(round(100 * place / n, 3), segments, clean_text(title), label, minor)


def _line(kind: str, name: str, steps: Sequence[StepReport]) -> Line:
    points = []
    for i, step in enumerate(steps):
        hidden = getattr(step, kind).hidden_share
        if hidden is not None:
            points.append((round(100 * (i + 0.5) / len(steps), 3), round(100 * (1 - hidden), 2)))
    return Line(kind, name, tuple(points))


def _ticks(highest: float) -> tuple[tuple[float, str], ...]:
    """A few round times between 0 and the highest bar."""
    step = 10.0 ** math.floor(math.log10(highest))
    while highest / step < 2:
        step /= 2
    while highest / step > 5:
        step *= 2
    return tuple(
        (round(100 * i * step / highest, 3), format_ns(round(i * step)))
        for i in range(int(highest / step) + 1)
    )
