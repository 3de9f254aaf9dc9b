"""Facts about a capture that decide how far its numbers can be trusted."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np

from ..core.arrays import BoolArray, IdArray
from . import schema
from .activities import Columns
from .bulk import Query, unreadable
from .host import HostSide
from .host_rows import PUSH_POP, START_END
from .model import LaunchFacts, Stream, TraceFacts
from .privacy import allowed_setting, scrub, scrub_value
from .schema import FoundTable, Schema
from .source import Source
from .values import integer, text

_ENVIRONMENT = re.compile(r"(^|:)ENVIRONMENT_VARIABLE$")
_OPTIONS = {
    "CUDA_GRAPH_TRACE_OPTIONS:MODE": "CUDA_GRAPH_TRACE_MODE",
    "CUDA_SKIP_SOME_API_CALLS": "CUDA_SKIP_SOME_API_CALLS",
    "CAPTURE_EVENT_TYPE": "CAPTURE_EVENT_TYPE",
}
_WARNING = 2
_WIDEST = 1 << 28
"""Marks for correlation ids that lie further apart would take more memory than sorting them."""
_ROWS_AT_ONCE = 1 << 20


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


def _name_values(connection: sqlite3.Connection, table: FoundTable) -> list[tuple[str, str]]:
    rows = connection.execute(
        f"SELECT {table.sql('name')}, {table.sql('value')} FROM {table.quoted}"  # noqa: S608
    )
    return [(name, text(value) or "") for key, value in rows if (name := text(key))]


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
                settings.append((key, variable, f'{variable}="{shown}"'))
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


def diagnostics(connection: sqlite3.Connection, found: Schema) -> tuple[tuple[int, str], ...]:
    """(severity, text) of the profiler's warnings and errors, scrubbed."""
    table = found.find(schema.DIAGNOSTIC)
    if table is None:
        return ()
    rows = connection.execute(
        f"SELECT {table.sql('severity')}, {table.sql('text')} FROM {table.quoted}"  # noqa: S608
    )
    return tuple(
        (level, scrub(text(message) or ""))
        for severity, message in rows
        if (level := integer(severity)) is not None and level >= _WARNING
    )


def trace_facts(
    source: Source,
    tables: Mapping[str, Columns],
    streams: Sequence[Stream],
    host: HostSide,
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
    return TraceFacts(dropped, diagnostics(connection, found), start, end, launches)


def launch_facts(
    connection: sqlite3.Connection,
    found: Schema,
    tables: Mapping[str, Columns],
    streams: Sequence[Stream],
    host: HostSide,
) -> LaunchFacts:
    """How many launches have a GPU row with their (process, correlation id)."""
    any_row = any(len(t.values["start_ns"]) for t in tables.values())
    thunks = None if any_row else _thunks(connection, found)
    if not host.has_calls:
        return LaunchFacts(n_thunk_ranges=thunks)
    counts = []
    for patterns in ((schema.KERNEL_LAUNCH_API, schema.ASYNC_COPY_API), (schema.GRAPH_LAUNCH_API,)):
        wanted = np.array([any(p.match(n) for p in patterns) for n in host.api_names], np.bool_)
        # A call without an id of its own cannot be matched, so it says nothing.
        mine = wanted[host.calls.name] & (host.calls.correlation_id != 0)
        counts.append(_count_missing(host, mine, tables, streams))
    (n, missing), (n_graph, graph_missing) = counts
    return LaunchFacts(n, missing, n_graph, graph_missing, thunks)


def _count_missing(
    host: HostSide,
    wanted: BoolArray,
    tables: Mapping[str, Columns],
    streams: Sequence[Stream],
) -> tuple[int, int]:
    """Distinct (process, correlation id) calls, and those among them without any GPU row."""
    n = missing = 0
    for pid in np.unique(host.thread_pid):
        mine = wanted & (host.thread_pid == pid)[host.calls.thread]
        # Cut-down exports do not say which process a row or a call is of.
        own = np.array([s.global_pid in (pid, 0) or pid == 0 for s in streams], dtype=np.bool_)
        rows = [
            ids if own.all() else ids[own[table.values["stream"]]]
            for table in tables.values()
            if len(ids := table.values["correlation_id"])
        ]
        if mine.any():
            calls, left = _distinct_and_without(host.calls.correlation_id[mine], rows)
            n, missing = n + calls, missing + left
    return n, missing


def _distinct_and_without(ids: IdArray, others: Sequence[IdArray]) -> tuple[int, int]:
    """How many distinct ids there are, and how many of them are in none of `others`."""
    low, high = int(ids.min()), int(ids.max())
    if high - low > _WIDEST:
        distinct = np.unique(ids)
        found = np.zeros(len(distinct), np.bool_)
        for other in others:
            found |= np.isin(distinct, other)
        return len(distinct), int(np.count_nonzero(~found))
    # Ids count up, so a mark for each possible one is cheaper than sorting them.
    marks = np.zeros(high - low + 1, np.bool_)
    marks[np.subtract(ids, low, dtype=np.int64)] = True
    n = int(np.count_nonzero(marks))
    for other in others:
        for first in range(0, len(other), _ROWS_AT_ONCE):
            part = other[first : first + _ROWS_AT_ONCE]
            part = part[(part >= low) & (part <= high)]
            marks[np.subtract(part, low, dtype=np.int64)] = False
    return n, int(np.count_nonzero(marks))


def _thunks(connection: sqlite3.Connection, found: Schema) -> int:
    """Number of NVTX ranges that XLA opens around each piece of GPU work."""
    table, strings = found.find(schema.NVTX), found.find(schema.STRINGS)
    if table is None:
        return 0
    conditions = []
    if table.sql("text"):
        conditions.append(f"CAST({table.sql('text')} AS TEXT) GLOB '{schema.THUNK_PREFIX}*'")
    if table.sql("text_id") and strings is not None:
        conditions.append(
            f"{table.sql('text_id')} IN (SELECT {strings.sql('id')} FROM {strings.quoted} "  # noqa: S608
            f"WHERE CAST({strings.sql('value')} AS TEXT) GLOB '{schema.THUNK_PREFIX}*')"
        )
    if not conditions:
        return 0
    query = (
        f"SELECT count(*) FROM {table.quoted} WHERE ({' OR '.join(conditions)}) "  # noqa: S608
        f"AND CAST({table.sql('event_type')} AS INTEGER) IN ({PUSH_POP}, {START_END})"
    )
    return int(connection.execute(query).fetchone()[0])
