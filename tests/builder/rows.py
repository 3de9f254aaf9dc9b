"""`TraceBuilder`: activities, API calls and NVTX ranges, with what nsys records beside them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple, Unpack

from .capture import CaptureRows, Place, process_of, thread_of
from .schema import SCHEMAS
from .writer import Output, Value, WriteOptions

GEMM = "gemm_fusion_dot_1"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

# A launch API call begins this long before its activity and takes half of that.
LAUNCH_LEAD_NS = 2_000

Dim3 = tuple[int, int, int]


class CopyKind(NamedTuple):
    """ENUM_CUDA_MEMCPY_OPER, ENUM_CUDA_MEM_KIND of both ends, and a plausible bytes per ns."""

    number: int
    src: int = 7
    dst: int = 7
    rate: int = 20


COPY_KINDS = {
    "h2d": CopyKind(1, 1, 2, 50),
    "d2h": CopyKind(2, 2, 1, 50),
    "h2d_pageable": CopyKind(1, 0, 2, 4),
    "d2h_pageable": CopyKind(2, 2, 0, 4),
    "h2a": CopyKind(3, 1, 3, 50),
    "a2h": CopyKind(4, 3, 1, 50),
    "d2d": CopyKind(8, 2, 2, 1500),
    "peer": CopyKind(10, 2, 2, 100),
    # A peer copy without peer access: kind 2 on the source device, kind 1 on the destination.
    "staged_d2h": CopyKind(2, 2, 2, 20),
    "staged_h2d": CopyKind(1, 2, 2, 20),
    "unified_h2d": CopyKind(11),
    "unified_d2h": CopyKind(12),
}


class TraceBuilder(CaptureRows):
    """Rows of a capture, added activity by activity; `write` puts them into a file.

    Times are ns. Kernels, copies, memsets and graphs get their launch API row unless `api` is
    None, and return their correlation id. Ids count up per process, so they repeat across
    processes as real ones do; id 0 means none, activities given the same id share one launch.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last_correlation: defaultdict[int, int] = defaultdict(int)
        self._launched: set[tuple[int, int]] = set()

    def write(
        self, path: str | Path, schema: str = "3.20", **options: Unpack[WriteOptions]
    ) -> Path:
        """Write an export of one of `SCHEMAS`; `Output` explains the options."""
        output = Output(Path(path), SCHEMAS[schema], **options)
        return output.write(self.described(output.schema, output.shift_ns, output.lazy))

    def kernel(
        self,
        start: int,
        end: int,
        name: str = GEMM,
        *,
        grid: Dim3 = (1, 1, 1),
        block: Dim3 = (256, 1, 1),
        correlation: int | None = None,
        graph_node: int | None = None,
        api: str | None = "cudaLaunchKernel_v7000",
        **place: Unpack[Place],
    ) -> int:
        """A kernel; with `graph_node` its launch is that of a graph."""
        correlation = self._launch(start, correlation, graph_node, api, place)
        short = name.split("<")[0].split("(")[0].split()[-1].split("::")[-1]
        self.row(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            **self._activity(start, end, correlation, place),
            demangledName=self.string(name),
            shortName=self.string(short),
            mangledName=self.string(f"_Z{len(short)}{short}v"),
            registersPerThread=44,
            **dict(zip(("gridX", "gridY", "gridZ"), grid, strict=True)),
            **dict(zip(("blockX", "blockY", "blockZ"), block, strict=True)),
            graphNodeId=graph_node,
            tensorSizeMinusOneElements="[]",
        )
        return correlation

    def copy(
        self,
        start: int,
        end: int,
        kind: str | CopyKind = "h2d",
        n_bytes: int | None = None,
        *,
        src_device: int | None = None,
        dst_device: int | None = None,
        correlation: int | None = None,
        graph_node: int | None = None,
        api: str | None = "cudaMemcpyAsync_v3020",
        **place: Unpack[Place],
    ) -> int:
        """A copy of a kind named in `COPY_KINDS`, or of any other; bytes fit the kind's rate.

        Unified-memory migrations have no launch, stream or context. A peer copy comes from the
        other one of devices 0 and 1 unless `src_device` is given.
        """
        kind = COPY_KINDS[kind] if isinstance(kind, str) else kind
        migration = kind.number in (11, 12, 13)
        if migration:
            place, correlation = {**place, "stream": 0, "context": 0}, 0
        if kind.number == 10:
            dst_device = place.get("device", 0) if dst_device is None else dst_device
            src_device = int(dst_device == 0) if src_device is None else src_device
        correlation = self._launch(start, correlation, graph_node, api, place)
        self.row(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            **self._activity(start, end, correlation, place),
            bytes=(end - start) * kind.rate if n_bytes is None else n_bytes,
            copyKind=kind.number,
            srcKind=kind.src,
            dstKind=kind.dst,
            srcDeviceId=src_device,
            dstDeviceId=dst_device,
            srcContextId=None if src_device is None else 1,
            dstContextId=None if dst_device is None else 1,
            migrationCause=2 if migration else None,
            virtualAddress=0x7F0000000000 if migration else None,
            graphNodeId=graph_node,
            copyCount=None if migration else 1,
        )
        return correlation

    def memset(
        self,
        start: int,
        end: int,
        n_bytes: int | None = None,
        *,
        correlation: int | None = None,
        graph_node: int | None = None,
        api: str | None = "cudaMemsetAsync_v3020",
        **place: Unpack[Place],
    ) -> int:
        """A memset of device memory."""
        correlation = self._launch(start, correlation, graph_node, api, place)
        self.row(
            "CUPTI_ACTIVITY_KIND_MEMSET",
            **self._activity(start, end, correlation, place),
            bytes=(end - start) * 1000 if n_bytes is None else n_bytes,
            memKind=2,
            graphNodeId=graph_node,
        )
        return correlation

    def graph(
        self,
        start: int,
        end: int,
        *,
        graph_id: int = 1,
        correlation: int | None = None,
        api: str | None = "cudaGraphLaunch_v10000",
        **place: Unpack[Place],
    ) -> int:
        """A graph launch traced as a whole; schemas before 3.16 keep its API row only."""
        correlation = self._launch(start, correlation, None, api, place)
        self.row(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            **self._activity(start, end, correlation, place),
            graphId=graph_id,
            graphExecId=graph_id + 1,
        )
        return correlation

    def sync(
        self,
        start: int,
        end: int,
        *,
        sync_type: int = 4,
        event_id: int = 0,
        event_sync_id: int | None = None,
        correlation: int = 0,
        **place: Unpack[Place],
    ) -> None:
        """A SYNCHRONIZATION row; `sync_type` as in schema 3.20, where 4 waits for the device."""
        self.row(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            **self._activity(start, end, correlation, place),
            syncType=sync_type,
            eventId=event_id,
            eventSyncId=event_sync_id,
        )

    def cuda_event(
        self,
        event_id: int,
        *,
        event_sync_id: int | None = None,
        timestamp: int | None = None,
        correlation: int = 0,
        **place: Unpack[Place],
    ) -> None:
        """A recorded CUDA event."""
        where = self._activity(0, 0, correlation, place)
        del where["start"], where["end"]
        self.row(
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
            **where,
            timestamp=timestamp,
            eventId=event_id,
            eventSyncId=event_sync_id,
        )

    def api(
        self, name: str, start: int, end: int, correlation: int = 0, **place: Unpack[Place]
    ) -> None:
        """A CUDA API call; driver calls (`cu...`) and runtime calls (`cuda...`) share a table."""
        self.row(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            eventClass=0 if name.startswith("cuda") else 1,
            globalTid=thread_of(place),
            correlationId=correlation,
            nameId=self.string(name),
        )

    def nvtx(
        self,
        text: str,
        start: int,
        end: int | None,
        *,
        registered: bool = False,
        event_type: int = 59,
        domain: int | None = None,
        **place: Unpack[Place],
    ) -> None:
        """A push/pop range; `registered` puts its text into StringIds, as JAX and NCCL do."""
        self.row(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType=event_type,
            text=None if registered else text,
            textId=self.string(text) if registered else None,
            globalTid=thread_of(place),
            domainId=domain,
        )

    def _launch(
        self,
        start: int,
        correlation: int | None,
        graph_node: int | None,
        api: str | None,
        place: Place,
    ) -> int:
        """The activity's correlation id; adds its API row unless there is one already."""
        process = process_of(place)
        if correlation is None:
            correlation = self._last_correlation[process] + 1
        self._last_correlation[process] = max(self._last_correlation[process], correlation)
        if api and correlation and (process, correlation) not in self._launched:
            self._launched.add((process, correlation))
            name = api if graph_node is None else "cudaGraphLaunch_v10000"
            called = start - LAUNCH_LEAD_NS
            self.api(name, called, called + LAUNCH_LEAD_NS // 2, correlation, **place)
        return correlation

    def _activity(self, start: int, end: int, correlation: int, place: Place) -> dict[str, Value]:
        """The columns all GPU-side tables share."""
        device = place.get("device", 0)
        self._used[place.get("pid", 1000), place.get("vm", 1), device] = None
        return {
            "start": start,
            "end": end,
            "deviceId": device,
            "contextId": place.get("context", 1 + device),
            "greenContextId": 0,
            "streamId": place.get("stream", 7),
            "correlationId": correlation,
            "globalPid": process_of(place),
        }
