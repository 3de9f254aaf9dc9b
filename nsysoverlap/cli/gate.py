"""`nsysoverlap gate`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.errors import NsysOverlapError, UsageError
from .exits import ExitCode, one_line
from .formats import render
from .gate_options import GateCommand, threshold_options
from .given import STEPPING, FilePath, Given, command
from .terminal import say
from .wanted import Wanted, formats_option

if TYPE_CHECKING:
    from ..judge.evaluate import Reference
    from ..judge.thresholds import Thresholds
    from ..judge.verdicts import Verdicts
    from ..result.model import OverlapReport

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


@command(
    "0 all limits are met, 1 one is not, 2 bad usage or unreadable file, 3 inconclusive: the trace "
    "cannot tell, or one of several cannot be read. docs/gate.md lists the metrics",
    *("traces", "output", *STEPPING, "accept", "ranks"),
    cls=GateCommand,
)
@threshold_options
@click.option(
    "--write-baseline",
    type=FilePath(),
    metavar="FILE",
    help="Write what was measured as a baseline, unless the gate does not pass.",
)
@formats_option("gate", " (annotations, and a job summary)")
def gate(
    given: Given,
    wanted: Wanted,
    write_baseline: Path | None,
    history: Path | None,
    last: int | None,
    label: tuple[str, ...],
    **limits: Any,
) -> None:
    """Check limits on how much host transfer time is hidden; exit with 1 where one is not met.

    An empty, broken or opaque trace, or one that a limit asks more of than it can tell, is
    inconclusive (exit 3) and never passes. Percentages are written 90 or 90%.
    """
    from ..judge.evaluate import judge

    thresholds = _thresholds(given.config, limits, history)
    measuring = replace(given, config=_measuring(given.config))
    _ = measuring.options
    _check_asked(thresholds, history, last, label, write_baseline)
    _check_targets(given, wanted, history, thresholds.baseline, write_baseline)
    try:
        reference = _baseline(thresholds)
        report, errors = measuring.measure()
        if history is not None:
            reference = _history(history, report, given.files[0], label, last)
    except NsysOverlapError as error:
        _show_unusable(error, thresholds, wanted, given)
        raise
    result = judge(report, thresholds, reference, [one_line(error) for error in errors])
    if not _asks(thresholds, reference):
        _only_baseline(report, result, write_baseline)
        return
    _show(result, wanted, given)
    if write_baseline is not None and result.passed:
        _write(write_baseline, report)
    elif write_baseline is not None:
        say(f"Not written: {write_baseline.name}, because the gate did not pass.")
    _exit(result)


def _check_targets(
    given: Given,
    wanted: Wanted,
    history: Path | None,
    baseline: Path | None,
    write_baseline: Path | None,
) -> None:
    """Refuse to write over an input, or twice to one file."""
    try:
        traces: Sequence[Path] = given.files[0]
    except NsysOverlapError:
        # Said once it can be said in the formats that are wanted.
        traces = given.traces
    inputs = [*traces, *([history] if history else [])]
    wanted.check(given, [*inputs, *([baseline] if baseline else [])])
    if write_baseline is None:
        return
    # A baseline may be renewed in its place.
    given.check_target(inputs, write_baseline)
    taken = [*([given.output] if given.output else []), *(path for _, path in wanted.files)]
    if os.path.realpath(write_baseline) in map(os.path.realpath, taken):
        option = "--output" if write_baseline == given.output else "--format"
        raise UsageError(f"{option} and --write-baseline name one file.", "Give each its own.")


def _thresholds(config: Path | None, limits: dict[str, Any], history: Path | None) -> Thresholds:
    from ..judge.thresholds import build_thresholds, load_gate_table
    from ..roles.config import load_config

    table: dict[str, str | list[str]] = {}
    if config is not None:
        load_config(config)
        table = load_gate_table(config)
    if history is not None and not limits["baseline"]:
        # What is typed wins over the file.
        table.pop("baseline", None)
    return build_thresholds(limits, table)


def _measuring(config: Path | None) -> Path | None:
    """The file where it says how to measure: one of limits alone must not look like rules."""
    from ..roles.config import Config, load_config

    if config is None or load_config(config) == Config(config.name):
        return None
    return config


def _asks(thresholds: Thresholds, reference: object) -> bool:
    asked = thresholds.requirements or thresholds.max_gain
    return bool(asked or reference is not None)


def _check_asked(
    thresholds: Thresholds,
    history: Path | None,
    last: int | None,
    label: Sequence[str],
    write_baseline: Path | None,
) -> None:
    """Refuse combinations of options that contradict each other or ask for nothing."""
    if history is not None and thresholds.baseline is not None:
        raise UsageError("--baseline and --history exclude each other.", "Give one of them.")
    if history is None and (last is not None or label):
        option = "--last" if last is not None else "--label"
        raise UsageError(f"{option} chooses among earlier runs.", "Give --history FILE too.")
    compares = history is not None or thresholds.baseline is not None
    if thresholds.relative and not compares:
        option = "--max-drop" if thresholds.max_drop is not None else "--max-exposed-growth"
        raise UsageError(
            f"{option} needs something to compare with.", "Give --baseline FILE or --history FILE."
        )
    absolute = thresholds.requirements or thresholds.max_gain
    if not (absolute or compares or write_baseline):
        raise UsageError(
            "There is nothing to check.",
            "Give a limit such as --min-hidden 90, --baseline FILE, or --write-baseline FILE.",
        )


def _baseline(thresholds: Thresholds) -> Reference | None:
    from ..judge.baseline import read_baseline

    return None if thresholds.baseline is None else read_baseline(thresholds.baseline)


def _history(
    path: Path, report: OverlapReport, paths: Sequence[Path], label: Sequence[str], last: int | None
) -> Reference:
    from ..judge.history_store import content_hash, parse_labels
    from ..judge.history_trend import matching_runs

    readable = [p for p in paths if p.is_file()]
    return matching_runs(
        path,
        report,
        labels=parse_labels(label),
        last=20 if last is None else last,
        content=content_hash(readable),
        told=say,
    )


def _only_baseline(report: OverlapReport, result: Verdicts, path: Path | None) -> None:
    """`--write-baseline` alone: no limit can fail, but a baseline must hold something."""
    from ..judge.baseline import unfit_reason

    reasons = [text for text in result.blockers if text != "There was nothing to compare."]
    unfit = unfit_reason(report)
    if unfit is not None and not reasons:
        reasons = [unfit[:1].upper() + unfit[1:]]
    if reasons:
        say(f"Inconclusive: {reasons[0]} No baseline was written.")
        raise click.exceptions.Exit(ExitCode.INCONCLUSIVE)
    if path is not None:
        _write(path, report)


def _write(path: Path, report: OverlapReport) -> None:
    from ..judge.baseline import write_baseline

    write_baseline(path, report)
    say(f"Wrote {path}")


def _show_unusable(
    error: NsysOverlapError, thresholds: Thresholds, wanted: Wanted, given: Given
) -> None:
    """What a CI system reads says so too where nothing could be measured; text has the error."""
    from ..judge.evaluate import judge_nothing

    result = judge_nothing(thresholds, one_line(error))
    quiet = wanted.main == "text" and given.output is None
    _show(result, wanted, given, main=not quiet)


def _show(result: Verdicts, wanted: Wanted, given: Given, *, main: bool = True) -> None:
    wanted.write(result, given, main=main)
    summary = os.environ.get(SUMMARY_VARIABLE)
    if "github" in wanted and summary:
        try:
            with open(summary, "a", encoding="utf-8") as file:
                file.write(render(result, "markdown") + "\n")
        except OSError as error:
            raise NsysOverlapError(
                f"The job summary cannot be written ({error.strerror}).",
                f"Unset {SUMMARY_VARIABLE}, or choose another format.",
            ) from error


def _exit(result: Verdicts) -> None:
    from ..judge.verdicts import Status

    codes = {
        Status.PASSED: ExitCode.DONE,
        Status.FAILED: ExitCode.FAILED,
        Status.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    }
    raise click.exceptions.Exit(codes[result.status])
