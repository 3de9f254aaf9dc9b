"""`nsysoverlap record` and `nsysoverlap history`."""

from __future__ import annotations

from pathlib import Path

import click

from ..core.errors import UsageError
from .exits import ExitCode, one_line
from .given import STEPPING, FilePath, Given, command
from .terminal import emit_file, say, to_stdout
from .wanted import Wanted, formats_option

database_option = click.option(
    "--db", type=FilePath(), required=True, metavar="FILE", help="The run history, an SQLite file."
)
label_option = click.option(
    "--label", multiple=True, metavar="KEY=VALUE",
    help="Label of a run, such as branch=main; may be given several times.",
)  # fmt: skip


@command(
    "0 done, 2 bad usage or unreadable file, 3 inconclusive: the trace cannot tell, and nothing is "
    "stored",
    *("traces", *STEPPING, "accept", "ranks"),
)
@database_option
@label_option
@click.option("--replace", is_flag=True, help="Store a run anew that is there already.")
def record(given: Given, db: Path, label: tuple[str, ...], replace: bool) -> None:
    """Store what a run measured: totals, devices, steps, operations and findings.

    Several traces are the ranks of one run. The same traces are stored once, however often this
    is called. Any number of writers may share a file; a run is in it whole or not at all.
    """
    from ..judge.history_store import content_hash, parse_labels
    from ..judge.history_store import record as store

    labels, _, (paths, _) = parse_labels(label), given.options, given.files
    given.check_target(paths, db)
    report, errors = given.measure()
    problems = [one_line(error) for error in errors]
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


@command("0 done, 2 bad usage or unreadable file", "output")
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
@formats_option("history")
def history(
    given: Given,
    db: Path,
    label: tuple[str, ...],
    search: str | None,
    last: int | None,
    plot: Path | None,
    wanted: Wanted,
) -> None:
    """Show recorded runs, oldest first, and whether the last one left the spread of the others."""
    from ..judge.history_store import Trend, parse_labels, read_runs

    wanted.check(given, [db])
    if plot is not None:
        given.check_target([db], plot)
        if to_stdout(plot):
            raise UsageError("A plot is not written to stdout.", "Give the name of a file.")
    runs = read_runs(db, parse_labels(label), search, say)
    runs = runs[-last:] if last else runs
    wanted.write(Trend(db.name, tuple(runs)), given)
    if plot is not None:
        from ..draw.plot_history import draw_history

        emit_file(draw_history(runs, plot.suffix.lower().removeprefix(".")), plot)
