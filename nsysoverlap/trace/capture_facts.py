"""Facts about a capture that decide how far its numbers can be trusted."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np

from . import schema
from .activities import Columns
from .bulk import Query, unreadable
from .contents import Stream, TraceFacts
from .guard import few_rows
from .host import HostSide
from .launch_facts import launch_facts
from .privacy import allowed_setting, scrub, scrub_value
from .schema import FoundTable, Schema
from .source import Source
from .values import integer, text

_ENVIRONMENT = re.compile(r"(^|:)ENVIRONMENT_VARIABLE$")
_OWN_KEY = re.compile(r"(PROCESS_\d{1,9}:)?ENVIRONMENT_VARIABLE")
_IDENTITY = re.compile(r"host\s*name|user\s*name|^user$", re.IGNORECASE)
_IDENTITY_VARIABLES = ("USER", "LOGNAME", "USERNAME", "HOSTNAME", "HOST", "SLURMD_NODENAME")
_SHORTEST_NAME = 3
_OPTIONS = {
    "CUDA_GRAPH_TRACE_OPTIONS:MODE": "CUDA_GRAPH_TRACE_MODE",
    "CUDA_SKIP_SOME_API_CALLS": "CUDA_SKIP_SOME_API_CALLS",
    "CAPTURE_EVENT_TYPE": "CAPTURE_EVENT_TYPE",
}
_NORMALIZED = "EXPORT_PARAM_TIME_NORMALIZE"
_WARNING = 2
_ERROR = 3
FAILED = re.compile("error when processing events", re.IGNORECASE)
_LOST = re.compile("lost|dropped|overflow|insufficient memory", re.IGNORECASE)
"""Not `memory` alone: healthy traces say that unified memory cannot be traced."""


def export_meta(connection: sqlite3.Connection, found: Schema) -> dict[str, str]:
    """Name -> value of the export's own table, under either of its names; {} before 2021.5."""
    table = found.first(schema.META_EXPORT)
    return {} if table is None else dict(_name_values(connection, table))


def time_shift_ns(meta: Mapping[str, str]) -> int:
    """Nanoseconds that the export added to every timestamp; 0 where it does not say."""
    try:
        return int(meta.get("EXPORT_CONFIG_TIME_SHIFT", "0"))
    except ValueError:
        return 0


def session_start(connection: sqlite3.Connection, found: Schema) -> tuple[int, int | None]:
    """When the collection began: in the times of the export, and in UTC where it tells; ns."""
    meta = export_meta(connection, found)
    table = found.find(schema.SESSION)
    query = f"SELECT {table.sql('utc_ns')} FROM {table.quoted}" if table else ""  # noqa: S608
    rows = few_rows(connection, query) if table and table.sql("utc_ns") else []
    told = {ns for row in rows if (ns := integer(row[0])) is not None and ns > 0}
    utc_ns = told.pop() if len(told) == 1 else None
    if utc_ns is not None and meta.get(_NORMALIZED, "false").lower() != "false":
        return utc_ns, utc_ns
    return time_shift_ns(meta), utc_ns


def _name_values(connection: sqlite3.Connection, table: FoundTable) -> list[tuple[str, str]]:
    rows = few_rows(
        connection,
        f"SELECT {table.sql('name')}, {table.sql('value')} FROM {table.quoted}",  # noqa: S608
    )
    return [(name, text(value) or "") for key, value in rows if (name := text(key))]


def identities(connection: sqlite3.Connection, found: Schema) -> frozenset[str]:
    """Names of the machine and its user that the export itself tells, whole and without domain."""
    names: list[str] = []
    system, capture = found.find(schema.SYSTEM), found.find(schema.META_CAPTURE)
    if system is not None and system.sql("name") and system.sql("value"):
        rows = _name_values(connection, system)
        names += [value for name, value in rows if _IDENTITY.search(name)]
    for key, value in [] if capture is None else _name_values(connection, capture):
        variable, _, setting = value.partition("=")
        if _ENVIRONMENT.search(key) and variable in _IDENTITY_VARIABLES:
            names.append(setting.strip().strip('"'))
        elif _IDENTITY.search(key):
            names.append(value)
    parts = {part for name in names for part in (name, name.split(".")[0])}
    return frozenset(part for part in parts if len(part) >= _SHORTEST_NAME and not part.isdigit())


