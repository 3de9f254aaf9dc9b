"""`read_trace`: one export in, one `Trace` out."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..core.arrays import narrow_codes
from ..core.beside import Beside, can_copy
from ..core.errors import TraceFileError
from ..core.threads import usable_threads
from . import capture_facts as facts
from . import schema
from .activities import Columns, Registry, read_columns
from .contents import Stream, Trace, TraceInfo
from .database import check_file, open_database, probe
from .devices import GpuTables, read_gpus, resolve_devices
from .host import HostSide, HostWaits
from .host_rows import read_host
from .manifest import manifest_beside
from .schema import Schema
from .source import Source
from .strings import strings
from .values import file_label
from .wait_rows import read_wait_tables, read_waits

_WORTH_A_COPY = 32 << 20
"""Bytes of an export from which on a second process reads part of it."""
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,40}")


def read_trace(
    path: str | Path,
    *,
    ranges: bool = True,
    threads: int = 2,
) -> Trace:
    """Read an SQLite export of any nsys version into numpy columns.

    `ranges` says whether NVTX ranges and stream waits, which steps and operations need, are read.
    Raises `TraceFileError` for anything that is
    no whole, closed nsys export. The file is opened read-only and never changed.
    """
    path = Path(path)
    check_file(path)
    before = _state(path)
    try:
        with open_database(path) as connection:
            trace = _read(path, connection, ranges, threads)
    finally:
        # Also after a failure: then this is the reason for it.
        if _state(path) != before:
            raise TraceFileError(
                f"{path.name}: the file changed while it was read.",
                "Wait until nsys has finished writing it, then try again.",
            )
    return trace


def _state(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written or replaced; None where it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def table_counts(path: str | Path) -> dict[str, int]:
    """Number of rows of each known table that exists; scans them, so only `info` asks."""
    path = Path(path)
    with open_database(path) as connection:
        found = probe(connection, path.name)
        tables = [found.find(spec) for spec in schema.COUNTED_TABLES]
        return {
            # Not count(*), in which SQLite does not look up from its work.
            table.table: connection.execute(
                f"SELECT count(1) FROM {table.quoted}"  # noqa: S608
            ).fetchone()[0]
            for table in tables
            if table is not None
        }


def _read(
    path: Path,
    connection: sqlite3.Connection,
    ranges: bool,
    threads: int,
) -> Trace:
    found = probe(connection, path.name)
    meta = facts.export_meta(connection, found)
    shift_ns = facts.time_shift_ns(meta)
    registry, source = Registry(), Source(path, connection, found, threads)
    with ExitStack() as stack:
        read_calls, beside = stack.enter_context(_host_reader(source, ranges))
        # Two processes are as many as were asked for.
        here = replace(source, threads=1) if beside else source
        tables = {
            spec.name: read_columns(here, spec, registry, shift_ns)
            for spec in schema.ACTIVITY_TABLES
        }
        # Read before the calls are there, which take longest.
        wait_tables = read_wait_tables(here) if ranges else None
        host = read_calls()
    kernels = tables[schema.KERNEL.name]
    ids = registry.names.values()
    texts = strings(connection, found, ids)
    names = tuple(sorted(set(texts)))
    name_code = {name: code for code, name in enumerate(names)}
    _recode(kernels, "name", [name_code[name] for name in texts])

    gpus = read_gpus(connection, found)
    keys = registry.streams.tuples()
    devices, device_of = resolve_devices({(key[0], key[1]) for key in keys}, gpus)
    streams = tuple(
        Stream(index, key[0], key[1], key[2], key[3], device_of[key[0], key[1]])
        for index, key in enumerate(sorted(keys))
    )
    place = {key: index for index, key in enumerate(sorted(keys))}
    for table in tables.values():
        _recode(table, "stream", [place[key] for key in keys])

    waits, host_waits = None, HostWaits()
    if wait_tables is not None:
        waits, host_waits = read_waits(source, wait_tables, host, streams)
        del wait_tables
    return Trace(
        info=_info(path, connection, found, meta, tables, gpus),
        kernels=kernels.kernels(registry.launch_shapes()),
        copies=tables[schema.MEMCPY.name].copies(),
        memsets=tables[schema.MEMSET.name].activities(),
        graphs=tables[schema.GRAPH_TRACE.name].activities(),
        streams=streams,
        devices=devices,
        names=names,
        facts=facts.trace_facts(source, tables, streams, host, shift_ns),
        host=replace(host, waits=waits, host_waits=host_waits),
    )


@contextmanager
def _host_reader(source: Source, ranges: bool) -> Iterator[tuple[Callable[[], HostSide], bool]]:
    """What reads the host side, and whether a copy of this process does so already, as it does
    of a large export.
    """
    large = source.path.stat().st_size >= _WORTH_A_COPY
    if not large or usable_threads(source.threads) < 2 or not can_copy():
        yield lambda: read_host(source, ranges=ranges), False
        return

    def read() -> HostSide:
        # A connection is of the process that opened it.
        with open_database(source.path) as own:
            return read_host(replace(source, connection=own, threads=1), ranges=ranges)

    with Beside(read) as reader:
        yield reader.result, True


def _recode(table: Columns, column: str, new_codes: Sequence[int]) -> None:
    """Replace the codes of one column, which depend on who read what first, by lasting ones."""
    codes = narrow_codes(np.array(new_codes, dtype=np.int32))
    table.values[column] = codes[table.values[column]]


def _version(meta: Mapping[str, str], name: str) -> str | None:
    """A version, where it is one: anything else has no business in a report."""
    value = meta.get(name, "")
    return value if _VERSION.fullmatch(value) else None


def _info(
    path: Path,
    connection: sqlite3.Connection,
    found: Schema,
    meta: Mapping[str, str],
    tables: Mapping[str, Columns],
    gpus: GpuTables,
) -> TraceInfo:
    present = {spec.name for spec in schema.ACTIVITY_TABLES if found.find(spec) is not None}
    return TraceInfo(
        file_name=file_label(path.name),
        product_version=_version(meta, "EXPORT_PRODUCT_VERSION"),
        schema_version=_version(meta, "EXPORT_SCHEMA_VERSION"),
        capture=facts.capture_settings(connection, found),
        tables={name: len(tables[name].values["start_ns"]) for name in sorted(present)},
        gpus=tuple(entry.gpu for entry in gpus.listed),
        derived_by_third_party="DERIVED_BY" in meta,
        manifest=manifest_beside(path),
    )
