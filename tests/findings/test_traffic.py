"""Too much for the link, the same again, and hardly anything."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nsysoverlap import analyze
from nsysoverlap.findings import find_all
from nsysoverlap.result.sentences import headline

from ..tracebuilder import TraceBuilder, draw
from ..traces import h200
from .kit import MS, context_of, drawn, fired, only

MIB = 1 << 20


def cache(*sizes_mib: float, kind: str = "d2h") -> TraceBuilder:
    """Three layers' caches go out at each size, 1 ms each, with a kernel between rounds."""
    builder = TraceBuilder()
    at = 0
    for size in sizes_mib:
        builder.kernel(at, at + MS, stream=7)
        for _ in range(3):
            at += MS
            builder.copy(at, at + MS, kind, int(size * MIB), stream=20)
        at += MS
    return builder


def test_a_cache_that_grows_and_leaves_whole_each_time(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, cache(100, 100.5, 101, 101.5)), "offloaded-again")
    # Rounds 2 to 4 are exposed for 3 ms each.
    assert (finding.cost_ns, finding.severity) == (9 * MS, "warning")
    assert finding.title == (
        "The same data goes to the host 4 times: 904.5 MiB for 4.5 MiB that are new"
    )
    assert "Rounds of 300.0 MiB" in finding.detail
    assert len(finding.evidence) == 3


@pytest.mark.parametrize(
    "sizes", [(100, 100, 100, 100), (100, 101), (100, 120, 144), (103, 102, 101)]
)
def test_other_data_may_have_changed(tmp_path: Path, sizes: tuple[float, ...]) -> None:
    """Of one size each time, twice only, far larger, or smaller each time."""
    assert fired(drawn(tmp_path, cache(*sizes)), "offloaded-again") == []


def test_what_comes_in_is_not_offloaded(tmp_path: Path) -> None:
    assert fired(drawn(tmp_path, cache(100, 100.5, 101, kind="h2d")), "offloaded-again") == []


def resent(
    kernels: tuple[str, ...] = ("flash_fprop",), *, rounds: int = 4, back: int = 100
) -> TraceBuilder:
    """Three layers' caches of 100 MiB: in each round they come in, serve a kernel and go out."""
    builder = TraceBuilder()
    at = 0
    for i in range(rounds):
        for k in range(3):
            if i:
                builder.copy(at, at + MS, "h2d", back * MIB, stream=21)
            builder.kernel(at + MS, at + 2 * MS, kernels[k % len(kernels)], stream=7)
            builder.copy(at + 2 * MS, at + 3 * MS, "d2h", 100 * MIB, stream=20)
            at += 3 * MS
    return builder


def test_a_cache_of_one_size_that_leaves_whole_each_time(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, resent()), "offloaded-again")
    # Three of four rounds had come in before; each of their copies out is exposed for 1 ms.
    assert (finding.cost_ns, finding.severity) == (9 * MS, "warning")
    assert finding.title == (
        "9 D2H copies send back what had come in: 900.0 MiB for 300.0 MiB of data"
    )
    assert "no kernel of a backward pass" in finding.detail


def test_a_real_cache_that_does_not_grow(tmp_path: Path) -> None:
    """gen_offloaded as a cache of fixed size would leave it: the same bytes for every token."""
    path = tmp_path / "fixed.sqlite"
    shutil.copyfile(h200("pytorch/gen_offloaded"), path)
    with closing(sqlite3.connect(path)) as export, export:
        table = "CUPTI_ACTIVITY_KIND_MEMCPY"
        export.execute(f"UPDATE {table} SET bytes = {256 * MIB} WHERE bytes > {200 * MIB}")
    finding = only(context_of(path), "offloaded-again")
    # 1,852 ms by the growing sizes; two reloads of the first token start before it has all left.
    assert (finding.severity, finding.cost_ns // MS) == ("warning", 1861)
    assert finding.title.startswith("354 D2H copies send back what had come in: 88.50 GiB for")
    assert "keep the host's copy and send nothing back" in finding.remedy


@pytest.mark.parametrize(
    "builder",
    [
        pytest.param(resent(("flash_fprop", "flash_bprop")), id="activations of a training step"),
        pytest.param(resent(("attention", "multi_tensor_apply_kernel")), id="optimizer state"),
        pytest.param(resent(("stencil",)), id="fields of a simulation"),
        pytest.param(resent(rounds=2), id="twice only"),
        pytest.param(resent(back=50), id="something else comes in"),
    ],
)
def test_what_may_have_changed_is_no_repeat(tmp_path: Path, builder: TraceBuilder) -> None:
    assert fired(drawn(tmp_path, builder), "offloaded-again") == []


BOUND = """
dev0 s7  compute:              ####.....####......
dev0 s20 bytes=40000000 d2h:   .AABBCCDD..........
dev0 s21 bytes=40000000 h2d:   .........EEFFGGHH..
"""


def test_an_engine_that_is_busy_all_the_while(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, BOUND), "link-bound")
    # D2H 1 to 9 with compute until 4, H2D 9 to 17 with compute until 13.
    assert finding.cost_ns == (5 + 4) * MS
    assert finding.title == (
        "The link is busy with D2H and H2D from first copy to last: no order within that time "
        "hides much more"
    )
    assert finding.detail == (
        "D2H: busy for 100.0 % of 8.0 ms in all; of 152.6 MiB the compute of that time can hide "
        "57.2 MiB. H2D: busy for 100.0 % of 8.0 ms in all; of 152.6 MiB the compute of that time "
        "can hide 76.3 MiB. Most bytes: 4 x 38.1 MiB in all."
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A pause in the phase, fewer than four copies, and a stream that computes.
        (".AABBCCDD.", ".AABB.CCDD"),
        (".AABBCCDD.", ".AAAABBCC.."),
        ("s20", "s7"),
    ],
)
def test_an_engine_with_room_left(tmp_path: Path, old: str, new: str) -> None:
    text = BOUND.replace(old, new)
    assert text != BOUND
    text = "\n".join(line for line in text.splitlines() if "h2d" not in line)
    assert fired(drawn(tmp_path, text), "link-bound") == []


