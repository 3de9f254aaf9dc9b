"""Copies far below what the link can do, and many that are too small for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap.findings import Context
from nsysoverlap.result.model import Finding

from ..readerkit import execute
from ..tracebuilder import TraceBuilder, draw
from ..traces import h200, h200_names
from .kit import context_of, drawn, fired

MS = 1_000_000
SMALL = 64 * 1024


def only(context: Context, code: str) -> Finding:
    (finding,) = fired(context, code)
    return finding


def copied(gpu: str, *copies: tuple[int, int], kind: str = "d2h") -> TraceBuilder:
    """Copies of (bytes, ms) one after the other."""
    builder = TraceBuilder()
    builder.gpu(0, gpu)
    at = 0
    for n_bytes, length in copies:
        builder.copy(at * MS, (at + length) * MS, kind, n_bytes, stream=20)
        at += length + 1
    return builder


@pytest.mark.parametrize("kind", ["d2h", "h2d"])
def test_a_copy_far_below_the_fastest_of_the_trace(tmp_path: Path, kind: str) -> None:
    builder = copied("Some GPU", (100_000_000, 1), (120_000_000, 4), kind=kind)
    finding = only(drawn(tmp_path, builder), "slow-link")
    # 30 GB/s is half of the limit, which is 60 % of 100 GB/s.
    assert (finding.cost_ns, finding.severity) == (2 * MS, "warning")
    assert finding.title == f"1 {kind.upper()} copy far below what the link can do: 30.0 GB/s"
    assert finding.detail == (
        "54.5 % of the bytes in large pinned copies; the fastest large copy of the trace reached "
        "100.0 GB/s."
    )
    assert "numactl --cpunodebind=N --membind=N" in finding.remedy
    (row,) = finding.evidence
    assert (row.start_ns, row.text) == (2 * MS, f"114.4 MiB {kind.upper()} at 30.0 GB/s")


def test_a_copy_without_length_is_not_the_fastest(tmp_path: Path) -> None:
    builder = copied("Some GPU", (100_000_000, 0), (100_000_000, 1))
    context = drawn(tmp_path, builder)
    assert fired(context, "slow-link") == []
    assert context.devices[0].link.best_d2h_gbps == 100


def test_what_is_hidden_costs_nothing_yet_is_worth_knowing(tmp_path: Path) -> None:
    builder = copied("Some GPU", (100_000_000, 1), (120_000_000, 4))
    builder.kernel(2 * MS, 5 * MS)
    finding = only(drawn(tmp_path, builder), "slow-link")
    assert finding.cost_ns == MS // 2
    builder.kernel(5 * MS, 6 * MS)
    finding = only(drawn(tmp_path, builder), "slow-link")
    assert (finding.cost_ns, finding.severity) == (0, "note")


@pytest.mark.parametrize(
    ("gpu", "gb_per_s", "fires"),
    [
        ("NVIDIA H200", 37, True),
        ("NVIDIA H200", 38, False),
        ("NVIDIA GB200", 149, True),
        ("NVIDIA GB200", 169, False),
        ("NVIDIA GH200 480GB", 120, True),
        ("NVIDIA GH200 480GB", 170, False),
        ("Some GPU", 1, False),
    ],
)
def test_the_peak_of_the_link(tmp_path: Path, gpu: str, gb_per_s: int, fires: bool) -> None:
    builder = copied(gpu, (100 * gb_per_s * MS, 100))
    found = fired(drawn(tmp_path, builder), "slow-link")
    assert [finding.code for finding in found] == (["slow-link"] if fires else [])
    if fires and gpu != "NVIDIA H200":
        assert "From the wrong socket" in found[0].remedy


@pytest.mark.parametrize(
    "builder",
    [
        copied("NVIDIA H200", (100_000_000, 100), kind="d2h_pageable"),
        copied("NVIDIA H200", (63_999_999, 100)),
        copied("NVIDIA H200", (1_000_000_000, 20), (111_111_111, 100)),
    ],
    ids=["pageable", "small", "a tenth of the bytes"],
)
def test_what_says_nothing_of_the_link(tmp_path: Path, builder: TraceBuilder) -> None:
    assert fired(drawn(tmp_path, builder), "slow-link") == []


def small_copies(n: int, n_bytes: int = SMALL) -> TraceBuilder:
    """n copies of 5 us each with 5 us between them; compute beside the first half of the first."""
    builder = draw("dev0 s7 compute: #", unit_ns=2_500)
    for i in range(n):
        kind = "h2d" if i % 2 else "d2h"
        builder.copy(10_000 * i, 10_000 * i + 5_000, kind, n_bytes, stream=20)
    return builder


def test_many_small_copies(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, small_copies(100)), "latency-bound-copies")
    assert finding.cost_ns == 100 * 5_000 - 2_500
    assert finding.title == "100 copies in all of at most 64 KiB"
    assert finding.detail.startswith("Each takes 5.0 µs (median) for 64.0 KiB, that is 13.1 GB/s")
    assert len(finding.evidence) == 3


@pytest.mark.parametrize("builder", [small_copies(99), small_copies(100, SMALL + 1)])
def test_few_or_larger_copies(tmp_path: Path, builder: TraceBuilder) -> None:
    assert fired(drawn(tmp_path, builder), "latency-bound-copies") == []


@pytest.mark.parametrize(
    ("n", "titles"), [(199, []), (200, ["100 copies a step of at most 64 KiB"])]
)
def test_many_is_many_a_step(tmp_path: Path, n: int, titles: list[str]) -> None:
    builder = small_copies(n)
    for i in range(2):
        at = 1_000_000 * i
        builder.kernel(at + 5_000, at + 10_000)
        builder.nvtx(f"step {i}", at - 5_000, at + 990_000)
    context = drawn(tmp_path, builder)
    assert context.n_steps == 2
    assert [finding.title for finding in fired(context, "latency-bound-copies")] == titles


@pytest.mark.parametrize("name", h200_names())
def test_the_links_of_the_real_traces_were_healthy(name: str) -> None:
    context = context_of(h200(name))
    assert fired(context, "slow-link") == fired(context, "latency-bound-copies") == []


def test_a_gpu_far_below_its_equals_has_a_slow_link(tmp_path: Path) -> None:
    """All copies of one GPU are alike; those of the other are three times as fast."""
    builder = draw(
        """
        dev0 s7  compute:             ##........
        dev0 s20 bytes=100000000 h2d: ..##......
        dev1 s7  compute:             ##........
        dev1 s20 bytes=100000000 h2d: ..######..
        """,
        unit_ns=MS,
    )
    path = builder.write(tmp_path / "t.sqlite")
    execute(path, "UPDATE TARGET_INFO_GPU SET name = 'Some GPU'")
    finding = only(context_of(path), "slow-link")
    assert finding.title.startswith("1 H2D copy far below")
    assert finding.evidence[0].device == context_of(path).devices[1].label
    assert "the fastest large copy of the trace reached 50.0 GB/s" in finding.detail
