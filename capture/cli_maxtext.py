"""The command `maxtext`: one arm's exact command, or arms that are run, recorded and checked."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from nsysoverlap.trace.nsys_export import find_nsys

from . import nsys
from .arms import find_arm
from .cli_checks import CONFIG_OPTION
from .cli_options import Seconds
from .cli_tune import say
from .config import Config, load_config
from .errors import RefusedError
from .launch import run_logged
from .matrix import Plan
from .maxtext import maxtext_run
from .maxtext_arms import MAXTEXT_ARMS, check_line, find_maxtext, run_maxtext
from .tables import markdown

FAILED, VOID = 1, 3


@click.command()
@CONFIG_OPTION
@click.option("--arm", help="One arm of a job of several GPUs: this process of it.")
@click.option(
    "--arms",
    metavar="A,B,...",
    help="Run these on this machine, each recorded and checked.  [default: "
    f"{','.join(MAXTEXT_ARMS)}]",
)
@click.option(
    "--out",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for results, recordings and MaxText's output.",
)
@click.option("--trace/--no-trace", default=True, help="Record with nsys.")
@click.option("--dry-run", is_flag=True, help="Print the command of --arm and do not run it.")
@click.option("--timeout-s", type=Seconds(), default=3600.0, show_default=True, help="For an arm.")
@click.option("--budget-s", type=Seconds(), help="Start no arm that would not end within this.")
@click.option(
    "--python", default=sys.executable, metavar="FILE", help="The Python that has MaxText."
)
@click.option(
    "--nsys-libs",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with libraries that nsys's importer lacks (libdw.so.1).",
)
def maxtext(config_name: str, arm: str | None, arms: str | None, **given: Any) -> None:
    """Run arms through MaxText into a table like that of `matrix`, or print an exact command."""
    config = load_config(config_name)
    if arm is not None:
        if arms is not None:
            raise RefusedError("--arm and --arms say different things.", "Give one of them.")
        _one_process(config, arm, given)
        return
    if given["dry_run"]:
        raise RefusedError("--dry-run prints the command of one arm.", "Give --arm.")
    plan = Plan(
        folder=given["folder"],
        nsys=nsys.require_nsys() if given["trace"] else None,
        libraries=given["nsys_libs"],
        arm_timeout_s=given["timeout_s"],
        budget_s=given["budget_s"],
    )
    names = MAXTEXT_ARMS if arms is None else [name for name in arms.split(",") if name]
    chosen = [find_arm(config, name) for name in names]
    rows = run_maxtext(config, chosen, plan, find_maxtext(given["python"]), say)
    click.echo(markdown(rows))
    states = {row.status for row in rows}
    if "void" in states:
        raise SystemExit(VOID)
    if states & {"failed", "timeout", "refused"}:
        raise SystemExit(FAILED)


def _one_process(config: Config, arm: str, given: dict[str, Any]) -> None:
    """Run this process of an arm under MaxText's own launcher, or print its command."""
    folder, trace, dry_run = given["folder"], given["trace"], given["dry_run"]
    # A dry run must print the same command on a login node without nsys.
    path = find_nsys() or Path("nsys") if dry_run else nsys.require_nsys() if trace else None
    wanted = maxtext_run(config, find_arm(config, arm), path if trace else None, folder)
    if dry_run:
        click.echo(f"{check_line()}\n{wanted.shell()}" if trace else wanted.shell())
        return
    folder.mkdir(parents=True, exist_ok=True)
    rank = os.environ.setdefault("SLURM_PROCID", "0")
    environment = {**os.environ, **wanted.environment}
    log = folder / f"log.rank{rank}.txt"
    code = run_logged(list(wanted.command), environment, log, given["timeout_s"])
    if path is not None and trace:
        nsys.finish(path, folder / f"rank{rank}")
    if code != 0:
        raise SystemExit(1)
