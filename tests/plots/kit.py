"""Read pictures back: bars, curves and texts of Axes as numbers and strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.testing.compare import compare_images
from matplotlib.text import Text
from PIL import Image

from nsysoverlap.draw.style import axes_in_file, house_style
from tests.tracebuilder import TraceBuilder, draw

Box = tuple[float, float, float, float]
"""Left, right, upper and lower edge, in the units of the axes."""

US = 1_000
TOLERANCE = 12.0
"""Root mean square over pixels of 0..255; a missing lane or a moved bar comes to more than 20."""
_VERSION = re.compile(r"(\d+\.\d+)\.")


@contextmanager
def canvas(n: int = 1) -> Iterator[list[Axes]]:
    """Axes of a figure that no other test sees."""
    with house_style():
        yield list(axes_in_file((10, 4), n))


def figure_of(ax: Axes) -> Figure:
    """The figure, drawn once so that every artist has its place."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    return figure


def boxes(ax: Axes, label: str) -> list[Box]:
    """The bars of a timeline with a label, from left to right, rounded to whole ns."""
    found: list[Box] = []
    for patch in ax.patches:
        if isinstance(patch, PathPatch) and patch.get_label() == label:
            corners = np.asarray(patch.get_path().vertices).reshape(-1, 5, 2)
            for low, high in zip(corners.min(axis=1), corners.max(axis=1), strict=True):
                found.append(
                    (round(low[0], 6), round(high[0], 6), round(low[1], 4), round(high[1], 4))
                )
    return sorted(found)


def spans(ax: Axes, label: str) -> list[tuple[float, float]]:
    """Start and end of those bars in µs of an axis in ms."""
    return [(round(left * 1e3, 3), round(right * 1e3, 3)) for left, right, *_ in boxes(ax, label)]


def bars(ax: Axes, label: str) -> list[Rectangle]:
    """The rectangles of a bar container; none where there is no such container."""
    for container in ax.containers:
        if isinstance(container, BarContainer) and container.get_label() == label:
            return [patch for patch in container.patches if isinstance(patch, Rectangle)]
    return []


def texts(ax: Axes) -> list[str]:
    """Everything written in or around axes."""
    figure_of(ax)
    found = [text for text in ax.findobj(Text) if isinstance(text, Text) and text.get_visible()]
    return [text.get_text() for text in found if text.get_text()]


def title(ax: Axes) -> str:
    """The finding."""
    return ax.get_title(loc="left")


def overlapping_labels(ax: Axes, axis: str) -> list[tuple[str, str]]:
    """Pairs of neighbouring tick labels that lie on one another."""
    figure_of(ax)
    ticks = ax.get_xticklabels() if axis == "x" else ax.get_yticklabels()
    shown = [tick for tick in ticks if tick.get_text()]
    places = [tick.get_window_extent() for tick in shown]
    return [
        (one.get_text(), two.get_text())
        for one, two, a, b in zip(shown, shown[1:], places, places[1:], strict=False)
        if a.overlaps(b)
    ]


def outside_of_figure(ax: Axes) -> list[str]:
    """Texts that the edge of the figure cuts off."""
    figure = figure_of(ax)
    width, height = figure.canvas.get_width_height()
    # Ticks beyond the end of the axis exist, and are not drawn.
    low, high = sorted(ax.get_xlim())
    beyond = {tick for tick in ax.get_xticklabels() if not low <= tick.get_position()[0] <= high}
    cut = []
    for text in ax.findobj(Text):
        if not isinstance(text, Text) or not text.get_visible() or not text.get_text():
            continue
        if text in beyond:
            continue
        place = text.get_window_extent()
        if place.x0 < -1 or place.y0 < -1 or place.x1 > width + 1 or place.y1 > height + 1:
            cut.append(text.get_text())
    return cut


def difference(expected: Path, actual: Path) -> str | None:
    """How a picture differs from the one in the repository; None where it hardly does.

    Skips under another matplotlib than drew the expected one: fonts and margins move by some
    pixels from one minor version to the next, and then nothing lies on anything.
    """
    versions = [_VERSION.search(_software(path)) for path in (expected, actual)]
    drawn_by, running = (match[1] if match else "unknown" for match in versions)
    if drawn_by != running:
        pytest.skip(f"{expected.name} was drawn by matplotlib {drawn_by}, this is {running}")
    found = compare_images(str(expected), str(actual), TOLERANCE)
    return None if found is None else str(found)


def _software(path: Path) -> str:
    with Image.open(path) as image:
        return str(image.info.get("Software", ""))


def drawn(path: Path, drawing: str, *, unit_ns: int = US) -> Path:
    """An export of a drawing."""
    draw(drawing, unit_ns=unit_ns).write(path)
    return path


def many_steps(path: Path, n_steps: int, *, slow: int | None = None) -> Path:
    """Steps of 10 µs: a kernel of 8 µs and a D2H of 4 µs, half of it exposed; one takes 30 µs."""
    builder = TraceBuilder()
    at = 1_000 * US
    for index in range(n_steps):
        length = (30 if index == slow else 10) * US
        builder.nvtx(f"step {index}", at - 4 * US, at + length - 5 * US)
        builder.kernel(at, at + length - 2 * US)
        builder.copy(at + length - 4 * US, at + length, "d2h", stream=20)
        at += length
    builder.write(path)
    return path
