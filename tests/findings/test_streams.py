"""What queues on the stream of a transfer."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap.findings import Context
from nsysoverlap.findings.streams import blocks_of

from ..casekit import Scene
from ..tracebuilder import draw
from .kit import MS, context_of, drawn, fired, only

US = 1_000
LAUNCHES = {"d2h": 10, "d2d": 20, "compute": 30}


def test_copies_on_the_stream_that_computes(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7 compute: ###......##
        dev0 s7 d2h:     ...######..
        """,
    )
    finding = only(context, "same-stream-as-compute")
    # The kernels last 5 ms, so no more than that of the 6 ms could have been hidden.
    assert (finding.cost_ns, finding.severity) == (5 * MS, "warning")
    assert finding.title == "1 copy issued on a stream that also computes"
    assert "their own stream, stream 7." in finding.detail
    assert "cudaStreamWaitEvent" in finding.remedy
    (row,) = finding.evidence
    assert (row.start_ns, row.end_ns) == (3 * MS, 9 * MS)
    assert row.text == "286.1 MiB D2H on stream 7, 6.0 ms exposed"


def test_only_exposed_time_and_kernels_without_a_copy_beside_them_count(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7 compute: ####......
        dev0 s7 d2h:     ....######
        dev0 s9 comm:    ....###...
        """,
    )
    assert only(context, "same-stream-as-compute").cost_ns == 3 * MS
    context = drawn(
        tmp_path,
        """
        dev0 s7 compute: ####......
        dev0 s7 d2h:     ....######
        dev0 s9 h2d:     ###.......
        """,
    )
    assert only(context, "same-stream-as-compute").cost_ns == 1 * MS


def test_two_streams_that_are_exposed_at_once_count_once(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7 compute: #####.....
        dev0 s7 d2h:     .....#####
        dev0 s9 compute: #####.....
        dev0 s9 h2d:     .....#####
        """,
    )
    finding = only(context, "same-stream-as-compute")
    assert finding.cost_ns == 5 * MS
    assert "streams 7, 9." in finding.detail


@pytest.mark.parametrize(
    "drawing",
    [
        # A stream of its own; kernels of a graph; communication; the same number elsewhere.
        "dev0 s7 compute: ##..\ndev0 s8 d2h: ..##",
        "dev0 s7 graph=3 compute: ##..\ndev0 s7 d2h: ..##",
        "dev0 s7 compute: ##..\ndev0 s7 graph=3 d2h: ..##",
        "dev0 s7 comm: ##..\ndev0 s7 d2h: ..##",
        "dev0 s7 compute: ##..\ndev1 s7 d2h: ..##",
        "dev0 s7 pid1 compute: ##..\ndev0 s7 pid2 d2h: ..##",
    ],
)
def test_copies_that_share_no_stream_with_compute(tmp_path: Path, drawing: str) -> None:
    assert fired(drawn(tmp_path, drawing), "same-stream-as-compute") == []


def test_a_little_compute_on_a_copy_stream_is_not_worth_a_line(tmp_path: Path) -> None:
    builder = draw("dev0 s7 compute: ####....\ndev0 s20 d2h: ....####", unit_ns=MS)
    builder.kernel(8 * MS - 7 * US, 8 * MS, stream=20)
    assert fired(drawn(tmp_path, builder), "same-stream-as-compute") == []


def blocked(
    *,
    wait_for: str = "slice",
    queued: str = "d2d",
    slice_stream: int = 69,
    slice_sent: int = 200,
    slice_begin: int = 9 * MS + 5 * US,
    slice_graph: bool = False,
    kernel_stream: int = 7,
    kernel_graph: bool = False,
    gap: int = 10 * US,
    graph: bool = False,
) -> Scene:
    """A D2H 3-9 ms on stream 69, behind it a slice that a kernel on stream 7 needs.

    Compute before it runs until 5 ms, so the kernel waits for 4 ms. `wait_for` says behind which
    of the two the event was recorded that the kernel's stream waits for.
    """
    scene = Scene()
    scene.run("compute", 7, 10, 1 * MS, 5 * MS)
    scene.run("d2h", 69, 100, 3 * MS, 9 * MS, graph=graph)
    if wait_for == "transfer":
        scene.record(69, 150, 1)
    done = 9 * MS + 60 * US
    scene.run(queued, slice_stream, slice_sent, slice_begin, done, graph=slice_graph)
    if wait_for == "slice":
        scene.record(slice_stream, slice_sent + 20, 1)
    if wait_for != "nothing":
        scene.wait(kernel_stream, slice_sent + 30, 1)
    begin = done + gap
    scene.run(
        "compute",
        kernel_stream,
        slice_sent + 40,
        begin,
        begin + MS,
        name="uses_it",
        graph=kernel_graph,
    )
    return scene


