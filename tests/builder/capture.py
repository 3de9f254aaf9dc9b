"""Rows about the capture itself: GPUs, processes, metadata, messages of the profiler."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from .schema import Schema
from .writer import Row, Value

H200_BANDWIDTH = 4_814_304_000_000
UTC_EPOCH_NS = 1_700_000_000_000_000_000

COPY_KIND_NAMES = (
    *("UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"),
    *("UVM_HTOD", "UVM_DTOH", "UVM_DTOD"),
)
MEM_KIND_NAMES = (
    *("PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED"),
    *("DEVICE_STATIC", "MANAGED_STATIC", "UNKNOWN"),
)


class Place(TypedDict, total=False):
    """Where something ran; the defaults are device 0, stream 7, pid 1000, vm 1, and
    context 1 of device 0, 2 of device 1, and so on.
    """

    device: int
    stream: int
    pid: int
    context: int
    vm: int
    """Bits 48-63 of the serialised ids: 1 on Linux, 0x100 was seen on Windows."""
    tid: int
    """Launching thread; the process's main thread unless given."""


def global_pid(pid: int = 1000, vm: int = 1) -> int:
    """Serialised process id, as GPU rows carry it."""
    return (vm << 48) | (pid << 24)


def global_tid(pid: int = 1000, vm: int = 1, tid: int | None = None) -> int:
    """Serialised thread id, as API and NVTX rows carry it; a float64 rounds it from vm 32 on."""
    return global_pid(pid, vm) | (pid if tid is None else tid)


def process_of(place: Place) -> int:
    """globalPid of a place."""
    return global_pid(place.get("pid", 1000), place.get("vm", 1))


def thread_of(place: Place) -> int:
    """globalTid of a place."""
    return global_tid(place.get("pid", 1000), place.get("vm", 1), place.get("tid"))


