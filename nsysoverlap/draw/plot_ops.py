"""Operations: which tensors' transfers were exposed most, and what had to wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.formatting import format_ns, format_rate, short_kernel
from ..core.palette import COLORS, PALE_EXPOSED
from ..result.metrics import STEP_MEAN
from ..result.model import OperationReport, OverlapReport
from ..result.numbers import format_share, share
from .plot_steps import details_of
from .plot_titles import finding_of
from .style import (
    EMPTY_SIZE,
    EXPOSED_HATCH,
    GRID,
    INK,
    LEGEND_LIFT,
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

MAX_OPS = 12
MAX_OP = 32
"""Characters of an operation's name."""
HOST_HATCH = "...."


def plot_ops(report: OverlapReport, *, ax: Axes | None = None) -> Axes:
    """Draw the operations with the most exposed transfer time, a bar each, in ms.

    Times are those of the mean step, the mean over devices too, where each operation has one;
    else sums over the whole trace and all devices. The hatched parts of a bar are time for which
    compute, or else the host, demonstrably waited; beside it stand the share behind compute, GB/s,
    and the kernel that followed. Up to twelve operations are drawn; below the axis stands what the
    others come to.

    Returns `ax`, or the Axes of a new figure.
    """
    with house_style():
        (axes,) = (ax,) if ax is not None else axes_in_notebook(ops_size(report))
        draw_ops(axes, report)
    return axes


def ops_size(report: OverlapReport) -> tuple[float, float]:
    """Width and height in inches at which the bars are legible."""
    n = len(_exposing(report)[:MAX_OPS])
    return (WIDTH, 2.1 + 0.34 * max(n, 2)) if n else EMPTY_SIZE


