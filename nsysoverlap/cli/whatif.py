"""`nsysoverlap whatif`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..core.output import check_target
from .exits import ExitCode
from .options import (
    build_options,
    config_option,
    output_option,
    parse_steps,
    single_trace,
    stepping_options,
    trace_argument,
)
from .terminal import Plain, emit, progress, stdout_color, stdout_width, to_stdout

FORMATS = ("text", "markdown", "json", "html")


def scenario_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What to change; each option may be given several times, for alternatives."""
    for name, kind, metavar, text in reversed(_OPTIONS):
        function = click.option(
            name, type=kind, multiple=True, metavar=metavar, help=text, default=()
        )(function)
    return function


_OPTIONS: tuple[tuple[str, Any, str, str], ...] = (
    ("--link", str, "RATE", "Host link in both directions, as 2x or 200GB/s."),
    ("--link-h2d", str, "RATE", "Host link towards the device."),
    ("--link-d2h", str, "RATE", "Host link towards the host."),
    ("--drop", str, "REGEX", "Keep tensors on the device: no copies of operations that match."),
    ("--bytes", str, "SHARE", "Move only this share of the bytes, such as 0.5."),
    ("--earlier", click.IntRange(min=1), "N", "Issue each H2D N copies earlier."),
    ("--window", click.IntRange(min=1), "N", "At most N tensors on their way to the host."),
    ("--compute", str, "SPEED", "Matrix products so many times as fast."),
    ("--memory", str, "SPEED", "All other kernels so many times as fast."),
    ("--gpu", str, "NAME", "Another GPU by its data sheet, such as gb200: arithmetic, untested."),
)


@click.command(
    cls=Plain,
    short_help="Replay steps with something different.",
    epilog="Exit codes: 0 done, 2 bad usage or unreadable file, 3 nothing can be predicted; what "
    "the trace shows and the reason are written all the same.",
)
@trace_argument
@click.option(
    "--format", "fmt", type=click.Choice(FORMATS), default="text", show_default=True,
    help="Output format.",
)  # fmt: skip
@output_option
@scenario_options
@click.option(
    "--sweep", metavar="link=FROM:TO", help="A curve over the link rate, such as link=0.25:16."
)
@stepping_options
@config_option
def whatif(
    trace: Path,
    fmt: str,
    output: Path | None,
    sweep: str | None,
    steps: str,
    skip_steps: int,
    step: str | None,
    config: Path | None,
    **changes: tuple[Any, ...],
) -> None:
    """Say how long a step would take if something were different.

    The steady steps of the trace are replayed on a model of GPU and host. All changes are made
    together, then each alone. Without any, the link is twice as fast. docs/whatif.md says what was
    tested.
    """
    from ..replay.questions import Question
    from ..run.many import open_trace
    from ..run.whatif import ask
    from ..show.whatif_formats import render_whatif

    question = replace(Question(n_bytes=changes.pop("bytes")), **changes)
    options = build_options(config=config, steps=parse_steps(steps, skip_steps, step))
    path = single_trace(trace)
    if output is not None and not to_stdout(output):
        check_target(output, [path, *([config] if config else [])])
    with progress(f"Replaying {path.name}"):
        result = ask(open_trace(path, options), options, question, sweep)
    width, color = stdout_width(output), stdout_color(output)
    emit(render_whatif(result, fmt, width=width, color=color), output)
    if result.withheld is not None:
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)
