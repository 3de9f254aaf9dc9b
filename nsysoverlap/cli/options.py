"""Arguments and options that several commands share, as decorators, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..core.errors import UsageError

if TYPE_CHECKING:
    from ..run.analysis import Options
    from ..steps.plan import StepSpec

Command = TypeVar("Command", bound=Callable[..., Any])


class FilePath(click.Path):
    """A path; the empty text is refused, for it would stand for the current folder."""

    def __init__(self) -> None:
        # Whether it can be read shows when it is, with a line that says what to do.
        super().__init__(path_type=Path, readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text as a path."""
        if value == "":
            self.fail("is empty; is a variable not set?", param, ctx)
        return super().convert(value, param, ctx)


def trace_argument(function: Command) -> Command:
    """One trace."""
    return click.argument("trace", type=FilePath())(function)


def output_option(function: Command) -> Command:
    """Where to write; `-` and nothing are stdout."""
    return click.option(
        "-o",
        "--output",
        type=FilePath(),
        metavar="FILE",
        help="Write to FILE instead of stdout; it is replaced only once all is ready.",
    )(function)


def config_option(function: Command) -> Command:
    """The configuration file."""
    return click.option(
        "--config",
        type=FilePath(),
        metavar="FILE",
        help="TOML file with own kernel rules and link rates; none is read by default.",
    )(function)


def measuring_options(function: Command) -> Command:
    """Window, configuration and transfer kernels: what changes the numbers."""
    function = click.option(
        "--transfer-kernels",
        type=click.Choice(["auto", "off"]),
        help="Count XLA kernels that move host memory as transfers (auto) or as compute (off).  "
        "[default: auto, or what the config file says]",
    )(function)
    function = config_option(function)
    return click.option(
        "--window",
        metavar="START:END",
        help="Measure only this part of trace time, regardless of steps, such as 80ms:120ms, 1.5s: "
        "or :2000000; units ns, us, ms, s; plain numbers are ns.  [default: all]",
    )(function)


def accept_option(function: Command) -> Command:
    """A way past a health code that would stop everything."""
    return click.option(
        "--accept",
        multiple=True,
        metavar="CODE",
        help="Go on in spite of this health code, such as copies-lost, and say so everywhere; may "
        "be given several times. docs/gate.md lists the codes.",
    )(function)


def stepping_options(function: Command) -> Command:
    """Which steps are measured."""
    function = click.option(
        "--step",
        metavar="K[:L]",
        help="Measure only step K, or steps K to L; steps are numbered from 0.",
    )(function)
    function = click.option(
        "--skip-steps",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Leave out the first N steps, as warm-up.",
    )(function)
    return click.option(
        "--steps",
        default="auto",
        metavar="auto|none|REGEX",
        show_default=True,
        help="What marks a step: found by itself, nothing (measure the whole trace), NVTX text, or "
        "guess, to go by repeating kernels.",
    )(function)


def parse_steps(mode: str, skip: int, step: str | None) -> StepSpec:
    """Which steps are wanted; raises `UsageError` for a step that is no number."""
    from ..steps.plan import StepSpec

    if not mode:
        raise UsageError("--steps is empty; is a variable not set?", "auto is the default.")
    if step is None:
        return StepSpec(mode, skip)
    first, colon, last = step.partition(":")
    if not _is_index(first) or not (_is_index(last) or not colon):
        raise UsageError(f"--step {step!r} is no step.", "Write --step 3, or --step 3:5.")
    return StepSpec(mode, skip, int(first), int(last) if colon else int(first))


def _is_index(text: str) -> bool:
    # Python refuses to read thousands of digits.
    return text.isdecimal() and len(text) < 20


def build_options(
    window: str | None = None,
    config: Path | None = None,
    transfer_kernels: str | None = None,
    link_gbps: str | None = None,
    steps: StepSpec | None = None,
    accepted: Sequence[str] = (),
) -> Options:
    """What the options say, checked; what the command line says wins over the file."""
    from ..core.window import Window, parse_window
    from ..health.blocking import check_accepted
    from ..roles.config import load_config
    from ..roles.links import parse_link_override
    from ..roles.rules import RuleSet
    from ..run.analysis import Options
    from ..steps.plan import StepSpec

    check_accepted(accepted)
    chosen = None if transfer_kernels is None else transfer_kernels == "auto"
    settings = load_config(config) if config else None
    links = settings.links if settings else None
    return Options(
        window=Window() if window is None else parse_window(window),
        rules=settings.rule_set(chosen)
        if settings
        else RuleSet(transfer_kernels=chosen is not False),
        links=links if link_gbps is None else parse_link_override(link_gbps),
        config_name=settings.name if settings else None,
        steps=steps or StepSpec(),
        accepted=tuple(sorted(set(accepted))),
    )


def single_trace(path: Path) -> Path:
    """The one trace that `path` names; a folder must hold exactly one."""
    from ..run.many import find_traces

    found = find_traces([path])
    if len(found) != 1:
        raise UsageError(
            f"{path.resolve().name}: the folder holds {len(found)} traces, and this command "
            "takes one.",
            f"Name one, such as {found[0].name}.",
        )
    return found[0]
