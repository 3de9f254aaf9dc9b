"""The limits of `nsysoverlap gate` as options."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from .given import Command, FilePath
from .terminal import Plain

TRANSFERS = "--require-transfers"
ANY = "any"
_SIZE = re.compile(r"\d+(\.\d+)?\s*[A-Za-z]*")


class GateCommand(Plain):
    """A command whose `--require-transfers` takes the next word only if that is a size.

    Otherwise `gate --require-transfers trace.sqlite` would swallow the trace.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give the option its value where it stands alone."""
        completed = []
        for i, arg in enumerate(args):
            following = args[i + 1] if i + 1 < len(args) else ""
            alone = arg == TRANSFERS and not _SIZE.fullmatch(following)
            completed.append(f"{TRANSFERS}={ANY}" if alone else arg)
        return super().parse_args(ctx, completed)


def threshold_options(function: Command) -> Command:
    """All limits, and what relative ones compare with."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _percent(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, metavar="PERCENT", help=text)


_OPTIONS: tuple[Callable[..., Command], ...] = (
    click.option(
        TRANSFERS,
        metavar="[BYTES]",
        help="Every rank must move something, or at least BYTES such as 8GiB, both ways together; "
        "else offload silently did nothing.",
    ),
    _percent("--min-hidden", "Least share of transfer time behind compute."),
    _percent("--min-hidden-h2d", "The same for H2D alone."),
    _percent("--min-hidden-d2h", "The same for D2H alone."),
    _percent("--min-covered", "Least share behind compute or communication."),
    _percent("--min-relief", "Least share of the offloaded bytes that is ever away at once."),
    click.option(
        "--max-exposed-ms",
        metavar="MS",
        help="Most exposed time per step (median; worst device), or of a trace without steps.",
    ),
    click.option(
        "--max-peak-gib",
        metavar="GIB",
        help="Most device memory in use on any device, by the manifest beside each trace; without "
        "one inconclusive.",
    ),
    click.option(
        "--max-gain-ms",
        metavar="MS",
        help="Most that a step could win, by the replayed gains of findings: fails where the low "
        "end of the largest is above, passes where its high end is not.",
    ),
    click.option(
        "--require",
        multiple=True,
        metavar="LIMIT",
        help="Any metric, such as 'h2d.hidden@worst-rank >= 60%'; may be given several times.",
    ),
    click.option(
        "--baseline",
        type=FilePath(),
        metavar="FILE",
        help="Compare with this baseline or JSON report; alone it allows a drop of one point.",
    ),
    click.option(
        "--history",
        type=FilePath(),
        metavar="FILE",
        help="Compare with the median of matching runs of this database; alone it allows a drop "
        "within their spread.",
    ),
    click.option(
        "--last",
        type=click.IntRange(min=1),
        metavar="N",
        help="Use the last N matching runs.  [default: 20]",
    ),
    click.option(
        "--label",
        multiple=True,
        metavar="KEY=VALUE",
        help="Use runs with this label; may be given several times.",
    ),
    _percent("--max-drop", "Most that a hidden share may fall below the baseline, in points."),
    _percent("--max-exposed-growth", "Most that exposed time (as in --max-exposed-ms) may grow."),
    _percent(
        "--confidence",
        "Decide on --max-drop, which must be given, by the spread of steps at this level, such "
        "as 95, not by the value.",
    ),
)
