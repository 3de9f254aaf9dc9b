"""Options that all commands running arms share, and the plan that they say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from . import nsys
from .config import Config, load_config, preset_names
from .errors import RefusedError
from .matrix import Plan

Command = TypeVar("Command", bound=Callable[..., Any])


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A time limit: a finite number above zero."""

    name = "seconds"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """The number."""
        try:
            seconds = float(value)
        except ValueError:
            seconds = -1.0
        if not (math.isfinite(seconds) and seconds > 0):
            self.fail(f"{value} is no time; give seconds above 0.", param, ctx)
        return seconds


RUN_OPTIONS = (
    click.option(
        "--config",
        "config_name",
        required=True,
        metavar="NAME|FILE",
        help=f"A TOML file or a preset: {', '.join(preset_names())}.",
    ),
    click.option(
        "--out",
        "folder",
        required=True,
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder for results; arms that have one there are not run again.",
    ),
    click.option(
        "--trace/--no-trace",
        default=None,
        help="Record with nsys, or only time. Default: as the configuration says.",
    ),
    click.option(
        "--nsys-libs",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Folder with libraries that nsys's importer lacks (libdw.so.1).",
    ),
    click.option(
        "--xla",
        multiple=True,
        metavar="FLAG=VALUE",
        help="An XLA option for every arm, such as xla_gpu_autotune_level=0.",
    ),
    click.option(
        "--batch",
        type=click.IntRange(1),
        metavar="N",
        help="Global batch in place of the configuration's batch per device.",
    ),
    click.option(
        "--devices",
        type=click.IntRange(1),
        metavar="N",
        help="Devices in the FSDP mesh. Default: the configuration's, else all.",
    ),
    click.option(
        "--arm-timeout-s",
        type=Seconds(),
        default=300.0,
        show_default=True,
        help="Seconds after which an arm is ended.",
    ),
)


def with_run_options(command: Command) -> Command:
    """The command with `RUN_OPTIONS`."""
    for option in reversed(RUN_OPTIONS):
        command = option(command)
    return command


def plan_from(given: dict[str, Any]) -> tuple[Config, Plan]:
    """Configuration and plan. Raises `RefusedError` for values that make no sense."""
    config = load_config(given["config_name"])
    config = _resized(config, given["batch"], given["devices"])
    trace = config.recording.trace if given["trace"] is None else given["trace"]
    options = []
    for text in given["xla"]:
        name, equals, value = text.lstrip("-").partition("=")
        if not equals:
            raise RefusedError(f"--xla {text}: is not FLAG=VALUE.", "Such as --xla a=b.")
        options.append((name, value))
    return config, Plan(
        folder=given["folder"],
        nsys=nsys.require_nsys() if trace else None,
        libraries=given["nsys_libs"],
        arm_timeout_s=given["arm_timeout_s"],
        options=tuple(options),
    )


def _resized(config: Config, batch: int | None, devices: int | None) -> Config:
    training = config.training
    if devices is not None:
        training = replace(training, fsdp=devices)
    if batch is not None:
        if not training.fsdp:
            raise RefusedError("--batch is for all devices together.", "Give --devices as well.")
        if batch % training.fsdp:
            raise RefusedError(
                f"A batch of {batch} cannot be divided over {training.fsdp} devices.",
                f"Give a multiple of {training.fsdp}.",
            )
        training = replace(training, batch_per_device=batch // training.fsdp)
    return replace(config, training=training)
