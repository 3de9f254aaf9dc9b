"""Tables and columns of nsys exports by schema version, written down independently of the package.

Sources: DDL of 2023.4.4 (`--lazy=false`) and exports of every other version. A column is
`name[!|*][:TYPE][@since][<until]`: `!` is NOT NULL, `*` a primary key, INTEGER the default type,
versions are `major.minor` or `major.minor.micro`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Version = tuple[int, ...]

_GPU_ROW = "deviceId! contextId! greenContextId@3.7 streamId! correlationId globalPid"

# Columns of each table; `TABLE@since<until` where the table itself came or went.
TABLES = {
    "StringIds": "id* value!:TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"start! end! {_GPU_ROW} demangledName! shortName! "
    "mangledName@2.7 launchType cacheConfig registersPerThread! gridX! gridY! gridZ! blockX! "
    "blockY! blockZ! staticSharedMemory! dynamicSharedMemory! localMemoryPerThread! "
    "localMemoryTotal! gridId! sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig@2.7 "
    "qmdBulkReleaseDone@3.23 qmdPreexitDone@3.23 qmdLastCtaDone@3.23 graphId@3.23 "
    "clusterX@3.23 clusterY@3.23 clusterZ@3.23 clusterSchedulingPolicy@3.23 "
    "maxPotentialClusterSize@3.23 maxActiveClusters@3.23 sharedMemoryRequestedPercentage@3.24.8 "
    "tensorSizeMinusOneElements!:TEXT@3.24.18",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"start! end! {_GPU_ROW} bytes! copyKind! deprecatedSrcId "
    "srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause@2.7 "
    "graphNodeId virtualAddress@2.7 copyCount@3.17.2",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"start! end! {_GPU_ROW} value! bytes! graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE@3.16": f"start! end! {_GPU_ROW} graphId! graphExecId!",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"start! end! {_GPU_ROW} deprecatedSyncType@3.17 "
    "syncType! eventId! eventSyncId@3.17",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT@2.9": "timestamp@3.23 deviceId! contextId! "
    "greenContextId@3.7 streamId! correlationId globalPid eventId! eventSyncId@3.17.2",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start! end! eventClass! globalTid correlationId nameId! "
    "returnValue! callchainId",
    "CUPTI_ACTIVITY_KIND_OVERHEAD@3.24": "start! end! eventClass! globalTid correlationId nameId "
    "overheadType!",
    "PROFILER_OVERHEAD": "start! end! globalTid correlationId<2.7 nameId! returnValue!<3.24 "
    "overheadType!@3.24",
    "NVTX_EVENTS": "start! end eventType! rangeId category color text:TEXT globalTid endGlobalTid "
    "textId domainId uint64Value int64Value doubleValue:REAL uint32Value int32Value "
    "floatValue:REAL jsonTextId jsonText:TEXT binaryData:TEXT@3.16",
    "DIAGNOSTIC_EVENT@3.13": "timestamp! timestampType! source! severity! text!:TEXT globalPid",
    "PROCESSES@2.7": "globalPid pid name:TEXT",
    "ANALYSIS_DETAILS@2.7": "globalVid! duration! startTime! stopTime!",
    "TARGET_INFO_SESSION_START_TIME@2.7": "utcEpochNs utcTime:TEXT localTime:TEXT "
    "systemClockNs@3.24.7",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName!:TEXT name!:TEXT nameEnum! value!:TEXT",
    "TARGET_INFO_GPU": "vmId! deviceId!<2.7 id!@2.7 name:TEXT busLocation:TEXT isDiscrete "
    "l2CacheSize@2.7 totalMemory@2.7 memoryBandwidth@2.7 clockRate@2.7 smCount@2.7 pwGpuId@2.7 "
    "uuid:TEXT@2.7 luid@2.7 chipName:TEXT@2.7 cuDevice@2.7",
    "TARGET_INFO_CUDA_GPU<2.7": "deviceId! pid! pciBusId:TEXT",
    "TARGET_INFO_CUDA_DEVICE@3.17": "gpuId cudaId! pid! uuid:TEXT@3.24.7 numMultiprocessors@3.24.7",
    "EXPORT_META_DATA@2.7<3.4": "name!:TEXT value:TEXT",
    "META_DATA_EXPORT@3.4": "name!:TEXT value:TEXT",
    "META_DATA_CAPTURE@3.4": "name!:TEXT value:TEXT",
    "ENUM_CUDA_MEMCPY_OPER@3.0": "id* name:TEXT label:TEXT",
    "ENUM_CUDA_MEM_KIND@3.0": "id* name:TEXT label:TEXT",
}

_ENTRY = re.compile(
    r"(?P<name>\w+)(?P<mark>[!*]?)(?::(?P<type>[A-Z]+))?"
    r"(?:@(?P<since>[\d.]+))?(?:<(?P<until>[\d.]+))?"
)
_CONSTRAINTS = {"": "", "!": "NOT NULL", "*": "NOT NULL PRIMARY KEY"}


@dataclass(frozen=True)
class Column:
    """One column as a schema variant declares it."""

    name: str
    sql_type: str
    constraint: str = ""

    @property
    def required(self) -> bool:
        """Whether the column refuses NULL."""
        return bool(self.constraint)

    @property
    def declaration(self) -> str:
        """The column's line in CREATE TABLE."""
        return f'"{self.name}" {self.sql_type} {self.constraint}'


