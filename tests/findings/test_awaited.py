"""The host that waits, compute that waits for what leaves, and the GPU that has nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..casekit import Scene
from ..tracebuilder import draw
from ..traces import h200
from .kit import MS, context_of, drawn, fired, only


def synchronised(kind: str = "h2d", *, after: int = 9 * MS + 5_000) -> Scene:
    """Compute 1-2 ms, a copy 3-9 ms that the host waits for from 4 ms on, then a launch."""
    scene = Scene()
    scene.run("compute", 7, 10, 1 * MS, 2 * MS)
    scene.run(kind, 20, 20, 3 * MS, 9 * MS, api="cudaMemcpyAsync_v3020")
    scene.synchronise("Stream", 4 * MS, 9 * MS + 1_000, stream=20)
    scene.run("compute", 7, after, after + 10_000, 10 * MS)
    return scene


def test_a_copy_then_a_synchronisation_then_the_next_launch(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, synchronised().builder), "host-waits")
    assert (finding.cost_ns, finding.severity) == (5 * MS, "warning")
    assert finding.title == "The host waits for 1 copy before it launches more work"
    assert finding.detail.startswith("Held by cudaStreamSynchronize (5.0 ms).")
    assert "cudaStreamWaitEvent" in finding.remedy
    (row,) = finding.evidence
    assert row.text == "100 B H2D, cudaStreamSynchronize held the host 5.0 ms for it"


def test_without_kernels_there_is_nothing_to_launch(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("h2d", 20, 20, 3 * MS, 9 * MS, api="cudaMemcpyAsync_v3020")
    scene.synchronise("Stream", 4 * MS, 9 * MS + 1_000, stream=20)
    assert fired(drawn(tmp_path, scene.builder), "host-waits") == []


def test_work_launched_before_the_wait_is_over_waits_for_no_host(tmp_path: Path) -> None:
    context = drawn(tmp_path, synchronised(after=5 * MS).builder)
    assert fired(context, "host-waits") == []


def test_a_silent_wait_is_said_to_be_one(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("compute", 7, 10, 1 * MS, 2 * MS)
    scene.run("d2h", 20, 20, 3 * MS, 9 * MS)
    scene.run("compute", 7, 9 * MS + 5_000, 9 * MS + 9_000, 10 * MS)
    finding = only(drawn(tmp_path, scene.builder), "host-waits")
    assert finding.cost_ns == 6 * MS
    assert "a wait without a call (6.0 ms)" in finding.detail


def awaited(*, queued: bool = False) -> Scene:
    """A D2H 3-9 ms whose event a kernel waits for; with `queued` on-device work stands behind it,
    and the kernel waits for that.
    """
    scene = Scene()
    scene.run("compute", 7, 10, 1 * MS, 2 * MS)
    scene.run("d2h", 20, 100, 3 * MS, 9 * MS)
    if queued:
        scene.run("d2d", 20, 105, 9 * MS, 9 * MS + 1_000)
    scene.record(20, 110, 4)
    scene.wait(7, 120, 4)
    scene.run("compute", 7, 130, 9 * MS + 2_000, 10 * MS, name="needs_its_memory")
    return scene


def test_compute_that_waits_for_what_leaves(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, awaited().builder), "d2h-awaited")
    assert finding.cost_ns == 6 * MS
    assert finding.title == "Compute waits for 1 of 1 D2H copy"
    assert "What waited: needs_its_memory (6.0 ms)." in finding.detail
    (row,) = finding.evidence
    assert row.text == "100 B D2H, needs_its_memory waited 6.0 ms for it"


def test_what_waits_for_work_behind_the_copy_is_not_its(tmp_path: Path) -> None:
    context = drawn(tmp_path, awaited(queued=True).builder)
    assert fired(context, "d2h-awaited") == []
    assert len(fired(context, "head-of-line")) == 1


@pytest.mark.parametrize(
    ("waits_for", "ready", "cost"), [(21, 110, 7), (21, 5 * MS, 4), (20, 110, 4)]
)
def test_the_copy_that_holds_the_engine_is_awaited_too(
    tmp_path: Path, waits_for: int, ready: int, cost: int
) -> None:
    """d2h s20 ####    compute waits for the copy on s21, which waits for the one on s20
    d2h s21     ###   and not where it was launched late, or nothing waits for it
    """
    scene = Scene()
    scene.run("compute", 7, 10, 1 * MS, 2 * MS)
    scene.run("d2h", 20, 100, 2 * MS, 6 * MS)
    scene.run("d2h", 21, ready, 6 * MS + 3_000, 9 * MS + 3_000)
    scene.record(waits_for, ready + 10, 4)
    scene.wait(7, ready + 20, 4)
    start = 9 * MS + 5_000 if waits_for == 21 else 6 * MS + 1_000
    scene.run("compute", 7, ready + 30, start, 12 * MS, name="needs_it")
    finding = only(drawn(tmp_path, scene.builder), "d2h-awaited")
    assert finding.cost_ns == cost * MS


def test_real_copies_to_the_host_that_compute_waits_for() -> None:
    """Optimizer state that goes out: an independent walk over the trace says 133.8 ms a step."""
    finding = only(context_of(h200("jax_capture_optimizer")), "d2h-awaited")
    assert finding.cost_ns / MS == pytest.approx(133.8, rel=0.01)


def test_real_copies_that_hold_the_engine_before_those_awaited() -> None:
    """Both copies of a layer are sent at once, the long one runs first, and a GEMM waits for the
    other: of 139.7 ms of exposed D2H a step 17.8 are kernels.
    """
    finding = only(context_of(h200("jax_scan_pipelined")), "d2h-awaited")
    assert finding.cost_ns / MS == pytest.approx(121.5, rel=0.01)
    assert finding.title == "Compute waits for 56 of 64 D2H copies"


IDLE = """
dev0 s7  compute:                  ####....................###
dev0 s20 bytes=20000000 d2h:       ....##....................#
dev0 s21 bytes=20000000 h2d:       ....................####...
"""


def test_the_gpu_idles_while_the_cpu_works(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, IDLE), "gpu-idle-beside-offload")
    assert (finding.cost_ns, finding.severity) == (14 * MS, "warning")
    assert finding.title == (
        "The GPU idles 51.9 % of the time between what leaves for the host and what comes back"
    )
    assert "For 14.0 ms in all the CPU works alone" in finding.detail
    (row,) = finding.evidence
    assert row.text == "14.0 ms without any GPU work, after 19.1 MiB D2H"


@pytest.mark.parametrize(("comes_back", "remedy"), [(True, "The CPU works on"), (False, "Issue")])
def test_the_tail_that_the_cpu_waits_for(tmp_path: Path, comes_back: bool, remedy: str) -> None:
    """The last D2H of a step runs on after its compute; the CPU works on what it brought."""
    tail = IDLE.replace("####....................###", "####.......................")
    if not comes_back:
        tail = tail.replace("....................####...", "...........................")
    finding = only(drawn(tmp_path, tail), "d2h-tail")
    assert finding.remedy.startswith(remedy)


@pytest.mark.parametrize(("until", "allocates"), [(13, True), (12, False)])
def test_memory_that_is_allocated_meanwhile_is_no_work(
    tmp_path: Path, until: int, allocates: bool
) -> None:
    """The GPU idles from 6 to 20 ms: at least half of that in cudaHostAlloc, or less."""
    builder = draw(IDLE, unit_ns=MS)
    builder.api("cudaHostAlloc_v3020", 6 * MS, until * MS)
    finding = only(drawn(tmp_path, builder), "gpu-idle-beside-offload")
    assert finding.cost_ns == 14 * MS
    assert finding.title.endswith(", while memory is allocated") == allocates
    assert ("allocate, pin or free" in finding.detail) == allocates
    assert finding.remedy.startswith("Allocate and pin memory once" if allocates else "Shorten")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A loss is no offload, and neither is a batch.
        ("bytes=20000000 d2h", "bytes=4 d2h"),
        ("bytes=20000000 h2d", "bytes=4 h2d"),
        # A checkpoint: next to nothing of it comes back.
        ("bytes=20000000 d2h:  ", "bytes=2000000000 d2h:"),
        # Nothing comes back right after.
        ("....................####...", ".........................####"),
    ],
)
def test_other_idle_time_is_no_price_of_offload(tmp_path: Path, old: str, new: str) -> None:
    assert old in IDLE
    assert fired(drawn(tmp_path, IDLE.replace(old, new)), "gpu-idle-beside-offload") == []


def test_a_program_that_loads_and_stores_does_not_offload(tmp_path: Path) -> None:
    """Synchronous copies: the host stands still for them."""
    builder = draw("dev0 s7 compute: ####....................###", unit_ns=MS)
    builder.copy(4 * MS, 6 * MS, "d2h", 20_000_000, stream=7, api="cudaMemcpy_v3020")
    builder.copy(20 * MS, 24 * MS, "h2d", 20_000_000, stream=7, api="cudaMemcpy_v3020")
    assert fired(drawn(tmp_path, builder), "gpu-idle-beside-offload") == []
