"""`nsysoverlap report`."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import click

from ..core.errors import UsageError
from ..core.output import check_target
from .exits import ExitCode, one_line
from .formats import formats_of, render
from .many import find_all, measure_all, ranks_options, traces_argument
from .options import build_options, measuring_options, output_option, parse_steps, stepping_options
from .terminal import Plain, emit, say, stdout_color, stdout_width, to_stdout


@click.command(
    cls=Plain,
    short_help="How much transfer time is hidden, per device and direction.",
    epilog="Exit codes: 0 done, 2 bad usage or no readable trace, 3 inconclusive: events lost, no "
    "GPU activity, or CUDA graphs recorded as a whole; the report is written all the same.",
)
@traces_argument
@click.option(
    "--format", "fmt", type=click.Choice(formats_of("report")), default="text", show_default=True,
    help="Output format.",
)  # fmt: skip
@output_option
@stepping_options
@click.option(
    "--by",
    type=click.Choice(["op", "stream"]),
    help="Add a longer table of operations, and of kernels; or one of streams.",
)
@click.option(
    "--findings",
    default="top",
    show_default=True,
    metavar="top|all|none|CODE",
    help="Which findings to print: the five that cost most, all, none, or one.",
)
@measuring_options
@click.option(
    "--link-gbps",
    metavar="H2D,D2H",
    help="Peak of the host link in GB/s per direction, such as 55,53.  [default: by GPU name]",
)
@ranks_options
@click.option("--strict", is_flag=True, help="Fail if any of several traces cannot be read.")
def report(
    traces: tuple[Path, ...],
    fmt: str,
    output: Path | None,
    steps: str,
    skip_steps: int,
    step: str | None,
    by: str | None,
    findings: str,
    window: str | None,
    config: Path | None,
    transfer_kernels: str | None,
    link_gbps: str | None,
    jobs: int | None,
    dask: str | None,
    strict: bool,
) -> None:
    """Report how much host transfer time ran behind compute, and how much was exposed.

    Each TRACE is an SQLite export, a .nsys-rep report, or a folder of them; several are measured
    one by one and added up. A trace that cannot be read is named and left out.
    """
    from ..draw.timeline_data import TimelineBuilder
    from ..result.evidence import evidence_stretches
    from ..show.view import View

    wanted = parse_steps(steps, skip_steps, step)
    options = build_options(window, config, transfer_kernels, link_gbps, wanted)
    view = View(_known_finding(findings), by)
    paths, errors = find_all(traces)
    if output is not None and not to_stdout(output):
        check_target(output, [*paths, *([config] if config else [])])
    timeline = TimelineBuilder() if fmt == "html" else None
    result, unreadable = measure_all(paths, options, jobs, dask, timeline)
    errors += unreadable
    for error in errors:
        say(f"{'Error' if strict else 'Skipped'}: {one_line(error)}")
    if errors and strict:
        raise click.exceptions.Exit(ExitCode.UNUSABLE)
    width, color = stdout_width(output), stdout_color(output)
    drawn = timeline.build(closeups=evidence_stretches(result)) if timeline else None
    emit(render(result, fmt, width=width, color=color, view=view, timeline=drawn), output)
    if not result.conclusive:
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)


def _known_finding(wanted: str) -> str:
    """A choice of findings; a code that no finding has would look like a clean result."""
    from ..findings import CODES

    choices = ("top", "all", "none", *CODES)
    if wanted not in choices:
        near = get_close_matches(wanted, choices, n=1)
        hint = f"Did you mean {near[0]}?" if near else "docs/findings.md lists the codes."
        raise UsageError(f"there is no finding {wanted!r}.", hint)
    return wanted
