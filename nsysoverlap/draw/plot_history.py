"""The trend of recorded runs as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

from ..core.errors import UsageError
from ..core.palette import COLORS
from ..judge.history_store import Run
from ..result.metrics import STEP_MEDIAN

FORMATS = ("png", "svg", "pdf")
_LINES = {"h2d": ("H2D", "o"), "d2h": ("D2H", "s")}
"""Label and marker by direction."""
_N_NAMED = 30
"""Runs whose numbers fit below the picture."""


def draw_history(runs: Sequence[Run], fmt: str) -> bytes:
    """Hidden shares above, exposed time below, one point a run.

    Raises `UsageError` for a format that is none of `FORMATS`.
    """
    if fmt not in FORMATS:
        raise UsageError(f"A plot cannot be written as {fmt!r}.", f"Use {', '.join(FORMATS)}.")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    shares, times = figure.subplots(2, 1, sharex=True)
    at = range(len(runs))
    for direction, (label, marker) in _LINES.items():
        values = [run.values[f"{direction}_hidden_share"] for run in runs]
        percent = [float("nan") if value is None else value * 100 for value in values]
        shares.plot(at, percent, color=COLORS[direction], marker=marker, label=label)
    shares.set_ylim(-3, 103)
    shares.set_ylabel("behind compute (%)")
    # Above the lines, which may be anywhere between 0 and 100 %.
    shares.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    exposed = [_exposed_ns(run) for run in runs]
    times.plot(at, [ns / 1e6 for ns in exposed], color=COLORS["exposed"], marker="d")
    times.set_ylim(bottom=0)
    stepped = all(run.values["exposed_step_median_ns"] is not None for run in runs if _moved(run))
    times.set_ylabel(f"exposed, {STEP_MEDIAN} (ms)" if stepped else "exposed (ms)")
    named = range(0, len(runs), 1 + len(runs) // _N_NAMED)
    times.set_xticks(list(named), [str(runs[i].run_id) for i in named])
    times.set_xlabel("run")
    buffer = BytesIO()
    figure.savefig(buffer, format=fmt)
    return buffer.getvalue()


def _moved(run: Run) -> bool:
    return run.values["worst_device_exposed_ns"] is not None


def _exposed_ns(run: Run) -> float:
    """Of the median step where there are steps, else of the worst device; nan where unknown."""
    values = (run.values["exposed_step_median_ns"], run.values["worst_device_exposed_ns"])
    return next((float(value) for value in values if value is not None), float("nan"))
