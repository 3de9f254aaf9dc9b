"""What was read from one export: numpy columns, streams, devices, and facts about the capture.

All times are int64 nanoseconds in the trace's own time base. Rows of every table are sorted by
start, then end. A `Trace` is plain data: nothing in it refers back to the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..core.arrays import BoolArray, CodeArray, IdArray, Int32Array, Int64Array, UInt8Array
from ..core.formatting import number_of
from ..core.late import late
from ..core.records import dataclass
from .host import HostSide
from .manifest import Manifest

if TYPE_CHECKING:
    import pandas as pd


PID_SHIFT = 24
VM_MASK = ~((1 << 48) - 1)


def pid_of(global_pid: int) -> int:
    """Plain process id inside a serialised nsys globalPid or globalTid (bits 24-47)."""
    return (global_pid >> PID_SHIFT) & 0xFFFFFF


@dataclass(frozen=True)
class TargetGpu:
    """A physical GPU or MIG slice of TARGET_INFO_GPU; absent facts are None."""

    id: int | None = None
    name: str | None = None
    uuid: str | None = None
    memory_bandwidth: int | None = None
    """Bytes per second, TARGET_INFO_GPU.memoryBandwidth."""


@dataclass(frozen=True)
class Device:
    """One GPU as the metric sees it: a physical GPU where proven, else one (process, ordinal).

    `global_pids` are the processes whose rows it holds; `device_id` is the CUDA ordinal they use,
    None where processes sharing the GPU number it differently.
    """

    index: int
    global_pids: tuple[int, ...]
    device_id: int | None
    gpu: TargetGpu
    proven: bool

    @property
    def pid(self) -> int | None:
        """Plain process id; None where several processes share the GPU."""
        return pid_of(self.global_pids[0]) if len(self.global_pids) == 1 else None


@dataclass(frozen=True)
class Stream:
    """A CUDA stream; numbers repeat across processes, so the key is all four of them."""

    index: int
    global_pid: int
    device_id: int
    context_id: int
    stream_id: int
    device: int
    """Index into `Trace.devices`."""

    @property
    def pid(self) -> int:
        """Plain process id."""
        return pid_of(self.global_pid)


@dataclass(frozen=True)
class Activities:
    """GPU-side rows of one table, sorted by start; every column has shape (n,).

    `stream` indexes `Trace.streams`; `correlation_id` is 0 where the row has none;
    `from_graph` is true for a row that is a node of a CUDA graph launch.
    """

    start_ns: Int64Array
    end_ns: Int64Array
    stream: CodeArray
    correlation_id: IdArray
    from_graph: BoolArray

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class LaunchShapes:
    """The distinct launch configurations of a trace: `grid` and `block`, both of shape (k, 3).

    All zero where the export does not tell.
    """

    grid: Int64Array
    block: Int64Array

    @property
    def threads(self) -> Int64Array:
        """Threads of each configuration, shape (k,); no more than 2^62."""
        # As floats first: nonsense in a damaged trace must not wrap around.
        exact = np.prod(self.grid, axis=1) * np.prod(self.block, axis=1)
        rough = np.prod(self.grid, axis=1, dtype=float) * np.prod(self.block, axis=1, dtype=float)
        result: Int64Array = np.where(rough < 2.0**62, exact, np.int64(2**62))
        return result


@dataclass(frozen=True)
class Kernels(Activities):
    """CUPTI_ACTIVITY_KIND_KERNEL; `name` indexes `Trace.names`, `shape` indexes `shapes`."""

    name: CodeArray
    shape: CodeArray
    shapes: LaunchShapes


@dataclass(frozen=True)
class Copies(Activities):
    """CUPTI_ACTIVITY_KIND_MEMCPY.

    `copy_kind` holds ENUM_CUDA_MEMCPY_OPER, `src_kind` and `dst_kind` ENUM_CUDA_MEM_KIND (255
    where NULL), `src_device` and `dst_device` -1 where NULL, `graph_node_id` 0 where NULL.
    `migration_cause` is ENUM_CUDA_UNIF_MEM_MIGRATION of unified memory, 1 for a prefetch.
    """

    n_bytes: Int64Array
    copy_kind: UInt8Array
    src_kind: UInt8Array
    dst_kind: UInt8Array
    migration_cause: UInt8Array
    src_device: Int32Array
    dst_device: Int32Array
    graph_node_id: Int64Array


@dataclass(frozen=True)
class TraceInfo:
    """Where the trace came from; only what is safe to print.

    `tables` counts the rows of the known tables that exist; `capture` holds allow-listed
    environment variables and capture options.
    """

    file_name: str
    product_version: str | None = None
    schema_version: str | None = None
    capture: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)
    gpus: tuple[TargetGpu, ...] = ()
    derived_by_third_party: bool = False
    manifest: Manifest | None = None


@dataclass(frozen=True)
class ProcessLaunches:
    """Kernel launches and copies of one process, and those of them without a GPU row.

    Calls that were captured into a graph are left out. `n_copies` and `n_kernels` lie between the
    first GPU row of the process and its last call that has one; `head` are calls before that
    time, `tail` those after it. Copies of less than 1 us, which had nothing to copy, are not
    missed.
    """

    pid: int
    n: int
    n_copies: int = 0
    n_kernels: int = 0
    copies_missing: int = 0
    kernels_missing: int = 0
    head_missing: int = 0
    tail_missing: int = 0
    has_rows: bool = True


@dataclass(frozen=True)
class LaunchFacts:
    """How API launches relate to GPU rows, counted over distinct (process, correlation id).

    All are None where the export has no API table. `n_launches` are kernel launches and async
    copies outside graphs.
    """

    n_launches: int | None = None
    n_launches_without_row: int | None = None
    n_graph_launches: int | None = None
    n_graph_launches_without_row: int | None = None
    n_thunk_ranges: int | None = None
    processes: tuple[ProcessLaunches, ...] = ()


@dataclass(frozen=True)
class Dropped:
    """Rows of one table left out when reading, by reason."""

    table: str
    no_timestamp: int = 0
    negative_duration: int = 0
    unreadable: int = 0

    @property
    def total(self) -> int:
        """All rows left out."""
        return self.no_timestamp + self.negative_duration + self.unreadable


@dataclass(frozen=True)
class TraceFacts:
    """What `health` judges: lost rows, messages of the profiler, overhead, launches."""

    dropped: tuple[Dropped, ...] = ()
    diagnostics: tuple[tuple[int, str], ...] = ()
    """(severity, text) of DIAGNOSTIC_EVENT rows of severity 2 and above, and of all others that
    speak of lost events; text as written."""
    overhead_start_ns: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    overhead_end_ns: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    launches: LaunchFacts = field(default_factory=LaunchFacts)
    capture_ns: tuple[int, int] | None = None
    """Start and end of the collection in the trace's time; None where the export does not tell."""


