"""Copies that queue for the engine of their direction, and directions that take turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..casekit import Scene
from ..tracebuilder import draw
from .kit import MS, drawn, fired, only

US = 1_000


def two(
    kinds: tuple[str, str] = ("d2h", "d2h"),
    *,
    streams: tuple[int, int] = (20, 21),
    sent: int | None = 200,
    gap: int = 2 * US,
    graph: bool = False,
) -> Scene:
    """Copies 2-6 ms and, right behind, for 4 ms; the second was launched at `sent`.

    Compute runs until 3 ms and from 8 ms on.
    """
    scene = Scene()
    scene.run("compute", 7, 10, 1 * MS, 3 * MS)
    scene.run(kinds[0], streams[0], 100, 2 * MS, 6 * MS, graph=graph)
    scene.run(kinds[1], streams[1], sent, 6 * MS + gap, 10 * MS + gap, graph=graph)
    scene.run("compute", 7, 300, 8 * MS, 12 * MS)
    return scene


@pytest.mark.parametrize("kind", ["h2d", "d2h"])
def test_copies_of_one_direction_queue(tmp_path: Path, kind: str) -> None:
    finding = only(drawn(tmp_path, two((kind, kind)).builder), "same-direction-queue")
    # Exposed from its start to 8 ms; it queued for longer than that.
    assert (finding.cost_ns, finding.severity) == (2 * MS - 2 * US, "warning")
    name = kind.upper()
    assert finding.title == f"1 {name} copy queued behind another one on a different stream"
    # While the other one ran: from 2 to 6 ms.
    assert finding.detail.startswith("Ready 4.0 ms earlier on average")
    assert "more streams do not help" in finding.remedy
    (row,) = finding.evidence
    assert (row.start_ns, row.end_ns) == (6 * MS + 2 * US, 10 * MS + 2 * US)
    assert row.text == f"100 B {name}, queued for 4.0 ms, then exposed for 2.0 ms"


def test_the_cost_is_no_more_than_the_time_it_queued(tmp_path: Path) -> None:
    context = drawn(tmp_path, two(sent=5 * MS).builder)
    assert only(context, "same-direction-queue").cost_ns == 1 * MS


def test_hidden_copies_that_queued_are_not_counted(tmp_path: Path) -> None:
    """A third copy queues for 4 ms too and lies beside compute all the while."""
    scene = two()
    scene.run("d2h", 22, 210, 10 * MS + 4 * US, 12 * MS)
    scene.run("h2d", 23, 220, 10 * MS + 4 * US, 12 * MS - 10)
    scene.run("compute", 8, 50, 10 * MS, 13 * MS)
    finding = only(drawn(tmp_path, scene.builder), "same-direction-queue")
    assert finding.title.startswith("1 ")
    assert finding.detail.startswith("Ready 4.0 ms earlier on average")


def test_a_hidden_copy_that_queued_costs_nothing(tmp_path: Path) -> None:
    scene = two()
    scene.run("compute", 8, 50, 3 * MS, 11 * MS)
    assert fired(drawn(tmp_path, scene.builder), "same-direction-queue") == []


@pytest.mark.parametrize(
    "scene",
    [
        # The other direction; one stream; launched too late; a gap between them; a graph.
        two(("d2h", "h2d")),
        two(streams=(20, 20)),
        two(sent=6 * MS),
        two(sent=None),
        two(gap=21 * US),
        two(graph=True),
    ],
)
def test_copies_that_do_not_queue(tmp_path: Path, scene: Scene) -> None:
    assert fired(drawn(tmp_path, scene.builder), "same-direction-queue") == []


@pytest.mark.parametrize("via", [[], [7]])
def test_a_copy_told_to_wait_for_the_one_before_does_not_queue(
    tmp_path: Path, via: list[int]
) -> None:
    """Directly, or by way of compute's stream."""
    scene = two()
    at = 101
    for event, (source, target) in enumerate(zip([20, *via], [*via, 21], strict=True), start=1):
        scene.record(source, at, event)
        scene.wait(target, at + 10, event)
        at += 20
    assert fired(drawn(tmp_path, scene.builder), "same-direction-queue") == []


def test_a_copy_is_not_ready_before_what_its_stream_waits_for(tmp_path: Path) -> None:
    scene = two()
    scene.run("compute", 9, 20, 2 * MS, 4 * MS)
    scene.record(9, 30, 1)
    scene.wait(21, 110, 1)
    finding = only(drawn(tmp_path, scene.builder), "same-direction-queue")
    # Ready at 4 ms, then queued for 2 ms.
    assert finding.detail.startswith("Ready 2.0 ms earlier")


def test_a_copy_is_not_ready_before_its_own_stream(tmp_path: Path) -> None:
    scene = two()
    scene.run("h2d", 21, 90, 1 * MS, 5 * MS)
    finding = only(drawn(tmp_path, scene.builder), "same-direction-queue")
    assert finding.cost_ns == 1 * MS
    assert finding.detail.startswith("Ready 1.0 ms earlier")


def test_work_of_unknown_launch_counts_as_launched_before(tmp_path: Path) -> None:
    scene = two()
    scene.run("compute", 9, None, 2 * MS, 4 * MS)
    scene.run("d2d", 9, None, 1 * MS, 2 * MS)
    scene.record(9, 30, 1)
    scene.wait(21, 110, 1)
    finding = only(drawn(tmp_path, scene.builder), "same-direction-queue")
    assert finding.detail.startswith("Ready 2.0 ms earlier")


