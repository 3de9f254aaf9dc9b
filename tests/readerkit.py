"""What tests of the reader share: compare two traces, and change an export behind its back."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nsysoverlap import read_trace
from nsysoverlap.trace import bulk
from nsysoverlap.trace.contents import Trace
from nsysoverlap.trace.pages import UnusualError

from .builder.query import columns, query, tables
from .tracebuilder import TraceBuilder, draw

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"

SMALL = """
    dev0 s7       compute: .####....##.
    dev0 s8       comm:    ......##....
    dev0 s20      h2d:     ...####.....
    dev0 s21      d2h:     .......###..
    dev0 s7       memset:  #...........
    dev1 s7 pid2  compute: ..##........
    dev1 s9 pid2  d2d:     ....#.......
"""


def execute(path: Path, *statements: str, values: Iterable[object] = ()) -> Path:
    """Run SQL on an export, as a third party might; `values` go to the last statement."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA synchronous = OFF")
        for statement in statements[:-1]:
            db.execute(statement)
        db.execute(statements[-1], tuple(values))
        db.commit()
    return path


def retype(path: Path, sql_type: str, value: str = "{c}", only: Iterable[str] = ()) -> Path:
    """Write every column anew with another type; `value` is SQL for its value."""
    for table in sorted(only or tables(path)):
        names = [f'"{name}"' for name in columns(path, table)]
        declared = ", ".join(f"{name} {sql_type}" for name in names)
        values = ", ".join(value.format(c=name) for name in names)
        execute(
            path,
            f'ALTER TABLE "{table}" RENAME TO old_table',
            f'CREATE TABLE "{table}" ({declared})',
            f'INSERT INTO "{table}" SELECT {values} FROM old_table ORDER BY rowid',
            "DROP TABLE old_table",
        )
    return path


def rows(trace: Trace, kind: str) -> list[tuple[Any, ...]]:
    """Rows of one table in the words of the trace, sorted: codes depend on what else is there."""
    table = trace.tables[kind]
    streams = [trace.streams[code] for code in table.stream]
    places = [(s.global_pid, s.device_id, s.context_id, s.stream_id) for s in streams]
    parts: list[Iterable[Any]] = [
        table.start_ns.tolist(),
        table.end_ns.tolist(),
        places,
        table.correlation_id.tolist(),
        table.from_graph.tolist(),
    ]
    if kind == "kernel":
        parts.append([trace.names[code] for code in trace.kernels.name])
    if kind == "memcpy":
        copies = trace.copies
        names = ("n_bytes", "copy_kind", "src_kind", "dst_kind", "src_device", "dst_device")
        parts += [getattr(copies, name).tolist() for name in names]
        parts.append(copies.graph_node_id.tolist())
    return sorted(zip(*parts, strict=True))


def shapes(trace: Trace) -> dict[int, tuple[list[int], list[int]]]:
    """Kernel row -> grid and block."""
    shape, found = trace.kernels.shape, trace.kernels.shapes
    pairs = zip(found.grid[shape].tolist(), found.block[shape].tolist(), strict=True)
    return dict(enumerate(pairs))


def calls(trace: Trace) -> list[tuple[int, int, int, int, str]]:
    """API calls as (start, end, thread, correlation id, name), sorted."""
    host = trace.host
    found = host.calls
    columns: list[Any] = [found.start_ns, found.end_ns, found.thread]
    columns += [found.correlation_id, found.name]
    return sorted(
        (start, end, host.threads[thread], correlation, host.api_names[name])
        for start, end, thread, correlation, name in zip(
            *(column.tolist() for column in columns), strict=True
        )
    )


def ranges(trace: Trace) -> list[tuple[int, int, int, str, bool]]:
    """NVTX ranges as (start, end, thread, text, nested), sorted."""
    host = trace.host
    found = host.ranges
    columns: list[Any] = [found.start_ns, found.end_ns, found.thread, found.text, found.nested]
    return sorted(
        (start, end, host.threads[thread], host.texts[text], nested)
        for start, end, thread, text, nested in zip(
            *(column.tolist() for column in columns), strict=True
        )
    )


def all_shapes(path: Path, threads: int = 2) -> Trace:
    """A trace with the launch shape of every kernel."""
    return read_trace(path, threads=threads)


def everything() -> TraceBuilder:
    """Rows in every table that is read."""
    builder = draw(SMALL)
    builder.graph(12_000, 13_000)
    builder.kernel(13_000, 14_000, graph_node=5 << 32)
    builder.diagnostic(1, "fine")
    builder.diagnostic(2, "Not all CUDA events might have been collected.")
    builder.overhead(2_000, 2_100)
    builder.nvtx("Thunk:#hlo_op=copy-start.1#", 0, 9_000)
    builder.nvtx("step 1", 0, 9_000, registered=True)
    builder.env("XLA_FLAGS", "--xla_a=b")
    return builder


def dropped(trace: Trace) -> Mapping[str, tuple[int, int, int]]:
    """Table -> rows left out: without timestamp, ending early, unreadable."""
    return {
        d.table: (d.no_timestamp, d.negative_duration, d.unreadable) for d in trace.facts.dropped
    }


def assert_same(found: Trace, expected: Trace) -> None:
    """The same rows, streams, devices, names and facts."""
    for kind in expected.tables:
        assert rows(found, kind) == rows(expected, kind), kind
    assert shapes(found) == shapes(expected)
    assert found.streams == expected.streams
    assert found.devices == expected.devices
    assert found.names == expected.names
    assert found.facts.dropped == expected.facts.dropped
    assert found.facts.diagnostics == expected.facts.diagnostics
    assert found.facts.launches == expected.facts.launches
    assert found.facts.overhead_start_ns.tolist() == expected.facts.overhead_start_ns.tolist()
    assert calls(found) == calls(expected)
    assert ranges(found) == ranges(expected)


def read_through_sqlite(path: Path) -> Trace:
    """A trace of which SQLite reads every row."""

    def refuse(*_: object) -> None:
        raise UnusualError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "find_layout", refuse)
        return read_trace(path)


def sound(path: Path) -> bool:
    """Whether SQLite finds nothing wrong with a file."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        except sqlite3.DatabaseError:
            return False


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of every file of a folder."""
    return {
        name: ((folder / name).read_bytes(), (folder / name).stat().st_mtime_ns)
        for name in sorted(os.listdir(folder))
    }


__all__ = [
    "GRAPH_TRACE",
    "KERNEL",
    "MEMCPY",
    "MEMSET",
    "RUNTIME",
    "SMALL",
    "all_shapes",
    "assert_same",
    "calls",
    "dropped",
    "everything",
    "execute",
    "query",
    "ranges",
    "read_through_sqlite",
    "retype",
    "rows",
    "shapes",
    "snapshot",
    "sound",
]
