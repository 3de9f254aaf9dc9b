"""The command line: `python -m capture run|matrix|report`. The only place that prints and exits."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from nsysoverlap.core.errors import NsysOverlapError
from nsysoverlap.core.formatting import number_of
from nsysoverlap.core.interrupts import interrupt_behind, interrupts_raised

from .arms import find_arm, select_arms
from .batch_runs import BATCH_ARMS, find_batches, write_batches
from .cli_checks import preflight
from .cli_maxtext import maxtext
from .cli_options import Seconds, plan_from, with_run_options
from .cli_tune import tune_command, validate_command
from .config import Config
from .errors import RefusedError
from .frontier import write_picture
from .matrix import Plan, check_all, finish_arm, prepare, run_arm, run_matrix
from .results import Row, load_rows, read_config
from .tables import markdown, write_results

REFUSED, FAILED, VOID = 2, 1, 3
Command = TypeVar("Command", bound=Callable[..., Any])

HISTORY_OPTION = click.option(
    "--history",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Record each arm in this database of `nsysoverlap record`.",
)


class Driver(click.Group):
    """The command group; a driver that is stopped takes its arm along and says so by its status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BaseException as error:
            number = interrupt_behind(error)
            if number is None:
                raise
            # As a shell says it.
            ctx.exit(128 + number)


@click.group(cls=Driver, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run the host-offload experiment, record it with nsys and report it."""


@cli.command()
@click.option("--arm", required=True, help="The arm to run.")
@click.option(
    "--coordinator",
    metavar="HOST:PORT|auto",
    help="Several processes: the address of rank 0, or auto under Slurm.",
)
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1))
@click.option("--rank", default=0, show_default=True, type=click.IntRange(0))
@click.option("--find-batch", is_flag=True, help="Find the largest batch that fits instead.")
@with_run_options
def run(
    arm: str, coordinator: str | None, processes: int, rank: int, find_batch: bool, **given: Any
) -> None:
    """Run one arm in a fresh process."""
    config, plan = plan_from(given)
    if coordinator == "auto":
        processes, rank = slurm_ranks(os.environ)
    _check_rank(processes, rank, "Ranks count from 0.")
    plan = replace(plan, coordinator=coordinator, processes=processes, rank=rank)
    prepare(config, plan)
    chosen = find_arm(config, arm)
    if find_batch:
        sys.exit(_batches(config, plan, [arm]))
    outcome = run_arm(config, chosen, plan)
    if outcome.status in ("refused", "skipped"):
        raise RefusedError(outcome.reason)
    finish_arm(config, chosen, plan, outcome)
    if processes > 1:
        # The rows need the recordings of all ranks: `report --reanalyze` makes them.
        click.echo(f"rank {rank} of {processes}: {outcome.status} {outcome.reason}".rstrip())
        sys.exit(FAILED if outcome.status in ("failed", "timeout") else 0)
    rows = [row for row in load_rows(plan.folder) if row.arm == arm]
    click.echo(markdown(rows))
    sys.exit(_exit_code(rows))


@cli.command()
@click.option("--arms", default="", metavar="A,B,...", help="Only these and what they need.")
@click.option(
    "--budget-s", type=Seconds(), help="Start no arm that would not end within this time."
)
@click.option(
    "--find-batch",
    is_flag=True,
    help=f"Find the largest batch that fits instead; arms {', '.join(BATCH_ARMS)} or --arms.",
)
@HISTORY_OPTION
@with_run_options
def matrix(
    arms: str, budget_s: float | None, find_batch: bool, history: Path | None, **given: Any
) -> None:
    """Run all arms, each in a fresh process, and print the table."""
    config, plan = plan_from(given)
    names = [name for name in arms.split(",") if name]
    plan = replace(plan, budget_s=budget_s)
    if find_batch:
        prepare(config, plan)
        sys.exit(_batches(config, plan, names or list(BATCH_ARMS)))
    chosen = select_arms(config, names)
    prepare(config, plan)
    check_all(config, chosen, plan)
    rows = run_matrix(config, chosen, plan, _say)
    click.echo(markdown(rows))
    _conclude(plan.folder, rows, history)
    sys.exit(_exit_code(rows))


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--reanalyze", is_flag=True, help="Measure the recordings again first.")
@HISTORY_OPTION
def report(folder: Path, reanalyze: bool, history: Path | None) -> None:
    """Build the tables and the picture of a results folder anew."""
    if reanalyze:
        from .overlap import analyze_folder

        for export in sorted({path.parent for path in folder.glob("*/*.sqlite")}):
            analyze_folder(export)
    rows = load_rows(folder)
    click.echo(write_results(folder, rows))
    _conclude(folder, rows, history)


def _conclude(folder: Path, rows: list[Row], history: Path | None) -> None:
    """The picture, and a row each in the history."""
    picture = write_picture(folder, rows)
    written = ["results.md", "results.json", *([picture.name] if picture else [])]
    click.echo(f"Wrote {', '.join(written)} in {folder.name}", err=True)
    if history is not None:
        from .past import record_rows

        n_new = record_rows(history, folder, read_config(folder).name, rows)
        click.echo(f"Recorded {number_of(n_new, 'new run')} in {history.name}", err=True)


for command in (preflight, maxtext, tune_command, validate_command):
    cli.add_command(command)


def slurm_ranks(environment: Mapping[str, str]) -> tuple[int, int]:
    """Processes and rank of this Slurm task. Raises `RefusedError` outside of one."""
    hint = "Start the ranks with srun, or give HOST:PORT, --processes and --rank."
    try:
        processes, rank = int(environment["SLURM_NTASKS"]), int(environment["SLURM_PROCID"])
    except (KeyError, ValueError):
        raise RefusedError(
            "--coordinator auto: SLURM_NTASKS and SLURM_PROCID are not set.", hint
        ) from None
    _check_rank(processes, rank, hint)
    return processes, rank


def _check_rank(processes: int, rank: int, hint: str) -> None:
    """Raise `RefusedError` unless there is such a rank."""
    if not 0 <= rank < processes:
        raise RefusedError(f"There is no rank {rank} of {processes} processes.", hint)


def _batches(config: Config, plan: Plan, arms: Sequence[str]) -> int:
    """Find and print the largest batches; the exit status."""
    found = find_batches(config, plan, arms, _say)
    click.echo(write_batches(config, plan.folder, found))
    return FAILED if any(one.problem for one in found) else 0


def _exit_code(rows: list[Row]) -> int:
    """3 where a run is void, 1 where one failed; running out of memory is a result."""
    states = {row.status for row in rows}
    if "void" in states:
        return VOID
    return FAILED if states & {"failed", "timeout", "refused"} else 0


def _say(text: str) -> None:
    click.echo(f"[{time.strftime('%H:%M:%S')}] {text}", err=True)


def main() -> None:
    """Run the command line; errors become one line and an exit status."""
    try:
        with interrupts_raised():
            cli(prog_name="python -m capture", standalone_mode=True)
    except NsysOverlapError as error:
        click.echo(f"Error: {error.message}", err=True)
        if error.hint:
            click.echo(f"Hint: {error.hint}", err=True)
        sys.exit(REFUSED if isinstance(error, RefusedError) else FAILED)
