"""What `nsysoverlap history` says: plain blocks, and plain data for JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ..core.formatting import NONE, format_ns, number_of
from ..judge.history_store import Run, Trend
from ..judge.history_trend import MIN_RUNS
from ..result.metrics import STEP_MEDIAN
from ..result.model import format_share
from .blocks import Paragraph, Section, Table


def history_sections(trend: Trend) -> list[Section]:
    """Everything to print, in order."""
    said = headline(trend.runs) if trend.runs else f"No runs in {trend.name} match."
    table = (_table(trend.runs),) if trend.runs else ()
    return [
        Section("summary", "Summary", (Paragraph(said, "headline"),)),
        Section("runs", "Runs", table),
    ]


def headline(runs: Sequence[Run]) -> str:
    """The latest run that moved anything against those before it; a newer one is named first."""
    moved = [run for run in runs if run.values["both_hidden_share"] is not None]
    n = number_of(len(runs), "run")
    if not moved:
        return f"{n}, none with host transfers."
    *before, last = (s for run in runs if (s := run.values["both_hidden_share"]) is not None)
    who = "the latest"
    if moved[-1] is not runs[-1]:
        who = f"the latest, run {runs[-1].run_id}, moved nothing; the last that did, run "
        who += f"{moved[-1].run_id},"
    text = f"{n}; {who} hid {format_share(last)} of its transfer time behind compute"
    if len(before) < MIN_RUNS:
        shown = f"{number_of(len(before), 'is', 'are')} shown"
        return f"{text}. To compare it takes {MIN_RUNS} runs with transfers before it; {shown}."
    median = statistics.median(before)
    low, high = min(before), max(before)
    place = "within" if low <= last <= high else ("below" if last < low else "above")
    others = "before it" if len(before) == len(runs) - 1 else "with transfers before it"
    return (
        f"{text}, {place} the range of the {len(before)} {others} "
        f"({format_share(low)} to {format_share(high)}, median {format_share(median)})."
    )


def _table(runs: Sequence[Run]) -> Table:
    rows = []
    for run in runs:
        values = run.values
        shares = (values[f"{d}_hidden_share"] for d in ("h2d", "d2h", "both"))
        # Per step where there are steps, else of the worst device.
        exposed = values["exposed_step_median_ns"]
        exposed = values["worst_device_exposed_ns"] if exposed is None else exposed
        labels = ", ".join(f"{key}={value}" for key, value in run.labels.items())
        rows.append(
            (
                str(run.run_id),
                run.recorded_at.partition("T")[0],
                labels or NONE,
                *map(format_share, shares),
                _time(exposed),
                _time(values["step_ns"]),
            )
        )
    stepped = all(run.values["exposed_step_median_ns"] is not None for run in runs)
    columns = (
        *("run", "date", "labels", "H2D hidden", "D2H hidden", "both hidden"),
        *(f"exposed, {STEP_MEDIAN}" if stepped else "exposed", "step time"),
    )
    note = "Exposed time is the median step's where there are steps, else of the worst device."
    return Table("Runs", columns, tuple(rows), note, n_words=3)


def _time(ns: float | int | None) -> str:
    return NONE if ns is None else format_ns(round(ns))
