"""Open an export: check the file first, so that every failure has a name, then read-only.

SQLite would happily create a missing file, ignore a write-ahead log, or report a text file as
"not a database"; each of these gets its own message here.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from ..core.errors import TraceFileError
from .guard import Guarded, few_rows, interruptions_told
from .schema import Schema, known
from .schema import quote as quote_identifier

_TABLES = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
_TRUE_TABLE = re.compile(r"CREATE(\s|/\*.*?\*/|--[^\n]*\n)+TABLE\b", re.IGNORECASE | re.DOTALL)
"""The definition of a table with pages of its own: neither a virtual table nor a view, which may
hide behind a comment or under the wrong type.
"""
_MAGIC = b"SQLite format 3\x00"
_EXPORT_HINT = "Give an export made by `nsys export --type sqlite REPORT.nsys-rep`."
_AGAIN_HINT = "Copy or export the file again."
_LONGEST_PATH = 504
_COMPRESSED = (b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")


def check_file(path: Path) -> None:
    """Raise `TraceFileError` unless `path` is a whole, closed SQLite database file."""
    name = path.name
    try:
        if not path.exists():
            raise TraceFileError(f"{name}: no such file.", "Check the path.")
        if not path.is_file():
            raise TraceFileError(f"{name}: is not a regular file.", _EXPORT_HINT)
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(512)
        _check_header(name, head, size)
        _check_logs(path)
        length = len(os.fsencode(path.resolve()))
        if length > _LONGEST_PATH:
            raise TraceFileError(
                f"{name}: its path has {length} bytes, more than SQLite can open "
                f"({_LONGEST_PATH}).",
                "Move the file to a folder with a shorter path.",
            )
    except PermissionError as error:
        raise TraceFileError(
            f"{name}: no permission to read it.", "Ask its owner, or `chmod +r` it."
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TraceFileError(f"{name}: cannot be read ({reason}).", "Check the path.") from error


def _check_logs(path: Path) -> None:
    # SQLite keeps them beside the file itself, not beside a link to it.
    real = path.resolve()
    for suffix, what in (("-wal", "write-ahead log"), ("-journal", "rollback journal")):
        # Not Path.exists: it fails where the longer name is longer than names can be.
        log = os.fspath(real) + suffix
        if os.path.exists(log) and os.path.getsize(log) > 0:
            raise TraceFileError(
                f"{path.name}: a {what} ({os.path.basename(log)}) lies beside it, so the file "
                "alone is not complete.",
                f'Close the program that writes it, or run: sqlite3 {real.name} "PRAGMA '
                'wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE;"',
            )


def _check_header(name: str, head: bytes, size: int) -> None:
    if size == 0:
        raise TraceFileError(f"{name}: the file is empty.", _AGAIN_HINT)
    if head.startswith(b"version https://git-lfs"):
        raise TraceFileError(
            f"{name}: is a Git LFS pointer, not the trace itself.", "Run `git lfs pull` first."
        )
    if head.startswith(_COMPRESSED):
        raise TraceFileError(f"{name}: is compressed.", "Decompress it first.")
    if not head.startswith(_MAGIC):
        what = "a text file" if _looks_like_text(head) else "no SQLite database"
        raise TraceFileError(f"{name}: is {what}, not an nsys export.", _EXPORT_HINT)
    if len(head) < 100:
        raise TraceFileError(f"{name}: is cut off inside its header.", _AGAIN_HINT)
    page_size = int.from_bytes(head[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    n_pages = int.from_bytes(head[28:32], "big")
    # The page count is only valid where the two change counters agree (SQLite file format).
    if head[24:28] == head[92:96] and size < n_pages * page_size:
        raise TraceFileError(
            f"{name}: is truncated ({size} of {n_pages * page_size} bytes).", _AGAIN_HINT
        )


def _looks_like_text(head: bytes) -> bool:
    return b"\x00" not in head and all(byte >= 32 or byte in b"\t\r\n\f" for byte in head)


def connect(path: Path) -> Guarded:
    """A read-only, immutable connection that never fails on text that is not UTF-8, and never
    works for longer than the file is worth.
    """
    # As bytes, because a file name need not be UTF-8.
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False, factory=Guarded)
    connection.guard(os.stat(path).st_size)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


@contextmanager
def translated_errors(file_name: str) -> Iterator[None]:
    """Turn errors of SQLite into `TraceFileError`s that name the file."""
    try:
        with interruptions_told(file_name):
            yield
    except (sqlite3.Error, UnicodeError) as error:
        # UnicodeError: Python could not decode what SQLite had to say about a damaged schema.
        reason = "broken text" if isinstance(error, UnicodeError) else _one_line(str(error))
        raise TraceFileError(
            f"{file_name}: the database is damaged or cannot be read ({reason}).", _AGAIN_HINT
        ) from error
    except MemoryError as error:
        raise TraceFileError(
            f"{file_name}: not enough memory to read it.",
            "Use a machine with more memory, or a shorter capture.",
        ) from error


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Check the file, open it read-only and translate errors until it is closed again."""
    check_file(path)
    with translated_errors(path.name):
        connection = connect(path)
        try:
            yield connection
        finally:
            connection.close()


def probe(connection: sqlite3.Connection, file_name: str) -> Schema:
    """Tables and columns of the database; views, virtual tables and anything else are ignored.

    Raises `TraceFileError` where no table is one that nsys writes.
    """
    names = [
        name
        for name, sql in few_rows(connection, _TABLES)
        if isinstance(name, str) and isinstance(sql, str) and _TRUE_TABLE.match(sql)
    ]
    schema = Schema(file_name, dict.fromkeys(names, ()))
    if not schema.is_nsys_export:
        found = ", ".join(_one_line(name) for name in sorted(names)[:3]) or "none"
        raise TraceFileError(
            f"{file_name}: is an SQLite database but not an nsys export (tables: {found}).",
            _EXPORT_HINT,
        )
    # Of the other tables nobody asks for columns, and there may be a hundred thousand.
    return Schema(
        file_name,
        {name: _columns(connection, name) if known(name) else () for name in names},
    )


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    rows = connection.execute(f"PRAGMA table_info({quote_identifier(table)})")
    return tuple(row[1] for row in rows)


def check_sound(path: Path) -> None:
    """Let SQLite look over the whole file; raises `TraceFileError` where it finds damage."""
    with open_database(path) as connection:
        (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise TraceFileError(
                f"{path.name}: the database is damaged ({_one_line(said)}).", _AGAIN_HINT
            )
