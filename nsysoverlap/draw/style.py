"""How all pictures look: hatches, sizes, fonts, and text that cannot break a picture.

Exposed time is the one thing to see, so it alone is vermilion, hatched, outlined and tall: it
stands out in print, in grey and to colour-blind eyes. Pictures carry their white background with
them and read on dark pages as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..core.formatting import clean_text
from ..core.palette import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1a1a1a"
SOFT_INK = "#555555"
GRID = "#d9d9d9"
LABELS = {
    "compute": "compute",
    "comm": "comm",
    "h2d": "H2D",
    "d2h": "D2H",
    "other": "other",
    "unified": "unified memory",
    "opaque": "opaque",
    "idle": "idle",
    "exposed": "exposed",
}
EXPOSED_HATCH = "////"
HATCHES = {"opaque": "xxx", "comm": "..", "exposed": EXPOSED_HATCH}
"""Where two parts touch, a hatch tells them apart without colour."""
MARKERS = {"h2d": "o", "d2h": "s"}

WIDTH = 10.0
"""Inches; 1,000 pixels in a notebook, 2,000 in a file."""
NOTEBOOK_DPI = 100
FILE_DPI = 200
EMPTY_SIZE = (WIDTH, 1.2)
"""Of a picture that only says why there is nothing to draw."""
_ROWS_BELOW = (37, 55)
"""Points below the axes at which rows of text begin, under the title of the x axis."""
LEGEND_LIFT = 20
"""Points that a legend above the axes takes."""
MAX_NAME = 40
"""Characters of a name from the trace; of a longer one both ends are shown."""

FONT = "DejaVu Sans"
"""Comes with matplotlib, so that pictures look alike everywhere."""
MORE_FONTS = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Source Han Sans", "WenQuanYi Micro Hei"),
    *("Hiragino Sans", "PingFang SC", "Microsoft YaHei", "Malgun Gothic", "Noto Sans"),
    *("Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji"),
)
"""For characters that it lacks: those of them that are installed."""

RC: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT_INK,
    "axes.facecolor": "white",
    "axes.labelcolor": INK,
    "axes.grid": False,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-9, 9),
    "figure.facecolor": "white",
    "figure.dpi": NOTEBOOK_DPI,
    "hatch.linewidth": 0.9,
    "hatch.color": INK,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "legend.fontsize": 9.5,
    "pdf.fonttype": 42,
    "savefig.facecolor": "white",
    "savefig.transparent": False,
    "svg.hashsalt": "nsysoverlap",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def house_style() -> Iterator[None]:
    """The settings above over matplotlib's own, whatever style the user has chosen."""
    import matplotlib

    own = matplotlib.rcParamsDefault
    own = matplotlib.rcParamsDefault
    settings: dict[Any, Any] = {name: own[name] for name in own if not _of_the_session(name)}
    settings.update(RC)
    settings["font.family"] = list(_fonts(MORE_FONTS))
    before = {name: matplotlib.rcParams[name] for name in settings}
    # rc_context would also take back that Jupyter's backend, loaded meanwhile, shows figures.
    matplotlib.rcParams.update(settings)
    try:
        yield
    finally:
        matplotlib.rcParams.update(before)


def _of_the_session(name: str) -> bool:
    """Settings of the running program rather than of how pictures look."""
    return name.startswith(("backend", "interactive", "toolbar", "webagg", "tk", "macosx", "date"))


def axes_in_notebook(size: tuple[float, float], n_columns: int = 1) -> Sequence[Axes]:
    """Axes side by side, in a figure that Jupyter shows at the end of the cell."""
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=size, layout="constrained")
    return _grid(figure, 1, n_columns)


def axes_in_file(size: tuple[float, float], n_columns: int = 1, n_rows: int = 1) -> Sequence[Axes]:
    """Axes side by side or below each other, in a figure that nothing but the caller knows of."""
    from matplotlib.figure import Figure

    return _grid(Figure(figsize=size, layout="constrained"), n_rows, n_columns)


