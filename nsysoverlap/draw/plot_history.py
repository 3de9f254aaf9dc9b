"""The trend of recorded runs as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from ..core.errors import UsageError
from ..core.formatting import format_ns, number_of
from ..core.palette import COLORS
from ..judge.history_store import Run
from ..result.metrics import STEP_MEDIAN
from ..result.numbers import format_share
from .pixels import every
from .style import (
    FILE_DPI,
    GRID,
    LEGEND_LIFT,
    MARKERS,
    WIDTH,
    axes_in_file,
    house_style,
    legend_above,
    legible,
    say,
    say_below,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg", "pdf")
HISTORY_SIZE = (WIDTH, 5.4)
_N_NAMED = 10
"""Runs whose date fits below the picture."""
_N_MARKED = 60
_LABEL = 13
"""Characters of a label below a run."""


def draw_history(runs: Sequence[Run], fmt: str) -> bytes:
    """Hidden shares above, exposed time below, one point a run, in order of recording.

    Below a run stand its number, the day on which it was recorded, and the value of the label that
    tells most runs apart. Raises `UsageError` for a format that is none of `FORMATS`.
    """
    if fmt not in FORMATS:
        raise UsageError(f"A plot cannot be written as {fmt!r}.", f"Use {', '.join(FORMATS)}.")
    with house_style():
        shares, times = axes_in_file(HISTORY_SIZE, n_rows=2)
        _draw_shares(shares, runs)
        _draw_times(times, runs)
        say(shares, _finding(runs), _details(runs), LEGEND_LIFT)
        buffer = BytesIO()
        figure = shares.get_figure(root=True)
        assert figure is not None
        figure.savefig(buffer, format=fmt, dpi=FILE_DPI)
    return buffer.getvalue()


def _draw_shares(ax: Axes, runs: Sequence[Run]) -> None:
    for direction, marker in MARKERS.items():
        values = [run.values[f"{direction}_hidden_share"] for run in runs]
        percent = [float("nan") if value is None else value * 100 for value in values]
        # Where both are equal, the larger and solid one shows behind the other.
        ax.plot(
            range(len(runs)), percent, color=COLORS[direction], label=direction.upper(),
            marker=marker if len(runs) <= _N_MARKED else None, clip_on=False,
            markersize=7.5 if direction == "h2d" else 4.5,
            linestyle="-" if direction == "h2d" else "--",
        )  # fmt: skip
    ax.set_ylim(0, 100)
    ax.set_yticks([0, 50, 100], ["0 %", "50 %", "100 %"])
    ax.set_ylabel("behind compute")
    ax.grid(axis="y", color=GRID, linewidth=0.8)
    legend_above(ax, ax.get_lines(), [str(line.get_label()) for line in ax.get_lines()])


def _draw_times(ax: Axes, runs: Sequence[Run]) -> None:
    exposed = [_exposed_ns(run) / 1e6 for run in runs]
    marker = "d" if len(runs) <= _N_MARKED else None
    ax.plot(range(len(runs)), exposed, color=COLORS["exposed"], marker=marker, clip_on=False)
    ax.set_ylim(bottom=0)
    ax.set_xlim(-0.5, max(len(runs) - 0.5, 0.5))
    ax.set_ylabel(f"exposed, {STEP_MEDIAN} (ms)" if _stepped(runs) else "exposed (ms)")
    ax.grid(axis="y", color=GRID, linewidth=0.8)
    key = _telling(runs)
    named = range(0, len(runs), every(len(runs), _N_NAMED))
    ax.set_xticks(list(named), [_called(runs[i], key) for i in named])
    say_below(ax, f"run, day of recording{f', {legible(key)}' if key else ''}")


def _telling(runs: Sequence[Run]) -> str:
    """The label with most values, '' where none tells runs apart."""
    keys = sorted({key for run in runs for key in run.labels})
    n_values = {key: len({run.labels.get(key) for run in runs}) for key in keys}
    best = max(keys, key=n_values.__getitem__, default="")
    return best if n_values.get(best, 0) > 1 else ""


def _called(run: Run, key: str) -> str:
    label = run.labels.get(key)
    parts = [str(run.run_id), run.recorded_at[:10], *([legible(label, _LABEL)] if label else [])]
    return "\n".join(parts)


def _finding(runs: Sequence[Run]) -> str:
    if not runs:
        return "No runs"
    last = runs[-1]
    share = last.values["both_hidden_share"]
    if not _moved(last) or share is None:
        return f"Run {last.run_id} has no host transfers"
    exposed = _exposed_ns(last)
    of = f" in the {STEP_MEDIAN}" if last.values["exposed_step_median_ns"] is not None else ""
    return (
        f"Run {last.run_id} hid {format_share(share)} of its transfers and exposed "
        f"{format_ns(round(exposed))}{of}"
    )


def _details(runs: Sequence[Run]) -> str:
    days = sorted({run.recorded_at[:10] for run in runs})
    span = " to ".join(dict.fromkeys([*days[:1], *days[-1:]]))
    return f"{number_of(len(runs), 'run')}, recorded {span}" if runs else "0 runs"


def _stepped(runs: Sequence[Run]) -> bool:
    return all(run.values["exposed_step_median_ns"] is not None for run in runs if _moved(run))


def _moved(run: Run) -> bool:
    return run.values["worst_device_exposed_ns"] is not None


def _exposed_ns(run: Run) -> float:
    """Of the median step where there are steps, else of the worst device; nan where unknown."""
    values = (run.values["exposed_step_median_ns"], run.values["worst_device_exposed_ns"])
    return next((float(value) for value in values if value is not None), float("nan"))