@dataclass(frozen=True, repr=False)
class Trace:
    """One export, read. `names` are demangled kernel names, '' where the export has none."""

    info: TraceInfo
    kernels: Kernels
    copies: Copies
    memsets: Activities
    graphs: Activities
    streams: tuple[Stream, ...]
    devices: tuple[Device, ...]
    names: tuple[str, ...]
    facts: TraceFacts
    host: HostSide = field(default_factory=HostSide)

    def __repr__(self) -> str:
        """In one line: a trace may hold millions of rows."""
        rows = ", ".join(f"{len(table):,} {name}" for name, table in self.tables.items())
        return f"<Trace {self.info.file_name}: {rows}, {number_of(len(self.devices), 'device')}>"

    @cached_property
    def stream_device(self) -> Int32Array:
        """Device index of each stream, shape (n_streams,)."""
        return np.array([stream.device for stream in self.streams], dtype=np.int32)

    @cached_property
    def stream_pid(self) -> Int64Array:
        """Process of each stream, shape (n_streams,)."""
        return np.array([stream.global_pid for stream in self.streams], dtype=np.int64)

    def rows_on(self, device: int, table: str) -> Int64Array:
        """Rows (n,) of one of `tables` that ran on a device, rising."""
        return self._device_rows[device][table].astype(np.int64)

    @cached_property
    def _device_rows(self) -> tuple[dict[str, Int32Array], ...]:
        """Kept in half the size that indexing needs."""
        n_devices = len(self.devices)
        small = np.int16 if n_devices < 2**15 else np.int32
        result: tuple[dict[str, Int32Array], ...] = tuple({} for _ in self.devices)
        for name, table in self.tables.items():
            device = self.stream_device.astype(small)[table.stream]
            order = np.argsort(device, kind="stable")
            bounds = np.searchsorted(device, np.arange(n_devices + 1), sorter=order).tolist()
            for index, rows in enumerate(result):
                rows[name] = order[bounds[index] : bounds[index + 1]].astype(np.int32)
        return result

    @cached_property
    def extent_ns(self) -> tuple[int, int] | None:
        """First start and last end over all GPU rows of all devices; None without rows."""
        tables = [t for t in self.tables.values() if len(t)]
        if not tables:
            return None
        return min(int(t.start_ns[0]) for t in tables), max(int(t.end_ns.max()) for t in tables)

    @property
    def tables(self) -> dict[str, Activities]:
        """The four activity tables by kind."""
        tables = (self.kernels, self.copies, self.memsets, self.graphs)
        return dict(zip(("kernel", "memcpy", "memset", "graph"), tables, strict=True))

    @cached_property
    def activities(self) -> pd.DataFrame:
        """All GPU rows as one documented DataFrame (see docs/dataframes.md), built once."""
        frame: pd.DataFrame = late("activities_frame")(self)
        return frame

    def transfers(self, steps: str = "auto") -> pd.DataFrame:
        """Every transfer: what hid it, issued it and waited for it; see docs/dataframes.md."""
        frame: pd.DataFrame = late("transfers_frame")(self, steps)
        return frame

    def _repr_html_(self) -> str:
        return str(late("trace_html")(self))


_TEMPLATE_OR_CALL = re.compile(r"[<(]")


@lru_cache(maxsize=1 << 14)
def short_name(demangled: str) -> str:
    """Kernel name without return type, namespaces, template arguments and parameters.

    `void at::native::vectorized_elementwise_kernel<(int)4, ...>(int, ...)` gives
    `vectorized_elementwise_kernel`.
    """
    name = qualified_name(demangled)
    return name.rsplit("::", 1)[-1] or name or demangled


def qualified_name(demangled: str) -> str:
    """Kernel name with namespaces but without return type, template arguments and parameters.

    Nested templates are removed wherever they stand, so
    `void deep_ep::internode::dispatch<false, 4>(int4*)` gives `deep_ep::internode::dispatch`.
    """
    text = demangled.removeprefix("void ").strip()
    if not _TEMPLATE_OR_CALL.search(text):
        return text
    kept: list[str] = []
    depth = 0
    text = text.replace("(anonymous namespace)", "{anonymous}")
    for char in text.replace("<unnamed>", "{anonymous}"):
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif char == "(" and depth == 0:
            break
        elif depth == 0:
            kept.append(char)
    return "".join(kept).rsplit(" ", 1)[-1] or text
