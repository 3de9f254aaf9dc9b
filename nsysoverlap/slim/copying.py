"""Write the slim copy of an export: a new file, table by table, column by column.

What is not named here is not copied, so nothing of a later nsys can slip through. SQLite copies
the rows itself, but never a definition: tables are made anew, and views, triggers and indexes
stay behind. A number stored as something else is copied as what the reader takes it for.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote as quote_path

from .._version import __version__
from ..core.records import dataclass
from ..trace import schema
from ..trace.bulk import careful_integer
from ..trace.capture_facts import diagnostics, export_meta, shareable_settings
from ..trace.database import connect, probe
from ..trace.guard import Guarded, few_rows
from ..trace.host_rows import PUSH_POP, START_END, interesting_calls
from ..trace.privacy import scrub
from ..trace.schema import FoundTable, Schema, TableSpec, quote
from ..trace.values import integer, text
from .selection import Condition, Selection

_TEXTS = {"name", "uuid", "text", "value"}
_EXPORT_KEYS = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "EXPORT_CONFIG_TIME_SHIFT")
_DERIVED = "DERIVED_BY"
MARK = "SLIMMED_BY"
"""Key in the table of export settings by which a copy is known."""

Row = Sequence[int | str | None]


@dataclass(frozen=True)
class TableChange:
    """How many rows of a table were copied and left out, and which columns were left out."""

    table: str
    kept: int
    removed: int
    columns: tuple[str, ...] = ()


def write_copy(source: Path, target: Path, selection: Selection) -> list[TableChange]:
    """Fill the empty file `target`; returns what became of each table of `source`.

    Raises `sqlite3.Error` for a source that is damaged and a target that cannot be written.
    """
    with closing(connect(source)) as original:
        found = probe(original, source.name)
        before = {table: _count(original, table) for table in found.tables}
        with closing(_open_both(source, target)) as db:
            _copy_tables(original, _Copy(db, found), selection)
            db.commit()
            after = {
                name: (_count(db, name), [c[1] for c in db.execute(f"PRAGMA table_info({name!r})")])
                for (name,) in db.execute("SELECT name FROM main.sqlite_master").fetchall()
            }
    return [
        TableChange(table, 0, n)
        if table not in after
        else TableChange(
            table,
            after[table][0],
            max(0, n - after[table][0]),
            tuple(column for column in found.tables[table] if column not in after[table][1]),
        )
        for table, n in before.items()
    ]


def _copy_tables(original: sqlite3.Connection, copy: _Copy, selection: Selection) -> None:
    found = copy.found
    for spec in schema.ACTIVITY_TABLES:
        copy.events(spec, selection.activity)
    host = selection.host(copy.db, found)
    calls = ", ".join(map(str, interesting_calls(original, found))) or "NULL"
    copy.events(
        schema.RUNTIME,
        lambda t: f"CAST({t.sql('name_id')} AS INTEGER) IN ({calls})",
        host,
        selection.launches(found),
    )
    kinds = f"{PUSH_POP}, {START_END}"
    copy.events(
        schema.NVTX,
        lambda t: f"CAST({t.sql('event_type')} AS INTEGER) IN ({kinds})",
        host,
        selection.ranges,
    )
    for spec in (schema.SYNCHRONIZATION, schema.CUDA_EVENT):
        copy.events(spec, copy.has_call)
    copy.events(schema.OVERHEAD)
    for spec in (schema.GPU, schema.CUDA_DEVICE):
        copy.described(original, spec)
    copy.described(original, schema.ANALYSIS)
    copy.strings(calls)
    copy.values(found.find(schema.DIAGNOSTIC), diagnostics(original, found))
    copy.values(
        found.find(schema.META_CAPTURE),
        [(key, value) for key, _, value in shareable_settings(original, found)],
    )
    meta = export_meta(original, found)
    rows = [(key, scrub(meta[key])) for key in _EXPORT_KEYS if key in meta]
    rows += [(_DERIVED, "")] if _DERIVED in meta else []
    rows.append((MARK, f"nsysoverlap {__version__}"))
    copy.values(found.first(schema.META_EXPORT), rows)


def _open_both(source: Path, target: Path) -> sqlite3.Connection:
    """A connection that writes to `target`, the source attached under that name."""

    def uri(path: Path, options: str) -> str:
        return f"file:{quote_path(os.fsencode(path.absolute()))}?{options}"

    db = sqlite3.connect(uri(target, "mode=rw"), uri=True, factory=Guarded)
    db.guard(os.stat(source).st_size)
    # The file is thrown away unless it is finished, so nothing need be undone or survive a crash.
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("ATTACH ? AS source", (uri(source, "mode=ro&immutable=1"),))
    return db


def _count(db: sqlite3.Connection, table: str) -> int:
    # Not count(*), in which SQLite does not look up from its work.
    (n,) = db.execute(f"SELECT count(1) FROM {quote(table)}").fetchone()  # noqa: S608
    return int(n)


class _Copy:
    """Makes the tables of the copy and fills them from the attached source."""

    def __init__(self, db: sqlite3.Connection, found: Schema) -> None:
        self.db = db
        self.found = found

    def events(self, spec: TableSpec, *conditions: Condition) -> None:
        """The rows of a table that meet all conditions, with the columns that are read."""
        table = self.found.find(spec)
        if table is None:
            return
        self._create(table)
        defaults = {column.name: column.default for column in spec.columns}
        selected = []
        for name in table.columns:
            column = f"s.{table.sql(name)}"
            number = careful_integer(column, defaults[name])
            kept = (
                column
                if name in _TEXTS
                else f"CASE WHEN {column} IS NULL THEN NULL ELSE {number} END"
            )
            selected.append(kept)
        terms = [term for condition in conditions if (term := condition(table))]
        where = f"WHERE {' AND '.join(f'({term})' for term in terms)}" if terms else ""
        self.db.execute(
            f"INSERT INTO main.{table.quoted} SELECT {', '.join(selected)} "  # noqa: S608
            f"FROM source.{table.quoted} AS s {where} ORDER BY s.{table.rowid}"
        )

    def has_call(self, table: FoundTable) -> str:
        """Condition: the call behind the row was copied."""
        calls = self.found.find(schema.RUNTIME)
        if calls is None or not calls.sql("correlation_id") or not table.sql("correlation_id"):
            return "0"
        return (
            f"{table.sql('correlation_id')} IN "  # noqa: S608
            f"(SELECT {calls.sql('correlation_id')} FROM main.{calls.quoted})"
        )

    def described(self, original: sqlite3.Connection, spec: TableSpec) -> None:
        """All rows of a small table, value by value as the reader understands them."""
        table = self.found.find(spec)
        if table is None:
            return
        columns = ", ".join(quote(column) for column in table.columns.values())
        rows = few_rows(original, f"SELECT {columns} FROM {table.quoted}")  # noqa: S608
        self.values(
            table,
            [
                [
                    text(value) if name in _TEXTS else integer(value)
                    for name, value in zip(table.columns, row, strict=True)
                ]
                for row in rows
            ],
        )

    def strings(self, calls: str) -> None:
        """The texts that a copied kernel, call or range refers to, and the names of `calls`.

        A name alone says that such calls can be expected, even where no row of one is left.
        """
        table = self.found.find(schema.STRINGS)
        if table is None:
            return
        self._create(table)
        used = []
        for spec, name in (
            (schema.KERNEL, "name_id"),
            (schema.RUNTIME, "name_id"),
            (schema.NVTX, "text_id"),
        ):
            user = self.found.find(spec)
            if user is not None and user.sql(name):
                used.append(f"SELECT {user.sql(name)} FROM main.{user.quoted}")  # noqa: S608
        key = f"s.{table.sql('id')}"
        number = (
            f"CASE WHEN typeof({key}) = 'text' AND CAST(CAST({key} AS INTEGER) AS TEXT) <> {key} "
            f"THEN NULL ELSE CAST({key} AS INTEGER) END"
        )
        self.db.execute(
            f"INSERT INTO main.{table.quoted} ({table.sql('id')}, {table.sql('value')}) "  # noqa: S608
            f"SELECT {number}, s.{table.sql('value')} FROM source.{table.quoted} AS s "
            f"WHERE {number} IN ({' UNION '.join(used) or 'NULL'}) OR {number} IN ({calls}) "
            f"ORDER BY s.{table.rowid}"
        )

    def values(self, table: FoundTable | None, rows: Iterable[Row]) -> None:
        """Rows as given, one value for each column that is read."""
        if table is None:
            return
        self._create(table)
        marks = ", ".join("?" * len(table.columns))
        self.db.executemany(f"INSERT INTO main.{table.quoted} VALUES ({marks})", rows)  # noqa: S608

    def _create(self, table: FoundTable) -> None:
        columns = ", ".join(
            f"{quote(real)} {'TEXT' if name in _TEXTS else 'INTEGER'}"
            for name, real in table.columns.items()
        )
        self.db.execute(f"CREATE TABLE main.{table.quoted} ({columns})")
