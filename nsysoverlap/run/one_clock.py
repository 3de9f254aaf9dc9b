"""Several traces on one clock: what to add to the times of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..core.errors import NsysOverlapError
from ..trace.capture_facts import session_start
from ..trace.database import open_database, probe
from .many import exported


def shifts_of(paths: Sequence[Path]) -> tuple[list[int], list[Path]]:
    """Nanoseconds to add to the times of each trace, and the traces that tell no time of day.

    Time 0 is then the start of the earliest collection, by the clocks of the hosts; a trace that
    does not tell its UTC starts at 0 too. Only small tables are read.
    """
    starts = [_start(path) for path in paths]
    first = min((utc for _, utc in starts if utc is not None), default=0)
    shifts = [-own + (0 if utc is None else utc - first) for own, utc in starts]
    return shifts, [path for path, (_, utc) in zip(paths, starts, strict=True) if utc is None]


def _start(path: Path) -> tuple[int, int | None]:
    try:
        export = exported(path)
        with open_database(export) as connection:
            return session_start(connection, probe(connection, path.name))
    except NsysOverlapError:
        # Reading all of it will tell why.
        return 0, None
