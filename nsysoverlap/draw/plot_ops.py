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
from .style import (
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
    say_nothing_to_draw,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_OPS = 12
MAX_OP = 32
"""Characters of an operation's name."""


def plot_ops(report: OverlapReport, *, ax: Axes | None = None) -> Axes:
    """Draw the operations with the most exposed transfer time, a bar each, in ms.

    Times are per step where the report has steps. The hatched part of a bar is time for which
    compute demonstrably waited; beside it stand what followed, the share behind compute, and
    GB/s. Up to twelve operations are drawn; the axis says what the others come to.

    Returns `ax`, or the Axes of a new figure.
    """
    with house_style():
        (axes,) = (ax,) if ax is not None else axes_in_notebook(ops_size(report))
        draw_ops(axes, report)
    return axes


def ops_size(report: OverlapReport) -> tuple[float, float]:
    """Width and height in inches at which the bars are legible."""
    return WIDTH, 1.7 + 0.34 * max(len(_exposing(report)[:MAX_OPS]), 2)


def draw_ops(ax: Axes, report: OverlapReport) -> None:
    """Draw the operations of a report into axes."""
    exposing = _exposing(report)
    say(
        ax,
        _finding(report, exposing),
        details_of(report, "mean of" if _per_step(exposing) else "sum over"),
        LEGEND_LIFT if exposing else 0,
    )
    if not exposing:
        say_nothing_to_draw(ax, "No operation exposed any transfer time.")
        return
    shown, others = exposing[:MAX_OPS], exposing[MAX_OPS:]
    at = range(len(shown))
    waited = [
        _ms(o) * (share(o.overlap.blocking_ns or 0, o.overlap.exposed_ns) or 0) for o in shown
    ]
    rest = [_ms(o) - blocked for o, blocked in zip(shown, waited, strict=True)]
    ax.barh(at, waited, height=0.66, color=COLORS["exposed"], edgecolor=INK, linewidth=0.8,
            hatch=EXPOSED_HATCH, label="exposed, compute waited", zorder=3)  # fmt: skip
    ax.barh(at, rest, left=waited, height=0.66, color=PALE_EXPOSED, edgecolor=INK, linewidth=0.8,
            label="exposed", zorder=3)  # fmt: skip
    ax.set_yticks(list(at), _names(shown))
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(0, max(map(_ms, shown)) * 1.02)
    ax.tick_params(axis="y", length=0)
    # Long names leave little room, and times of microseconds have many digits.
    ax.locator_params(axis="x", nbins=4)
    ax.grid(axis="x", color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    for row, operation in zip(at, shown, strict=True):
        ax.text(1.01, row, _note(operation), transform=ax.get_yaxis_transform(), va="center",
                fontsize=8.5, color=SOFT_INK)  # fmt: skip
    unit = f"exposed, {STEP_MEAN} (ms)" if _per_step(shown) else "exposed (ms)"
    remark = f"{unit}\n{len(others)} more expose {_total(others)}" if others else unit
    ax.set_xlabel(remark, loc="left", fontsize=9.5)
    handles = [bars for bars in ax.containers if any(bar.get_width() for bar in bars)]
    legend_above(ax, handles, [str(bars.get_label()) for bars in handles])


def _exposing(report: OverlapReport) -> list[OperationReport]:
    return [operation for operation in report.operations if operation.overlap.exposed_ns]


def _per_step(operations: Sequence[OperationReport]) -> bool:
    return all(operation.exposed_per_step_ns is not None for operation in operations)


def _ns(operation: OperationReport) -> int:
    return operation.exposed(per_step=True)


def _ms(operation: OperationReport) -> float:
    return _ns(operation) / 1e6


def _total(operations: Sequence[OperationReport]) -> str:
    return format_ns(sum(map(_ns, operations)))


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


def _note(operation: OperationReport) -> str:
    parts = [format_ns(_ns(operation))]
    if operation.overlap.hidden_by_compute_ns:
        parts.append(f"{format_share(operation.overlap.hidden_share, 0)} hidden")
    if operation.overlap.gb_per_s is not None:
        parts.append(f"{format_rate(operation.overlap.gb_per_s)} GB/s")
    if operation.followed_by is not None:
        parts.append(f"then {legible(short_kernel(operation.followed_by, 22), 22)}")
    return " · ".join(parts)


def _finding(report: OverlapReport, exposing: Sequence[OperationReport]) -> str:
    if not exposing:
        return "No exposed operation" if report.total("both").n else "No host transfers"
    unit = f", {STEP_MEAN}" if _per_step(exposing) else ""
    all_of_it = f" of {_total(exposing)}" if len(exposing) > 1 else ""
    worst = legible(_name(exposing[0]), _IN_TITLE)
    return f"{worst} exposes most: {format_ns(_ns(exposing[0]))}{all_of_it}{unit}"
