"""What `nsysoverlap history` says: plain blocks, and plain data for JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial

from ..core.formatting import number_of
from ..core.limits import Unit
from ..judge.history_store import Run, Trend
from ..judge.history_trend import MIN_RUNS
from ..result.columns import Column
from ..result.device_names import NAMES
from ..result.metrics import STEP_MEDIAN
from ..result.model import DIRECTIONS, format_share
from .blocks import Paragraph, Section, Table
from .cells import table_of


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


def _exposed(run: Run) -> float | int | None:
    """Of the median step where there are steps, else of the worst device."""
    median = run.values["exposed_step_median_ns"]
    return run.values["worst_device_exposed_ns"] if median is None else median


def _table(runs: Sequence[Run]) -> Table:
    stepped = all(run.values["exposed_step_median_ns"] is not None for run in runs)
    exposed = f"exposed, {STEP_MEDIAN}" if stepped else "exposed"
    columns: tuple[Column[Run], ...] = (
        Column("run", Unit.NAME, "", lambda run: str(run.run_id), "run"),
        Column("date", Unit.NAME, "", lambda run: run.recorded_at.partition("T")[0], "date"),
        Column("labels", Unit.NAME, "", _labels, "labels"),
        *(
            Column(name, Unit.SHARE, "", partial(_value, name), f"{NAMES[direction]} hidden")
            for direction in DIRECTIONS
            for name in (f"{direction}_hidden_share",)
        ),
        Column("exposed", Unit.TIME, "", _exposed, exposed),
        Column("step_ns", Unit.TIME, "", partial(_value, "step_ns"), "step time"),
    )
    note = "Exposed time is the median step's where there are steps, else of the worst device."
    return table_of("Runs", columns, runs, note)


def _labels(run: Run) -> str:
    return ", ".join(f"{key}={value}" for key, value in run.labels.items())


def _value(name: str, run: Run) -> float | int | None:
    return run.values[name]
