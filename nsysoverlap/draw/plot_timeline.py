"""Timeline: what each device did, and which parts of the transfers nothing hid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import Int64Array
from ..core.formatting import format_ns
from ..core.palette import COLORS, PALE_H2D
from ..core.window import Window
from ..roles.rules import RuleSet
from ..steps.projection import StepWindow
from ..trace.contents import Trace
from .host_curve import Curve
from .pixels import COLUMNS, EXACT, Bars, PixelColumns, every
from .plot_cases import format_ms, options_for, subject
from .scene import DeviceScene, Scene, curve_note, lane_label, timeline_scene
from .style import (
    HATCHES,
    INK,
    SOFT_INK,
    WIDTH,
    axes_in_notebook,
    house_style,
    legend_below,
    patch,
    say,
    say_below,
)
from .timeline import Lane

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLAIN, TALL = 0.52, 0.86
"""Heights of a hidden or plain bar and of an exposed one, in lanes."""
LANE_INCHES = 0.34
HEADER = 0.75
"""Lanes of room above each of several devices, for its name."""
LEAST = 0.05
"""Least height of a bar, a pixel or two, so that nothing is lost to sight."""
OUTLINED = 1 / 250
"""Share of the width from which on an exposed bar is outlined and hatched."""
_LEGEND = {
    "h2d": "H2D (host to device), hidden",
    "d2h": "D2H (device to host), hidden",
    "exposed": "exposed: behind neither compute nor communication",
}
MAX_BORDERS = 60
MAX_NUMBERED = 12
FAR = 1e5
"""A window that starts so many of its lengths from 0 has its own zero, to keep ticks short."""


def plot_timeline(
    trace: Trace | str | Path,
    *,
    step: int | None = None,
    window: Window | None = None,
    steps: str = "auto",
    devices: Sequence[int] | None = None,
    rules: RuleSet | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the lanes of each device over time: compute, comm, D2H, H2D, other, bytes on the host.

    Exposed parts of transfers are tall, hatched and outlined. `step` draws one step, `window` a
    part of the trace's time (the x axis is in ms of trace time, as `--window` takes it), else all
    that `analyze` measures is drawn. `steps` says what marks a step, as in `analyze`. `devices`
    picks some by index; of more than eight, those that expose most are drawn. What is
    narrower than two of 1,500 columns over the width is as high as the share of its column that is
    filled: no width is made up, and nothing is lost. `trace` is a `Trace` or the path of an export.

    Returns `ax`, or the Axes of a new figure. Raises `UsageError` for a step, window or device
    that the trace does not have.
    """
    scene = timeline_scene(subject(trace, options_for(step, window, steps, rules)), devices)
    with house_style():
        (axes,) = (ax,) if ax is not None else axes_in_notebook(timeline_size(scene))
        draw_timeline(axes, scene)
    return axes


def timeline_size(scene: Scene) -> tuple[float, float]:
    """Width and height in inches at which the lanes are legible."""
    return WIDTH, 1.8 + LANE_INCHES * _rows(scene)


def _rows(scene: Scene) -> float:
    header = HEADER if len(scene.devices) > 1 else 0
    return sum(header + len(d.lanes) + (d.curve is not None) for d in scene.devices)


def draw_timeline(ax: Axes, scene: Scene) -> None:
    """Draw a scene into axes."""
    columns = PixelColumns(scene.start_ns, scene.end_ns)
    scale = _Scale(scene)
    ticks: list[tuple[float, str]] = []
    top = 0.0
    for device in scene.devices:
        if len(scene.devices) > 1:
            ax.text(0, top + HEADER - 0.12, device.name, transform=ax.get_yaxis_transform(),
                    fontweight="bold", fontsize=9.5, va="bottom")  # fmt: skip
            top += HEADER
        first = top
        for lane in device.lanes:
            _draw_lane(ax, scale, columns, device, lane, top)
            ticks.append((top + 0.5, lane_label(lane.kind)))
            top += 1
        if device.curve is not None:
            _draw_curve(ax, scale, columns, device.curve, top)
            ticks.append((top + 0.5, lane_label("curve")))
            top += 1
        _draw_borders(ax, scale, scene, device, first, top)
    ax.set_ylim(top, 0)
    ax.set_xlim(scale.ms(scene.start_ns), scale.ms(scene.end_ns))
    ax.set_yticks([at for at, _ in ticks], [text for _, text in ticks])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    say_below(ax, scale.label, _remark(scene, columns), row=1)
    legend_below(ax, [patch(kind) for kind in _LEGEND], list(_LEGEND.values()))
    say(
        ax,
        scene.finding,
        scene.details,
        lift=12 if any(d.steps for d in scene.devices) else 0,
    )


class _Scale:
    """Trace time to ms on the axis."""

    def __init__(self, scene: Scene) -> None:
        length = scene.end_ns - scene.start_ns
        self.origin_ns = scene.start_ns if abs(scene.start_ns) > FAR * length else 0
        self.label = "trace time (ms)"
        if self.origin_ns:
            self.label = f"ms after {format_ms(self.origin_ns)} ms of trace time"

    def ms(self, ns: int) -> float:
        return (ns - self.origin_ns) / 1e6

    def all_ms(self, ns: Int64Array) -> np.ndarray:
        result: np.ndarray = (ns - self.origin_ns) / 1e6
        return result