@pytest.mark.parametrize(
    ("queued", "what"),
    [("d2d", "an on-device copy"), ("h2d", "an H2D copy"), ("d2h", "a D2H copy")],
)
def test_work_behind_a_long_transfer(tmp_path: Path, queued: str, what: str) -> None:
    finding = only(drawn(tmp_path, blocked(queued=queued).builder), "head-of-line")
    assert (finding.cost_ns, finding.severity) == (4 * MS, "warning")
    assert finding.title == "Work that compute waits for is queued behind 1 long transfer"
    assert finding.detail.startswith(f"4.0 ms each on average: {what} stood behind")
    assert finding.remedy.startswith("Give long transfers streams of their own")
    (row,) = finding.evidence
    assert (row.start_ns, row.end_ns) == (3 * MS, 9 * MS)
    assert row.text == (
        f"100 B D2H on stream 69, behind it {what} (9.005 to 9.060 ms) that uses_it waits for; "
        "compute stands still from 5.000 ms"
    )


@pytest.mark.parametrize(
    "scene",
    [
        # The kernel needs the transfer itself; it waits for nothing; the slice has a stream of
        # its own; the kernel starts late for another reason; a graph's streams mean nothing; the
        # slice was launched only when the transfer was done.
        blocked(wait_for="transfer"),
        blocked(wait_for="nothing"),
        blocked(slice_stream=70),
        blocked(gap=21 * US),
        blocked(graph=True),
        blocked(slice_sent=9 * MS),
        # The kernel starts before the slice is done; the slice began beside the transfer.
        blocked(gap=-10 * US),
        blocked(slice_begin=8 * MS),
        # Of a graph all nodes carry one stream: the kernel, then the work it waits for.
        blocked(kernel_graph=True),
        blocked(slice_graph=True),
    ],
)
def test_what_is_not_blocked_by_the_transfer_in_front(tmp_path: Path, scene: Scene) -> None:
    context = drawn(tmp_path, scene.builder)
    assert fired(context, "head-of-line") == []
    assert not len(blocks_of(context.cases[0]).transfer)


def test_the_work_that_the_kernel_waits_for_need_not_be_the_last_in_the_queue(
    tmp_path: Path,
) -> None:
    scene = blocked()
    scene.run("d2d", 69, 280, 9 * MS + 65 * US, 9 * MS + 90 * US)
    finding = only(drawn(tmp_path, scene.builder), "head-of-line")
    assert finding.cost_ns == 4 * MS
    assert "(9.005 to 9.060 ms)" in finding.evidence[0].text


def test_the_wait_begins_when_the_queued_work_was_launched(tmp_path: Path) -> None:
    context = drawn(tmp_path, blocked(slice_sent=7 * MS).builder)
    # The kernel was launched 40 ns after the slice.
    assert only(context, "head-of-line").cost_ns == 2 * MS - 40


def test_a_kernel_that_needs_both_waits_for_the_transfer_anyway(tmp_path: Path) -> None:
    scene = blocked()
    scene.record(69, 150, 2)
    scene.wait(7, 160, 2)
    assert fired(drawn(tmp_path, scene.builder), "head-of-line") == []
    later = blocked()
    later.record(69, 150, 2)
    later.wait(7, 5 * MS, 2)
    assert only(drawn(tmp_path, later.builder), "head-of-line").cost_ns == 4 * MS


def test_the_transfer_may_be_hidden_at_its_end(tmp_path: Path) -> None:
    scene = blocked()
    scene.run("comm", 8, 50, 6 * MS, 9 * MS + 70 * US)
    assert fired(drawn(tmp_path, scene.builder), "head-of-line") == []


