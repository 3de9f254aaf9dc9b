"""What commands are given: traces, the options that several share, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..core.errors import NsysOverlapError, UsageError
from ..core.output import check_target
from .terminal import Plain, emit, progress, say, stdout_color, stdout_width, to_stdout

if TYPE_CHECKING:
    from ..draw.timeline_blocks import TimelineBuilder
    from ..result.model import OverlapReport
    from ..roles.config import Config
    from ..run.analysis import Options, TraceCases
    from ..run.curves import CurveBuilder
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


@dataclass(frozen=True)
class Given:
    """Shared arguments as they were typed; what they add up to is worked out when asked for.

    Whatever is wrong with them is raised then, as a `NsysOverlapError`.
    """

    traces: tuple[Path, ...] = ()
    output: Path | None = None
    steps: str = "auto"
    skip_steps: int = 0
    step: str | None = None
    window: str | None = None
    config: Path | None = None
    transfer_kernels: str | None = None
    link_gbps: str | None = None
    accept: tuple[str, ...] = ()
    ranks: str | None = None
    jobs: int | None = None
    dask: str | None = None
    rank: int | None = None

    @cached_property
    def step_spec(self) -> StepSpec:
        """Which steps are wanted."""
        from ..steps.plan import StepSpec

        if not self.steps:
            raise UsageError("--steps is empty; is a variable not set?", "auto is the default.")
        if self.step is None:
            return StepSpec(self.steps, self.skip_steps)
        first, colon, last = self.step.partition(":")
        if not _is_index(first) or not (_is_index(last) or not colon):
            raise UsageError(f"--step {self.step!r} is no step.", "Write --step 3, or --step 3:5.")
        end = int(last) if colon else int(first)
        return StepSpec(self.steps, self.skip_steps, int(first), end)

    @cached_property
    def options(self) -> Options:
        """How to measure; what the command line says wins over the file."""
        from ..core.window import Window, parse_window
        from ..health.blocking import check_accepted
        from ..roles.links import parse_link_override
        from ..roles.rules import RuleSet
        from ..run.analysis import Options
        from ..run.clock_fit import law_of

        check_accepted(self.accept)
        wanted, kernels = self.step_spec, self.transfer_kernels
        chosen = None if kernels is None else kernels == "auto"
        settings = None if self.config is None else _settings(self.config)
        window = Window() if self.window is None else parse_window(self.window)
        links = settings.links if settings else None
        if self.link_gbps is not None:
            links = parse_link_override(self.link_gbps)
        rules = RuleSet(transfer_kernels=chosen is not False)
        return Options(
            window=window,
            rules=settings.rule_set(chosen) if settings else rules,
            links=links,
            config_name=settings.name if settings else None,
            steps=wanted,
            clock=law_of(settings.clock) if settings else None,
            accepted=tuple(sorted(set(self.accept))),
        )

    @cached_property
    def path(self) -> Path:
        """The one trace that the argument names; of a folder of several that of `--rank`."""
        from ..run.many import find_traces
        from ..run.rank_names import ranks_of

        found = find_traces(self.traces)
        if len(found) == 1 and self.rank is None:
            return found[0]
        folder, ranks = self.traces[0].resolve().name, ranks_of([str(path) for path in found])
        if self.rank is None:
            raise UsageError(
                f"{folder}: the folder holds {len(found)} traces, and this command takes one.",
                f"Name one, such as {found[0]}.",
            )
        chosen = [path for path, rank in zip(found, ranks, strict=True) if rank == self.rank]
        if len(chosen) != 1:
            known = ", ".join(str(rank) for rank in ranks if rank is not None)
            raise UsageError(
                f"{folder}: rank {self.rank} is that of {len(chosen)} traces by their names.",
                f"The names tell these ranks: {known}." if known else "Name the trace itself.",
            )
        return chosen[0]

    @cached_property
    def files(self) -> tuple[list[Path], list[NsysOverlapError]]:
        """The files that the arguments stand for, and what is wrong with the other arguments."""
        from ..run.sources import files_of

        kept, again, errors = files_of(self.traces)
        if not kept:
            raise errors[0]
        for path in again:
            say(f"Given twice, counted once: {path.name}")
        return kept, errors

    def check_target(self, inputs: Sequence[Path], target: Path | None = None) -> None:
        """Refuse to write the output, or another target, over an input or where it cannot be."""
        target = self.output if target is None else target
        if target is not None and not to_stdout(target):
            check_target(target, [*inputs, *([self.config] if self.config else [])])

    def measure(
        self, timeline: TimelineBuilder | None = None, curve: CurveBuilder | None = None
    ) -> tuple[OverlapReport, list[NsysOverlapError]]:
        """The report of all readable traces and all errors, with progress.

        A `timeline` takes in what is measured, and a `curve` beside it.
        """
        from ..health.blocking import accept
        from ..run.many import analyze_many
        from ..run.rank_checks import parse_ranks, rank_health

        wanted = None if self.ranks is None else parse_ranks(self.ranks)
        paths, errors = self.files
        if self.jobs is not None and self.dask is not None:
            raise UsageError("--jobs and --dask exclude each other.", "Give one of them.")
        keep: Callable[[TraceCases], Any] | None = None
        on_kept: Callable[[Any], None] | None = None
        if timeline is not None:
            from ..draw.timeline_blocks import timelines_of

            keep, on_kept = timelines_of, timeline.add
            if curve is not None:
                keep, on_kept = curve.beside(timelines_of), curve.taken_with(timeline.add)
        with progress(f"Reading {paths[0].name if len(paths) == 1 else f'{len(paths)} traces'}"):
            report, unreadable = analyze_many(
                paths, self.options, jobs=self.jobs, dask=self.dask, keep=keep, on_kept=on_kept
            )
        found = accept(rank_health(self.traces, paths, report, wanted), self.options.accepted)
        found += report.health
        health = tuple(sorted(found, key=lambda entry: entry.severity != "error"))
        return replace(report, health=health), [*errors, *unreadable]

    @property
    def screen(self) -> dict[str, Any]:
        """Width in columns and use of colours, for text that goes to the output."""
        return {"width": stdout_width(self.output), "color": stdout_color(self.output)}

    def show(self, text: str) -> None:
        """Write the finished result."""
        emit(text, self.output)


def _settings(path: Path) -> Config:
    # Most reports have no configuration, and TOML takes its time to load.
    from ..roles.config import load_config

    return load_config(path)


def _is_index(text: str) -> bool:
    # Python refuses to read thousands of digits.
    return text.isdecimal() and len(text) < 20


_BUNDLES: Mapping[str, Sequence[click.Parameter]] = {
    "trace": [click.Argument(["trace"], type=FilePath())],
    "traces": [
        click.Argument(["traces"], nargs=-1, required=True, type=FilePath(), metavar="TRACE...")
    ],
    "output": [
        click.Option(
            ["-o", "--output"],
            type=FilePath(),
            metavar="FILE",
            is_eager=True,
            help="Write to FILE instead of stdout; it is replaced only once all is ready.",
        )
    ],
    "steps": [
        click.Option(
            ["--steps"],
            default="auto",
            metavar="auto|none|REGEX",
            show_default=True,
            help="What marks a step: found by itself, nothing (measure the whole trace), NVTX "
            "text, or guess, to go by repeating kernels.",
        ),
        click.Option(
            ["--skip-steps"],
            type=click.IntRange(min=0),
            default=0,
            metavar="N",
            help="Leave out the first N steps, as warm-up.",
        ),
        click.Option(
            ["--step"],
            metavar="K[:L]",
            help="Measure only step K, or steps K to L; steps are numbered from 0.",
        ),
    ],
    "window": [
        click.Option(
            ["--window"],
            metavar="START:END",
            help="Measure only this part of trace time, regardless of steps, such as 80ms:120ms, "
            "1.5s: or :2000000; units ns, us, ms, s; plain numbers are ns.  [default: all]",
        )
    ],
    "config": [
        click.Option(
            ["--config"],
            type=FilePath(),
            metavar="FILE",
            help="TOML file with own kernel rules and link rates; none is read by default.",
        )
    ],
    "kernels": [
        click.Option(
            ["--transfer-kernels"],
            type=click.Choice(["auto", "off"]),
            help="Count XLA kernels that move host memory as transfers (auto) or as compute "
            "(off).  [default: auto, or what the config file says]",
        )
    ],
    "links": [
        click.Option(
            ["--link-gbps"],
            metavar="H2D,D2H",
            help="Peak of the host link in GB/s per direction, such as 55,53.  [default: by GPU "
            "name]",
        )
    ],
    "accept": [
        click.Option(
            ["--accept"],
            multiple=True,
            metavar="CODE",
            help="Go on in spite of this health code, such as copies-lost, and say so everywhere; "
            "may be given several times. docs/gate.md lists the codes.",
        )
    ],
    "rank": [
        click.Option(
            ["--rank"],
            type=click.IntRange(min=0),
            metavar="N",
            help="Of a folder of ranks take this one.",
        )
    ],
    "ranks": [
        click.Option(
            ["--ranks"],
            metavar="N|A-B,...",
            help="The ranks that must be there, such as 128, 0-127 or 0,8,16; else the result is "
            "inconclusive.  [default: those found]",
        ),
        click.Option(
            ["--jobs"],
            type=click.IntRange(min=1),
            metavar="N",
            help="Read several traces in N processes.  [default: one a core, if they are large]",
        ),
        click.Option(
            ["--dask"],
            metavar="ADDRESS",
            help="Read the traces on the workers of this Dask scheduler, such as tcp://host:8786; "
            "all of them must see the files.",
        ),
    ],
}
MEASURING = ("window", "config", "kernels")
"""What changes the numbers of one trace."""
STEPPING = ("steps", *MEASURING)


def command(
    codes: str, *bundles: str, cls: type[Plain] = Plain
) -> Callable[[Callable[..., None]], click.Command]:
    """A command whose function gets a `Given` of these bundles, then its own options.

    `codes` are the exit codes. In the help shared options stand after those of the command.
    """
    shared = [parameter for bundle in bundles for parameter in _BUNDLES[bundle]]

    def decorate(function: Callable[..., None]) -> click.Command:
        @wraps(function)
        def call(**values: Any) -> None:
            known = {f.name: values.pop(f.name) for f in fields(Given) if f.name in values}
            if "trace" in bundles:
                known["traces"] = (values.pop("trace"),)
            function(Given(**known), **values)

        made = click.command(cls=cls, epilog=f"Exit codes: {codes}.")(call)
        made.params = [
            *(one for one in shared if isinstance(one, click.Argument)),
            *made.params,
            *(one for one in shared if isinstance(one, click.Option)),
        ]
        return made

    return decorate


def format_option(*formats: str, text: str = "Output format.") -> Callable[[Command], Command]:
    """Which format to write; the first is the default."""
    return click.option(
        "--format", "fmt", type=click.Choice(formats), default=formats[0], show_default=True,
        help=text,
    )  # fmt: skip
