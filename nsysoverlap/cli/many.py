"""Commands that take several traces: their argument, how to read them side by side, reading."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.errors import NsysOverlapError, UsageError
from .exits import Failure, one_line
from .options import Command, FilePath
from .terminal import progress, say

if TYPE_CHECKING:
    from ..draw.timeline_data import TimelineBuilder
    from ..result.model import OverlapReport
    from ..run.analysis import Options


def traces_argument(function: Command) -> Command:
    """One trace or several."""
    argument = click.argument(
        "traces", nargs=-1, required=True, type=FilePath(), metavar="TRACE..."
    )
    return argument(function)


def ranks_options(function: Command) -> Command:
    """How several traces are read side by side."""
    function = click.option(
        "--dask",
        metavar="ADDRESS",
        help="Read the traces on the workers of this Dask scheduler, such as tcp://host:8786; all "
        "of them must see the files.",
    )(function)
    return click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Read several traces in N processes.  [default: one a core, if they are large]",
    )(function)


def find_all(traces: Sequence[Path]) -> tuple[list[Path], list[NsysOverlapError]]:
    """The files that the arguments stand for, and what is wrong with the other arguments."""
    from ..run.many import distinct, find_traces

    found: list[list[Path]] = []
    errors: list[NsysOverlapError] = []
    for trace in traces:
        try:
            found.append(find_traces([trace]))
        except NsysOverlapError as error:
            errors.append(error)
    if not found:
        raise Failure(one_line(errors[0]))
    kept, again = distinct(found)
    for path in again:
        say(f"Given twice, counted once: {path.name}")
    return kept, errors


def measure_all(
    paths: Sequence[Path],
    options: Options,
    jobs: int | None,
    dask: str | None,
    timeline: TimelineBuilder | None = None,
) -> tuple[OverlapReport, list[NsysOverlapError]]:
    """The report of all readable traces and the errors of the others, with progress.

    A `timeline` takes in what is measured; the traces are then read one by one.
    """
    from ..run.many import analyze_many

    if jobs is not None and dask is not None:
        raise UsageError("--jobs and --dask exclude each other.", "Give one of them.")
    if timeline is not None and (jobs, dask) != (None, None):
        raise UsageError(
            "A timeline is drawn from traces read one by one.", "Leave out --jobs and --dask."
        )
    on_cases = None if timeline is None else lambda found: timeline.add(found.cases)
    with progress(f"Reading {paths[0].name if len(paths) == 1 else f'{len(paths)} traces'}"):
        return analyze_many(paths, options, jobs=jobs, dask=dask, on_cases=on_cases)
