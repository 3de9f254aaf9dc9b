"""Many traces: find the files, measure each for itself, add the reports.

Overlap is a question about one device, so no clocks are aligned and no timelines merged.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..core.errors import NsysOverlapError, TraceFileError
from ..result.model import OverlapReport
from ..trace.contents import Trace
from ..trace.load import read_trace
from ..trace.nsys_export import REPORT_SUFFIXES, export_report, newest_of
from ..trace.values import file_label
from .analysis import Options, TraceCases, analyze_trace
from .outcomes import Kept, Outcome, Work
from .rank_names import check_distinct, own_rank, rank_of, ranks_by_difference
from .recipe_folder import recipe_inputs

EXPORT_SUFFIXES = (".sqlite", ".sqlite3")
READER_THREADS = 2
"""Of one trace alone; where traces are read side by side, each is read by one thread."""
WORTH_PROCESSES = 64 << 20
"""Bytes of traces below which starting processes takes longer than it saves."""
WORTH_THREADS = 8 << 20
"""Bytes of a trace below which one thread is as fast, and needs less of the processor."""
T = TypeVar("T")
_DIGITS = re.compile(r"(\d+)")


def find_traces(paths: Sequence[str | Path]) -> list[Path]:
    """The trace files that the arguments name, in order; folders stand for the traces in them.

    A pattern such as `run/rank*.sqlite` that names no file itself stands for those it matches, and
    a folder that `nsys recipe` wrote for the reports that it was given.
    In a folder a `.nsys-rep` is left out where its `.sqlite` export lies beside it; but a report
    that was recorded long after its export stands for it, wherever it is named. Files
    are in natural order (`rank2` before `rank10`). Raises `TraceFileError` for a folder without
    traces and a pattern without matches; what is wrong with other paths, reading them tells.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        # Path.is_dir raises where a parent folder is closed to us; reading names that better.
        if os.path.isdir(path):
            found.extend(_in_folder(path))
        elif glob.has_magic(str(path)) and not os.path.lexists(path):
            found.extend(_matching(path))
        else:
            found.append(path)
    return list(dict.fromkeys(newest_of(path) for path in found))


def distinct(arguments: Sequence[Sequence[Path]]) -> tuple[list[Path], list[Path]]:
    """The files of several arguments without those that an earlier one named; and those.

    By whatever link or spelling; a `.nsys-rep` whose `.sqlite` export is named is that once more.
    Links side by side in one folder are taken as the ranks that they pose as.
    """
    files = [path for argument in arguments for path in argument]
    exports = {(p.parent, p.stem) for p in files if p.suffix.lower() in EXPORT_SUFFIXES}
    kept: list[Path] = []
    again: list[Path] = []
    seen: set[object] = set()
    for argument in arguments:
        for path in argument:
            is_report = path.suffix.lower() in REPORT_SUFFIXES
            twice = _identity(path) in seen or (is_report and (path.parent, path.stem) in exports)
            (again if twice else kept).append(path)
        seen.update(_identity(path) for path in argument)
    return kept, again


