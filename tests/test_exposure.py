"""Exposed pieces: where they begin and end, what came next, and whether that had to wait.

In the drawings work is launched by a call (`at`), runs later (`start` to `end`), and streams are
ordered by events: recorded on one stream, waited for on another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysoverlap.measure.case import DeviceCase
from nsysoverlap.measure.groups import measure_groups

from .casekit import Scene, device_cases
from .tracebuilder import build
from .traces import h200, h200_names

US = 1_000


Piece = tuple[int, int, int, int | None, int, bool]
"""Transfer, start, end, start of the next kernel, ns blocked, resolved."""


def pieces(case: DeviceCase) -> list[Piece]:
    """The pieces of a device."""
    found = case.pieces
    kernels = case.classified.trace.kernels
    return [
        (transfer, start, end, None if k < 0 else int(kernels.start_ns[k]), end - blocked, resolved)
        for transfer, start, end, k, blocked, resolved in zip(
            found.transfer.tolist(),
            found.start_ns.tolist(),
            found.end_ns.tolist(),
            found.next_kernel.tolist(),
            found.blocked_ns.tolist(),
            found.resolved.tolist(),
            strict=True,
        )
    ]


def test_what_is_cut_out_of_transfers(tmp_path: Path) -> None:
    """compute  .####....##.....
    comm        ......##........
    h2d         ..##############       exposed: 5, 8, 11 to 15
    d2h         .....#..........       exposed whole
    """
    drawing = """
        dev0 s7  compute: .####....##.....
        dev0 s8  comm:    ......##........
        dev0 s20 h2d:     ..##############
        dev0 s21 d2h:     .....#..........
    """
    (case,) = device_cases(build(tmp_path / "t.sqlite", drawing))
    spans = [(transfer, start, end, k) for transfer, start, end, k, _, _ in pieces(case)]
    assert spans == [
        (0, 5 * US, 6 * US, 9 * US),
        (0, 8 * US, 9 * US, 9 * US),
        (0, 11 * US, 16 * US, None),
        (1, 5 * US, 6 * US, 9 * US),
    ]


def test_comm_is_never_what_came_next(tmp_path: Path) -> None:
    drawing = """
        dev0 s20 h2d:     ###.......
        dev0 s8  comm:    ...##.....
        dev0 s9  memset:  .....#....
        dev0 s7  compute: .......##.
    """
    (case,) = device_cases(build(tmp_path / "t.sqlite", drawing))
    assert [(start, k) for _, start, _, k, _, _ in pieces(case)] == [(0, 7 * US)]


def test_a_device_without_transfers_has_no_pieces(tmp_path: Path) -> None:
    (case,) = device_cases(build(tmp_path / "t.sqlite", "dev0 s7 compute: ##"))
    assert pieces(case) == []
    assert len(case.pieces.waited().perhaps) == 0


def event_scene(
    *, sent: int = 10, recorded: int = 12, waited: int = 14, launched: int = 16, to: int = 7
) -> Scene:
    """h2d on stream 20 from 100 to 200; a GEMM on stream 7 after it, 210 to 220.

    The host sends the copy, records an event behind it, makes stream `to` wait, launches.
    """
    scene = Scene()
    scene.run("h2d", 20, sent, 100, 200)
    scene.record(20, recorded, 5)
    scene.wait(to, waited, 5)
    scene.run("compute", 7, launched, 210, 220)
    # Streams must have run something to be known.
    for stream in (7, 8, 20):
        scene.run("compute" if stream != 20 else "h2d", stream, 1, 20, 30)
    return scene


def blocked_ns(case: DeviceCase) -> int | None:
    return case.measure(case.split("h2d")).blocking_ns


def test_compute_waits_for_an_event_recorded_behind_the_transfer(tmp_path: Path) -> None:
    case = event_scene().case(tmp_path / "t.sqlite")
    assert pieces(case) == [(1, 100, 200, 210, 100, True)]
    assert blocked_ns(case) == 100


@pytest.mark.parametrize(
    "times",
    [
        {"recorded": 8, "sent": 10},
        {"recorded": 10, "sent": 10},
        {"waited": 18, "launched": 16},
        {"waited": 16, "launched": 16},
        {"to": 8},
    ],
    ids=[
        "recorded-before-the-transfer-was-sent",
        "recorded-as-it-was-sent",
        "waited-after-the-launch",
        "waited-as-it-was-launched",
        "another-stream-waits",
    ],
)
def test_events_that_hold_nothing_up(tmp_path: Path, times: dict[str, int]) -> None:
    case = event_scene(**times).case(tmp_path / "t.sqlite")
    assert pieces(case) == [(1, 100, 200, 210, 0, True)]
    assert blocked_ns(case) == 0


def test_a_wait_for_another_stream_holds_nothing_up(tmp_path: Path) -> None:
    scene = event_scene(waited=100)
    scene.record(8, 12, 6)
    scene.wait(7, 14, 6)
    assert blocked_ns(scene.case(tmp_path / "t.sqlite")) == 0


def test_of_many_waits_the_latest_record_counts(tmp_path: Path) -> None:
    """The last wait before the launch is for an old event; an earlier one covers the copy."""
    scene = event_scene()
    scene.record(20, 2, 4)
    scene.wait(7, 15, 4)
    assert blocked_ns(scene.case(tmp_path / "t.sqlite")) == 100


def test_a_wait_lasts_for_all_later_work_of_the_stream(tmp_path: Path) -> None:
    scene = event_scene(launched=90)
    assert blocked_ns(scene.case(tmp_path / "t.sqlite")) == 100


def test_a_wait_whose_record_was_not_traced(tmp_path: Path) -> None:
    scene = event_scene(waited=100)
    scene.wait(7, 14, 99)
    case = scene.case(tmp_path / "t.sqlite")
    waits = case.classified.trace.host.waits
    assert waits is not None
    assert waits.n_unresolved == 1
    assert blocked_ns(case) == 0


def test_compute_waits_for_a_reload_that_waits_for_the_copy_out(tmp_path: Path) -> None:
    """d2h on stream 20, its reload on 21 behind it, the kernel on 7 behind that."""
    scene = Scene()
    scene.run("compute", 7, 1, 20, 30)
    scene.run("d2h", 20, 10, 100, 200)
    scene.record(20, 11, 5)
    scene.wait(21, 12, 5)
    scene.run("h2d", 21, 13, 200, 300)
    scene.record(21, 14, 6)
    scene.wait(7, 15, 6)
    scene.run("compute", 7, 16, 310, 320)
    case = scene.case(tmp_path / "t.sqlite")
    assert pieces(case) == [(0, 100, 200, 310, 100, True), (1, 200, 300, 310, 100, True)]
    assert case.measure(case.split("d2h")).blocking_ns == 100


@pytest.mark.parametrize(("stream", "blocked"), [(20, 100), (7, 0)])
def test_streams_keep_their_order(tmp_path: Path, stream: int, blocked: int) -> None:
    scene = Scene()
    scene.run("h2d", 20, 10, 100, 200)
    scene.run("compute", stream, 12, 210, 220)
    assert blocked_ns(scene.case(tmp_path / "t.sqlite")) == blocked


def test_work_sent_before_the_transfer_does_not_wait_for_it(tmp_path: Path) -> None:
    """Both on one stream, but the kernel was launched first (and the clocks disagree)."""
    scene = Scene()
    scene.run("h2d", 20, 14, 100, 200)
    scene.run("compute", 20, 12, 210, 220)
    assert blocked_ns(scene.case(tmp_path / "t.sqlite")) == 0


@pytest.mark.parametrize("launched", [50, 100, 130, 199, 200, 205])
def test_compute_is_held_up_from_its_launch_on(tmp_path: Path, launched: int) -> None:
    case = event_scene(launched=launched).case(tmp_path / "t.sqlite")
    assert blocked_ns(case) == min(100, max(0, 200 - launched))


def test_a_kernel_that_began_meanwhile_did_not_wait(tmp_path: Path) -> None:
    """On one stream, yet the kernel starts before the copy ends."""
    scene = Scene()
    scene.run("h2d", 20, 10, 100, 200)
    scene.run("compute", 20, 12, 150, 250)
    case = scene.case(tmp_path / "t.sqlite")
    assert pieces(case) == [(0, 100, 150, 150, 0, True)]


@pytest.mark.parametrize("order", [(7, 8), (8, 7)])
def test_of_kernels_that_start_together_one_that_waited_is_enough(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    scene = event_scene(launched=300)
    for stream in order:
        scene.run("compute", stream, 16, 205, 209)
    assert pieces(scene.case(tmp_path / "t.sqlite")) == [(1, 100, 200, 205, 100, True)]


def test_pieces_before_communication_wait_too(tmp_path: Path) -> None:
    """h2d  ##########      100 to 200, communication from 140 to 160 beside it
    gemm              ##    210: held up all the while, but only exposed time blocks
    """
    scene = event_scene()
    scene.run("comm", 9, 11, 140, 160)
    case = scene.case(tmp_path / "t.sqlite")
    assert pieces(case) == [(1, 100, 140, 210, 40, True), (1, 160, 200, 210, 40, True)]
    assert blocked_ns(case) == 80


def test_nothing_is_held_up_where_nothing_follows(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("compute", 7, 1, 20, 30)
    scene.run("d2h", 20, 10, 100, 200)
    case = scene.case(tmp_path / "t.sqlite")
    assert pieces(case) == [(0, 100, 200, None, 0, True)]
    assert case.measure(case.split("d2h")).blocking_ns == 0


@pytest.mark.parametrize("graph", ["kernel", "transfer", "both"])
def test_the_stream_of_a_graph_node_says_nothing(tmp_path: Path, graph: str) -> None:
    scene = Scene()
    scene.run("h2d", 20, 10, 100, 200, graph=graph in ("transfer", "both"))
    scene.run("compute", 20, 12, 210, 220, graph=graph in ("kernel", "both"))
    case = scene.case(tmp_path / "t.sqlite")
    assert pieces(case) == [(0, 100, 200, 210, 0, False)]
    assert blocked_ns(case) is None


@pytest.mark.parametrize("missing", ["kernel", "transfer"])
def test_without_its_call_a_row_cannot_be_told(tmp_path: Path, missing: str) -> None:
    scene = Scene()
    scene.run("h2d", 20, None if missing == "transfer" else 10, 100, 200)
    scene.run("compute", 20, None if missing == "kernel" else 12, 210, 220)
    assert pieces(scene.case(tmp_path / "t.sqlite")) == [(0, 100, 200, 210, 0, False)]


def test_a_transfer_kernel_waits_and_is_waited_for_like_a_copy(tmp_path: Path) -> None:
    scene = Scene()
    name = "wrapped_dynamic_update_slice_2"
    scene.run("compute", 20, 10, 100, 100 + 30 * US, name=name)
    scene.run("compute", 20, 12, 40 * US, 41 * US)
    case = scene.case(tmp_path / "t.sqlite")
    assert case.measure(case.split("d2h")).n_by_kernel == 1
    assert pieces(case) == [(0, 100, 100 + 30 * US, 40 * US, 30 * US, True)]


@pytest.mark.parametrize("schema", ["3.1", "3.4", "3.16", "3.20", "3.25"])
def test_waits_join_by_event_before_there_were_sync_ids(tmp_path: Path, schema: str) -> None:
    case = event_scene().case(tmp_path / "t.sqlite", schema=schema)
    overlaps = {name: case.measure(case.split(name)) for name in ("h2d", "both")}
    assert {o.exposed_ns for o in overlaps.values()} == {100}
    assert {o.blocking_ns for o in overlaps.values()} == {100}


@pytest.mark.parametrize(("again", "blocked"), [(13, 100), (9, 100), (15, 100)])
def test_an_event_recorded_twice_is_the_latest_before_the_wait(
    tmp_path: Path, again: int, blocked: int
) -> None:
    """Recorded on another stream, where nothing is waited for; by number alone, as in 2023."""
    scene = event_scene()
    scene.record(8, again, 5)
    case = scene.case(tmp_path / "t.sqlite", schema="3.4")
    waits = case.classified.trace.host.waits
    assert waits is not None
    streams = [case.classified.trace.streams[s].stream_id for s in waits.record_stream.tolist()]
    assert streams == [8 if again == 13 else 20]
    assert blocked_ns(case) == (0 if again == 13 else blocked)


def test_blocking_is_unknown_without_the_table_of_records(tmp_path: Path) -> None:
    scene = event_scene()
    path = scene.builder.write(
        tmp_path / "t.sqlite", "3.4", drop_tables=["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"]
    )
    (case,) = device_cases(path)
    both = case.measure(case.split("both"))
    assert (both.exposed_ns, both.unresolved_ns, both.blocking_ns) == (100, 100, None)
    assert [resolved for *_, resolved in pieces(case)] == [False]


def test_processes_on_one_gpu_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """The same stream, correlation and event numbers in two processes on one GPU."""
    scene = Scene()
    for pid, shift in ((1000, 0), (2000, 1)):
        for kind, stream, at, corr in (("h2d", 20, 10, 1), ("compute", 7, 16, 2)):
            scene.builder.api("cudaLaunchKernel_v7000", at + shift, at + shift + 1, corr, pid=pid)
            # Process 1000 runs the copy late, process 2000 the kernel late.
            late = (kind == "h2d") == (pid == 1000)
            start = (100 if kind == "h2d" else 210) if late else 30
            end = start + (100 if kind == "h2d" and late else 10)
            scene.run(kind, stream, None, start, end, pid=pid, correlation=corr)
        scene.builder.api("cudaEventRecord_v3020", 12 + shift, 13 + shift, 3, pid=pid)
        scene.builder.cuda_event(1, event_sync_id=5, correlation=3, stream=20, pid=pid)
        scene.builder.api("cudaStreamWaitEvent_v3020", 14 + shift, 15 + shift, 4, pid=pid)
        scene.builder.sync(14, 15, event_sync_id=5, correlation=4, stream=7, pid=pid)
    cases = scene.cases(tmp_path / "t.sqlite")
    waits = cases[0].classified.trace.host.waits
    assert waits is not None
    assert len(waits) == 2
    (case,) = cases
    # 30 to 40: the other process' copy beside the first one's kernel. Then its own copy.
    assert pieces(case) == [(1, 100, 200, 210, 0, True)]
    assert len({case.classified.trace.streams[s].global_pid for s in case.rows.stream}) == 2


def reference(scene: dict[str, Any]) -> list[Piece]:
    """Pieces as the definition reads, one transfer and one instant at a time."""
    transfers = sorted(scene["copies"], key=lambda c: (c[2], c[3], c[0]))
    active = {t for k in scene["kernels"] for t in range(k[2], k[3])} | {
        t for k in scene["comm"] for t in range(k[2], k[3])
    }
    found: list[Piece] = []
    for i, (stream, sent, start, end) in enumerate(transfers):
        exposed = [t for t in range(start, end) if t not in active]
        for first in (t for t in exposed if t - 1 not in exposed):
            last = next(t for t in range(first, end + 1) if t not in exposed)
            later = [k for k in scene["kernels"] if k[2] >= last]
            if not later:
                found.append((i, first, last, None, 0, True))
                continue
            kernel_stream, launched, begins, _ = min(later, key=lambda k: (k[2], k[3]))
            ordered = kernel_stream == stream and sent < launched
            # Directly, or by way of one stream that had been told to wait before it was recorded.
            told = [(launched, kernel_stream)] + [
                (recorded, recording)
                for waiting, waited, recording, recorded in scene["events"]
                if waiting == kernel_stream and waited < launched
            ]
            ordered |= kernel_stream != stream and any(
                waiting == by and waited < before and recording == stream and recorded > sent
                for before, by in told
                for waiting, waited, recording, recorded in scene["events"]
            )
            held = last - max(first, launched) if ordered and begins >= end else 0
            found.append((i, first, last, begins, max(0, held), True))
    return found


@st.composite
def scenes(draw: st.DrawFn) -> dict[str, Any]:
    """Work on streams 7 to 9 with the host far ahead or close behind, and events at random."""
    hosted = st.integers(0, 40)
    starts = draw(st.lists(st.integers(5, 40), min_size=8, max_size=8, unique=True))

    def work(start: int) -> tuple[int, int, int, int]:
        return draw(st.integers(7, 9)), draw(hosted), start, start + draw(st.integers(1, 9))

    event = st.tuples(st.integers(7, 9), hosted, st.integers(7, 9), hosted)
    return {
        "copies": [work(s) for s in starts[:3]],
        "kernels": [work(s) for s in starts[3:7]],
        "comm": [work(s) for s in starts[7:]],
        "events": [e for e in draw(st.lists(event, max_size=4)) if e[0] != e[2]],
    }


def drawn(values: dict[str, Any]) -> Scene:
    scene = Scene()
    for kind, name in (("h2d", "copies"), ("compute", "kernels"), ("comm", "comm")):
        for stream, at, start, end in values[name]:
            scene.run(kind, stream, at, start, end)
    # All three streams are known and no piece lies here: a kernel each, long before all else.
    for stream in (7, 8, 9):
        scene.run("compute", stream, -200, -100, -90)
    for i, (waiting, waited, recording, recorded) in enumerate(values["events"]):
        scene.record(recording, recorded, 10 + i)
        scene.wait(waiting, waited, 10 + i)
    return scene


@given(values=scenes())
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_pieces_are_what_the_definition_says(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    case = drawn(values).case(tmp_path_factory.mktemp("scene") / "t.sqlite")
    assert pieces(case) == reference(values)


@pytest.mark.parametrize("name", h200_names())
@pytest.mark.parametrize("steps", ["auto", "none"])
def test_blocking_never_exceeds_exposed(name: str, steps: str) -> None:
    cases = device_cases(h200(name), steps)
    assert bool(cases) == (name != "jax_fsdp2_events_lost")
    for case in cases:
        windows = [(step.start_ns, step.end_ns) for step in case.steps]
        group = case.rows.stream.astype(np.int64)
        overlaps = measure_groups(case, group, len(case.classified.trace.streams))
        for direction in ("h2d", "d2h", "both"):
            overlaps += [
                case.measure(case.split(direction)),
                *case.split(direction).measure(windows),
            ]
        # Graph nodes say nothing of order; then there is nothing to state.
        unknown = {o.blocking_ns is None for o in overlaps if o.exposed_ns}
        assert unknown <= {"graph_node" in name}
        for overlap in overlaps:
            parts = (overlap.blocking_ns, overlap.host_blocking_ns, overlap.unawaited_ns)
            assert all(0 <= (part or 0) <= overlap.exposed_ns for part in parts)
            known = sum(part or 0 for part in parts)
            assert known + overlap.unresolved_ns == overlap.exposed_ns
            assert (parts[0] is None) == (overlap.unresolved_ns == overlap.exposed_ns > 0)


@pytest.mark.parametrize(
    ("name", "n_waits", "n_devices"), [("jax_unroll_lhs", 128, 1), ("jax_fsdp2_lhs", 1792, 2)]
)
def test_every_wait_of_jax_finds_its_record(name: str, n_waits: int, n_devices: int) -> None:
    cases = device_cases(h200(name), "auto")
    waits = cases[0].classified.trace.host.waits
    assert waits is not None
    # Waits on streams that ran nothing are no use to anyone; the rest is all there.
    assert (len(waits), waits.n_unresolved) == (n_waits, 0)
    assert len(cases) == n_devices
    for case in cases:
        assert len(case.pieces.transfer) > 0
        assert case.pieces.resolved.all()
        h2d = case.measure(case.split("h2d"))
        assert h2d.blocking_ns is not None
        assert h2d.blocking_ns > 0.98 * h2d.exposed_ns


def test_without_the_scheduler_compute_waits_for_every_copy() -> None:
    (case,) = device_cases(h200("jax_unroll_nolhs"), "auto")
    both = case.measure(case.split("both"))
    assert both.blocking_ns == both.exposed_ns > 0


def test_command_buffers_leave_open_what_waited() -> None:
    (case,) = device_cases(h200("jax_scan_pipelined_graph_node"), "auto")
    assert len(case.pieces.transfer) == 128
    assert not case.pieces.resolved.any()
    assert case.measure(case.split("both")).blocking_ns is None