def shareable_settings(connection: sqlite3.Connection, found: Schema) -> list[tuple[str, str, str]]:
    """(key, setting, value) of the capture's allow-listed settings, values scrubbed.

    The value is as the export would hold it: for a variable of the environment `NAME="value"`.
    """
    table = found.find(schema.META_CAPTURE)
    settings = []
    for key, value in [] if table is None else _name_values(connection, table):
        if _ENVIRONMENT.search(key):
            variable, _, setting = value.partition("=")
            if allowed_setting(variable):
                shown = scrub_value(variable, setting.strip().strip('"'))
                # What stands before it may be a path.
                own = key if _OWN_KEY.fullmatch(key) else "ENVIRONMENT_VARIABLE"
                settings.append((own, variable, f'{variable}="{shown}"'))
            continue
        option = _OPTIONS.get(re.sub(r"^PROCESS_\d+:", "", key))
        if option is not None:
            settings.append((key, option, scrub(value)))
    return settings


def capture_settings(connection: sqlite3.Connection, found: Schema) -> dict[str, str]:
    """Allow-listed environment variables and capture options, scrubbed; {} before 2023.3."""
    settings: dict[str, list[str]] = {}
    for key, name, value in shareable_settings(connection, found):
        shown = value.removeprefix(f'{name}="').removesuffix('"')
        settings.setdefault(name, []).append(shown if _ENVIRONMENT.search(key) else value)
    return {name: ", ".join(dict.fromkeys(settings[name])) for name in sorted(settings)}


def speaks_of_loss(level: int, message: str) -> bool:
    """Whether a message of nsys, of this severity, says that events are missing."""
    return bool(FAILED.search(message) or (level >= _ERROR and _LOST.search(message)))


def diagnostics(connection: sqlite3.Connection, found: Schema) -> tuple[tuple[int, str], ...]:
    """(severity, text) of the profiler's warnings and errors, and of what it lost, scrubbed.

    A severity that is no number, which nsys does not write, counts as an error.
    """
    table = found.find(schema.DIAGNOSTIC)
    if table is None:
        return ()
    rows = few_rows(
        connection,
        f"SELECT {table.sql('severity')}, {table.sql('text')} FROM {table.quoted}",  # noqa: S608
    )
    names = identities(connection, found)
    said = [(integer(level), scrub(text(message) or "", names)) for level, message in rows]
    known = [(_ERROR if level is None else level, message, level) for level, message in said]
    return tuple(
        (level, message)
        for level, message, written in known
        if (level >= _WARNING and written is not None) or speaks_of_loss(level, message)
    )


def capture_span(
    connection: sqlite3.Connection, found: Schema, shift_ns: int
) -> tuple[int, int] | None:
    """Start and end of the collection in the times of the export; None where it does not say."""
    table = found.find(schema.ANALYSIS)
    # Times made to UTC have a base that the export does not name.
    normalized = export_meta(connection, found).get(_NORMALIZED, "false")
    if table is None or not table.sql("duration") or normalized.lower() != "false":
        return None
    rows = connection.execute(
        f"SELECT max({table.sql('duration')}) FROM {table.quoted}"  # noqa: S608
    )
    duration = integer(rows.fetchone()[0])
    return None if duration is None or duration <= 0 else (shift_ns, shift_ns + duration)


def trace_facts(
    source: Source,
    tables: Mapping[str, Columns],
    streams: Sequence[Stream],
    host: HostSide,
    shift_ns: int,
) -> TraceFacts:
    """Dropped rows, diagnostics, profiler overhead and launches of one export."""
    connection, found = source.connection, source.found
    launches = launch_facts(connection, found, tables, streams, host)
    dropped = tuple(t.dropped for t in tables.values() if t.dropped.total)
    overhead = found.find(schema.OVERHEAD)
    start = end = np.empty(0, np.int64)
    if overhead is not None:
        spans = source.read(Query.of(overhead, ("start", "end")), lambda block: block)
        if spans:
            start, end = spans["start"], spans["end"]
            keep = ~(unreadable(start) | unreadable(end))
            start, end = start[keep], end[keep]
    span = capture_span(connection, found, shift_ns)
    return TraceFacts(dropped, diagnostics(connection, found), start, end, launches, span)
