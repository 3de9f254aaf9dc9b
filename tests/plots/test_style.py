"""Colours that are told apart without colour vision, and a style that leaves no trace."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgb

import nsysoverlap as no
from nsysoverlap.core.palette import COLORS
from nsysoverlap.draw.style import HATCHES, LABELS, axes_in_file, house_style
from tests.traces import h200

from . import kit

# Viénot, Brettel and Mollon 1999, on linear RGB.
_DEUTERANOPE = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
_PROTANOPE = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])


def linear(color: str) -> np.ndarray:
    rgb = np.array(to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", [np.eye(3), _DEUTERANOPE, _PROTANOPE], ids=["all", "d", "p"])
@pytest.mark.parametrize(
    ("one", "two"), list(combinations(["compute", "h2d", "d2h", "exposed"], 2))
)
def test_colours_differ_for_every_eye(one: str, two: str, vision: np.ndarray) -> None:
    distance = np.linalg.norm(lab(vision @ linear(COLORS[one])) - lab(vision @ linear(COLORS[two])))
    assert distance > 15


def test_every_part_has_a_colour_and_a_name() -> None:
    assert set(COLORS) == set(LABELS)
    assert set(HATCHES) <= set(COLORS)
    assert len(set(COLORS.values())) == len(COLORS)


def test_the_style_leaves_nothing_behind() -> None:
    before = dict(matplotlib.rcParams)
    with house_style():
        assert matplotlib.rcParams["text.parse_math"] is False
    assert dict(matplotlib.rcParams) == before


def test_a_dark_style_of_the_user_does_not_make_text_invisible() -> None:
    with pyplot.style.context("dark_background"):
        ax = no.plot_steps(no.analyze(h200("jax_unroll_lhs")))
    figure = ax.get_figure(root=True)
    assert figure is not None
    assert to_rgb(figure.get_facecolor()) == (1, 1, 1)
    assert to_rgb(ax.get_facecolor()) == (1, 1, 1)
    assert max(to_rgb(ax.title.get_color())) < 0.2
    assert max(to_rgb(ax.get_xticklabels()[0].get_color())) < 0.2
    pyplot.close("all")


@pytest.mark.parametrize("plot", ["timeline", "steps", "bandwidth", "ops"])
def test_without_axes_a_figure_of_pyplot_is_made_that_jupyter_shows(plot: str) -> None:
    pyplot.close("all")
    path = h200("jax_unroll_lhs")
    made = getattr(no, f"plot_{plot}")(no.analyze(path) if plot in ("steps", "ops") else path)
    (ax, *_) = made if isinstance(made, tuple) else (made,)
    assert pyplot.get_fignums() == [1]
    assert ax.get_figure(root=True) is pyplot.figure(1)
    pyplot.close("all")


def test_a_picture_for_a_file_is_unknown_to_pyplot() -> None:
    with house_style():
        axes_in_file((4, 3))
    assert pyplot.get_fignums() == []


def test_saved_pictures_have_a_white_background(tmp_path: Path) -> None:
    with kit.canvas() as (ax,):
        no.plot_steps(no.analyze(h200("jax_unroll_lhs")), ax=ax)
        figure = kit.figure_of(ax)
        figure.savefig(tmp_path / "steps.png", dpi=50)
    corner = pyplot.imread(tmp_path / "steps.png")[0, 0]
    assert corner.tolist() == [1, 1, 1, 1]