def by_time(tmp_path: Path, scene: Scene) -> Context:
    """An export that cannot join waits to records, for it lacks the table of one of them."""
    dropped = ["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"]
    return context_of(scene.builder.write(tmp_path / "t.sqlite", "3.7", drop_tables=dropped))


@pytest.mark.parametrize(("queued", "cost_ns"), [("d2d", 4 * MS), ("h2d", 0)])
def test_without_event_ids_only_work_that_is_no_transfer_counts(
    tmp_path: Path, queued: str, cost_ns: int
) -> None:
    context = by_time(tmp_path, blocked(queued=queued))
    assert context.cases[0].classified.trace.host.waits is None
    assert [f.cost_ns for f in fired(context, "head-of-line")] == [cost_ns] * bool(cost_ns)


def test_without_event_ids_a_kernel_on_the_transfers_own_stream_is_behind_it_anyway(
    tmp_path: Path,
) -> None:
    assert fired(by_time(tmp_path, blocked(kernel_stream=69)), "head-of-line") == []


@pytest.mark.parametrize(("slice_sent", "n"), [(40, 1), (60, 0), (None, 0)])
def test_without_event_ids_the_work_must_have_been_launched_before_the_kernel(
    tmp_path: Path, slice_sent: int | None, n: int
) -> None:
    scene = Scene()
    scene.record(20, 1, 1)
    scene.wait(21, 2, 1)
    scene.run("d2h", 69, 10, 3 * MS, 9 * MS)
    scene.run("d2d", 69, slice_sent, 9 * MS, 9 * MS + US)
    scene.run("compute", 7, 50, 9 * MS + 2 * US, 10 * MS)
    assert len(fired(by_time(tmp_path, scene), "head-of-line")) == n


@pytest.mark.parametrize("missing", ["d2h", "d2d", "compute"])
def test_without_its_launch_nothing_is_known_of_the_order(tmp_path: Path, missing: str) -> None:
    sent = {kind: None if kind == missing else at for kind, at in LAUNCHES.items()}
    scene = Scene()
    scene.run("d2h", 69, sent["d2h"], 3 * MS, 9 * MS)
    scene.run("d2d", 69, sent["d2d"], 9 * MS, 9 * MS + US)
    scene.run("h2d", 69, 24, 9 * MS + US, 9 * MS + 2 * US)
    scene.record(69, 25, 1)
    scene.wait(7, 26, 1)
    scene.run("compute", 7, sent["compute"], 9 * MS + 3 * US, 10 * MS)
    assert fired(drawn(tmp_path, scene.builder), "head-of-line") == []


def test_the_remedy_for_xla_is_a_barrier(tmp_path: Path) -> None:
    scene = blocked()
    scene.builder.env("XLA_FLAGS", "--xla_gpu_enable_latency_hiding_scheduler=true")
    finding = only(drawn(tmp_path, scene.builder), "head-of-line")
    assert "jax.lax.optimization_barrier before checkpoint_name" in finding.remedy
    assert "depends on the version" in finding.remedy


def test_optimizer_state_has_no_checkpoint_name(tmp_path: Path) -> None:
    scene = blocked()
    scene.run("h2d", 70, 1, 1 * MS, 2 * MS)
    scene.builder.env("XLA_FLAGS", "--xla_gpu_enable_latency_hiding_scheduler=true")
    scene.label("step 0", 0, 900)
    finding = only(drawn(tmp_path, scene.builder, steps="step"), "head-of-line")
    assert "through one jax.lax.optimization_barrier (XLA" in finding.remedy


def test_all_transfers_in_front_of_the_work_hold_it_up(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("compute", 7, 10, 1 * MS, 5 * MS)
    scene.run("d2h", 69, 100, 3 * MS, 6 * MS)
    scene.run("d2h", 69, 110, 6 * MS, 9 * MS)
    scene.run("d2d", 69, 200, 9 * MS, 9 * MS + US)
    scene.record(69, 220, 1)
    scene.wait(7, 230, 1)
    scene.run("compute", 7, 240, 9 * MS + 2 * US, 10 * MS)
    context = drawn(tmp_path, scene.builder)
    assert only(context, "head-of-line").cost_ns == 4 * MS
    assert blocks_of(context.cases[0]).transfer.tolist() == [0, 1]
