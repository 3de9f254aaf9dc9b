"""Pageable and unified memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..readerkit import execute
from ..tracebuilder import draw
from .kit import MS, context_of, drawn, fired, only


def test_pageable_copies_by_direction(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7  compute:                      ####................####
        dev0 s20 bytes=30000000 h2d_pageable:  ..######................
        dev0 s20 bytes=8000000 d2h_pageable:   ..........####..........
        dev0 s21 bytes=50000000 h2d:           ..............#.........
        """,
    )
    h2d, d2h = fired(context, "pageable-memory")
    assert (h2d.cost_ns, d2h.cost_ns) == (4 * MS, 4 * MS)
    assert (h2d.severity, d2h.severity) == ("warning", "warning")
    assert h2d.title == "1 H2D copy from pageable memory: 5.0 GB/s"
    assert d2h.title == "1 D2H copy into pageable memory: 2.0 GB/s"
    assert "Pinned copies of this trace reach 50.0 GB/s." in h2d.detail
    assert "The link can do 63.0 GB/s (PCIe Gen5 x16, peak by data sheet)." in d2h.detail
    assert (
        "The calls (cudaMemcpyAsync) held their thread for 1.0 µs; the copies took 6.0 ms on "
        "the GPU." in h2d.detail
    )
    assert "cudaHostAlloc" in h2d.remedy
    (row,) = h2d.evidence
    assert (row.start_ns, row.end_ns) == (2 * MS, 8 * MS)
    assert row.text == "28.6 MiB H2D, 4.0 ms of it exposed"


def test_pinned_copies_without_length_have_no_rate(tmp_path: Path) -> None:
    builder = draw("dev0 s7 compute: ##....\ndev0 s20 h2d_pageable: ..####", unit_ns=MS)
    builder.copy(3 * MS, 3 * MS, "h2d", 1 << 20)
    finding = only(drawn(tmp_path, builder), "pageable-memory")
    assert "The link can do 63.0 GB/s" in finding.detail


def test_a_driver_call_is_named_too(tmp_path: Path) -> None:
    builder = draw("dev0 s7 compute: ##", unit_ns=MS)
    builder.copy(3 * MS, 5 * MS, "d2h_pageable", api="cuMemcpyDtoHAsync_v2")
    finding = only(drawn(tmp_path, builder), "pageable-memory")
    assert "The calls (cuMemcpyDtoHAsync) held" in finding.detail


def test_hidden_pageable_copies_are_a_note(tmp_path: Path) -> None:
    context = drawn(tmp_path, "dev0 s7 compute: ####\ndev0 s20 h2d_pageable: .##.")
    finding = only(context, "pageable-memory")
    assert (finding.severity, finding.cost_ns) == ("note", 0)


@pytest.mark.parametrize("kind", ["h2d", "d2h", "h2a", "a2h"])
def test_pinned_copies_are_not_pageable(tmp_path: Path, kind: str) -> None:
    context = drawn(tmp_path, f"dev0 s7 compute: ##..\ndev0 s20 {kind}: ..##")
    assert fired(context, "pageable-memory") == []


@pytest.mark.parametrize(("length_us", "n"), [(1, 1), (0, 0)])
def test_a_short_copy_is_not_worth_a_line(tmp_path: Path, length_us: int, n: int) -> None:
    """0.1 % of the time is; a nanosecond less is not."""
    builder = draw("dev0 s7 compute: #", unit_ns=MS - 1000)
    builder.copy(MS - 1000, MS - 1000 + 999 + length_us, "d2h_pageable", 100_000, stream=20)
    assert len(fired(drawn(tmp_path, builder), "pageable-memory")) == n


@pytest.mark.parametrize(("n_bytes", "n"), [(4, 0), (64 * 1024, 0), (64 * 1024 + 1, 1)])
def test_small_copies_take_as_long_from_any_memory(tmp_path: Path, n_bytes: int, n: int) -> None:
    builder = draw("dev0 s7 compute: ####", unit_ns=MS)
    builder.copy(4 * MS, 5 * MS, "d2h_pageable", n_bytes, stream=20)
    assert len(fired(drawn(tmp_path, builder), "pageable-memory")) == n


def test_the_link_is_that_of_the_gpu_that_copies(tmp_path: Path) -> None:
    builder = draw(
        "dev0 s7 compute: ##....\ndev1 s7 compute: ##....\ndev1 s20 h2d_pageable: ..####",
        unit_ns=MS,
    )
    builder.gpu(0, "NVIDIA GB200")
    builder.gpu(1, "NVIDIA H200")
    finding = only(drawn(tmp_path, builder), "pageable-memory")
    assert "The link can do 63.0 GB/s" in finding.detail
    assert "C2C" not in finding.remedy