def _grid(figure: Figure, n_rows: int, n_columns: int) -> Sequence[Axes]:
    """Those of a row share the y axis, those of a column the x axis."""
    grid = figure.subplots(n_rows, n_columns, sharex="col", sharey="row", squeeze=False)
    axes: Sequence[Axes] = grid.ravel().tolist()
    return axes


def say(ax: Axes, finding: str, details: str, lift: float = 0) -> None:
    """The finding as title and, smaller below it, what it is of; `lift` points above the axes."""
    ax.set_title(finding, loc="left", pad=lift + 22)
    ax.annotate(
        details, (0, 1), xycoords="axes fraction", xytext=(0, lift + 7),
        textcoords="offset points", fontsize=9.5, color=SOFT_INK, va="baseline",
        annotation_clip=False,
    )  # fmt: skip


def say_nothing_to_draw(ax: Axes, text: str) -> None:
    """An empty picture that says why it is empty, for a figure of `EMPTY_SIZE`."""
    ax.set_axis_off()
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0, 0.5, text, transform=ax.transAxes, va="center")


def say_below(ax: Axes, title: str, remark: str = "", row: int = 0) -> None:
    """The title of the x axis at its middle, and a remark at the left, so many rows below it."""
    ax.set_xlabel(title)
    if remark:
        ax.annotate(
            remark, (0, 0), xycoords="axes fraction", xytext=(0, -_ROWS_BELOW[row]), va="top",
            textcoords="offset points", fontsize=9, color=SOFT_INK, annotation_clip=False,
        )  # fmt: skip


def legend_below(ax: Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend in one row below the title of the x axis, above a remark in row 1."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.get_figure(root=True)
    assert figure is not None
    below = ax.transAxes + ScaledTranslation(0, -_ROWS_BELOW[0] / 72, figure.dpi_scale_trans)
    ax.legend(
        handles, labels, loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below,
        ncols=len(labels), borderaxespad=0, borderpad=0, columnspacing=1.4, handlelength=2.2,
    )  # fmt: skip


def legend_above(ax: Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend in one row between title and axes, for titles said with `LEGEND_LIFT`."""
    legend = ax.legend(
        handles, labels, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1,
        ncols=max(len(labels), 1), columnspacing=1.2, handletextpad=0.5, borderpad=0.2,
    )  # fmt: skip
    # The title above has its room already, and to the right it may be wider than the axes.
    legend.set_in_layout(False)


def patch(part: str) -> Any:
    """A legend entry for a lane or a part of the time budget."""
    from matplotlib.patches import Patch

    edge = INK if part in ("exposed", "idle") else "none"
    return Patch(facecolor=COLORS[part], edgecolor=edge, hatch=HATCHES.get(part), linewidth=0.8)


def legible(text: str, limit: int = MAX_NAME) -> str:
    """Text from a trace for a picture: one line, both ends of a long one, `(no name)` for none.

    Characters that no font here has become a box; without that matplotlib warns of each.
    """
    cleaned = clean_text(text) or "(no name)"
    if len(cleaned) > limit:
        head = (limit - 3) // 2
        cleaned = f"{cleaned[:head]}...{cleaned[len(cleaned) - (limit - 3 - head) :]}"
    fonts = _fonts(MORE_FONTS)
    return "".join(
        char if any(ord(char) in _characters(font) for font in fonts) else "\u25a1"
        for char in cleaned
    )


@lru_cache
def _fonts(more: Sequence[str]) -> tuple[str, ...]:
    """The font of all pictures, then those of `more` that are installed."""
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return (FONT, *(font for font in more if font in installed))


@lru_cache
def _characters(font: str) -> frozenset[int]:
    """Code points that a font has, in titles, which are bold, as well as elsewhere."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    files = {findfont(FontProperties(family=font, weight=w)) for w in ("normal", "bold")}
    return frozenset.intersection(*(frozenset(get_font(file).get_charmap()) for file in files))
