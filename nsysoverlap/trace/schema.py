"""The only place that knows nsys table and column names.

Exports of 2019 to 2026 differ in tables and columns, not in what a column means, so nothing here
compares versions: a table lists the columns we want, each column its candidate names, and what
an export has is found by looking. A new nsys column name is one more candidate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..core.errors import TraceFileError


@dataclass(frozen=True)
class ColumnSpec:
    """One logical column: `candidates` in order of preference, `default` where absent or NULL."""

    name: str
    candidates: tuple[str, ...]
    default: int = 0
    required: bool = False


@dataclass(frozen=True)
class TableSpec:
    """A table we read and the columns we want from it."""

    name: str
    columns: tuple[ColumnSpec, ...]


def _column(name: str, *candidates: str, default: int = 0, required: bool = False) -> ColumnSpec:
    return ColumnSpec(name, candidates or (name,), default, required)


UNREADABLE = -(2**63)
"""Stands for a value that is no integer; no column nsys writes ever holds it."""

NO_KIND = 255
"""Stands for a NULL memory kind; ENUM_CUDA_MEM_KIND ends at 7."""

_START = _column("start", default=UNREADABLE, required=True)
_END = _column("end", default=UNREADABLE, required=True)
_ACTIVITY = (
    _START,
    _END,
    _column("global_pid", "globalPid"),
    _column("device_id", "deviceId"),
    _column("context_id", "contextId"),
    _column("stream_id", "streamId"),
    _column("correlation_id", "correlationId"),
    _column("graph_node_id", "graphNodeId"),
)

GRID = ("gridX", "gridY", "gridZ")
BLOCK = ("blockX", "blockY", "blockZ")
KERNEL = TableSpec(
    "CUPTI_ACTIVITY_KIND_KERNEL",
    (
        *_ACTIVITY,
        _column("name_id", "demangledName", "shortName", default=-1),
        *(_column(axis) for axis in (*GRID, *BLOCK)),
    ),
)
MEMCPY = TableSpec(
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    (
        *_ACTIVITY,
        _column("n_bytes", "bytes", default=UNREADABLE, required=True),
        _column("copy_kind", "copyKind", required=True),
        _column("src_kind", "srcKind", default=NO_KIND),
        _column("dst_kind", "dstKind", default=NO_KIND),
        _column("src_device", "srcDeviceId", default=-1),
        _column("dst_device", "dstDeviceId", default=-1),
        _column("migration_cause", "migrationCause"),
    ),
)
MEMSET = TableSpec("CUPTI_ACTIVITY_KIND_MEMSET", _ACTIVITY)
GRAPH_TRACE = TableSpec("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _ACTIVITY)
RUNTIME = TableSpec(
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    (
        _START,
        _END,
        _column("global_tid", "globalTid"),
        _column("correlation_id", "correlationId"),
        _column("name_id", "nameId", default=-1),
    ),
)
_EVENT_COLUMNS = (
    *_ACTIVITY[2:7],
    _column("event_id", "eventId", default=-1),
    _column("event_sync_id", "eventSyncId", default=-1),
)
OVERHEAD = TableSpec("PROFILER_OVERHEAD", (_START, _END))
NVTX = TableSpec(
    "NVTX_EVENTS",
    (
        _START,
        _column("end", default=UNREADABLE),
        _column("event_type", "eventType", required=True),
        _column("global_tid", "globalTid"),
        _column("text_id", "textId", default=-1),
        _column("text", "text"),
    ),
)
SYNCHRONIZATION = TableSpec("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", _EVENT_COLUMNS)
CUDA_EVENT = TableSpec("CUPTI_ACTIVITY_KIND_CUDA_EVENT", _EVENT_COLUMNS)
DIAGNOSTIC = TableSpec(
    "DIAGNOSTIC_EVENT", (_column("severity", required=True), _column("text", required=True))
)
ANALYSIS = TableSpec("ANALYSIS_DETAILS", (_column("duration", default=UNREADABLE),))
STRINGS = TableSpec("StringIds", (_column("id", required=True), _column("value", required=True)))
GPU = TableSpec(
    "TARGET_INFO_GPU",
    (
        _column("vm_id", "vmId"),
        _column("id", "id", "deviceId"),
        _column("name", "name"),
        _column("uuid", "uuid"),
        _column("memory_bandwidth", "memoryBandwidth"),
        _column("sm_count", "smCount", default=-1),
    ),
)
CUDA_DEVICE = TableSpec(
    "TARGET_INFO_CUDA_DEVICE",
    (
        _column("gpu_id", "gpuId", required=True),
        _column("cuda_id", "cudaId", required=True),
        _column("pid", "pid", required=True),
        _column("uuid", "uuid"),
    ),
)
_META = (_column("name", required=True), _column("value", required=True))
META_EXPORT = (TableSpec("META_DATA_EXPORT", _META), TableSpec("EXPORT_META_DATA", _META))
META_CAPTURE = TableSpec("META_DATA_CAPTURE", _META)
SESSION = TableSpec("TARGET_INFO_SESSION_START_TIME", (_column("utc_ns", "utcEpochNs"),))
SYSTEM = TableSpec("TARGET_INFO_SYSTEM_ENV", (_column("name"), _column("value")))

ACTIVITY_TABLES = (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE)
COUNTED_TABLES = (*ACTIVITY_TABLES, RUNTIME, NVTX, DIAGNOSTIC, OVERHEAD)
_KNOWN = frozenset(
    spec.name.lower()
    for spec in (
        *(*COUNTED_TABLES, SYNCHRONIZATION, CUDA_EVENT, STRINGS),
        *(GPU, CUDA_DEVICE, *META_EXPORT, META_CAPTURE, SYSTEM, SESSION, ANALYSIS),
    )
)
_VERSION = re.compile(r"_V\d+$", re.IGNORECASE)

KERNEL_LAUNCH_API = re.compile(r"^cu(da)?Launch(Cooperative)?Kernel")
ASYNC_COPY_API = re.compile(r"^cu(da)?Memcpy\w*Async")
STREAM_WAIT_API = re.compile(r"^cu(da)?StreamWaitEvent")
EVENT_RECORD_API = re.compile(r"^cu(da)?EventRecord")
BEGIN_CAPTURE_API = re.compile(r"^cu(da)?StreamBeginCapture")
END_CAPTURE_API = re.compile(r"^cu(da)?StreamEndCapture")
SYNCHRONIZE_API = re.compile(r"^cu(da)?(Stream|Device|Event|Ctx|Thread)Synchronize")
WAITING_API = re.compile(f"{STREAM_WAIT_API.pattern}|{SYNCHRONIZE_API.pattern}")
BLOCKING_COPY_API = re.compile(r"^cu(da)?Memcpy(?!\w*Async)")
ALLOCATE_API = re.compile(
    r"^cu(da)?(Malloc|Free|Mem(Free|Alloc|HostAlloc|HostRegister|HostUnregister)"
    r"|Host(Alloc|Register|Unregister))"
)
"""Calls that allocate, pin or free memory, and hold their thread for it."""
INTERESTING_API = re.compile(
    r"^cu(da)?(Launch|GraphLaunch|Mem(cpy|set|Prefetch)|StreamWaitEvent|EventRecord"
    r"|Stream(Begin|End)Capture|(Stream|Device|Event|Ctx|Thread)Synchronize)"
    f"|{ALLOCATE_API.pattern}"
)
"""Calls that put work on a stream, record it for later, order streams, or hold their thread."""
GRAPH_LAUNCH_API = re.compile(r"^cu(da)?GraphLaunch")
THUNK_PREFIX = "Thunk:"

_MARKS_OF_AN_EXPORT = re.compile(
    r"^(CUPTI_ACTIVITY_KIND_|TARGET_INFO_|META_DATA_|EXPORT_META_DATA$|ANALYSIS_DETAILS$"
    r"|NVTX_EVENTS$|DIAGNOSTIC_EVENT$)"
)


@dataclass(frozen=True)
class FoundTable:
    """A table of the export: real name, real column for each wanted one, name of its rowid."""

    spec: TableSpec
    table: str
    columns: Mapping[str, str]
    rowid: str

    @property
    def quoted(self) -> str:
        """The table name as an SQL identifier."""
        return quote(self.table)

    def sql(self, name: str) -> str | None:
        """SQL identifier of a logical column; None where the export lacks it."""
        real = self.columns.get(name)
        return None if real is None else quote(real)


@dataclass(frozen=True)
class Schema:
    """Tables of one export with their columns, as found."""

    file_name: str
    tables: Mapping[str, tuple[str, ...]]

    @property
    def is_nsys_export(self) -> bool:
        """Whether any table is one only nsys writes."""
        return any(_MARKS_OF_AN_EXPORT.match(name) for name in self.tables)

    @cached_property
    def _by_spec(self) -> dict[str, list[str]]:
        """Tables by their name in small letters, without the suffix of a version."""
        found: dict[str, list[str]] = {}
        for name in self.tables:
            found.setdefault(_VERSION.sub("", name).lower(), []).append(name)
        return found

    def find(self, spec: TableSpec) -> FoundTable | None:
        """The table with its columns; None where it is absent.

        A table may carry a version suffix (`_V2`). Raises `TraceFileError` where a column that
        nothing can stand in for is missing.
        """
        names = sorted(self._by_spec.get(spec.name.lower(), ()), key=_age)
        if not names:
            return None
        real = {column.lower(): column for column in self.tables[names[-1]]}
        found: dict[str, str] = {}
        for column in spec.columns:
            match = next((real[c.lower()] for c in column.candidates if c.lower() in real), None)
            if match is not None:
                found[column.name] = match
            elif column.required:
                raise TraceFileError(
                    f"{self.file_name}: table {names[-1]} has no column {column.candidates[0]}.",
                    "It is not as nsys writes it; export the report again with nsys.",
                )
        rowid = next((r for r in ("rowid", "_rowid_", "oid") if r not in real), None)
        if rowid is None:
            raise TraceFileError(
                f"{self.file_name}: columns of table {names[-1]} hide its row numbers.",
                "It is not as nsys writes it; export the report again with nsys.",
            )
        return FoundTable(spec, names[-1], found, rowid)

    def first(self, specs: Iterable[TableSpec]) -> FoundTable | None:
        """The first of several tables that exists."""
        return next((found for spec in specs if (found := self.find(spec))), None)


def known(table: str) -> bool:
    """Whether a table of this name is one that is read, whatever version it is of."""
    return _VERSION.sub("", table).lower() in _KNOWN


def _age(table: str) -> tuple[int, str]:
    # `_V10` comes after `_V2`, and both after no suffix at all.
    return len(table), table


def quote(identifier: str) -> str:
    """An SQL identifier, safe for any name: `end` is a keyword, third parties use spaces."""
    return '"' + identifier.replace('"', '""') + '"'
