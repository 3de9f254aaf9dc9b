"""Notes about movements that a trace may hold without telling."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap import analyze
from nsysoverlap.result.model import HealthEntry, OverlapReport

from .tracebuilder import ALL_REDUCE, TraceBuilder, draw

HICACHE = (
    "void transfer_kernel_impl<&get_global_offset_{}<const char>, &get_global_offset_{}<char>, "
    "false>(const void *)"
)


def report(path: Path, builder: TraceBuilder) -> OverlapReport:
    return analyze(builder.write(path), steps="none")


def notes(report: OverlapReport) -> dict[str, HealthEntry]:
    return {entry.code: entry for entry in report.health}


def test_copy_kernels_of_no_known_direction_are_named_and_hide_nothing(tmp_path: Path) -> None:
    builder = draw("dev0 s7 compute: ##....\ndev0 s20 d2h: ..####")
    builder.kernel(3_000, 5_000, HICACHE.format("lf", "lf"), stream=9)
    builder.kernel(5_000, 6_000, "transfer_kv_blocks_kernel", stream=9)
    found = report(tmp_path / "t.sqlite", builder)
    note = notes(found)["kernels-may-transfer"]
    assert (note.severity, note.count) == ("note", 2)
    assert "transfer_kv_blocks_kernel, transfer_kernel_impl (3.0 µs)" in note.message
    assert found.total("d2h").hidden_by_compute_ns == 0
    assert found.total("d2h").n == 1


def test_copy_kernels_from_the_pool_of_the_host_are_transfers(tmp_path: Path) -> None:
    builder = draw("dev0 s7 compute: ##..##")
    builder.kernel(10_000, 60_000, HICACHE.format("pf", "lf"), stream=9)
    builder.kernel(70_000, 130_000, HICACHE.format("lf_tbl", "pf"), stream=9)
    # Too short to have waited for a link.
    builder.kernel(140_000, 150_000, HICACHE.format("pf", "lf"), stream=9)
    found = report(tmp_path / "t.sqlite", builder)
    assert "kernels-may-transfer" not in notes(found)
    for direction, wall_ns in (("h2d", 50_000), ("d2h", 60_000)):
        total = found.total(direction)
        assert (total.n, total.n_by_kernel, total.wall_ns) == (1, 1, wall_ns)
        # How much a thread of such a kernel moves is not known.
        assert (total.bytes, total.bytes_estimated) == (0, 0)


@pytest.mark.parametrize(
    ("kernel", "copy", "expected"),
    [
        ("void vllm::act_and_mul_kernel<T1>(T1 *)", False, True),
        ("void vllm::act_and_mul_kernel<T1>(T1 *)", True, False),
        ("void at::native::elementwise_kernel<(int)128>(int)", False, False),
    ],
)
def test_reads_of_host_memory_inside_kernels(
    tmp_path: Path, kernel: str, copy: bool, expected: bool
) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 1_000, kernel)
    if copy:
        builder.copy(0, 1_000, "h2d")
    found = notes(report(tmp_path / "t.sqlite", builder))
    assert ("zero-copy-unseen" in found) is expected


@pytest.mark.parametrize(
    ("text", "kernel", "expected"),
    [
        ("ncclAllGather", "gemm", True),
        ("ncclPutSignal", "gemm", True),
        ("ncclAllGather", ALL_REDUCE, False),
        ("ncclCommInitRank", "gemm", False),
    ],
)
def test_collectives_of_copy_engines(
    tmp_path: Path, text: str, kernel: str, expected: bool
) -> None:
    builder = TraceBuilder()
    builder.nvtx(text, 0, 500)
    builder.kernel(0, 1_000, kernel)
    builder.copy(1_000, 2_000, "d2d")
    found = notes(report(tmp_path / "t.sqlite", builder))
    assert ("copy-engine-collectives" in found) is expected
