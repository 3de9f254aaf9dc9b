"""`nsysoverlap report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..core.errors import UsageError
from .exits import ExitCode, one_line
from .given import STEPPING, Given, command
from .terminal import say
from .wanted import Wanted, formats_option

if TYPE_CHECKING:
    from ..draw.timeline_blocks import TimelineBuilder
    from ..result.model import OverlapReport
    from ..run.curves import CurveBuilder


@command(
    "0 done, 2 bad usage or no readable trace, 3 inconclusive: events lost, no GPU activity, or "
    "CUDA graphs recorded as a whole; the report is written all the same",
    *("traces", "output", *STEPPING, "links", "accept", "ranks"),
)
@formats_option("report")
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
    help="Which findings to print: the first five (top), all, none, or one. Known gains come "
    "first, by their low end, then the others by cost; notes come last.",
)
@click.option("--strict", is_flag=True, help="Fail if any of several traces cannot be read.")
def report(given: Given, wanted: Wanted, by: str | None, findings: str, strict: bool) -> None:
    """Report how much host transfer time ran behind compute, and how much was exposed.

    Each TRACE is an SQLite export, a .nsys-rep report, or a folder of them; several are measured
    one by one and added up. A trace that cannot be read is named and left out.
    """
    from ..show.view import View

    _ = given.options
    view = View(_known_finding(findings), by)
    wanted.check(given, given.files[0])
    timeline = _timeline() if "html" in wanted else None
    # Ranks of a run would each have a curve of its own, as if it were alone.
    curve = _curve(given) if "html" in wanted and len(given.files[0]) == 1 else None
    result, errors = given.measure(timeline, curve)
    for error in errors:
        say(f"{'Error' if strict else 'Skipped'}: {one_line(error)}")
    if errors and strict:
        raise click.exceptions.Exit(ExitCode.UNUSABLE)
    drawn = _drawn(timeline, result) if timeline else None
    swept = curve.curve if curve else None
    wanted.write(result, given, view=view, timeline=drawn, curve=swept)
    if not result.conclusive:
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)


def _timeline() -> TimelineBuilder:
    from ..draw.timeline_blocks import TimelineBuilder

    return TimelineBuilder()


def _curve(given: Given) -> CurveBuilder:
    from ..run.curves import CurveBuilder

    return CurveBuilder(given.options.clock)


def _drawn(timeline: TimelineBuilder, result: OverlapReport) -> Any:
    from ..result.evidence import evidence_stretches
    from ..result.worst import worst_device

    return timeline.build(closeups=evidence_stretches(result), opened=worst_device(result))


def _known_finding(wanted: str) -> str:
    """A choice of findings; a code that no finding has would look like a clean result."""
    from ..findings import CODES

    choices = ("top", "all", "none", *CODES)
    if wanted not in choices:
        from difflib import get_close_matches

        near = get_close_matches(wanted, choices, n=1)
        hint = f"Did you mean {near[0]}?" if near else "docs/findings.md lists the codes."
        raise UsageError(f"there is no finding {wanted!r}.", hint)
    return wanted
