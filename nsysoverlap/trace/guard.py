"""Work that SQLite does for us, in bounds: signals come through, and a file ends what it asks for.

An export is a file of others. A virtual table or a tree of pages that all lead to one page makes
SQLite scan forever without ever coming back to Python, where signals are handled.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.errors import TraceFileError
from ..core.interrupts import swallowed

_EVERY = 20_000
"""Steps of SQLite's machine between two looks, about a tenth of a millisecond."""
_BASE, _PER_BYTE = 20_000_000, 50
"""Steps that a connection may take. Reading all of a real trace takes up to 3 a byte."""
_MOST_ROWS = 200_000
"""Of a table with one row for each process, setting, GPU or message."""
DAMAGED = "It is not as nsys writes it; export the report again with nsys."


_exhausted: list[int] = []


class Guarded(sqlite3.Connection):
    """A connection whose work is bounded by the size of its file."""

    def guard(self, n_bytes: int) -> None:
        """Begin to count; `n_bytes` is the size of all files that it reads."""
        self.n_bytes = n_bytes
        self._left = _BASE + _PER_BYTE * n_bytes
        self.set_progress_handler(self._step, _EVERY)

    def stop(self) -> None:
        """End what it works at on another thread, and whatever follows."""
        self._left = -1

    def _step(self) -> bool:
        # Called from the machine of SQLite: only here a signal reaches the main thread.
        self._left -= _EVERY
        if self._left < 0:
            _exhausted.append(1)
        return self._left < 0


@contextmanager
def interruptions_told(file_name: str) -> Iterator[None]:
    """Raise what stands behind an interrupted statement: a signal, or a file that asks for too
    much.
    """
    before = len(_exhausted)
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
            raise
        # What a callback raises SQLite turns into this error; signals reach the main thread only.
        if len(_exhausted) == before and threading.current_thread() is threading.main_thread():
            raise swallowed() from None
        raise TraceFileError(
            f"{file_name}: reading it takes more work than a file of its size could need.", DAMAGED
        ) from error


def few_rows(connection: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    """All rows of a table that has few. Raises `TraceFileError` for more than it could hold."""
    most = connection.n_bytes if isinstance(connection, Guarded) else 1 << 62
    rows, held = [], 0
    for row in connection.execute(query):
        rows.append(row)
        held += 1 + sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if len(rows) > _MOST_ROWS or held > most:
            raise TraceFileError(
                "The export has a small table with more rows than its file can hold.", DAMAGED
            )
    return rows