def _identity(path: Path) -> object:
    """What two names of one file have in common; of a file that is not there its path."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return path
    return found.st_dev, found.st_ino


def _in_folder(folder: Path) -> list[Path]:
    name = folder.resolve().name or folder
    try:
        files = [file for file in folder.iterdir() if not file.name.startswith(".")]
    except OSError as error:
        raise TraceFileError(
            f"{name}: the folder cannot be read ({error.strerror}).", "Check the path."
        ) from error
    found = _traces_among(files) or _traces_among(recipe_inputs(folder, files))
    if not found:
        raise TraceFileError(
            f"{name}: the folder holds no traces (.sqlite or .nsys-rep files).",
            "Give a folder of exports made by `nsys export --type sqlite REPORT.nsys-rep`.",
        )
    return found


def _matching(pattern: Path) -> list[Path]:
    files = [Path(name) for name in glob.glob(str(pattern), recursive=True)]
    found = _traces_among([file for file in files if not os.path.isdir(file)])
    if not found:
        raise TraceFileError(
            f"{pattern.name}: the pattern matches no traces (.sqlite or .nsys-rep files).",
            "Check the folder and the pattern.",
        )
    return found


def _traces_among(files: Sequence[Path]) -> list[Path]:
    exports = [file for file in files if file.suffix.lower() in EXPORT_SUFFIXES]
    exported = {(file.parent, file.stem) for file in exports}
    reports = [
        file
        for file in files
        if file.suffix.lower() in REPORT_SUFFIXES and (file.parent, file.stem) not in exported
    ]
    return sorted(exports + reports, key=_natural)


def _natural(path: Path) -> list[tuple[bool, int, str]]:
    parts = _DIGITS.split(str(path))
    # Only decimal digits were split off; others, such as a superscript, are no number to int().
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def open_trace(path: Path, options: Options, threads: int = READER_THREADS) -> Trace:
    """Read an export, or export a `.nsys-rep` first (see `nsysoverlap.nsys`)."""
    return read_trace(exported(path), threads=threads)


def exported(path: Path) -> Path:
    """The export itself: of a `.nsys-rep` the one that `nsys export` makes, once."""
    return export_report(path) if path.suffix.lower() in REPORT_SUFFIXES else path


def named(trace: Trace, name: str) -> Trace:
    """The trace under the name that a report of several gives it."""
    return replace(trace, info=replace(trace.info, file_name=name))


def analyze_file(
    path: Path,
    options: Options,
    name: str | None = None,
    threads: int = READER_THREADS,
    on_cases: Callable[[TraceCases], None] | None = None,
) -> OverlapReport:
    """The report of one trace file under a name, with the rank that name or trace tell.

    `on_cases` is as for `analyze_trace`.
    """
    if os.path.isfile(path) and os.stat(path).st_size < WORTH_THREADS:
        threads = 1
    trace = open_trace(path, options, threads)
    trace = named(trace, name or path.name)
    report = analyze_trace(trace, options, on_cases, threads)
    rank = own_rank(trace.info.file_name, trace.info.capture)
    return replace(report, traces=tuple(replace(trace, rank=rank) for trace in report.traces))


def try_file(
    path: Path,
    options: Options,
    name: str,
    threads: int,
    keep: Callable[[TraceCases], Any] | None = None,
) -> Outcome:
    """As `analyze_file`, with an error that the trace is to blame for as the result.

    With `keep` the result holds what that makes of the trace too.
    """
    extras: list[Any] = []
    on_cases = None if keep is None else lambda found: extras.append(keep(found))
    try:
        report = analyze_file(path, options, name, threads, on_cases)
    except NsysOverlapError as error:
        return error
    return Kept(report, extras[0]) if extras else report


def analyze_many(
    paths: Sequence[Path],
    options: Options,
    on_done: Callable[[Path], None] | None = None,
    *,
    jobs: int | None = 1,
    dask: str | None = None,
    threads: int = READER_THREADS,
    keep: Callable[[TraceCases], T] | None = None,
    on_kept: Callable[[T], None] | None = None,
) -> tuple[OverlapReport, list[NsysOverlapError]]:
    """One report of all traces that can be read, in the order of `paths`, and the other errors.

    `jobs` processes read side by side (None: one a core where the traces are large), or the
    workers of the Dask scheduler at the address `dask`. `threads` read a trace where `jobs` is 1.
    `on_kept` sees, in order, what `keep`, a function of a module, made of each trace.
    Raises the error itself where no trace can be read, and `TraceFileError` for two of one rank.
    """
    names = names_of(paths)
    check_distinct([(name, rank_of(name)) for name in names])
    outcomes: dict[int, Outcome] = {}
    work: Work = try_file if keep is None else partial(try_file, keep=keep)
    # Closed, so that an interrupt here ends what still runs at once.
    with closing(_run(work, paths, names, options, jobs, dask, threads)) as running:
        for i, outcome in running:
            outcomes[i] = outcome
            if on_done is not None:
                on_done(paths[i])
    reports: list[OverlapReport] = []
    errors: list[NsysOverlapError] = []
    for outcome in (outcomes.pop(i) for i in range(len(paths))):
        if isinstance(outcome, Kept):
            if on_kept is not None:
                on_kept(outcome.extra)
            outcome = outcome.report
        if isinstance(outcome, OverlapReport):
            reports.append(outcome)
        else:
            errors.append(outcome)
    if errors and not reports:
        raise errors[0]
    return _with_ranks(OverlapReport.merge(reports)), errors


def names_of(paths: Sequence[Path]) -> list[str]:
    """What the report calls each trace: rank0/trace.sqlite and rank1/trace.sqlite stay apart."""
    n = Counter(path.name for path in paths)
    return [
        file_label(str(Path(p.parent.name, p.name)) if n[p.name] > 1 else p.name) for p in paths
    ]


def _run(
    work: Work,
    paths: Sequence[Path],
    names: Sequence[str],
    options: Options,
    jobs: int | None,
    dask: str | None,
    threads: int,
) -> Generator[tuple[int, Outcome], None, None]:
    if dask is not None:
        from .cluster import run_cluster

        return run_cluster(work, paths, names, options, dask)
    n_jobs = min(_jobs_for(paths) if jobs is None else jobs, len(paths))
    if n_jobs > 1:
        from .pool import run_pool

        return run_pool(work, paths, names, options, n_jobs)
    pairs = enumerate(zip(paths, names, strict=True))
    return ((i, work(p, options, name, threads)) for i, (p, name) in pairs)


def _jobs_for(paths: Sequence[Path]) -> int:
    """One process a core, or none where the traces are small; missing files are small."""
    n_bytes = sum(os.stat(path).st_size for path in paths if os.path.isfile(path))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return 1 if n_bytes < WORTH_PROCESSES else cores or 1


def _with_ranks(report: OverlapReport) -> OverlapReport:
    """Ranks by what tells the names apart, where neither names nor traces said one."""
    if not any(trace.rank is not None for trace in report.traces):
        ranks = ranks_by_difference([trace.path for trace in report.traces])
        traces = tuple(replace(trace, rank=ranks.get(trace.path)) for trace in report.traces)
        report = replace(report, traces=traces)
    check_distinct([(trace.path, trace.rank) for trace in report.traces])
    return report
