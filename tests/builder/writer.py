"""Writes rows into an SQLite file shaped like one version of an nsys export."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from .schema import ALL_COLUMNS, EVENT_TABLES, Column, Schema

Value = int | float | str | bytes | None
Row = Mapping[str, Value]

_TIME_COLUMNS = ("start", "end", "timestamp")
_FILLER: dict[str, Value] = {"INTEGER": 0, "TEXT": "", "REAL": 0.0}
_UNKNOWN_VALUE = 7


class WriteOptions(TypedDict, total=False):
    """Keywords of `TraceBuilder.write` and `build`; `Output` explains them."""

    lazy: bool
    drop_tables: Collection[str]
    drop_columns: Collection[str]
    extra_sql: Iterable[str]
    shuffle_seed: int | None
    shift_ns: int


@dataclass(frozen=True)
class Output:
    """Where to write, and how.

    `lazy` leaves out tables without rows, as nsys does by default. `drop_columns` takes `column`
    or `TABLE.column`. `extra_sql` runs last. `shift_ns` moves all event times, also those of the
    host. Rows are sorted by start unless `shuffle_seed` is given.
    """

    path: Path
    schema: Schema
    lazy: bool = True
    drop_tables: Collection[str] = ()
    drop_columns: Collection[str] = ()
    extra_sql: Iterable[str] = ()
    shuffle_seed: int | None = None
    shift_ns: int = 0

    def write(self, rows: Mapping[str, Sequence[Row]]) -> Path:
        """Create the file anew and fill it; returns its path."""
        for table in rows:
            _refuse_unknown(table, rows[table])
        self.path.unlink(missing_ok=True)
        with closing(sqlite3.connect(self.path)) as db:
            db.execute("PRAGMA synchronous = OFF")
            for table, columns in self.schema.tables().items():
                self._write_table(db, table, columns, rows.get(table, []))
            if self.schema.leading_column:
                db.execute("CREATE TABLE UNHEARD_OF_EVENTS (start INTEGER, what TEXT)")
                db.execute("INSERT INTO UNHEARD_OF_EVENTS VALUES (1, 'something new')")
            for statement in self.extra_sql:
                db.execute(statement)
            db.commit()
        return self.path

    def _write_table(
        self, db: sqlite3.Connection, table: str, columns: Sequence[Column], rows: Sequence[Row]
    ) -> None:
        if table in self.drop_tables or (self.lazy and not rows):
            return
        kept = [c for c in columns if not {c.name, f"{table}.{c.name}"} & set(self.drop_columns)]
        db.execute(f'CREATE TABLE "{table}" ({", ".join(c.declaration for c in kept)})')
        names = ", ".join(f'"{c.name}"' for c in kept)
        # CAST keeps bytes that are no UTF-8 as text, the way nsys stores them.
        marks = ", ".join("CAST(? AS TEXT)" if c.sql_type == "TEXT" else "?" for c in kept)
        db.executemany(
            f'INSERT INTO "{table}" ({names}) VALUES ({marks})',
            [self._values(kept, row) for row in self._ordered(table, rows)],
        )

    def _ordered(self, table: str, rows: Sequence[Row]) -> Sequence[Row]:
        if table not in EVENT_TABLES:
            return rows
        if self.shuffle_seed is not None:
            return random.Random(self.shuffle_seed).sample(rows, len(rows))
        return sorted(rows, key=_time_of)

    def _values(self, columns: Iterable[Column], row: Row) -> list[Value]:
        # start = end = 0 marks a row without timestamps and stays that way.
        shift = self.shift_ns if (row.get("start"), row.get("end")) != (0, 0) else 0
        return [self._value(column, row, shift) for column in columns]

    def _value(self, column: Column, row: Row, shift: int) -> Value:
        if column.name == self.schema.leading_column:
            return _UNKNOWN_VALUE
        value = row.get(column.name)
        if value is None:
            return _FILLER[column.sql_type] if column.required else None
        if column.name in _TIME_COLUMNS and isinstance(value, int):
            return value + shift
        return value


def _time_of(row: Row) -> tuple[int, int]:
    start = row["start"] if "start" in row else row["timestamp"]
    end = row.get("end")
    return (start if isinstance(start, int) else 0, end if isinstance(end, int) else 0)


def _refuse_unknown(table: str, rows: Iterable[Row]) -> None:
    """A misspelt name must not vanish silently: it would make the test mean something else."""
    known = ALL_COLUMNS[table]
    for row in rows:
        if not row.keys() <= known:
            raise ValueError(f"no version of {table} has {sorted(row.keys() - known)}")