def test_unified_migrations(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7 compute:                    ####..........
        dev0 s0 bytes=1048576 unified_h2d:  ..####........
        dev0 s0 bytes=2097152 unified_d2h:  .....###..AABB
        """,
    )
    finding = only(context, "unified-memory")
    # 4 to 8 ms and 10 to 14 ms; 2 to 4 ms lie beside the kernel.
    assert finding.cost_ns == 8 * MS
    assert finding.severity == "warning"
    assert finding.title == (
        "Unified memory migrates on demand: 1.0 MiB to the device, 6.0 MiB to the host"
    )
    assert finding.detail == (
        "Migrations: 4. Whoever touches a page waits for it, so the 2.0 ms that ran beside kernels "
        "are no gain either."
    )
    assert [(e.start_ns // MS, e.text) for e in finding.evidence] == [
        (2, "1.0 MiB to the device"),
        (5, "2.0 MiB to the host"),
        (10, "2.0 MiB to the host"),
    ]


def test_copies_are_not_migrations(tmp_path: Path) -> None:
    context = drawn(tmp_path, "dev0 s7 compute: ##..\ndev0 s20 h2d: ..##")
    assert fired(context, "unified-memory") == []


def test_only_copies_of_the_steps_count(tmp_path: Path) -> None:
    builder = draw("dev0 s7 compute: ...##", unit_ns=MS)
    builder.nvtx("step 0", 3 * MS - 10_000, 4 * MS)
    for begin in (0, 3):
        builder.copy(begin * MS, (begin + 3) * MS, "d2h_pageable", stream=20)
    context = drawn(tmp_path, builder, steps="step")
    assert context.n_steps == 1
    assert only(context, "pageable-memory").title.startswith("1 D2H copy ")


def test_costs_are_per_step_and_of_the_device_that_loses_most(tmp_path: Path) -> None:
    builder = draw(
        """
        dev0 s7  compute:      #...#...
        dev0 s20 h2d_pageable: .#...#..
        dev1 s7  compute:      #...#...
        dev1 s20 h2d_pageable: .##..#..
        """,
        unit_ns=MS,
        t0=MS,
    )
    for i in range(2):
        builder.nvtx(f"step {i}", (4 * i + 1) * MS - 10_000, (4 * i + 4) * MS)
    context = drawn(tmp_path, builder)
    assert context.n_steps == 2
    finding = only(context, "pageable-memory")
    assert finding.cost_ns == 3 * MS // 2
    assert finding.title.startswith("4 H2D copies")
    worst, *_ = finding.evidence
    assert worst.device == context.devices[1].label
    assert context.devices[1].device_id == 1


def test_tiny_pinned_copies_have_no_rate_to_compare_with(tmp_path: Path) -> None:
    """0.000004 GB/s of a loss that was fetched is no reason to doubt pinned memory."""
    builder = draw("dev0 s7 compute: ##....\ndev0 s20 h2d_pageable: ..####", unit_ns=MS)
    builder.copy(8 * MS, 9 * MS, "h2d", 4, stream=21)
    finding = only(drawn(tmp_path, builder), "pageable-memory")
    assert "The link can do 63.0 GB/s" in finding.detail


def test_pinned_copies_that_are_no_faster_are_no_remedy(tmp_path: Path) -> None:
    lanes = """
    dev0 s7  compute:                      ##..........
    dev0 s20 bytes=20000000 h2d_pageable:  ..####......
    dev0 s21 bytes={} h2d:                 ......####..
    """
    finding = only(drawn(tmp_path, lanes.format(20_000_000)), "pageable-memory")
    assert finding.remedy.startswith("Pinned copies of this trace are no faster")
    faster = only(drawn(tmp_path, lanes.format(200_000_000)), "pageable-memory")
    assert "cudaHostAlloc" in faster.remedy


@pytest.mark.parametrize(
    ("causes", "title", "prefetched"),
    [
        ((2, 2), "migrates on demand", False),
        ((1, 1), "is prefetched", True),
        ((1, 2), "moves", False),
    ],
)
def test_prefetches_are_not_on_demand(
    tmp_path: Path, causes: tuple[int, int], title: str, prefetched: bool
) -> None:
    builder = draw(
        "dev0 s7 compute: ##........\ndev0 s0 bytes=1048576 unified_h2d: ..AAAABBBB", unit_ns=MS
    )
    path = builder.write(tmp_path / "t.sqlite")
    for cause, start in zip(causes, (2 * MS, 6 * MS), strict=True):
        execute(
            path,
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET migrationCause = ? WHERE start = ?",
            values=[cause, start],
        )
    finding = only(context_of(path), "unified-memory")
    assert finding.title == f"Unified memory {title}: 2.0 MiB to the device, 0 B to the host"
    assert ("already" in finding.remedy) == prefetched


@pytest.mark.parametrize(("gpu", "n"), [("Xavier", 1), ("Orin", 1), ("NVIDIA H200", 0)])
def test_one_memory_needs_no_copy(tmp_path: Path, gpu: str, n: int) -> None:
    builder = draw("dev0 s7 compute: ##..##\ndev0 s20 h2d: ..##..", unit_ns=MS)
    path = builder.write(tmp_path / "t.sqlite")
    execute(path, "UPDATE TARGET_INFO_GPU SET name = ?", values=[gpu])
    found = fired(context_of(path), "integrated-gpu")
    assert [finding.cost_ns for finding in found] == [2 * MS] * n
    assert all("cudaHostAllocMapped" in finding.remedy for finding in found)


@pytest.mark.parametrize("gpu", ["NVIDIA GH200 480GB", "NVIDIA GB200"])
def test_pageable_memory_is_reachable_over_c2c(tmp_path: Path, gpu: str) -> None:
    builder = draw("dev0 s7 compute: ##..##\ndev0 s20 h2d_pageable: ..##..", unit_ns=MS)
    path = builder.write(tmp_path / "t.sqlite")
    execute(path, "UPDATE TARGET_INFO_GPU SET name = ?", values=[gpu])
    finding = only(context_of(path), "pageable-memory")
    assert finding.remedy.startswith("Over NVLink-C2C the GPU reaches pageable memory itself")
