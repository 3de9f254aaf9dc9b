"""`nsysoverlap compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.output import check_target
from .exits import ExitCode, one_line
from .formats import formats_of, render
from .many import find_all, measure_all, ranks_options
from .options import (
    FilePath,
    build_options,
    measuring_options,
    output_option,
    parse_steps,
    stepping_options,
)
from .terminal import Plain, emit, say, stdout_color, stdout_width, to_stdout

if TYPE_CHECKING:
    from ..result.model import OverlapReport
    from ..run.analysis import Options


@click.command(
    cls=Plain,
    short_help="What changed between two runs.",
    epilog="Exit codes: 0 done, 2 bad usage or unreadable file, 3 inconclusive: a side cannot be "
    "trusted or lacks ranks that cannot be read; the comparison is written all the same.",
)
@click.argument("a", type=FilePath())
@click.argument("b", type=FilePath())
@click.option(
    "--format", "fmt", type=click.Choice(formats_of("compare")), default="text", show_default=True,
    help="Output format.",
)  # fmt: skip
@output_option
@stepping_options
@measuring_options
@ranks_options
def compare(
    a: Path,
    b: Path,
    fmt: str,
    output: Path | None,
    steps: str,
    skip_steps: int,
    step: str | None,
    window: str | None,
    config: Path | None,
    transfer_kernels: str | None,
    jobs: int | None,
    dask: str | None,
) -> None:
    """Compare run B with run A: split, time budget, step time, operations, kernels, findings.

    Each of A and B is a trace, a folder of ranks, a JSON report (report --format json) or a
    baseline. The options apply to traces only.
    """
    from ..judge.comparison import compare as compare_reports

    wanted = parse_steps(steps, skip_steps, step)
    options = build_options(window, config, transfer_kernels, None, wanted)
    if output is not None and not to_stdout(output):
        check_target(output, [a, b, *([config] if config else [])])
    (report_a, whole_a), (report_b, whole_b) = (_load(side, options, jobs, dask) for side in (a, b))
    result = compare_reports(report_a, report_b, _names(a.resolve(), b.resolve()))
    width, color = stdout_width(output), stdout_color(output)
    emit(render(result, fmt, width=width, color=color), output)
    if not (whole_a and whole_b and report_a.conclusive and report_b.conclusive):
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)


def _names(a: Path, b: Path) -> tuple[str, str]:
    """Base names; of equal ones with the folder."""
    if a.name != b.name:
        return a.name, b.name
    return f"{a.parent.name}/{a.name}", f"{b.parent.name}/{b.name}"


def _load(
    path: Path, options: Options, jobs: int | None, dask: str | None
) -> tuple[OverlapReport, bool]:
    """A report from a JSON file, or measured, and whether all its traces could be read."""
    if path.suffix.lower() == ".json":
        from ..judge.baseline import read_baseline

        return read_baseline(path).report, True
    paths, _ = find_all([path])
    report, errors = measure_all(paths, options, jobs, dask)
    for error in errors:
        say(f"Skipped: {one_line(error)}")
    return report, not errors
