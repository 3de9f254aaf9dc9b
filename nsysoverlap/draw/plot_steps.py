"""Steps: what the GPU did in each, and above it how much of the transfers was hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core.formatting import number_of
from ..core.palette import COLORS
from ..result.device_names import device_names
from ..result.model import OverlapReport
from ..result.numbers import BUDGET_ROLES, Overlap, TimeBudget
from ..result.quantities import BUDGET_TITLES
from .pixels import every, longest_of_each
from .plot_titles import finding_of
from .style import (
    EMPTY_SIZE,
    GRID,
    HATCHES,
    INK,
    MARKERS,
    WIDTH,
    axes_in_notebook,
    house_style,
    legend_below,
    legible,
    patch,
    say,
    say_below,
    say_nothing_to_draw,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_MARKED = 60
"""Up to here bars stand apart and points have markers."""
STRIP = 0.27
"""Share of the height for the hidden shares, above the bars."""


@dataclass(frozen=True)
class Bar:
    """One step over all devices, or the longest of several: the budget is the devices' mean."""

    index: int
    budget: TimeBudget
    n_devices: int
    h2d: Overlap
    d2h: Overlap

    def ms(self, part: str) -> float:
        """Mean over the devices of one part of the budget."""
        ns: int = getattr(self.budget, f"{part}_ns")
        return ns / self.n_devices / 1e6

    @property
    def total_ms(self) -> float:
        """Length of the step."""
        return self.budget.total_ns / self.n_devices / 1e6


def plot_steps(report: OverlapReport, *, ax: Axes | None = None) -> Axes:
    """Draw the time budget of each step as a stacked bar, in ms, with the hidden shares above.

    Exposed transfers are hatched and outlined. With several devices, bars are their mean and
    shares are over all of them. Above 120 steps a bar is the longest of several in a row, so that
    no slow step is lost; the x axis says of how many. Without steps there is one bar for the whole
    window. The shares are on a second Axes of the same figure, in percent.

    Returns `ax`, or the Axes of a new figure.
    """
    with house_style():
        (axes,) = (ax,) if ax is not None else axes_in_notebook(steps_size(report))
        draw_steps(axes, report)
    return axes


def steps_size(report: OverlapReport) -> tuple[float, float]:
    """Width and height in inches."""
    return (WIDTH, 4.7) if report.devices else EMPTY_SIZE


def draw_steps(ax: Axes, report: OverlapReport) -> None:
    """Draw the steps of a report into axes."""
    bars = step_bars(report)
    if not bars:
        say(ax, "No GPU activity", details_of(report, "mean of"))
        say_nothing_to_draw(ax, "Nothing was recorded on any GPU.")
        return
    stepped = any(device.steps for device in report.devices)
    shown, rule = longest_of_each(bars, lambda bar: bar.total_ms)
    _draw_budgets(ax, shown)
    top = max(bar.total_ms for bar in shown) or 1.0
    ax.set_ylim(0, top / (1 - STRIP) * 1.04)
    ax.set_yticks([tick for tick in ax.get_yticks() if 0 <= tick <= top])
    ax.spines["left"].set_bounds(0, top)
    ax.set_ylabel("time of a step (ms)" if stepped else "time (ms)", y=(1 - STRIP) / 2)
    _draw_shares(ax, shown)
    _label_steps(ax, shown, rule, stepped=stepped)
    used = [part for part in BUDGET_ROLES if any(bar.ms(part) for bar in bars)]
    parts = ["exposed" if part == "transfer" else part for part in used]
    once = "exposed transfers of a bar: time in which both directions were exposed counts once"
    if any(bar.h2d.exposed_ns + bar.d2h.exposed_ns != bar.budget.transfer_ns for bar in bars):
        say_below(ax, ax.get_xlabel(), once, row=1)
    legend_below(ax, [patch(part) for part in parts], [BUDGET_TITLES[part] for part in used])
    say(ax, finding_of(report), details_of(report, "mean of"))


