"""`nsysoverlap compare`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .exits import ExitCode, one_line
from .given import STEPPING, FilePath, Given, command
from .terminal import say
from .wanted import Wanted, formats_option

if TYPE_CHECKING:
    from ..result.model import OverlapReport


@command(
    "0 done, 2 bad usage or unreadable file, 3 inconclusive: a side cannot be trusted or lacks "
    "ranks that cannot be read; the comparison is written all the same",
    *("output", *STEPPING, "accept", "ranks"),
)
@click.argument("a", type=FilePath())
@click.argument("b", type=FilePath())
@formats_option("compare")
def compare(given: Given, a: Path, b: Path, wanted: Wanted) -> None:
    """Compare run B with run A: split, time budget, step time, operations, kernels, findings.

    Each of A and B is a trace, a folder of ranks, a JSON report (report --format json) or a
    baseline. The options apply to traces only, but --accept to all.
    """
    from ..judge.comparison import compare as compare_reports

    _ = given.options
    wanted.check(given, [a, b])
    (report_a, whole_a), (report_b, whole_b) = (_load(side, given) for side in (a, b))
    result = compare_reports(report_a, report_b, _names(a.resolve(), b.resolve()))
    wanted.write(result, given)
    if not (whole_a and whole_b and report_a.conclusive and report_b.conclusive):
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)


def _names(a: Path, b: Path) -> tuple[str, str]:
    """Base names; of equal ones with the folder."""
    if a.name != b.name:
        return a.name, b.name
    return f"{a.parent.name}/{a.name}", f"{b.parent.name}/{b.name}"


def _load(path: Path, given: Given) -> tuple[OverlapReport, bool]:
    """A report from a JSON file, or measured, and whether all its traces could be read."""
    if path.suffix.lower() == ".json":
        from ..health.blocking import accept
        from ..judge.baseline import read_baseline

        stored = read_baseline(path).report
        return replace(stored, health=tuple(accept(stored.health, given.accept))), True
    report, errors = replace(given, traces=(path,)).measure()
    for error in errors:
        say(f"Skipped: {one_line(error)}")
    return report, not errors
