"""Which rows belong to one physical GPU: only what the export proves."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap import read_trace
from nsysoverlap.trace.contents import Device, TargetGpu

from .builder.capture import H200_BANDWIDTH
from .readerkit import execute, retype
from .tracebuilder import TraceBuilder, global_pid
from .traces import h200

INTEL = "Intel(R) UHD Graphics 770"
ZEROS = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "devices.sqlite"


def ran(*places: tuple[int, int], vm: int = 1) -> TraceBuilder:
    """A kernel in each (pid, device)."""
    builder = TraceBuilder()
    for pid, device in places:
        builder.kernel(0, 10, pid=pid, device=device, vm=vm)
    return builder


def devices(builder: TraceBuilder, out: Path, schema: str = "3.24") -> list[Device]:
    trace = read_trace(builder.write(out, schema))
    assert [device.index for device in trace.devices] == list(range(len(trace.devices)))
    assert {stream.device for stream in trace.streams} == set(range(len(trace.devices)))
    for stream in trace.streams:
        assert stream.global_pid in trace.devices[stream.device].global_pids
    return list(trace.devices)


def merged(found: list[Device]) -> list[tuple[list[int], int | None, bool]]:
    """Processes, ordinal and proof of each device."""
    return [
        ([(pid >> 24) & 0xFFFFFF for pid in d.global_pids], d.device_id, d.proven) for d in found
    ]


def test_two_ranks_that_both_use_ordinal_0_of_two_gpus(out: Path) -> None:
    builder = ran((1, 0), (2, 0))
    for gpu, pid in ((0, 1), (1, 2)):
        builder.gpu(gpu)
        builder.cuda_device(gpu, 0, pid)
    for schema in ("3.20", "3.24"):
        found = devices(builder, out, schema)
        assert merged(found) == [([1], 0, True), ([2], 0, True)]
        assert [d.gpu.id for d in found] == [0, 1]
        assert [d.pid for d in found] == [1, 2]


def test_two_processes_on_one_gpu(out: Path) -> None:
    builder = ran((1, 0), (2, 0))
    builder.gpu(0)
    for schema in ("2.7", "3.16", "3.20"):
        (found,) = devices(builder, out, schema)
        assert merged([found]) == [([1, 2], 0, True)]
        assert found.pid is None
        assert found.gpu.name == "NVIDIA H200"
        assert found.gpu.memory_bandwidth == H200_BANDWIDTH


def test_two_processes_that_number_one_gpu_differently(out: Path) -> None:
    builder = ran((1, 0), (2, 3))
    builder.gpu(0)
    builder.gpu(5)
    builder.cuda_device(5, 0, 1)
    builder.cuda_device(5, 3, 2)
    for schema in ("3.20", "3.24"):
        (found,) = devices(builder, out, schema)
        assert merged([found]) == [([1, 2], None, True)]
        assert found.gpu.id == 5


def test_the_same_uuid_is_the_same_gpu_even_when_it_is_not_listed(out: Path) -> None:
    builder = ran((1, 0), (2, 1), (3, 0))
    builder.gpu(7)
    for ordinal, pid, uuid in ((0, 1, "GPU-AB-1"), (1, 2, "ab-1"), (0, 3, "ab-2")):
        builder.cuda_device(0, ordinal, pid, uuid)
    assert merged(devices(builder, out)) == [([1, 2], None, True), ([3], 0, True)]


def test_a_uuid_of_zeros_proves_nothing(out: Path) -> None:
    builder = ran((1, 0), (2, 0))
    for gpu in (0, 1):
        builder.gpu(gpu, uuid=ZEROS)
    for pid in (1, 2):
        builder.cuda_device(9, 0, pid, uuid=f"GPU-{ZEROS}")
    found = devices(builder, out)
    assert merged(found) == [([1], 0, False), ([2], 0, False)]
    assert [d.gpu for d in found] == [TargetGpu(name="NVIDIA H200")] * 2


def test_contradicting_claims_prove_nothing(out: Path) -> None:
    builder = ran((1, 0), (2, 0))
    for gpu in (0, 1):
        builder.gpu(gpu)
    for gpu, pid in ((0, 1), (1, 1), (0, 2)):
        builder.cuda_device(gpu, 0, pid)
    for schema in ("3.20", "3.24"):
        assert merged(devices(builder, out, schema)) == [([2], 0, True), ([1], 0, False)]


def test_a_claim_with_the_uuid_of_another_card_proves_nothing(out: Path) -> None:
    builder = ran((1, 0))
    builder.gpu(0)
    builder.cuda_device(0, 0, 1, uuid="some-other-card")
    assert merged(devices(builder, out)) == [([1], 0, False)]


def test_claims_for_ordinals_that_were_never_used_do_not_matter(out: Path) -> None:
    builder = ran((1, 1))
    for gpu in (0, 1):
        builder.gpu(gpu)
        builder.cuda_device(gpu, gpu, 1)
        builder.cuda_device(gpu, gpu, 2)
    (found,) = devices(builder, out)
    assert (found.gpu.id, found.device_id, found.proven) == (1, 1, True)


def test_ids_that_are_not_ordinals_prove_nothing_without_the_map(out: Path) -> None:
    builder = ran((1, 0), (1, 3))
    for gpu in range(4):
        builder.gpu(gpu, name="NVIDIA A100-SXM4-40GB")
        builder.rows["TARGET_INFO_GPU"][-1] = {
            **builder.rows["TARGET_INFO_GPU"][-1],
            "cuDevice": (3, 2, 1, 0)[gpu],
        }
    found = devices(builder, out, "3.16")
    assert merged(found) == [([1], 0, False), ([1], 3, False)]
    assert {d.gpu for d in found} == {TargetGpu(name="NVIDIA A100-SXM4-40GB")}


def test_no_name_where_models_differ(out: Path) -> None:
    builder = ran((1, 0))
    builder.gpu(0, name="NVIDIA A100")
    builder.gpu(1, name="NVIDIA H200")
    builder.gpu(2, name="NVIDIA B200", vm=2)
    (found,) = devices(builder, out, "3.16")
    assert (found.gpu, found.proven) == (TargetGpu(), False)


@pytest.mark.parametrize(
    ("other", "sm_count"),
    [(INTEL, 0), ("Microsoft Basic Render Driver", None), ("AMD Radeon 780M", 0), ("?", 0)],
)
def test_adapters_of_others_do_not_count(out: Path, other: str, sm_count: int | None) -> None:
    builder = ran((1, 0), (2, 0))
    builder.gpu(0, name=other, uuid=ZEROS, bandwidth=None)
    builder.rows["TARGET_INFO_GPU"][-1] = {
        **builder.rows["TARGET_INFO_GPU"][-1],
        "smCount": sm_count,
    }
    builder.gpu(1)
    (found,) = devices(builder, out, "3.16")
    assert (found.gpu.id, found.proven, found.pid) == (1, True, None)


def test_processes_on_a_mig_slice_are_not_merged(out: Path) -> None:
    builder = ran((1, 0), (2, 0))
    builder.gpu(0, name="NVIDIA A30 MIG 2g.12gb")
    found = devices(builder, out, "3.16")
    assert merged(found) == [([1], 0, False), ([2], 0, False)]
    assert {d.gpu.name for d in found} == {"NVIDIA A30 MIG 2g.12gb"}


def test_mig_slices_with_uuids_are_told_apart(out: Path) -> None:
    builder = ran((1, 0), (2, 0), (3, 0))
    for gpu in (0, 1):
        builder.gpu(gpu, name="NVIDIA A30 MIG 2g.12gb")
    for gpu, pid in ((0, 1), (1, 2), (1, 3)):
        builder.cuda_device(gpu, 0, pid)
    assert merged(devices(builder, out)) == [([1], 0, True), ([2, 3], 0, True)]


def test_machines_are_told_apart(out: Path) -> None:
    builder = ran((1, 0))
    builder.kernel(0, 10, pid=1, vm=2)
    for vm in (1, 2):
        builder.gpu(0, vm=vm)
    for schema in ("3.16", "3.20"):
        found = devices(builder, out, schema)
        assert merged(found) == [([1], 0, True), ([1], 0, True)]
        assert [d.global_pids for d in found] == [(global_pid(1, 1),), (global_pid(1, 2),)]


def test_a_claim_of_the_same_pid_on_another_machine_is_not_taken(out: Path) -> None:
    builder = ran((1, 0))
    builder.kernel(0, 10, pid=1, vm=2)
    for vm in (1, 2):
        builder.gpu(0, vm=vm)
    builder.cuda_device(0, 0, 1)
    found = devices(builder, out)
    assert merged(found) == [([1], 0, True), ([1], 0, False)]


def test_a_gpu_of_another_machine_proves_nothing(out: Path) -> None:
    builder = ran((1, 0), (2, 0))
    builder.gpu(0, vm=2)
    found = devices(builder, out, "3.16")
    assert merged(found) == [([1], 0, False), ([2], 0, False)]
    assert {d.gpu for d in found} == {TargetGpu()}


@pytest.mark.parametrize("vm", [0x100, 0x7FFF, 0xFF])
def test_the_machine_may_have_any_number(out: Path, vm: int) -> None:
    builder = ran((1, 0), (2, 0), vm=vm)
    builder.gpu(0, vm=vm)
    (found,) = devices(builder, out, "3.16")
    assert merged([found]) == [([1, 2], 0, True)]


def test_without_process_ids(out: Path) -> None:
    builder = ran((1, 0), (2, 1))
    builder.gpu(0)
    builder.gpu(1)
    builder.write(out, "3.16", drop_columns=["globalPid"])
    assert merged(list(read_trace(out).devices)) == [([0], 0, False), ([0], 1, False)]
    execute(out, "DELETE FROM TARGET_INFO_GPU WHERE id = 1")
    assert merged(list(read_trace(out).devices)) == [([0], None, True)]


def test_nothing_listed(out: Path) -> None:
    builder = ran((1, 0), (1, 1), (2, 0))
    tables = ["TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE"]
    found = read_trace(builder.write(out, drop_tables=tables)).devices
    assert merged(list(found)) == [([1], 0, False), ([1], 1, False), ([2], 0, False)]
    assert read_trace(out).info.gpus == ()


@pytest.mark.parametrize("value", ["NULL", "'x'", "x'00'", "0.5", "-1", "9e99"])
@pytest.mark.parametrize("column", ["gpuId", "cudaId", "pid"])
def test_nonsense_in_the_map_proves_nothing(out: Path, column: str, value: str) -> None:
    builder = ran((1, 0), (2, 0))
    for gpu in (0, 1):
        builder.gpu(gpu)
        builder.cuda_device(gpu, 0, gpu + 1)
    table = "TARGET_INFO_CUDA_DEVICE"
    retype(builder.write(out, "3.20"), "", only=[table])
    execute(out, f"UPDATE {table} SET {column} = {value} WHERE pid = 1")
    assert merged(list(read_trace(out).devices)) == [([2], 0, True), ([1], 0, False)]


@pytest.mark.parametrize("value", ["NULL", "'x'", "x'00'", "0.5", "''", "9e99"])
@pytest.mark.parametrize("column", ["vmId", "id", "name", "uuid", "memoryBandwidth", "smCount"])
def test_nonsense_in_the_list_is_survived(out: Path, column: str, value: str) -> None:
    builder = ran((1, 0))
    builder.gpu(0)
    retype(builder.write(out, "3.24"), "", only=["TARGET_INFO_GPU"])
    execute(out, f'UPDATE TARGET_INFO_GPU SET "{column}" = {value}')
    (found,) = read_trace(out).devices
    assert (found.device_id, found.pid) == (0, 1)


def test_real_ranks() -> None:
    found = read_trace(h200("ddp_two_procs")).devices
    assert [(d.device_id, d.gpu.id, d.proven) for d in found] == [(0, 0, True), (0, 1, True)]
    assert len({d.pid for d in found}) == len({d.gpu.uuid for d in found}) == 2