@dataclass(frozen=True)
class Schema:
    """One variant of the export format; `release` is the version whose columns it has."""

    release: Version
    version: str | None
    """EXPORT_SCHEMA_VERSION; None where the file has no such key."""
    product: str
    leading_column: str | None = None
    only_tables: frozenset[str] | None = None
    without_columns: frozenset[str] = frozenset()
    not_null: bool = True

    def tables(self) -> dict[str, tuple[Column, ...]]:
        """Tables this variant knows with their columns, in file order."""
        known = {}
        for entry, columns in TABLES.items():
            table = _current(entry, self.release)
            if table and (self.only_tables is None or table.name in self.only_tables):
                known[table.name] = self._columns(columns)
        return known

    def _columns(self, spec: str) -> tuple[Column, ...]:
        found = [_current(entry, self.release) for entry in spec.split()]
        kept = [c for c in found if c and c.name not in self.without_columns]
        if not self.not_null:
            kept = [Column(c.name, c.sql_type) for c in kept]
        if self.leading_column:
            kept.insert(0, Column(self.leading_column, "INTEGER"))
        return tuple(kept)


def _current(entry: str, release: Version) -> Column | None:
    """The table or column of a specification entry, None where this release lacks it."""
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise ValueError(f"cannot read {entry!r}")
    since, until = match["since"], match["until"]
    if (since and release < _version(since)) or (until and release >= _version(until)):
        return None
    return Column(match["name"], match["type"] or "INTEGER", _CONSTRAINTS[match["mark"]])


def _name(entry: str) -> str:
    return re.split(r"[!*:@<]", entry, maxsplit=1)[0]


def _version(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


_THIRD_PARTY_TABLES = frozenset(
    ["StringIds", "NVTX_EVENTS"]
    + [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME")]
)
_THIRD_PARTY_DROPS = {"globalPid", "contextId", "greenContextId"}.union(
    f"{end}{fact}" for end in ("src", "dst") for fact in ("Kind", "DeviceId", "ContextId")
)

SCHEMAS = {
    "2019": Schema((0, 0, 0), None, "2019.6.1"),
    "2.7": Schema((2, 7, 0), "2.7.0", "2021.5.2"),
    "3.1": Schema((3, 1, 7), "3.1.7", "2023.2.3"),
    "3.4": Schema((3, 4, 0), "3.4.0", "2023.3.3"),
    "3.7": Schema((3, 7, 2), "3.7.2", "2023.4.4"),
    "3.16": Schema((3, 16, 1), "3.16.1", "2024.6.2"),
    "3.20": Schema((3, 20, 3), "3.20.3", "2025.3.2"),
    "3.24": Schema((3, 24, 18), "3.24.18", "2026.1.3"),
    "3.25": Schema((3, 25, 0), "3.25.0", "2026.2.1"),
    "future": Schema((3, 99, 0), "4.2.0", "2031.1.1", leading_column="unheardOf"),
    "cut": Schema(
        (3, 20, 3),
        None,
        "",
        only_tables=_THIRD_PARTY_TABLES,
        without_columns=frozenset(_THIRD_PARTY_DROPS),
        not_null=False,
    ),
}
"""Schema variants by name; `future` knows more than we do, `cut` is what a third party left."""

ALL_COLUMNS = {
    _name(entry): frozenset(_name(column) for column in columns.split())
    for entry, columns in TABLES.items()
}
"""Every column any version of a table has."""

EVENT_TABLES = frozenset(
    name
    for name in ALL_COLUMNS
    if name.startswith("CUPTI_") or name in ("NVTX_EVENTS", "DIAGNOSTIC_EVENT", "PROFILER_OVERHEAD")
)
"""Tables whose rows happen at a time; the others describe the capture."""