def _draw_lane(
    ax: Axes, scale: _Scale, columns: PixelColumns, device: DeviceScene, lane: Lane, top: float
) -> None:
    """Thin bars stand on the floor of the lane by their share; exposed ones hang from above."""
    middle = top + 0.5
    busy = columns.bars(device.hidden(lane))
    floor = np.full(len(busy), middle + PLAIN / 2)
    height = PLAIN * np.maximum(busy.share, LEAST)
    _fill(ax, scale, busy, floor - height, floor, facecolor=COLORS[lane.kind],
          zorder=3, label=lane.kind)  # fmt: skip
    exposed = columns.bars(device.exposed(lane))
    # An outline would make a sliver look several times as long.
    wide = exposed.end_ns - exposed.start_ns >= (columns.end_ns - columns.start_ns) * OUTLINED
    for picked, line, hatch in (
        (~wide & ~exposed.thin, 0.0, None),
        (exposed.thin, 0.0, None),
        (wide, 0.8, HATCHES["exposed"]),
    ):
        bars = exposed.select(picked)
        ceiling = np.full(len(bars), middle - TALL / 2)
        height = TALL * np.maximum(bars.share, LEAST)
        _fill(ax, scale, bars, ceiling, ceiling + height, facecolor=COLORS["exposed"],
              edgecolor=INK, linewidth=line, hatch=hatch, zorder=4, label="exposed")  # fmt: skip
    _note(ax, top, device.notes[lane.kind])


def _fill(
    ax: Axes, scale: _Scale, bars: Bars, high: np.ndarray, low: np.ndarray, **look: Any
) -> None:
    """All bars as one path: matplotlib would spend seconds on thousands of hatched ones."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    if not len(bars):
        return
    left, right = scale.all_ms(bars.start_ns), scale.all_ms(bars.end_ns)
    corners = np.stack(
        [
            np.stack([left, left, right, right, left], axis=1),
            np.stack([low, high, high, low, low], axis=1),
        ],
        axis=2,
    )
    codes = [Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY]
    outline = Outline(corners.reshape(-1, 2), np.tile(np.array(codes, np.uint8), len(bars)))
    # Snapped to whole pixels, slivers would vanish. The limits of the axes are set, so that
    # `add_patch`, which looks at each corner for them, would take a second for nothing.
    ax.add_artist(PathPatch(outline, **{"linewidth": 0, **look}, snap=False))


def _note(ax: Axes, top: float, text: str) -> None:
    ax.text(1.008, top + 0.5, text, transform=ax.get_yaxis_transform(), va="center", fontsize=9)


def _draw_curve(ax: Axes, scale: _Scale, columns: PixelColumns, curve: Curve, top: float) -> None:
    at, level = columns.thin(curve.at_ns, curve.n_bytes)
    x = np.append(scale.all_ms(at), scale.ms(columns.end_ns))
    height = np.append(level, level[-1]) / curve.peak * TALL
    base = top + 0.5 + TALL / 2
    ax.fill_between(x, base, base - height, step="post", color=PALE_H2D, zorder=3, linewidth=0)
    # So many steps would make one black block of the line.
    width = 0.8 if len(at) <= COLUMNS // 3 else 0.15
    ax.step(x, base - height, where="post", color=INK, linewidth=width, zorder=4,
            label="on the host")  # fmt: skip
    _note(ax, top, curve_note(curve))


def _draw_borders(
    ax: Axes, scale: _Scale, scene: Scene, device: DeviceScene, first: float, last: float
) -> None:
    """Where the steps of a device begin and end, and above the first device their numbers."""
    steps = _in_sight(scene, device)
    nth = every(len(steps), MAX_BORDERS)
    edges = {step.start_ns for step in steps[::nth]}
    edges |= {step.end_ns for step in (*steps[nth - 1 :: nth], *steps[-1:])}
    seen = sorted(edge for edge in edges if scene.start_ns <= edge <= scene.end_ns)
    ax.vlines([scale.ms(edge) for edge in seen], first, last, color=INK, linestyle=(0, (4, 3)),
              linewidth=0.9, zorder=2, label="step border")  # fmt: skip
    if device is not scene.devices[0]:
        return
    for step in steps[:: every(len(steps), MAX_NUMBERED)]:
        middle = (max(step.start_ns, scene.start_ns) + min(step.end_ns, scene.end_ns)) // 2
        ax.annotate(f"step {step.index}", (scale.ms(middle), 0), xytext=(0, 3),
                    textcoords="offset points", ha="center", fontsize=8.5, color=SOFT_INK,
                    annotation_clip=False)  # fmt: skip


def _in_sight(scene: Scene, device: DeviceScene) -> list[StepWindow]:
    return [s for s in device.steps if s.end_ns > scene.start_ns and s.start_ns < scene.end_ns]


def _remark(scene: Scene, columns: PixelColumns) -> str:
    """What is not drawn one to one."""
    remarks = []
    lanes = [(device, lane) for device in scene.devices for lane in device.lanes]
    if any(columns.thins(s) for d, lane in lanes for s in (d.hidden(lane), d.exposed(lane))):
        remarks.append(
            f"what is shorter than {format_ns(EXACT * columns.width_ns)} is as high as the share "
            "of the time that it fills"
        )
    nth = max(every(len(_in_sight(scene, device)), MAX_BORDERS) for device in scene.devices)
    if nth > 1:
        remarks.append(f"borders of every {nth}th step")
    return "; ".join(remarks)
