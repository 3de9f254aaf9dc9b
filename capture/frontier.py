"""The picture that decides: step time against peak device memory, with the frontier drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from nsysoverlap.output import write_atomically

from .results import Row
from .tables import frontier, frontier_text, peak

BEST, BEATEN = "#0072b2", "#999999"
"""Told apart by colour-blind eyes too."""


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
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    for group, color, marker in ((beaten, BEATEN, "x"), (best, BEST, "o")):
        axes.scatter(*_points(group), color=color, marker=marker, zorder=3)
        for row, x, y in zip(group, *_points(group), strict=True):
            axes.annotate(
                row.arm, (x, y), (5, 4), textcoords="offset points", fontsize=8, color=color
            )
    # By rising memory: up to the next arm one has to live with the time of this one.
    axes.step(*_points(best[::-1]), where="post", color=BEST, linewidth=1)
    axes.set_xlabel("peak device memory (GiB)")
    axes.set_ylabel("step (ms)")
    axes.set_title(textwrap.fill(frontier_text(rows), 110), fontsize=8)
    axes.grid(alpha=0.3)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()


def _points(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    return [peak(row) or 0.0 for row in rows], [row.step_ms or 0.0 for row in rows]
