"""Which rows a slim copy keeps: all that the reader looks at, or those around a window.

Around a window stay whole rows that touch it, and of each device the nearest row on either side:
the first kernel after a copy says what waited for it, and the device's activity must reach as far
as the window. What launched the rows is found by correlation id, and all that the host did from
the first of those calls to the last one stays, with the ranges open meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from ..core.records import dataclass
from ..trace import schema
from ..trace.schema import FoundTable, Schema

_PROCESS = ~0xFFFFFF
"""The part of a globalTid that is its globalPid."""

Condition = Callable[[FoundTable], str]
"""SQL that picks rows of a table of the source; '' for all of them."""
Spans = tuple[tuple[int, int], ...]
"""Start and end of each, in ns."""


@dataclass(frozen=True)
class Selection:
    """Rows that touch `[low, high)`; all rows where `window` is None.

    `without` are the start and end of NVTX ranges to leave out, those of steps nobody asked for:
    what is left of such a step beside the window must not count as one.
    """

    window: tuple[int, int] | None = None
    without: Spans = ()

    def activity(self, table: FoundTable) -> str:
        """Condition for GPU rows."""
        if self.window is None:
            return ""
        low, high = self.window
        start, end = table.sql("start"), table.sql("end")
        owner = [name for name in ("global_pid", "device_id") if table.sql(name)]
        group = f"GROUP BY {', '.join(str(table.sql(name)) for name in owner)}" if owner else ""

        def nearest(pick: str, side: str) -> str:
            return (
                f"{table.rowid} IN (SELECT r FROM (SELECT {table.rowid} AS r, {pick}({start}) "  # noqa: S608
                f"FROM source.{table.quoted} WHERE {start} {side} {group}))"
            )

        touches = f"{start} < {high} AND ({end} > {low} OR {start} >= {low})"
        return f"{touches} OR {nearest('max', f'< {low}')} OR {nearest('min', f'>= {high}')}"

    def ranges(self, table: FoundTable) -> str:
        """Condition for NVTX ranges, whatever the window."""
        if not self.without:
            return ""
        times = [f"CAST({table.sql(name)} AS INTEGER)" for name in ("start", "end")]
        pairs = ", ".join(f"({start}, {end})" for start, end in self.without)
        # A range without an end is no step.
        return f"{table.sql('end')} IS NULL OR ({', '.join(times)}) NOT IN (VALUES {pairs})"

    def host(self, db: sqlite3.Connection, found: Schema) -> Condition:
        """Condition for calls and ranges, once the GPU rows have been copied."""
        span = None if self.window is None else _launch_span(db, found)

        def condition(table: FoundTable) -> str:
            if span is None:
                return ""
            start, end = table.sql("start"), table.sql("end")
            return f"{start} <= {span[1]} AND ({end} >= {span[0]} OR {end} IS NULL)"

        return condition

    def launches(self, found: Schema) -> Condition:
        """Condition for calls: what they launched was copied, or was never recorded.

        A call whose row lies outside the window would look as if that row had been lost.
        """

        def condition(calls: FoundTable) -> str:
            if self.window is None or not calls.sql("correlation_id"):
                return ""
            tables = [
                table
                for spec in schema.ACTIVITY_TABLES
                if (table := found.find(spec)) is not None and table.sql("correlation_id")
            ]
            by_process = bool(calls.sql("global_tid")) and all(t.sql("global_pid") for t in tables)
            call = str(calls.sql("correlation_id"))
            if by_process:
                # As one value: SQLite looks for pairs that are not there row by row.
                call = f"({calls.sql('global_tid')} & {_PROCESS}) || ' ' || {call}"

            def rows(database: str) -> str:
                def key(table: FoundTable) -> str:
                    row = str(table.sql("correlation_id"))
                    return f"{table.sql('global_pid')} || ' ' || {row}" if by_process else row

                return " UNION ".join(
                    f"SELECT {key(table)} FROM {database}.{table.quoted} "  # noqa: S608
                    f"WHERE {table.sql('correlation_id')} IS NOT NULL"
                    for table in tables
                )

            if not tables:
                return ""
            return f"({call}) IN ({rows('main')}) OR ({call}) NOT IN ({rows('source')})"

        return condition


def _launch_span(db: sqlite3.Connection, found: Schema) -> tuple[int, int] | None:
    """First start and last end of the calls behind the copied rows; None where there are none."""
    calls = found.find(schema.RUNTIME)
    if calls is None or not calls.sql("correlation_id"):
        return None
    copied = [
        f"SELECT {table.sql('correlation_id')} FROM main.{table.quoted}"  # noqa: S608
        for spec in schema.ACTIVITY_TABLES
        if (table := found.find(spec)) is not None and table.sql("correlation_id")
    ]
    if not copied:
        return None
    first, last = db.execute(
        f"SELECT min({calls.sql('start')}), max({calls.sql('end')}) FROM source.{calls.quoted} "  # noqa: S608
        f"WHERE {calls.sql('correlation_id')} IN ({' UNION '.join(copied)}) "
        f"AND {calls.sql('correlation_id')} <> 0"
    ).fetchone()
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None