def test_copies_outside_of_the_steps_do_not_count(tmp_path: Path) -> None:
    scene = Scene()
    for at, begin in ((10, 1 * MS), (15 * MS, 21 * MS)):
        scene.run("compute", 7, at, begin, begin + MS)
        scene.run("d2h", 20, at + 10, begin + 1 * MS, begin + 5 * MS)
        scene.run("d2h", 21, at + 20, begin + 5 * MS, begin + 9 * MS)
    scene.run("compute", 7, 15 * MS + 30, 30 * MS, 31 * MS)
    scene.label("step 0", 15 * MS - 10, 15 * MS + 100)
    context = drawn(tmp_path, scene.builder, steps="step")
    assert context.n_steps == 1
    finding = only(context, "same-direction-queue")
    assert finding.title.startswith("1 D2H copy ")
    assert finding.cost_ns == 4 * MS


def test_two_that_queued_and_are_exposed_at_once_count_once(tmp_path: Path) -> None:
    """With more than one engine for the direction."""
    scene = two()
    scene.run("d2h", 22, 210, 6 * MS + 2 * US, 10 * MS)
    assert only(drawn(tmp_path, scene.builder), "same-direction-queue").cost_ns == 2 * MS - 2 * US


def turns(*, streams: tuple[int, int] = (20, 21), gap: int = 20 * US, wait: bool = False) -> Scene:
    """A D2H 2-6 ms and right behind it an H2D of 3 ms."""
    scene = Scene()
    scene.run("compute", 7, 10, 1 * MS, 3 * MS)
    scene.run("d2h", streams[0], 100, 2 * MS, 6 * MS)
    if wait:
        scene.record(streams[0], 110, 1)
        scene.wait(streams[1], 120, 1)
    scene.run("h2d", streams[1], 200, 6 * MS + gap, 9 * MS + gap)
    scene.run("compute", 7, 300, 8 * MS + gap, 12 * MS)
    return scene


def test_directions_that_take_turns(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, turns().builder), "no-duplex")
    # D2H is exposed for 3 ms, H2D for 2.
    assert (finding.cost_ns, finding.severity) == (2 * MS, "warning")
    assert finding.detail.startswith("2 copies follow one another directly")
    assert "none of them on the stream of the one before" in finding.detail
    assert finding.remedy == "Give each direction a stream of its own."
    assert [(e.start_ns, e.text) for e in finding.evidence] == [
        (2 * MS, "100 B D2H, 3.0 ms exposed"),
        (6 * MS + 20 * US, "100 B H2D, 2.0 ms exposed"),
    ]


def test_directions_on_one_stream_take_turns(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, turns(streams=(20, 20)).builder), "no-duplex")
    assert finding.cost_ns == 2 * MS
    assert ", 1 of them on the stream of the one before" in finding.detail


@pytest.mark.parametrize("scene", [turns(gap=21 * US), turns(wait=True)])
def test_copies_apart_or_told_to_wait(tmp_path: Path, scene: Scene) -> None:
    assert fired(drawn(tmp_path, scene.builder), "no-duplex") == []


@pytest.mark.parametrize(
    "drawing",
    [
        # At the same time; one direction only; a graph; all of one direction hidden.
        "dev0 s7 compute: #.......\ndev0 s20 d2h: ..#####.\ndev0 s21 h2d: ...#####",
        "dev0 s7 compute: #.......\ndev0 s20 d2h: ..##....\ndev0 s21 d2h: ....##..",
        "dev0 s7 graph=3 d2h: ..##....\ndev0 s7 graph=3 h2d: ....##..",
        "dev0 s7 compute: ####....\ndev0 s20 d2h: ..##....\ndev0 s21 h2d: ....##..",
    ],
)
def test_directions_that_do_not_take_turns(tmp_path: Path, drawing: str) -> None:
    assert fired(drawn(tmp_path, drawing), "no-duplex") == []


@pytest.mark.parametrize(("together_us", "n"), [(50, 0), (49, 1)])
def test_less_than_one_part_in_twenty_at_the_same_time(
    tmp_path: Path, together_us: int, n: int
) -> None:
    builder = draw("dev0 s7 compute: #", unit_ns=MS)
    builder.copy(2 * MS, 4 * MS, "d2h", stream=20)
    begin = 4 * MS - together_us * US
    builder.copy(begin, begin + MS, "h2d", stream=21)
    assert len(fired(drawn(tmp_path, builder), "no-duplex")) == n


def test_each_row_of_copies_counts_by_itself(tmp_path: Path) -> None:
    """What is far apart in time cannot run together, however well the sums match."""
    context = drawn(
        tmp_path,
        """
        dev0 s7  compute: #...........#
        dev0 s20 d2h:     .AABB...AAAA.
        dev0 s21 h2d:     .....#.......
        """,
    )
    assert only(context, "no-duplex").cost_ns == 1 * MS


def test_copies_of_one_direction_that_are_exposed_at_once_count_once(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7  compute: #.........#
        dev0 s20 d2h:     .###.......
        dev0 s22 d2h:     .###.......
        dev0 s21 h2d:     ....######.
        """,
    )
    assert only(context, "no-duplex").cost_ns == 3 * MS


def test_a_short_copy_beside_a_long_one_does_not_end_the_row(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7  compute: #.........#
        dev0 s20 d2h:     .######....
        dev0 s22 d2h:     ..#........
        dev0 s21 h2d:     .......##..
        """,
    )
    assert only(context, "no-duplex").cost_ns == 2 * MS


def test_the_remedy_for_xla(tmp_path: Path) -> None:
    scene = turns()
    scene.builder.env("XLA_FLAGS", "--xla_gpu_enable_latency_hiding_scheduler=true")
    remedy = only(drawn(tmp_path, scene.builder), "no-duplex").remedy
    assert "--xla_gpu_experimental_parallel_async_compute_limit=8" in remedy
    assert "depends on the version" in remedy
