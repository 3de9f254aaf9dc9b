"""The commands that predict: `tune` and `validate`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from nsysoverlap.core.output import write_atomically

from .arms import find_arm
from .cli_options import plan_from, with_run_options
from .config import Config
from .errors import RefusedError
from .frontier import write_picture
from .learning import step_model
from .matrix import Plan
from .predictions import read_predictions
from .results import Row, read_config
from .tune import FIXED, Goal, by_name, take_turns, tensors_of, tune
from .tune_tables import write_tune
from .validate import validate, validate_text

Say = Callable[[str], None]
ABOVE = "remat+"
TUNE_OPTIONS = (
    click.option(
        "--memory",
        "limits",
        multiple=True,
        metavar="GiB|remat+GiB",
        help="Peak device memory at most; may be given several times.",
    ),
    click.option("--frontier", is_flag=True, help="Limits from full recomputation to keeping all."),
    click.option(
        "--maxtext",
        is_flag=True,
        help="Only programs that MaxText has options for, and print those of each answer.",
    ),
    click.option("--turns", default=2, show_default=True, type=click.IntRange(1, 9)),
    click.option(
        "--rounds",
        default=5,
        show_default=True,
        type=click.IntRange(0, 99),
        help="At the end all arms take turns so often, without nsys; 0 leaves that out.",
    ),
    click.option(
        "--budget-s", type=float, help="Start no arm that would not end within this time."
    ),
)


def _with(options: tuple[Any, ...]) -> Callable[[Any], Any]:
    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def goal_from(limits: tuple[str, ...], frontier: bool) -> Goal:
    """The goal that the options say. Raises `RefusedError`."""
    plain: list[float] = []
    above: list[float] = []
    for text in limits:
        target = above if text.startswith(ABOVE) else plain
        try:
            value = float(text.removeprefix(ABOVE))
        except ValueError:
            value = -1.0
        if not 0 < value < 1e6:
            raise RefusedError(f"--memory {text}: is no size.", "Such as 28.6 or remat+1.")
        target.append(value)
    if not limits and not frontier:
        raise RefusedError("Nothing to tune for.", "Give --memory GiB or --frontier.")
    return Goal(tuple(plain), tuple(above), frontier)


def run_tune(
    config: Config, plan: Plan, goal: Goal, turns: int, rounds: int, say: Say
) -> tuple[str, list[Row]]:
    """Tune, let the arms take turns, and leave the tables; returns text and rows."""
    rows = tune(config, plan, goal, turns, say)
    known = read_config(plan.folder)
    able = [
        name
        for name, row in rows.items()
        if row.status == "ok" and _alike(known, name) and name in {*FIXED, *known.arms}
    ]
    found: dict[str, Any] = {"rounds": {}}
    if rounds and able:
        found = take_turns(known, able, rounds, plan, say)
    names = tensors_of(known, maxtext=goal.maxtext)
    model = step_model(known, plan.folder, rows, names)
    predictions = read_predictions(plan.folder)
    text = write_tune(
        plan.folder, known, rows, predictions, found["rounds"], model, maxtext=goal.maxtext
    )
    return text, list(by_name(rows.values()).values())


@click.command("tune")
@_with(TUNE_OPTIONS)
@with_run_options
def tune_command(
    limits: tuple[str, ...],
    frontier: bool,
    maxtext: bool,
    turns: int,
    rounds: int,
    budget_s: float | None,
    **given: Any,
) -> None:
    """Find the fastest program for a memory limit: predict, run the few best, learn, again."""
    goal = replace(goal_from(limits, frontier), maxtext=maxtext)
    config, plan = plan_from(given)
    text, rows = run_tune(config, replace(plan, budget_s=budget_s), goal, turns, rounds, say)
    click.echo(text)
    picture = write_picture(plan.folder, rows)
    written = ["tune.md", "tune.json", "toml", *([picture.name] if picture else [])]
    click.echo(f"Wrote {', '.join(written)} in {plan.folder.name}", err=True)


@click.command("validate")
@click.option("--arms", default="", metavar="A,B,...", help="Only these. Default: all.")
@_with(TUNE_OPTIONS[4:])
@with_run_options
def validate_command(arms: str, rounds: int, budget_s: float | None, **given: Any) -> None:
    """Change the prefetching program on purpose, predict each change, then run it."""
    config, plan = plan_from(given)
    plan = replace(plan, budget_s=budget_s)
    names = [name for name in arms.split(",") if name]
    config, rows = validate(config, plan, names, say)
    able = [name for name, row in rows.items() if row.status == "ok" and _alike(config, name)]
    found = take_turns(config, able, rounds, plan, say) if rounds and able else {"rounds": {}}
    text = validate_text(config, rows, read_predictions(plan.folder), found["rounds"])
    write_atomically(plan.folder / "validate.md", text)
    click.echo(text)
    click.echo(f"Wrote validate.md in {plan.folder.name}", err=True)


def _alike(config: Config, name: str) -> bool:
    """Whether an arm keeps its training state as `keep` does, so that both can take turns."""
    arm = find_arm(config, name)
    other = arm.optimizer_on_host or arm.parameters_on_host or arm.feed
    # The rounds run one program at a time, so a companion would be missing from them.
    return not (arm.scan or other or arm.beside)


def say(text: str) -> None:
    """Progress, with the time."""
    click.echo(f"[{time.strftime('%H:%M:%S')}] {text}", err=True)
