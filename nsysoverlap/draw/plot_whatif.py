"""The step and its exposed time against the link rate, replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.errors import InconclusiveError
from ..core.formatting import format_error
from ..core.palette import COLORS
from ..replay.answer import ENOUGH, WhatIf
from ..replay.questions import Question
from ..result.metrics import STEP_MEAN
from ..run.analysis import Options
from ..run.answers import ask
from ..trace.contents import Trace
from .style import GRID, INK, WIDTH, legend_below, say, say_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WHATIF_SIZE = (WIDTH, 4.4)
SWEEP = "link=0.25:16"


def swept(trace: Trace, options: Options) -> WhatIf:
    """The replay of a trace over link rates; raises `InconclusiveError` where none is predicted."""
    result = ask(trace, options, Question(), SWEEP)
    if result.withheld is not None:
        raise InconclusiveError(
            f"{result.path}: nothing is predicted: {result.withheld}.",
            "`nsysoverlap whatif` shows what the trace tells.",
        )
    return result


def draw_whatif(ax: Axes, result: WhatIf) -> None:
    """The step as a band, its exposed time as a line, the traced rate and the one that is enough.

    Nothing of it was tested against a measurement, and the picture says so.
    """
    times = [point.times for point in result.sweep]
    low, high, exposed = (
        [getattr(point, name) / 1e6 for point in result.sweep]
        for name in ("step_low_ns", "step_high_ns", "exposed_ns")
    )
    ax.set_xscale("log", base=2)
    band = ax.fill_between(times, low, high, color=COLORS["compute"], alpha=0.35, linewidth=0)
    (step,) = ax.plot(times, low, color=COLORS["compute"])
    (bare,) = ax.plot(times, exposed, color=COLORS["exposed"], linestyle="--")
    ax.axvline(1, color=INK, linestyle=":", linewidth=1)
    ax.annotate("now", (1, 1), xycoords=("data", "axes fraction"), xytext=(3, -12),
                textcoords="offset points", color=INK)  # fmt: skip
    if result.enough_link is not None:
        ax.axvline(result.enough_link, color=INK, linestyle=":", linewidth=1)
        ax.annotate(
            f"{100 * ENOUGH:.0f} % exposed", (result.enough_link, 1),
            xycoords=("data", "axes fraction"), xytext=(3, -12), textcoords="offset points",
            color=INK,
        )  # fmt: skip
    ax.grid(axis="y", color=GRID)
    ax.set_ylim(bottom=0)
    ax.set_xticks(
        [tick for tick in (0.25, 0.5, 1, 2, 4, 8, 16) if times[0] <= tick <= times[-1]],
        [f"{tick:g}x" for tick in (0.25, 0.5, 1, 2, 4, 8, 16) if times[0] <= tick <= times[-1]],
    )
    say_below(ax, "link rate, both directions (1x: as traced)")
    ax.set_ylabel(f"{STEP_MEAN} (ms)")
    labels = ["time of the step, a range over clock laws", "exposed transfers"]
    legend_below(ax, [(band, step), bare], labels)
    say(ax, _finding(result), _details(result))


def _finding(result: WhatIf) -> str:
    if result.enough_link is None:
        return f"At all rates shown more than {100 * ENOUGH:.0f} % of the step is exposed"
    if result.enough_link <= 1:
        return f"At most {100 * ENOUGH:.0f} % of the step is exposed at the rate of now"
    return f"{result.enough_link:.2g}x the link leaves {100 * ENOUGH:.0f} % of the step exposed"


def _details(result: WhatIf) -> str:
    error = format_error(result.replay_error or 0.0)
    return f"{result.path}; replay, off by {error} unmodified; other rates were not tested"
