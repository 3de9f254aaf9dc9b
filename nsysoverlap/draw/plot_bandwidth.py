"""Bandwidth: how fast each copy was, by its size and when it ran, hidden and exposed apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_bytes, format_rate, number_of
from ..core.palette import COLORS
from ..core.window import Window
from ..measure.case import DeviceCase
from ..result.numbers import Overlap
from ..roles.links import LinkOverride, LinkPeak, link_for
from ..roles.rules import Role, RuleSet
from ..trace.contents import Trace
from .pixels import distinct
from .plot_cases import Subject, device_name, options_for, subject
from .style import (
    EMPTY_SIZE,
    GRID,
    INK,
    LEGEND_LIFT,
    MARKERS,
    SOFT_INK,
    WIDTH,
    axes_in_notebook,
    house_style,
    legend_above,
    legible,
    say,
    say_below,
    say_nothing_to_draw,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_REMARK = "mostly hidden: at least half of its time beside compute or communication"
MAX_SIZES = 6
"""Ticks on the axis of sizes."""


@dataclass(frozen=True)
class CopyRates:
    """Copies of known rate; columns of shape (n,). `exposed`: less than half ran beside work."""

    start_ns: Int64Array
    n_bytes: Int64Array
    gb_per_s: np.ndarray
    d2h: BoolArray
    exposed: BoolArray

    def __len__(self) -> int:
        return len(self.start_ns)


def plot_bandwidth(
    trace: Trace | str | Path,
    *,
    step: int | None = None,
    window: Window | None = None,
    steps: str = "auto",
    rules: RuleSet | None = None,
    links: LinkOverride | None = None,
    axes: Sequence[Axes] | None = None,
) -> tuple[Axes, Axes]:
    """Draw GB/s (10^9) of each copy over its size (left) and over trace time (right).

    Copies that ran at least half beside compute or communication are filled, the others hollow;
    H2D are circles, D2H squares. Dashed lines are the peak of the link by data sheet, or `links`.
    Transfer kernels, whose bytes are not recorded, and copies without length are left out. Of
    points that would lie on one another one is drawn. `trace`, `step`, `window`, `steps` and
    `rules` are as in `plot_timeline`.

    Returns both Axes, `axes` where two are given. Raises `UsageError` for a step or window that
    the trace does not have.
    """
    what = subject(trace, options_for(step, window, steps, rules))
    with house_style():
        left, right = axes if axes is not None else axes_in_notebook(bandwidth_size(what), 2)
        draw_bandwidth((left, right), what, links)
    return left, right


def bandwidth_size(what: Subject) -> tuple[float, float]:
    """Width and height in inches."""
    return (WIDTH, 4.6) if len(copy_rates(what.cases)) else EMPTY_SIZE


def draw_bandwidth(axes: Sequence[Axes], what: Subject, links: LinkOverride | None) -> None:
    """Draw the copies of a subject into two axes."""
    left, right = axes
    rates = copy_rates(what.cases)
    ceilings = link_ceilings(what.cases, links)
    lift = LEGEND_LIFT if len(rates) else 0
    say(left, _finding(what, ceilings), _details(what, rates), lift)
    if not len(rates):
        opaque = any(case.lanes.opaque.intersect(case.window) for case in what.cases)
        say_nothing_to_draw(
            left,
            "What CUDA graphs recorded as a whole copied is not in the trace."
            if opaque
            else "There is no copy between host and device that lasted and whose bytes are known.",
        )
        right.set_axis_off()
        return
    top = 1.12 * max([float(rates.gb_per_s.max()), *ceilings.values()])
    by_size = _points(left, rates, np.log2(rates.n_bytes), top, least=4, apart=0.022)
    _points(right, rates, rates.start_ns / 1e6, top, least=1e-3, apart=0)
    for ax in (left, right):
        ax.set_ylim(-0.02 * top, top)
        ax.grid(axis="y", color=GRID, linewidth=0.8)
        ax.set_axisbelow(True)
        for gbps in ceilings.values():
            ax.axhline(gbps, color=INK, linestyle=(0, (5, 3)), linewidth=1.2, label="link")
    for name, gbps in ceilings.items():
        left.annotate(name, (0, gbps), xycoords=("axes fraction", "data"), xytext=(3, 3),
                      textcoords="offset points", fontsize=8.5, color=SOFT_INK)  # fmt: skip
    _size_ticks(left, rates)
    left.set_ylabel("rate of a copy (GB/s)")
    say_below(left, "size of the copy", _REMARK)
    say_below(right, "trace time at which it began (ms)")
    legend_above(left, by_size, [str(line.get_label()) for line in by_size])


def copy_rates(cases: Sequence[DeviceCase]) -> CopyRates:
    """The copies of all cases that start in the measured time, have bytes, and last."""
    parts = [_rates_of(case) for case in cases]
    columns = ("start_ns", "n_bytes", "gb_per_s", "d2h", "exposed")
    if not parts:
        nothing = np.empty(0, np.int64)
        return CopyRates(nothing, nothing, np.empty(0), nothing > 0, nothing > 0)
    return CopyRates(*(np.concatenate([getattr(p, name) for p in parts]) for name in columns))


def _rates_of(case: DeviceCase) -> CopyRates:
    rows, duration = case.rows, case.rows.end_ns - case.rows.start_ns
    picked = case.counted.contains(rows.start_ns) & (rows.n_bytes > 0) & (duration > 0)
    rows, duration = rows.select(picked), duration[picked]
    beside = 2 * case.lanes.active.covered(rows.start_ns, rows.end_ns) >= duration
    return CopyRates(
        rows.start_ns, rows.n_bytes, rows.n_bytes / duration, rows.role == Role.D2H, ~beside
    )


def link_ceilings(cases: Sequence[DeviceCase], links: LinkOverride | None) -> dict[str, float]:
    """Peaks of the host link in GB/s by what to write beside them; none for unknown GPUs."""
    ceilings: dict[str, float] = {}
    for case in cases:
        peak = link_for(case.device.gpu.name)
        if links is not None:
            peak = LinkPeak(links.h2d, links.d2h, "as given")
        if peak is None:
            continue
        if peak.h2d_gbps == peak.d2h_gbps:
            ceilings[f"{format_rate(peak.h2d_gbps)} GB/s, {peak.source}"] = peak.h2d_gbps
        else:
            ceilings[f"H2D {format_rate(peak.h2d_gbps)} GB/s, {peak.source}"] = peak.h2d_gbps
            ceilings[f"D2H {format_rate(peak.d2h_gbps)} GB/s, {peak.source}"] = peak.d2h_gbps
    return ceilings


def _points(
    ax: Axes, rates: CopyRates, x: np.ndarray, top: float, *, least: float, apart: float
) -> list[Line2D]:
    """One group of points for each direction, hidden and exposed, for those that have any.

    The x axis spans at least `least`; groups stand `apart` by that share of it, because copies of
    one size are the rule and would lie on one another.
    """
    low, high = float(x.min()), float(x.max())
    pad = max(0.06 * (high - low), (least - (high - low)) / 2)
    low, high = low - pad, high + pad
    ax.set_xlim(low, high)
    groups = []
    for place, (direction, exposed) in enumerate(product(MARKERS, (False, True))):
        picked = (rates.d2h == (direction == "d2h")) & (rates.exposed == exposed)
        own_x = x[picked] + (place - 1.5) * apart * (high - low)
        own_y = rates.gb_per_s[picked]
        drawn = distinct((own_x - low) / (high - low), own_y / top)
        (line,) = ax.plot(
            own_x[drawn], own_y[drawn], linestyle="none", marker=MARKERS[direction],
            markersize=7 if exposed else 5.5,
            markerfacecolor="white" if exposed else COLORS[direction],
            # Where thousands lie on one another, light edges would be all there is to see.
            markeredgecolor=COLORS["exposed" if exposed else direction],
            markeredgewidth=1.6 if exposed else 0,
            label=f"{direction.upper()}, {'mostly exposed' if exposed else 'mostly hidden'}",
            zorder=4 if exposed else 3,
        )  # fmt: skip
        groups += [line] if picked.any() else []
    return groups


def _size_ticks(ax: Axes, rates: CopyRates) -> None:
    """Ticks at the sizes there are, or at powers of two up to the largest; x is log2 of a size."""
    sizes = np.unique(rates.n_bytes)
    low, high = ax.get_xlim()
    closest = np.diff(np.log2(sizes)).min(initial=np.inf)
    if len(sizes) > MAX_SIZES or closest < (high - low) / (MAX_SIZES + 2):
        stride = max(1, int(np.ceil((high - low) / MAX_SIZES)))
        last = float(np.log2(sizes[-1]))
        powers = [p for p in range(63) if low <= p <= last - 0.7 * stride and p % stride == 0]
        sizes = np.array([*(1 << p for p in powers), sizes[-1]])
    ax.set_xticks(np.log2(sizes).tolist(), [_size(size) for size in sizes.tolist()])


def _size(n_bytes: int) -> str:
    """`384 MiB`, with a decimal only where there is one."""
    return format_bytes(n_bytes).replace(".00 ", " ").replace(".0 ", " ")


def _finding(what: Subject, ceilings: dict[str, float]) -> str:
    parts = []
    for direction in MARKERS:
        total = sum((case.measure_quickly(direction) for case in what.cases), Overlap())
        if total.gb_per_s is not None:
            parts.append(f"{direction.upper()} {format_rate(total.gb_per_s)}")
    if not parts:
        return "No host copies of known rate"
    peaks = set(ceilings.values())
    peak = f" of {format_rate(peaks.pop())}" if len(peaks) == 1 else ""
    return f"{' and '.join(parts)}{peak} GB/s"


def _details(what: Subject, rates: CopyRates) -> str:
    name = legible(what.trace.info.file_name, 60)
    n = len(what.cases)
    of = device_name(what.cases[0].device) if n == 1 else f"{n} devices"
    copies = number_of(len(rates), "copy", "copies")
    return " · ".join([name, of, what.span, copies])
