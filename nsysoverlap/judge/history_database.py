"""The file of a run history: opened with its lock taken, SQLite's errors as ours."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import ConfigError, NsysOverlapError

if TYPE_CHECKING:
    from sqlite_utils import Database

PATIENCE_S = 60.0
"""How long to wait for other programs; a writer of ours holds the file for some milliseconds."""
QUIET_S = 2.0
"""How long to wait without a word."""
_ATTEMPT_S = 0.5
"""SQLite waits this long at a time: an interrupt is not seen before."""
HINT = "Record runs with `nsysoverlap record TRACE --db FILE`."

Told = Callable[[str], None]
"""Takes a line for the user, who would otherwise wait without knowing what for."""


def say_nothing(_line: str) -> None:
    """A `Told` for nobody."""


@contextmanager
def open_database(path: Path, told: Told, *, write: bool = False) -> Iterator[Database]:
    """The database inside a transaction, created where `write` is set and there is none.

    The lock is taken first and for all, so that nobody gets between a look and an insert, and
    waiting happens in one place. What was not committed is rolled back. Raises `ConfigError` for
    a file that is no database, `NsysOverlapError` where it cannot be used.
    """
    from sqlite_utils import Database

    mode = "rwc" if write else "rw"
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_ATTEMPT_S,
            isolation_level=None,
        )
        with closing(connection):
            connection.execute("PRAGMA foreign_keys = ON")
            _lock(connection, write, path, told)
            yield Database(connection, execute_plugins=False)
    except sqlite3.DatabaseError as error:
        raise _database_error(path, error) from error


def _lock(connection: sqlite3.Connection, write: bool, path: Path, told: Told) -> None:
    """Take the lock, and say so when others keep it for long."""
    started, silent = time.monotonic(), True
    while True:
        try:
            connection.execute("BEGIN EXCLUSIVE" if write else "BEGIN")
            # A reader's BEGIN takes no lock yet; the first look does.
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            return
        except sqlite3.OperationalError as error:
            waited = time.monotonic() - started
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited >= PATIENCE_S:
                raise
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if silent and waited >= QUIET_S:
            told(f"Waiting for {path.name}, which another program holds; up to {PATIENCE_S:.0f} s.")
            silent = False


def _database_error(path: Path, error: sqlite3.DatabaseError) -> NsysOverlapError:
    reason = str(error)
    if "unable to open" in reason:
        if not path.exists():
            missing = "folder" if not path.parent.is_dir() else "database"
            return ConfigError(f"{path.name}: there is no such {missing}.", HINT)
        return ConfigError(
            f"{path.name or path}: the database cannot be opened.", "Check the path."
        )
    if "not a database" in reason or "malformed" in reason:
        return ConfigError(f"{path.name}: is not a run history ({reason}).", HINT)
    if "locked" in reason:
        return NsysOverlapError(
            f"{path.name}: another program has held the database for {PATIENCE_S:.0f} s.",
            "Close it, then try again.",
        )
    return NsysOverlapError(
        f"{path.name}: the database cannot be used ({reason}).",
        "Check the permissions and the free space.",
    )
