"""`nsysoverlap whatif`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .exits import ExitCode
from .given import Given, command
from .terminal import progress
from .wanted import Wanted, formats_option

_CHANGES: tuple[tuple[str, Any, str, str], ...] = (
    ("--link", str, "RATE", "Host link in both directions, as 2x or 200GB/s."),
    ("--link-h2d", str, "RATE", "Host link towards the device."),
    ("--link-d2h", str, "RATE", "Host link towards the host."),
    ("--drop", str, "REGEX", "Keep tensors on the device: no copies of operations that match."),
    ("--bytes", str, "SHARE", "Move only this share of the bytes, such as 0.5."),
    ("--earlier", int, "N", "Issue each H2D N copies earlier."),
    ("--window", int, "N", "At most N tensors on their way to the host."),
    ("--compute", str, "SPEED", "Matrix products so many times as fast."),
    ("--memory", str, "SPEED", "All other kernels so many times as fast."),
    ("--gpu", str, "NAME", "Another GPU by its data sheet, such as gb200: arithmetic, untested."),
)


def _change_options(function: Callable[..., None]) -> Callable[..., None]:
    """What to change; each option may be given several times, for alternatives."""
    for name, kind, metavar, text in reversed(_CHANGES):
        # Named apart from the shared options, of which --window is another one.
        variable = f"change_{name.strip('-').replace('-', '_')}"
        option = click.option(name, variable, type=kind, multiple=True, metavar=metavar, help=text)
        function = option(function)
    return function


@command(
    "0 done, 2 bad usage or unreadable file, 3 nothing can be predicted; what the trace shows and "
    "the reason are written all the same",
    *("trace", "output", "steps", "config", "kernels", "accept"),
)
@formats_option("whatif")
@_change_options
@click.option(
    "--sweep", metavar="link=FROM:TO", help="A curve over the link rate, such as link=0.25:16."
)
@click.option("--findings", is_flag=True, help="What each finding of the trace would give.")
def whatif(
    given: Given, wanted: Wanted, sweep: str | None, findings: bool, **changes: tuple[Any, ...]
) -> None:
    """Say how long a step would take if something were different.

    The steady steps of the trace are replayed on a model of GPU and host. All changes are made
    together, then each alone; several values of one option are alternatives. Without any, the
    link is twice as fast, and each finding says what it would give. docs/whatif.md says what was
    tested.
    """
    from ..replay.questions import Question
    from ..run.answers import ask
    from ..run.many import open_trace

    named = {name.removeprefix("change_"): values for name, values in changes.items()}
    question = Question(n_bytes=named.pop("bytes"), **named)
    options, path = given.options, given.path
    wanted.check(given, [path])
    with progress(f"Replaying {path.name}"):
        result = ask(open_trace(path, options), options, question, sweep, findings)
    wanted.write(result, given)
    if result.withheld is not None:
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)