class CaptureRows:
    """Collects rows by table; this half knows everything that is no activity.

    GPUs, the device map and processes are made up from the places that were used, unless given.
    """

    def __init__(self) -> None:
        self.rows: defaultdict[str, list[Row]] = defaultdict(list)
        self._strings: dict[str, int] = {}
        # (pid, vm, device) in order of first use; a dict because a set has no order.
        self._used: dict[tuple[int, int, int], None] = {}

    def row(self, table: str, **columns: Value) -> None:
        """Any row of any known table; columns the written schema lacks are left out."""
        self.rows[table].append(columns)

    def string(self, text: str) -> int:
        """Id of a text in StringIds."""
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self.row("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def gpu(
        self,
        gpu_id: int,
        name: str = "NVIDIA H200",
        uuid: str | None = None,
        bandwidth: int | None = H200_BANDWIDTH,
        vm: int = 1,
    ) -> None:
        """A TARGET_INFO_GPU row; `bandwidth` in bytes/s. Given one, none are made up."""
        self.row(
            "TARGET_INFO_GPU",
            vmId=vm << 48,
            id=gpu_id,
            deviceId=gpu_id,
            name=name,
            busLocation=_bus(gpu_id),
            isDiscrete=1,
            memoryBandwidth=bandwidth,
            smCount=132,
            uuid=_uuid(gpu_id, vm) if uuid is None else uuid,
            chipName="GH100",
            cuDevice=gpu_id,
        )

    def cuda_device(
        self, gpu_id: int, cuda_id: int, pid: int = 1000, uuid: str | None = None
    ) -> None:
        """Which GPU a process calls `cuda_id`. Given one, none are made up.

        Call `gpu` first: the uuid is that of the GPU unless given.
        """
        uuids = [row["uuid"] for row in self.rows["TARGET_INFO_GPU"] if row["id"] == gpu_id]
        self.row(
            "TARGET_INFO_CUDA_DEVICE",
            gpuId=gpu_id,
            cudaId=cuda_id,
            pid=pid,
            uuid=uuid or next(iter(uuids), _uuid(gpu_id, 1)),
            numMultiprocessors=132,
        )
        self.row("TARGET_INFO_CUDA_GPU", deviceId=cuda_id, pid=pid, pciBusId=_bus(gpu_id))

    def meta(self, name: str, value: str | bytes | None, *, capture: bool = False) -> None:
        """A metadata row of the export, or of the capture; bytes need not be UTF-8.

        What is given here wins over what `write` would put under the same name.
        """
        tables = ["META_DATA_CAPTURE"] if capture else ["META_DATA_EXPORT", "EXPORT_META_DATA"]
        for table in tables:
            self.row(table, name=name, value=value)

    def env(self, name: str, value: str) -> None:
        """An environment variable of the launched command."""
        self.meta("PROCESS_0:ENVIRONMENT_VARIABLE", f'{name}="{value}"', capture=True)

    def diagnostic(self, severity: int, text: str, timestamp: int = 0) -> None:
        """A message of the profiler; severity 2 is a warning, 3 an error."""
        self.row(
            "DIAGNOSTIC_EVENT",
            timestamp=timestamp,
            timestampType=1,
            source=3,
            severity=severity,
            text=text,
            globalPid=global_pid(),
        )

    def overhead(
        self, start: int, end: int, name: str = "CUPTI Buffer flush", **place: Unpack[Place]
    ) -> None:
        """Time the profiler itself took (PROFILER_OVERHEAD)."""
        self.row(
            "PROFILER_OVERHEAD",
            start=start,
            end=end,
            globalTid=thread_of(place),
            nameId=self.string(name),
            overheadType=3,
        )

    def described(self, schema: Schema, shift_ns: int, lazy: bool) -> Mapping[str, Sequence[Row]]:
        """All rows, with those added that nsys writes into every export."""
        whole = CaptureRows()
        whole.rows.update({table: list(rows) for table, rows in self.rows.items()})
        if "TARGET_INFO_GPU" not in self.rows:
            for vm, device in {(vm, device): None for _, vm, device in self._used}:
                whole.gpu(device, vm=vm)
        gpus = {(row["vmId"], row["id"]): str(row["uuid"]) for row in whole.rows["TARGET_INFO_GPU"]}
        if "TARGET_INFO_CUDA_DEVICE" not in self.rows:
            for pid, vm, device in self._used:
                if uuid := gpus.get((vm << 48, device)):
                    whole.cuda_device(device, device, pid, uuid)
        if "PROCESSES" not in self.rows:
            for pid, vm in {(pid, vm): None for pid, vm, _ in self._used}:
                whole.row("PROCESSES", globalPid=global_pid(pid, vm), pid=pid, name="python3")
        whole._add_metadata(schema, shift_ns, lazy)
        return whole.rows

    def _add_metadata(self, schema: Schema, shift_ns: int, lazy: bool) -> None:
        facts = {
            "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
            "EXPORT_PRODUCT_VERSION": schema.product,
            "EXPORT_SCHEMA_VERSION": schema.version,
            "EXPORT_PARAM_LAZY": str(lazy).lower(),
            "EXPORT_CONFIG_TIME_SHIFT": str(shift_ns),
        }
        given = {row["name"] for row in self.rows["META_DATA_EXPORT"]}
        for name, value in facts.items():
            if name not in given:
                self.meta(name, value)
        ends = [row.get("end") for rows in self.rows.values() for row in rows]
        duration = max((end for end in ends if isinstance(end, int)), default=0)
        self.row("ANALYSIS_DETAILS", globalVid=1 << 48, duration=duration, stopTime=duration)
        self.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=UTC_EPOCH_NS)
        for table, prefix, words in (
            ("ENUM_CUDA_MEMCPY_OPER", "CUDA_MEMCPY_KIND", COPY_KIND_NAMES),
            ("ENUM_CUDA_MEM_KIND", "CUDA_MEMOPR_MEMORY_KIND", MEM_KIND_NAMES),
        ):
            for number, word in enumerate(words):
                self.row(table, id=number, name=f"{prefix}_{word}", label=word.title())


def _bus(gpu_id: int) -> str:
    return f"0000:{gpu_id + 6:02x}:00.0"


def _uuid(gpu_id: int, vm: int) -> str:
    return f"{gpu_id:08x}-0000-4000-8000-{vm:012x}"