def draw_ops(ax: Axes, report: OverlapReport) -> None:
    """Draw the operations of a report into axes."""
    exposing = _exposing(report)
    per_step = _per_step(exposing)
    details = details_of(report, "mean of" if per_step else "sum over")
    if not exposing:
        say(ax, finding_of(report), details)
        say_nothing_to_draw(ax, "No operation is known to have exposed transfer time.")
        return
    say(ax, _finding(report, exposing), details, LEGEND_LIFT)
    shown = exposing[:MAX_OPS]
    at = range(len(shown))
    times = [o.exposed(per_step=per_step) / 1e6 for o in shown]
    left = [0.0] * len(shown)
    for label, color, hatch, parts in _who_waited(shown):
        wide = [time * part for time, part in zip(times, parts, strict=True)]
        ax.barh(at, wide, left=left, height=0.66, color=color, edgecolor=INK, linewidth=0.8,
                hatch=hatch, label=label, zorder=3)  # fmt: skip
        left = [start + more for start, more in zip(left, wide, strict=True)]
    ax.set_yticks(list(at), _names(shown))
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    _ticks_to(ax, max(times))
    ax.grid(axis="x", color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    for row, operation in zip(at, shown, strict=True):
        ax.text(1.01, row, _note(operation, per_step), transform=ax.get_yaxis_transform(),
                va="center", fontsize=8.5, color=SOFT_INK)  # fmt: skip
    title = f"exposed, {STEP_MEAN} (ms)" if per_step else "exposed (ms)"
    say_below(ax, title, _remark(report, exposing))
    handles = [bars for bars in ax.containers if any(bar.get_width() for bar in bars)]
    legend_above(ax, handles, [str(bars.get_label()) for bars in handles])


def _who_waited(
    shown: Sequence[OperationReport],
) -> list[tuple[str, str, str | None, list[float]]]:
    """The parts of the bars by who waited: label, colour, hatch, and share of each bar."""
    parts = []
    for overlap in (operation.overlap for operation in shown):
        known = (overlap.blocking_ns or 0, overlap.host_blocking_ns or 0)
        times = (*known, overlap.exposed_ns - sum(known))
        parts.append([share(ns, overlap.exposed_ns) or 0.0 for ns in times])
    compute, host, rest = (list(column) for column in zip(*parts, strict=True))
    who = "neither is" if any(host) else "compute is not"
    return [
        ("exposed, compute waited", COLORS["exposed"], EXPOSED_HATCH, compute),
        ("exposed, host waited", PALE_EXPOSED, HOST_HATCH, host),
        (f"exposed, {who} known to have waited", PALE_EXPOSED, None, rest),
    ]


def _ticks_to(ax: Axes, most: float) -> None:
    """An axis from 0 to the first round number that is no less than the longest bar."""
    from matplotlib.ticker import MaxNLocator

    # Long names leave little room, and times of microseconds have many digits.
    ticks = MaxNLocator(nbins=4).tick_values(0, most)
    ax.set_xticks(ticks)
    ax.set_xlim(0, ticks[-1])


def _exposing(report: OverlapReport) -> list[OperationReport]:
    """The operations that exposed any time, by what is drawn of them."""
    found = [operation for operation in report.operations if operation.overlap.exposed_ns]
    per_step = _per_step(found)
    return sorted(found, key=lambda operation: -operation.exposed(per_step=per_step))


def _per_step(operations: Sequence[OperationReport]) -> bool:
    return all(operation.exposed_per_step_ns is not None for operation in operations)


def _total(operations: Sequence[OperationReport], per_step: bool) -> int:
    return sum(operation.exposed(per_step=per_step) for operation in operations)


def _remark(report: OverlapReport, exposing: Sequence[OperationReport]) -> str:
    """What is not drawn, and why all bars together are not the exposed time of the report."""
    per_step = _per_step(exposing)
    others = exposing[MAX_OPS:]
    parts = []
    if others:
        parts.append(f"{len(others)} more expose {format_ns(_total(others, per_step))}")
    if len(report.traces) == 1:
        n = sum(len(device.steps) for device in report.devices) if per_step else 1
        whole = format_ns(round(report.total("both").exposed_ns / max(n, 1)))
        if whole != format_ns(_total(exposing, per_step)):
            parts.append(f"in all {whole}: time in which several were exposed counts in each bar")
    return "; ".join(parts)


_IN_TITLE = 22
"""Characters of an operation in the title: one line, however much room the names beside take."""


def _name(operation: OperationReport, more: str = "") -> str:
    return legible(f"{operation.direction.upper()} {operation.op or '(no name)'}{more}", MAX_OP)


def _names(operations: Sequence[OperationReport]) -> list[str]:
    """Directions and ops, with the label where two would be called the same."""
    names = [_name(operation) for operation in operations]
    return [
        _name(operation, f" ({operation.label})")
        if operation.label and names.count(name) > 1
        else name
        for name, operation in zip(names, operations, strict=True)
    ]


def _note(operation: OperationReport, per_step: bool) -> str:
    parts = [format_ns(operation.exposed(per_step=per_step))]
    if operation.overlap.hidden_by_compute_ns:
        parts.append(f"{format_share(operation.overlap.hidden_share, 0)} hidden")
    if operation.overlap.gb_per_s is not None:
        parts.append(f"{format_rate(operation.overlap.gb_per_s)} GB/s")
    if operation.followed_by is not None:
        parts.append(f"next kernel {legible(short_kernel(operation.followed_by, 22), 22)}")
    return " · ".join(parts)


def _finding(report: OverlapReport, exposing: Sequence[OperationReport]) -> str:
    per_step = _per_step(exposing)
    unit = f", {STEP_MEAN}" if per_step else ""
    # Means over ranks of which not all have an operation are no parts of a sum.
    summed = len(exposing) > 1 and len(report.traces) == 1
    all_of_it = f" of {format_ns(_total(exposing, per_step))}" if summed else ""
    worst = legible(_name(exposing[0]), _IN_TITLE)
    most = format_ns(exposing[0].exposed(per_step=per_step))
    return f"{worst} exposes most: {most}{all_of_it}{unit}"