def step_bars(report: OverlapReport) -> list[Bar]:
    """One bar a step index; the whole window as one bar where there are no steps."""
    if not any(device.steps for device in report.devices):
        n = len(report.devices)
        whole = Bar(0, report.time_budget, n, report.total("h2d"), report.total("d2h"))
        return [whole] if n else []
    bars: dict[int, Bar] = {}
    for device in report.devices:
        for step in device.steps:
            one = Bar(step.index, step.time_budget, 1, step.h2d, step.d2h)
            known = bars.get(step.index)
            bars[step.index] = one if known is None else _sum([known, one])
    return [bars[index] for index in sorted(bars)]


def _sum(bars: Sequence[Bar]) -> Bar:
    return Bar(
        bars[0].index,
        sum((bar.budget for bar in bars), TimeBudget()),
        sum(bar.n_devices for bar in bars),
        sum((bar.h2d for bar in bars), Overlap()),
        sum((bar.d2h for bar in bars), Overlap()),
    )


def _draw_budgets(ax: Axes, bars: Sequence[Bar]) -> None:
    few = len(bars) <= MAX_MARKED
    at = np.arange(len(bars))
    base = np.zeros(len(bars))
    for part in BUDGET_ROLES:
        height = np.array([bar.ms(part) for bar in bars])
        if not height.any():
            continue
        key = "exposed" if part == "transfer" else part
        outlined = key == "exposed" or (key == "idle" and few)
        ax.bar(
            at, height, width=0.78 if few else 1.0, bottom=base, label=key, color=COLORS[key],
            edgecolor=INK,
            linewidth=0.8 if outlined and few else 0, hatch=HATCHES.get(key),
            zorder=4 if key == "exposed" else 3,
        )  # fmt: skip
        base += height
    ax.set_xlim(-0.6, max(len(bars) - 0.4, 0.6))


def _draw_shares(ax: Axes, bars: Sequence[Bar]) -> None:
    """Hidden shares in a strip above the bars, with their own axis on the right."""
    shares = ax.twinx()
    # 0 % stands at the lower edge of the strip and 100 % a little below its upper edge.
    shares.set_ylim(-100 * (1 - STRIP * 0.86) / (STRIP * 0.72), 100 * (1 + 0.14 / 0.72))
    shares.set_yticks([0, 50, 100], ["0 %", "50 %", "100 %"])
    shares.spines["right"].set_visible(True)
    shares.spines["right"].set_bounds(0, 100)
    shares.set_ylabel("behind compute", y=1 - STRIP * 0.5)
    for percent in (0, 50, 100):
        shares.axhline(percent, color=GRID, linewidth=0.8, zorder=1)
    few = len(bars) <= MAX_MARKED
    for direction in ("h2d", "d2h"):
        values = [getattr(bar, direction).hidden_share for bar in bars]
        if all(value is None for value in values):
            continue
        percents = [np.nan if value is None else value * 100 for value in values]
        shares.plot(
            np.arange(len(bars)), percents, color=COLORS[direction], label=direction.upper(),
            marker=MARKERS[direction] if few else None, linewidth=1.6, clip_on=False, zorder=5,
            # Where both are equal, the larger and solid one shows behind the other.
            markersize=7.5 if direction == "h2d" else 4.5,
            linestyle="-" if direction == "h2d" else "--",
        )  # fmt: skip
    if shares.get_lines()[3:]:
        shares.legend(
            loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2, handlelength=2.4
        )


def _label_steps(ax: Axes, bars: Sequence[Bar], rule: str, *, stepped: bool) -> None:
    if not stepped:
        ax.set_xticks([0], ["whole window"])
        return
    stride = every(len(bars), 24)
    ticks = range(0, len(bars), stride)
    ax.set_xticks(list(ticks), [str(bars[i].index) for i in ticks])
    say_below(ax, f"step; {rule}" if rule else "step")


def details_of(report: OverlapReport, of_several: str) -> str:
    """What a picture of a report is of: traces, devices, steps.

    `of_several` says how several devices make one number, such as `mean of`.
    """
    names = [trace.path for trace in report.traces]
    parts = [legible(names[0], 60) if len(names) == 1 else f"{len(names)} traces"]
    n = len(report.devices)
    if n == 1:
        parts.append(legible(device_names(report)[0]))
    elif n:
        parts.append(f"{of_several} {n} devices")
    if report.basis.steps:
        parts.append(f"{number_of(report.basis.n_steps, 'step')}, {legible(report.basis.steps)}")
    return " · ".join(parts)
