"""What Python users measure: a trace, a file, a folder of ranks, a pattern, or several of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..core.errors import NsysOverlapError
from ..core.window import Window
from ..health.blocking import accept as accepting
from ..health.blocking import check_accepted
from ..result.model import OverlapReport
from ..roles.links import LinkOverride
from ..roles.rules import RuleSet
from ..steps.plan import StepSpec
from ..trace.contents import Trace
from .analysis import Options, analyze_trace, as_window
from .many import analyze_many, distinct, find_traces
from .rank_checks import parse_ranks, rank_health

Source = Trace | str | Path | Sequence[str | Path]
"""A `Trace`, or paths: a `.sqlite` or `.nsys-rep`, a folder of them, a pattern such as
`run/rank*.sqlite`, or a list of any of these. Several files are the ranks of one run."""


def analyze(
    source: Source,
    *,
    steps: str = "auto",
    skip_steps: int = 0,
    window: Window | tuple[int | None, int | None] | None = None,
    rules: RuleSet | None = None,
    links: LinkOverride | None = None,
    ranks: str | int | None = None,
    accept: Sequence[str] = (),
    jobs: int | None = 1,
) -> OverlapReport:
    """Measure a trace, or the ranks of a run, given as one of `Source`.

    `steps` is auto, none, guess or a regular expression for the NVTX text that marks a step; the
    first `skip_steps` are left out. `window`, `(start_ns, end_ns)` with None for an open side,
    measures a part of the trace's time instead. `rules` replace the built-in ones, `links` the
    table of link peaks. `ranks` says which must be there, such as 8 or "0-7"; `accept` names
    health codes to go on in spite of. `jobs` processes read several files (None: one a core where
    they are large). Raises `TraceFileError` where one cannot be read, `UsageError` for steps, ranks
    or a window that the trace does not have.
    """
    wanted = StepSpec(steps, skip_steps)
    options = measuring(window, rules, links, wanted, accept)
    report, errors, _ = read_source(source, options, ranks=ranks, jobs=jobs)
    if errors:
        raise errors[0]
    return report


def measuring(
    window: Window | tuple[int | None, int | None] | None = None,
    rules: RuleSet | None = None,
    links: LinkOverride | None = None,
    steps: StepSpec | None = None,
    accept: Sequence[str] = (),
) -> Options:
    """`Options` from what Python users give. Raises `UsageError` for an unknown health code."""
    check_accepted(accept)
    return Options(
        as_window(window),
        rules or RuleSet(),
        links,
        steps=steps or StepSpec(),
        accepted=tuple(sorted(set(accept))),
    )


def read_source(
    source: Source, options: Options, *, ranks: str | int | None = None, jobs: int | None = 1
) -> tuple[OverlapReport, list[NsysOverlapError], list[Path]]:
    """The report of what can be read, the errors of the rest, and the files (none of a `Trace`).

    Raises the first error where nothing can be read.
    """
    wanted = None if ranks is None else parse_ranks(str(ranks))
    given: list[Path] = []
    paths: list[Path] = []
    errors: list[NsysOverlapError] = []
    if isinstance(source, Trace):
        report = analyze_trace(source, options)
    else:
        given = [Path(source)] if isinstance(source, str | Path) else list(map(Path, source))
        paths, _, errors = files_of(given)
        if errors and not paths:
            raise errors[0]
        report, unreadable = analyze_many(paths, options, jobs=jobs)
        errors += unreadable
    found = accepting(rank_health(given, paths, report, wanted), options.accepted)
    found += report.health
    health = tuple(sorted(found, key=lambda entry: entry.severity != "error"))
    return replace(report, health=health), errors, paths


def files_of(given: Sequence[Path]) -> tuple[list[Path], list[Path], list[NsysOverlapError]]:
    """The files that paths stand for, those named again, and what is wrong with other paths."""
    found: list[list[Path]] = []
    errors: list[NsysOverlapError] = []
    for path in given:
        try:
            found.append(find_traces([path]))
        except NsysOverlapError as error:
            errors.append(error)
    return *distinct(found), errors
