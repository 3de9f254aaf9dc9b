"""Looks into an export with plain SQL, the way the package does not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query; the file is opened read-only."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        return db.execute(sql).fetchall()


def columns(path: Path, table: str) -> list[str]:
    """Column names in file order."""
    return [row[1] for row in query(path, f"PRAGMA table_info({table})")]


def tables(path: Path) -> set[str]:
    """Names of the tables that exist."""
    return {name for (name,) in query(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}