def test_late_reloads_are_not_late_where_the_link_is_full(tmp_path: Path) -> None:
    """One finding for one reason: what the link decides is not said to be late, or too much."""
    found = {finding.code for finding in find_all(drawn(tmp_path, BOUND))}
    assert "link-bound" in found
    assert not found & {"late-h2d", "not-enough-compute", "nothing-beside"}


LOADED = """
dev0 s7  compute:  ........##.##..
dev0 s20 h2d:      #####..........
dev0 s20 d2h:      ..............#
"""


def test_data_that_is_loaded_once(tmp_path: Path) -> None:
    context = drawn(tmp_path, LOADED)
    finding = only(context, "one-time-transfers")
    assert (finding.cost_ns, finding.severity) == (0, "note")
    assert finding.title.endswith("one-time loading")
    assert {f.severity for f in find_all(context)} == {"note"}
    report = analyze(draw(LOADED, unit_ns=MS).write(tmp_path / "again.sqlite"))
    assert headline(report).endswith(
        "All of them lie before the first kernel or after the last: data is loaded once; the GPU's "
        "time is exposed transfers 40.0 %, idle 33.3 %, compute 26.7 %."
    )


def test_what_is_loaded_once_needs_no_pinned_memory(tmp_path: Path) -> None:
    """200 copies of pageable memory before the first kernel, half of them small."""
    builder = draw("dev0 s7 compute: ....####", unit_ns=MS)
    for at in range(200):
        start = at * MS // 100
        n_bytes = 500_000 if at % 2 else 50_000
        builder.copy(start, start + MS // 200, "h2d_pageable", n_bytes, stream=7)
    context = drawn(tmp_path, builder)
    assert fired(context, "pageable-memory")
    assert fired(context, "latency-bound-copies")
    (finding,) = find_all(context)
    assert finding.code == "one-time-transfers"
    assert (
        "52.5 MiB are from or to pageable memory, at 55.0 GB/s: to pin memory for a single copy"
        in finding.detail
    )


def test_the_time_of_loading_is_that_of_the_busiest_device(tmp_path: Path) -> None:
    two = LOADED + LOADED.replace("dev0", "dev1").replace("#####..........", "###............")
    finding = only(drawn(tmp_path, two), "one-time-transfers")
    assert "in all, 6.0 ms on the busiest of 2 devices." in finding.detail


def test_one_transfer_between_kernels_is_part_of_the_work(tmp_path: Path) -> None:
    context = drawn(
        tmp_path, LOADED.replace("s20 d2h:      ..............#", "s20 d2h: .........#")
    )
    assert fired(context, "one-time-transfers") == []


def test_hardly_any_transfers(tmp_path: Path) -> None:
    builder = draw("dev0 s7 compute: ####", unit_ns=MS)
    builder.copy(MS, MS + 3_000, "d2h", 4, stream=20)
    finding = only(drawn(tmp_path, builder), "immaterial-transfers")
    assert finding.title == "Transfers take less than 0.1 % of the time: nothing to win here"
    report = analyze(tmp_path / "t.sqlite")
    assert headline(report).endswith(
        "That is less than 0.1 % of the time; the GPU's time is compute 100.0 %."
    )
    assert fired(drawn(tmp_path, LOADED), "immaterial-transfers") == []
