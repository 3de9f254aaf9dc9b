"""Whether the traces of a run are all there, and each is another: said beside their numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from ..core.errors import UsageError
from ..core.formatting import number_of
from ..result.model import HealthEntry, OverlapReport
from ..trace.nsys_export import REPORT_SUFFIXES
from .many import EXPORT_SUFFIXES

_UNFINISHED = (".qdstrm", ".part", ".partial", ".tmp", ".crdownload", ".sqlite-journal")
"""What nsys, a copy or a download leaves where it did not come to its end."""
_BLOCK = 1 << 20
_SHOWN = 4
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?", re.ASCII)
_MOST = 1_000_000


def parse_ranks(text: str) -> frozenset[int]:
    """The ranks that `--ranks` asks for: `128` are 0 to 127; or `0-127`, or `0,8,16-23`.

    Raises `UsageError` for other texts.
    """
    parts = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    spans = [(int(p[1]), int(p[2] or p[1])) for p in parts if p]
    if len(parts) == 1 and len(spans) == 1 and "-" not in text:
        spans = [(0, spans[0][0] - 1)]
    if len(spans) < len(parts) or not all(0 <= low <= high < _MOST for low, high in spans):
        raise UsageError(f"--ranks: {text!r} names no ranks.", "Such as 8, 0-7 or 0,8,16-23.")
    return frozenset(rank for low, high in spans for rank in range(low, high + 1))


def rank_health(
    given: Sequence[Path],
    paths: Sequence[Path],
    report: OverlapReport,
    wanted: frozenset[int] | None = None,
) -> Iterator[HealthEntry]:
    """What to know of several traces as a whole.

    `given` are the arguments, `paths` the files that they stand for. Errors are what `wanted`
    ranks lack; all else is a warning.
    """
    yield from _missing(report, wanted)
    yield from _unexpected(report, wanted)
    yield from _identical(paths, wanted is not None)
    yield from _left_aside(given)


def _missing(report: OverlapReport, wanted: frozenset[int] | None) -> Iterator[HealthEntry]:
    ranks = {trace.rank for trace in report.traces if trace.rank is not None}
    n = len(report.traces)
    if wanted is not None and len(ranks) < n:
        if n < len(wanted):
            yield _entry("ranks-missing", f"{n} of {len(wanted)} ranks are there.", True)
        return
    missing = _gap(ranks) if wanted is None else sorted(wanted - ranks)
    if missing:
        what = number_of(len(missing), "rank").split(" ", 1)[1]
        is_are = "is" if len(missing) == 1 else "are"
        text = f"{what.capitalize()} {_listed(missing)} {is_are} not among the {n} traces."
        yield _entry("ranks-missing", text, wanted is not None)


def _unexpected(report: OverlapReport, wanted: frozenset[int] | None) -> Iterator[HealthEntry]:
    ranks = {trace.rank for trace in report.traces if trace.rank is not None}
    if wanted is not None and (more := sorted(ranks - wanted)):
        noun, is_are = ("Rank", "is") if len(more) == 1 else ("Ranks", "are")
        text = f"{noun} {_listed(more)} {is_are} not in --ranks, and counted."
        yield HealthEntry("ranks-unexpected", "warning", text, "Name all ranks that there are.")


def _gap(ranks: Collection[int]) -> list[int]:
    """Ranks that a regular numbering lacks: 2 of 0, 1, 3, but none of 0, 8, 16."""
    have = sorted(ranks)
    steps = [after - before for before, after in pairwise(have)]
    if len(steps) < 2 or len(set(steps)) == 1:
        return []
    return sorted(set(range(have[0], have[-1], min(steps))) - set(have))


def _listed(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:_SHOWN]))
    return f"{shown} and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else shown


def _identical(paths: Sequence[Path], demanded: bool) -> Iterator[HealthEntry]:
    """Files of the same bytes: two ranks never record the same."""
    # Opening a pipe would wait for ever.
    groups = [[path for path in paths if path.is_file()]]
    for key in (_size, _ends, _digest):
        groups = [part for group in groups for part in _split(group, key) if len(part) > 1]
    for group in groups:
        names = ", ".join(_name(path, paths) for path in group[:_SHOWN])
        more = f" and {len(group) - _SHOWN} more" if len(group) > _SHOWN else ""
        yield _entry("ranks-identical", f"{names}{more} are the same, byte for byte.", demanded)


def _name(path: Path, paths: Sequence[Path]) -> str:
    alike = sum(other.name == path.name for other in paths)
    return str(Path(path.parent.name, path.name)) if alike > 1 else path.name


def _split(paths: Sequence[Path], key: Callable[[Path], object]) -> list[list[Path]]:
    groups: dict[object, list[Path]] = {}
    for path in paths:
        try:
            groups.setdefault(key(path), []).append(path)
        except OSError:
            # Reading it says why.
            continue
    return list(groups.values())


def _size(path: Path) -> int:
    return path.stat().st_size


def _ends(path: Path) -> bytes:
    from hashlib import sha256

    with path.open("rb") as file:
        head = file.read(_BLOCK)
        file.seek(max(0, _size(path) - _BLOCK))
        return sha256(head + file.read(_BLOCK)).digest()


def _digest(path: Path) -> bytes:
    from hashlib import file_digest

    with path.open("rb") as file:
        return file_digest(file, "sha256").digest()


def _left_aside(given: Sequence[Path]) -> Iterator[HealthEntry]:
    """What lies in the given folders and is not read: recordings cut short, more traces below."""
    for folder in given:
        if not os.path.isdir(folder):
            continue
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        name = folder.resolve().name
        cut = [e.name for e in entries if e.name.lower().endswith(_UNFINISHED)]
        if cut:
            files = number_of(len(cut), "file")
            text = f"{name} holds {files} of an unfinished recording or copy: {_names(cut)}."
            yield _entry("ranks-unfinished", text, False)
        below = [e.name for e in entries if e.is_dir() and _holds_traces(e)]
        if below:
            folders = number_of(len(below), "folder")
            text = f"{name} holds {folders} of more traces, which are not read: {_names(below)}."
            yield _entry("ranks-not-read", text, False)


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _holds_traces(folder: Path) -> bool:
    suffixes = (*EXPORT_SUFFIXES, *REPORT_SUFFIXES)
    try:
        with os.scandir(folder) as entries:
            return any(e.name.lower().endswith(suffixes) for e in entries if e.is_file())
    except OSError:
        return False


def _entry(code: str, message: str, demanded: bool) -> HealthEntry:
    hint = "Give the traces of all ranks of one run, each once."
    return HealthEntry(code, "error" if demanded else "warning", message, hint)
