"""`nsysoverlap record` and `nsysoverlap history`."""

from __future__ import annotations

from pathlib import Path

import click

from ..core.errors import UsageError
from ..core.output import check_target
from .exits import ExitCode, one_line
from .formats import formats_of, render
from .many import find_all, measure_all, ranks_options, traces_argument
from .options import (
    FilePath,
    build_options,
    measuring_options,
    output_option,
    parse_steps,
    stepping_options,
)
from .terminal import Plain, emit, emit_file, say, stdout_color, stdout_width, to_stdout

database_option = click.option(
    "--db", type=FilePath(), required=True, metavar="FILE", help="The run history, an SQLite file."
)
label_option = click.option(
    "--label", multiple=True, metavar="KEY=VALUE",
    help="Label of a run, such as branch=main; may be given several times.",
)  # fmt: skip


@click.command(
    cls=Plain,
    short_help="Store the numbers of a run in a history.",
    epilog="Exit codes: 0 done, 2 bad usage or unreadable file, 3 inconclusive: the trace cannot "
    "tell, and nothing is stored.",
)
@traces_argument
@database_option
@label_option
@click.option("--replace", is_flag=True, help="Store a run anew that is there already.")
@stepping_options
@measuring_options
@ranks_options
def record(
    traces: tuple[Path, ...],
    db: Path,
    label: tuple[str, ...],
    replace: bool,
    steps: str,
    skip_steps: int,
    step: str | None,
    window: str | None,
    config: Path | None,
    transfer_kernels: str | None,
    jobs: int | None,
    dask: str | None,
) -> None:
    """Store what a run measured: totals, devices, steps, operations and findings.

    Several traces are the ranks of one run. The same traces are stored once, however often this
    is called. Any number of writers may share a file; a run is in it whole or not at all.
    """
    from ..judge.history_store import content_hash, parse_labels
    from ..judge.history_store import record as store

    labels = parse_labels(label)
    wanted = parse_steps(steps, skip_steps, step)
    options = build_options(window, config, transfer_kernels, None, wanted)
    paths, errors = find_all(traces)
    check_target(db, paths)
    report, unreadable = measure_all(paths, options, jobs, dask)
    problems = [one_line(error) for error in (*errors, *unreadable)]
    errors_seen = (entry for entry in report.health if entry.severity == "error")
    problems += [f"{entry.message} {entry.hint}".rstrip() for entry in errors_seen]
    if problems:
        say(f"Inconclusive: {problems[0]} Nothing was stored.")
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)
    stored = store(db, report, content_hash(paths), labels, replace=replace, told=say)
    if stored.is_new:
        say(f"Recorded as run {stored.run_id} in {db}")
    else:
        say(f"Already there as run {stored.run_id}; --replace stores it anew.")


@click.command(
    cls=Plain,
    short_help="Show the trend of recorded runs.",
    epilog="Exit codes: 0 done, 2 bad usage or unreadable file.",
)
@database_option
@label_option
@click.option("--search", metavar="WORDS", help="Only runs whose labels hold these words.")
@click.option(
    "--last", type=click.IntRange(min=1), metavar="N", help="Only the last N runs.  [default: all]"
)
@click.option(
    "--plot",
    type=FilePath(),
    metavar="FILE",
    help="Draw the trend into FILE, such as trend.png or trend.svg.",
)
@click.option(
    "--format", "fmt", type=click.Choice(formats_of("history")), default="text",
    show_default=True, help="Output format.",
)  # fmt: skip
@output_option
def history(
    db: Path,
    label: tuple[str, ...],
    search: str | None,
    last: int | None,
    plot: Path | None,
    fmt: str,
    output: Path | None,
) -> None:
    """Show recorded runs, oldest first, and whether the last one left the spread of the others."""
    from ..judge.history_store import Trend, parse_labels, read_runs

    for target in (output, plot):
        if target is not None and not to_stdout(target):
            check_target(target, [db])
    if plot is not None and to_stdout(plot):
        raise UsageError("A plot is not written to stdout.", "Give the name of a file.")
    runs = read_runs(db, parse_labels(label), search, say)
    runs = runs[-last:] if last else runs
    width, color = stdout_width(output), stdout_color(output)
    emit(render(Trend(db.name, tuple(runs)), fmt, width=width, color=color), output)
    if plot is not None:
        from ..draw.plot_history import draw_history

        emit_file(draw_history(runs, plot.suffix.lower().removeprefix(".")), plot)
