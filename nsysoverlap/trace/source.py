"""The export that is being read: its file, its schema, and the one connection to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..core.records import dataclass
from .bulk import Block, Query, read_blocks
from .growing import join
from .schema import FoundTable, Schema


@dataclass(frozen=True)
class Source:
    """An open export. `threads` work side by side on large tables."""

    path: Path
    connection: sqlite3.Connection
    found: Schema
    threads: int

    def read(self, query: Query, digest: Callable[[Block], dict[str, Any]]) -> dict[str, Any]:
        """What `digest` makes of the rows, block by block, joined; {} without rows."""
        return join(
            read_blocks(self.path, query, digest, threads=self.threads, connection=self.connection)
        )

    def columns(
        self,
        table: FoundTable,
        names: tuple[str, ...],
        digest: Callable[[Block], dict[str, Any]],
        sized: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """As `read`, of columns that may be absent: those hold their default.

        Without rows `digest` is given empty columns.
        """
        defaults = {column.name: column.default for column in table.spec.columns}
        defaults |= dict.fromkeys(sized, 0) | {"row": 0}
        wanted = ("row", *names, *sized)

        def filled(block: Block) -> dict[str, Any]:
            n = len(block["row"])
            return digest(
                {
                    name: block[name] if name in block else np.full(n, defaults[name], np.int64)
                    for name in wanted
                }
            )

        rows = self.read(Query.of(table, names, sized), filled)
        return rows or filled({name: np.empty(0, np.int64) for name in wanted})
