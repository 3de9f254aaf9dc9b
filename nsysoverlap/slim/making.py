"""Make a slim copy and prove that it gives the same report, before it gets its name."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import NsysOverlapError, TraceFileError, UsageError
from ..core.interrupts import interrupts_held
from ..core.output import check_target, current_umask
from ..core.records import dataclass
from ..core.window import Window
from ..run.analysis import Options, analyze_trace
from ..trace.contents import Trace
from ..trace.database import check_file, check_sound, translated_errors
from ..trace.load import read_trace
from .copying import TableChange, write_copy
from .selection import Selection, Spans

_MARGINS = (0.0, 1 / 16, 1 / 4, 1.0, 4.0)
"""How many lengths of the window are kept on either side too, until the report is the same."""

_WRITE_ERRORS = (
    *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN),
    *(sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE),
)

_OF_THE_WHOLE = frozenset(
    (
        *("rows-without-timestamp", "rows-ending-early", "rows-unreadable", "unknown-copy-kind"),
        *("comm-like-compute", "kernels-without-names", "launches-without-rows", "diagnostic"),
        *("graph-launches-without-rows", "steps-not-told-apart", "head-lost"),
    )
)
"""Health entries that count rows of the whole trace even where a window is measured."""


@dataclass(frozen=True)
class Slimmed:
    """What a copy left out, and the options with which its report is that of the original.

    `marks_kept` says that ranges of steps nobody asked for had to stay, because work in the window
    has no other label.
    """

    changes: tuple[TableChange, ...]
    options: Options
    n_bytes: int
    n_bytes_before: int
    marks_kept: bool = False


def slim_trace(
    source: Path,
    target: Path,
    options: Options,
    threads: int = 2,
    without: Spans = (),
) -> Slimmed:
    """Write a copy of an export that holds only what its report needs, and prove that it does.

    A window in the options is all that is kept; `without` are the times of NVTX ranges to leave
    out. Raises `UsageError` where the target exists, `TraceFileError` for a source that cannot be
    read, and `NsysOverlapError` where the copy cannot be written or its report differs.
    """
    check_file(source)
    check_target(target, [source])
    _refuse_existing(target)
    trace = read_trace(source, threads=threads)
    expected, extent = _numbers(trace, options, source.name, threads), trace.extent_ns
    del trace
    for selection in _selections(extent or (0, 0), options.window, without):
        with _unfinished(target) as path:
            with _writing(source, target):
                changes = write_copy(source, path, selection)
            copy = read_trace(path, threads=threads)
            if _numbers(copy, options, source.name, threads) != expected:
                continue
            _publish(path, target)
            sizes = target.stat().st_size, source.stat().st_size
            marks_kept = bool(without) and not selection.without
            return Slimmed(tuple(changes), options, *sizes, marks_kept)
    _blame_source(source, options, threads, expected)
    raise NsysOverlapError(
        f"{target.name}: not written, because the copy would not give the report of {source.name}.",
        "This is a bug in nsysoverlap: please report it.",
    )


def _blame_source(source: Path, options: Options, threads: int, expected: dict[str, Any]) -> None:
    """Raise `TraceFileError` where the source is why no copy gives its report."""
    again = read_trace(source, threads=threads)
    if _numbers(again, options, source.name, threads) != expected:
        raise TraceFileError(
            f"{source.name}: the file changed while it was read.",
            "Wait until nsys has finished writing it, then try again.",
        )
    # Rows out of order, say: found when all are read, and not when they are looked up.
    check_sound(source)


def _selections(extent: tuple[int, int], window: Window, without: Spans) -> Iterator[Selection]:
    """What to keep, narrowest first; where neighbours of the window decide numbers, more."""
    if window != Window():
        low, high = max(window.low, extent[0]), min(window.high, extent[1])
        for margin in _MARGINS:
            reach = int(margin * (high - low))
            yield Selection((low - reach, high + reach), without)
            if without:
                # Work of the window that has no other label than such a range.
                yield Selection((low - reach, high + reach))
    yield Selection()


def _numbers(trace: Trace, options: Options, name: str, threads: int) -> dict[str, Any]:
    """The report of a trace as a dictionary, without what may differ in a part of it."""
    trace = replace(trace, info=replace(trace.info, file_name=name))
    report = analyze_trace(trace, options, threads=threads).to_dict()
    del report["generator"]
    if not options.whole:
        report["health"] = [h for h in report["health"] if h["code"] not in _OF_THE_WHOLE]
        for device in report["devices"]:
            # The fastest large copy of the whole trace.
            device.pop("link", None)
    return report


def _refuse_existing(target: Path) -> None:
    # A link that leads nowhere would be written through.
    if os.path.lexists(target):
        raise UsageError(f"{target.name}: exists already.", "Give another name, or remove it.")


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """An empty file beside the target that is gone afterwards unless it was renamed."""
    name = None
    try:
        with interrupts_held():
            name = _temporary(target)
        yield Path(name)
    finally:
        for leftover in (name, f"{name}-journal") if name else ():
            if os.path.lexists(leftover):
                os.unlink(leftover)


def _temporary(target: Path) -> str:
    try:
        descriptor, name = tempfile.mkstemp(prefix=".nsysoverlap-", dir=target.parent)
    except OSError as error:
        raise _not_writable(target, error.strerror or str(error)) from error
    os.close(descriptor)
    return name


@contextmanager
def _writing(source: Path, target: Path) -> Iterator[None]:
    """Errors of SQLite as errors of whichever file they are about."""
    try:
        with translated_errors(source.name):
            yield
    except NsysOverlapError as error:
        # Only one of the two files is written to.
        if getattr(error.__cause__, "sqlite_errorcode", None) in _WRITE_ERRORS:
            raise _not_writable(target, str(error.__cause__)) from error
        raise


def _publish(path: Path, target: Path) -> None:
    """Give the finished file its name, but not that of another one that came meanwhile."""
    try:
        os.chmod(path, 0o666 & ~current_umask())
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        try:
            os.link(path, target)
        except FileExistsError:
            raise
        except OSError:
            # Some file systems have no links.
            _refuse_existing(target)
            os.rename(path, target)
    except FileExistsError:
        _refuse_existing(target)
    except OSError as error:
        raise _not_writable(target, error.strerror or str(error)) from error


def _not_writable(target: Path, reason: str) -> NsysOverlapError:
    return NsysOverlapError(
        f"{target.name}: cannot be written ({reason}).",
        "Free some space, or check the folder and its permissions.",
    )
