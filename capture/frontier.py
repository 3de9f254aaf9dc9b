"""The picture that decides: step time against peak device memory, with the frontier drawn."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from nsysoverlap.core.output import write_atomically

from .results import Row
from .tables import frontier, peak

BEST, BEATEN = "#0072b2", "#6b6b6b"
"""Told apart by colour-blind eyes too, and by their markers."""
FONT, DPI = 8, 120
IN_THE_WAY = 100.0
"""Pixels that a name rather goes away than cross a line or another name."""
Box = tuple[float, float, float, float]


def write_picture(folder: Path, rows: Sequence[Row]) -> Path | None:
    """Write `frontier.png`; None where no arm can be drawn."""
    if not frontier(rows)[0]:
        return None
    target = folder / "frontier.png"
    write_atomically(target, draw(rows))
    return target


def draw(rows: Sequence[Row]) -> bytes:
    """The PNG: arms on the frontier joined by a staircase, arms beaten on both counts in grey."""
    from matplotlib.figure import Figure

    best, beaten = frontier(rows)
    figure = Figure(figsize=(9, 6), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    axes.margins(0.08)
    axes.scatter(*_points(beaten), color=BEATEN, marker="x", zorder=3, label="beaten on both")
    axes.scatter(*_points(best), color=BEST, marker="o", zorder=3, label="on the frontier")
    # By rising memory: up to the next arm one has to live with the time of this one.
    axes.step(*_points(best[::-1]), where="post", color=BEST, linewidth=1)
    axes.set_xlabel("peak device memory (GiB)")
    axes.set_ylabel("step (ms)")
    names = ", ".join(row.arm for row in best)
    axes.set_title(textwrap.fill(f"Not beaten on both counts: {names}", 110), fontsize=FONT + 1)
    axes.legend(loc="best", fontsize=FONT)
    axes.grid(alpha=0.3)
    figure.draw_without_rendering()
    _name(axes, [*((row, BEST) for row in best), *((row, BEATEN) for row in beaten)])
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _points(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    return [peak(row) or 0.0 for row in rows], [row.step_ms or 0.0 for row in rows]


def _name(axes: Any, named: Sequence[tuple[Row, str]]) -> None:
    """Write each arm's name where it is near and in nobody's way, with a line to its point."""
    spots = zip(*_points([row for row, _ in named]), strict=True)
    marks = [tuple(axes.transData.transform(spot)) for spot in spots]
    frame = axes.get_window_extent().extents
    points: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in marks]
    labels: list[Box] = [axes.get_legend().get_window_extent().extents]
    lines: list[Box] = []

    def cost(place: tuple[float, float], size: tuple[float, float], mark: Any) -> float:
        box, line = _label(mark, place, size)
        outside = box[0] < frame[0] or box[1] < frame[1] or box[2] > frame[2] or box[3] > frame[3]
        if outside or any(_meet(box, other) for other in (*points, *labels)):
            return math.inf
        ways = sum(_cross(line, other) + _enters(other, box) for other in lines)
        ways += sum(_enters(line, other) for other in labels)
        # A line through another arm's mark seems to end there.
        ways += sum(_enters(line, other) for other in points if not _meet((*mark, *mark), other))
        return math.hypot(line[2] - line[0], line[3] - line[1]) + IN_THE_WAY * ways

    for (row, color), mark in zip(named, marks, strict=True):
        size = (0.62 * FONT * DPI / 72 * len(row.arm), 1.5 * FONT * DPI / 72)
        place = min(_places(*size), key=lambda place: cost(place, size, mark))
        box, line = _label(mark, place, size)
        labels.append(box)
        lines.append(line)
        text = axes.annotate(
            row.arm,
            (peak(row), row.step_ms),
            (line[2] - mark[0], line[3] - mark[1]),
            textcoords="offset pixels",
            ha="center",
            va="center",
            fontsize=FONT,
            color=color,
            arrowprops={"arrowstyle": "-", "color": color, "lw": 0.5, "shrinkA": 0, "shrinkB": 3},
        )
        text.set_in_layout(False)


def _label(mark: Any, place: tuple[float, float], size: tuple[float, float]) -> tuple[Box, Box]:
    """The box of a label, and the line from its point to its middle."""
    (x, y), (wide, high) = mark, size
    left, low = x + place[0], y + place[1]
    box = (left, low, left + wide, low + high)
    return box, (x, y, left + wide / 2, low + high / 2)


def _places(wide: float, high: float) -> Iterator[tuple[float, float]]:
    """Lower left corners of a label around its point, in pixels."""
    for distance in range(18, 208, 8):
        for turn in range(16):
            x, y = math.cos(turn * math.pi / 8), math.sin(turn * math.pi / 8)
            yield distance * x + wide * (x - 1) / 2, distance * y + high * (y - 1) / 2


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _cross(one: Box, other: Box) -> bool:
    """Whether two lines, given by both ends, cross."""

    def apart(line: Box, ends: Box) -> bool:
        x, y = line[2] - line[0], line[3] - line[1]
        first, last = (x * (ends[i + 1] - line[1]) - y * (ends[i] - line[0]) for i in (0, 2))
        return first * last > 0

    return not apart(one, other) and not apart(other, one)


def _enters(line: Box, box: Box) -> bool:
    """Whether a line, given by both ends, comes into a box."""
    x, y = line[2] - line[0], line[3] - line[1]
    spots = ((line[0] + x * n / 40, line[1] + y * n / 40) for n in range(41))
    return any(_meet((*spot, *spot), box) for spot in spots)
