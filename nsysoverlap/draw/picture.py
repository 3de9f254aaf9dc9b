"""A plot as the bytes of a file."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import UsageError
from ..run.analysis import Options, analyze_trace
from ..trace.contents import Trace
from .plot_bandwidth import bandwidth_size, draw_bandwidth
from .plot_cases import subject
from .plot_ops import draw_ops, ops_size
from .plot_steps import draw_steps, steps_size
from .plot_timeline import draw_timeline, timeline_size
from .plot_whatif import WHATIF_SIZE, draw_whatif, swept
from .scene import timeline_scene
from .style import FILE_DPI, axes_in_file, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..result.model import OverlapReport

KINDS = ("timeline", "steps", "bandwidth", "ops", "whatif")
OF_REPORTS = ("steps", "ops")
"""Those that need no more than a report, which may be of several traces."""
FORMATS = ("png", "svg", "pdf")


def format_of(path: Path) -> str:
    """The format that a file's name asks for. Raises `UsageError` for none of `FORMATS`."""
    fmt = path.suffix.lower().removeprefix(".")
    if fmt not in FORMATS:
        raise UsageError(
            f"{path.name}: a plot is written as {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.",
            f"Give a name that ends in {', '.join(f'.{name}' for name in FORMATS)}.",
        )
    return fmt


def picture(
    trace: Trace,
    kind: str,
    fmt: str,
    options: Options,
    devices: tuple[int, ...] | None = None,
    dpi: int = FILE_DPI,
) -> bytes:
    """One of `KINDS` in one of `FORMATS`; `devices` are for the timeline.

    The same trace gives the same bytes again. Raises `UsageError` as the plot functions do.
    """
    with house_style():
        if kind == "timeline":
            scene = timeline_scene(subject(trace, options), devices)
            (ax,) = axes_in_file(timeline_size(scene))
            draw_timeline(ax, scene)
        elif kind == "bandwidth":
            what = subject(trace, options)
            ax, right = axes_in_file(bandwidth_size(what), 2)
            draw_bandwidth((ax, right), what, options.links)
        elif kind == "whatif":
            (ax,) = axes_in_file(WHATIF_SIZE)
            draw_whatif(ax, swept(trace, options))
        else:
            return report_picture(analyze_trace(trace, options), kind, fmt, dpi)
        return _saved(ax, fmt, dpi)


def report_picture(report: OverlapReport, kind: str, fmt: str, dpi: int = FILE_DPI) -> bytes:
    """One of `OF_REPORTS` in one of `FORMATS`."""
    with house_style():
        (ax,) = axes_in_file((steps_size if kind == "steps" else ops_size)(report))
        (draw_steps if kind == "steps" else draw_ops)(ax, report)
        return _saved(ax, fmt, dpi)


def _saved(ax: Axes, fmt: str, dpi: int) -> bytes:
    buffer = BytesIO()
    figure = ax.get_figure(root=True)
    assert figure is not None
    # Without a date a file only changes when the picture does.
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(buffer, format=fmt, dpi=dpi, metadata=dates.get(fmt))
    return buffer.getvalue()
