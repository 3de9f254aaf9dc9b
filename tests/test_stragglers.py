"""Where the time goes besides transfers: collectives, and the rank that the others wait for."""

from __future__ import annotations

from pathlib import Path

import pytest

import nsysoverlap as no
from nsysoverlap.cli.formats import render
from nsysoverlap.result.model import Collective, OverlapReport
from nsysoverlap.result.stragglers import collective_waits, straggler
from nsysoverlap.run.analysis import Options
from nsysoverlap.run.many import analyze_many

from .tracebuilder import TraceBuilder, draw
from .traces import h200

US = 1_000
RANKS = (
    # One collective, at whose end all are done: 4, 8 and 6 us long.
    """
    dev0 s7  compute: ########....########....
    dev0 s9  comm:    ........####
    dev0 s20 h2d:     .#......................
    """,
    """
    dev0 s7  compute: ####........########....
    dev0 s9  comm:    ....########
    dev0 s20 h2d:     .#......................
    """,
    """
    dev0 s7  compute: ######......########....
    dev0 s9  comm:    ......######
    dev0 s20 h2d:     .#......................
    """,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank, picture in enumerate(RANKS):
        draw(picture).write(tmp_path / f"rank{rank}.sqlite")
    return tmp_path


def merged(folder: Path) -> OverlapReport:
    report, errors = analyze_many(sorted(folder.iterdir()), Options())
    assert not errors
    return report


def ranks_of(report: OverlapReport) -> list[list[no.DeviceReport]]:
    return [[device] for device in report.devices]


def test_collectives_are_measured_with_what_no_compute_hid(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10 * US)
    builder.kernel(8 * US, 14 * US, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=9)
    builder.kernel(20 * US, 21 * US, "ncclDevKernel_AllGather_RING_LL", stream=9)
    builder.kernel(22 * US, 23 * US, "ncclDevKernel_AllGather_RING_LL", stream=9)
    report = no.analyze(builder.write(tmp_path / "a.sqlite"))
    assert report.devices[0].collectives == report.collectives
    assert report.collectives == (
        Collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1, 6 * US, 4 * US),
        Collective("ncclDevKernel_AllGather_RING_LL", 2, 2 * US, 2 * US),
    )
    frame = report.to_frame("collectives")
    assert frame["exposed_ns"].tolist() == [4 * US, 2 * US]


@pytest.mark.parametrize("name", ["jax_fsdp2_lhs", "ddp_two_procs"])
def test_exposed_collectives_of_real_traces_come_to_the_budget(name: str) -> None:
    """One collective runs at a time, so the sums over launches are the time of the budget."""
    for device in no.analyze(h200(name)).devices:
        exposed = sum(one.exposed_ns for one in device.collectives)
        assert exposed == pytest.approx(device.time_budget.comm_ns, rel=1e-3)


def test_the_rank_that_comes_last_waits_for_none(folder: Path) -> None:
    report = merged(folder)
    waits = collective_waits(ranks_of(report))
    assert waits == [0, 4 * US, 2 * US]
    assert straggler(ranks_of(report), waits) == 0


def test_the_table_of_ranks_shows_who_waits_in_every_format(folder: Path) -> None:
    report = merged(folder)
    note = (
        "Last to collectives comes rank 0: the others wait for it at least 3.0 µs "
        "(median; up to 4.0 µs)."
    )
    for fmt in ("text", "markdown", "html"):
        shown = " ".join(render(report, fmt).split())
        assert note in shown, fmt
        assert "collective" in shown
    assert "| rank 1 | 0 | 100.0 % |" in render(report, "markdown")
    assert "| 4.0 µs |" in render(report, "markdown")


def test_ranks_that_ran_other_collectives_are_not_compared(folder: Path) -> None:
    draw(RANKS[0].replace("####\n    dev0 s20", "#.##\n    dev0 s20")).write(
        folder / "rank0.sqlite"
    )
    report = merged(folder)
    assert report.devices[0].collectives[0].n == 2
    assert collective_waits(ranks_of(report)) is None
    assert "Last to" not in render(report, "text")


def test_ends_of_a_pipeline_are_not_late(tmp_path: Path) -> None:
    for rank, length in enumerate((4, 8)):
        builder = TraceBuilder()
        builder.kernel(0, 10 * US)
        builder.kernel(10 * US, (10 + length) * US, "ncclDevKernel_SendRecv", stream=9)
        builder.write(tmp_path / f"rank{rank}.sqlite")
    assert collective_waits(ranks_of(merged(tmp_path))) is None


def test_one_rank_waits_for_nobody(folder: Path) -> None:
    assert collective_waits(ranks_of(no.analyze(folder / "rank0.sqlite"))) is None


def test_two_processes_of_a_real_trace() -> None:
    text = " ".join(render(no.analyze(h200("ddp_two_procs")), "text").split())
    assert "That is 0.8 % of the time; the GPU's time is compute 86.6 %, exposed" in text
    assert "10.4 % (most in ncclDevKernel_AllReduce_Sum_bf16_RING_LL), idle 2.1 %." in text
    assert "Last to collectives comes H200 dev 0, pid 17026: the other waits for it at" in text


def test_waiting_is_a_mean_over_steps(tmp_path: Path) -> None:
    for rank, starts in enumerate(((10, 14), (12, 18))):
        builder = TraceBuilder()
        for step, start in enumerate(starts):
            at = 100 * (step + 1) * US
            builder.nvtx(f"step {step}", at - 4 * US, at + 90 * US)
            builder.kernel(at, at + start * US)
            builder.kernel(
                at + start * US, at + 20 * US, "ncclDevKernel_AllGather_RING_LL", stream=9
            )
            builder.copy(at, at + US, "h2d", 4096, stream=20)
        builder.write(tmp_path / f"rank{rank}.sqlite")
    report = merged(tmp_path)
    # Rank 0 spends 10 and 6 us, rank 1 spends 8 and 2.
    assert collective_waits(ranks_of(report)) == [3 * US, 0]
    assert "collective wait, mean step" in render(report, "markdown")
