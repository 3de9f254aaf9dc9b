"""Texts behind StringIds ids."""

from __future__ import annotations

import sqlite3

from ..core.arrays import Int64Array
from . import schema
from .schema import Schema
from .values import integer, text

_IDS_PER_QUERY = 400
_MANY = 4_000


def strings(connection: sqlite3.Connection, found: Schema, ids: Int64Array) -> list[str]:
    """Text of each StringIds id (n,); '' where there is none."""
    table = found.find(schema.STRINGS)
    wanted = [int(i) for i in ids]
    if table is None:
        return [""] * len(wanted)
    texts: dict[int | None, str] = {}
    if len(wanted) > _MANY:
        # Once through the table, which need not have an index.
        asked = set(wanted)
        rows = connection.execute(
            f"SELECT {table.sql('id')}, {table.sql('value')} FROM {table.quoted}"  # noqa: S608
        )
        texts.update(
            (number, text(value) or "") for key, value in rows if (number := integer(key)) in asked
        )
        return [texts.get(i, "") for i in wanted]
    for first in range(0, len(wanted), _IDS_PER_QUERY):
        part = wanted[first : first + _IDS_PER_QUERY]
        # As numbers and as text: a column without a type keeps whatever it was given.
        marks = ",".join("?" * (2 * len(part)))
        rows = connection.execute(
            f"SELECT {table.sql('id')}, {table.sql('value')} FROM {table.quoted} "  # noqa: S608
            f"WHERE {table.sql('id')} IN ({marks})",
            (*part, *map(str, part)),
        )
        texts.update((integer(key), text(value) or "") for key, value in rows)
    return [texts.get(i, "") for i in wanted]
