"""Which rows belong to one physical GPU, and which cannot be proven to.

Two ranks that both call their GPU 0 are two devices unless the export proves otherwise: the
CUDA ordinal in a row says nothing about the card behind it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable
from functools import cached_property

from ..core.records import dataclass
from . import schema
from .contents import VM_MASK, Device, TargetGpu, pid_of
from .guard import few_rows
from .schema import Schema, TableSpec
from .values import integer, text

_NOT_NVIDIA = re.compile(r"\b(Intel|AMD|Radeon|Microsoft|llvmpipe|Virtual)\b", re.IGNORECASE)
_MIG = re.compile(r"\bMIG\b")


@dataclass(frozen=True)
class ListedGpu:
    """One row of TARGET_INFO_GPU; `vm` is the high 16 bits of the ids of its machine."""

    gpu: TargetGpu
    vm: int
    nvidia: bool

    @property
    def mig(self) -> bool:
        """Whether it is a MIG slice."""
        return bool(self.gpu.name and _MIG.search(self.gpu.name))


@dataclass(frozen=True)
class GpuTables:
    """GPUs the export lists, and (plain pid, CUDA ordinal) -> (nsys GPU id, uuid or None)."""

    listed: tuple[ListedGpu, ...] = ()
    of_process: tuple[tuple[int, int, int, str | None], ...] = ()

    @cached_property
    def claims(self) -> dict[tuple[int, int], set[tuple[int, str | None]]]:
        """What is said of each process and ordinal."""
        found: dict[tuple[int, int], set[tuple[int, str | None]]] = {}
        for pid, ordinal, gpu, uuid in self.of_process:
            found.setdefault((pid, ordinal), set()).add((gpu, uuid))
        return found


def read_gpus(connection: sqlite3.Connection, found: Schema) -> GpuTables:
    """Rows of TARGET_INFO_GPU and TARGET_INFO_CUDA_DEVICE; empty where absent."""
    listed = []
    for row in _rows(connection, found, schema.GPU):
        name = text(row["name"])
        bandwidth = integer(row["memory_bandwidth"])
        nvidia = not _NOT_NVIDIA.search(name or "") and integer(row["sm_count"]) != 0
        gpu = TargetGpu(integer(row["id"]), name, _uuid(row["uuid"]), bandwidth or None)
        listed.append(ListedGpu(gpu, integer(row["vm_id"]) or 0, nvidia))
    of_process = [
        (pid, ordinal, gpu_id, _uuid(row["uuid"]))
        for row in _rows(connection, found, schema.CUDA_DEVICE)
        if (pid := integer(row["pid"])) is not None
        and (ordinal := integer(row["cuda_id"])) is not None
        and (gpu_id := integer(row["gpu_id"])) is not None
    ]
    listed.sort(key=lambda entry: (entry.vm, entry.gpu.id or 0))
    return GpuTables(tuple(listed), tuple(of_process))


def _rows(
    connection: sqlite3.Connection, found: Schema, spec: TableSpec
) -> Iterable[dict[str, object]]:
    table = found.find(spec)
    if table is None:
        return []
    names = [column.name for column in spec.columns]
    columns = ", ".join(table.sql(name) or "NULL" for name in names)
    rows = few_rows(connection, f"SELECT {columns} FROM {table.quoted}")  # noqa: S608
    return [dict(zip(names, row, strict=True)) for row in rows]


def _uuid(value: object) -> str | None:
    """A uuid that identifies something: all zeros stand for "unknown"."""
    uuid = (text(value) or "").strip().removeprefix("GPU-").lower()
    return uuid if uuid.strip("0-") else None


def resolve_devices(
    used: Collection[tuple[int, int]], gpus: GpuTables
) -> tuple[tuple[Device, ...], dict[tuple[int, int], int]]:
    """Group the (globalPid, deviceId) pairs that have rows into devices.

    Pairs join one device only where both are proven to be the same physical GPU. Returns the
    devices, in order of GPU id, process and ordinal, and the device index of each pair.
    """
    groups: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    cards: dict[tuple[object, ...], TargetGpu] = {}
    for global_pid, device_id in sorted(used):
        gpu = _prove(global_pid, device_id, gpus)
        if gpu is None:
            key: tuple[object, ...] = ("process", global_pid, device_id)
            gpu = TargetGpu(name=_common_name(global_pid, gpus))
        else:
            key = ("uuid", gpu.uuid) if gpu.uuid else ("gpu", global_pid & VM_MASK, gpu.id)
        groups.setdefault(key, []).append((global_pid, device_id))
        cards.setdefault(key, gpu)
    order = sorted(groups, key=lambda key: (cards[key].id is None, cards[key].id or 0, groups[key]))
    devices, index_of = [], {}
    for index, key in enumerate(order):
        ordinals = {device_id for _, device_id in groups[key]}
        devices.append(
            Device(
                index=index,
                global_pids=tuple(sorted({global_pid for global_pid, _ in groups[key]})),
                device_id=ordinals.pop() if len(ordinals) == 1 else None,
                gpu=cards[key],
                proven=key[0] != "process",
            )
        )
        index_of.update(dict.fromkeys(groups[key], index))
    return tuple(devices), index_of


def _prove(global_pid: int, device_id: int, gpus: GpuTables) -> TargetGpu | None:
    """The physical GPU behind one process's ordinal, or None where the export does not say."""
    machine = [entry for entry in gpus.listed if _same_machine(entry, global_pid, gpus)]
    pid = pid_of(global_pid)
    claims = set(gpus.claims.get((pid, device_id), ()))
    if len(claims) == 1:
        gpu_id, uuid = claims.pop()
        cards = [entry.gpu for entry in machine if entry.gpu.id == gpu_id]
        if uuid is not None and any(card.uuid not in (None, uuid) for card in cards):
            # The map has plain process ids: this claim is one of another machine's process.
            return None
        if uuid is not None:
            name, bandwidth = (cards[0].name, cards[0].memory_bandwidth) if cards else (None, None)
            return TargetGpu(gpu_id, name, uuid, bandwidth)
        if len(cards) == 1:
            return cards[0]
    nvidia = [entry for entry in machine if entry.nvidia]
    if not claims and len(nvidia) == 1 and not nvidia[0].mig:
        return nvidia[0].gpu
    return None


def _same_machine(entry: ListedGpu, global_pid: int, gpus: GpuTables) -> bool:
    """Whether a listed GPU belongs to the machine of a process.

    Cut-down exports have no globalPid; with a single machine listed there is no doubt either.
    """
    if entry.vm == global_pid & VM_MASK:
        return True
    return global_pid & VM_MASK == 0 and len({other.vm for other in gpus.listed}) == 1


def _common_name(global_pid: int, gpus: GpuTables) -> str | None:
    """The model name, where all NVIDIA GPUs of that machine share it."""
    names = {
        entry.gpu.name
        for entry in gpus.listed
        if entry.nvidia and _same_machine(entry, global_pid, gpus)
    }
    return names.pop() if len(names) == 1 else None
