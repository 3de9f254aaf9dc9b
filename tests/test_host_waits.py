"""Exposed time for which a host thread waited: synchronisations, blocking copies, silent pauses."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap import analyze
from nsysoverlap.measure.case import DeviceCase
from nsysoverlap.result.model import Overlap

from .casekit import Scene
from .traces import PUBLIC, h200, h200_names, public_traces

MS = 1_000_000
ADDITIVE = ("blocking_ns", "host_blocking_ns", "unawaited_ns", "unresolved_ns")


def both(case: DeviceCase) -> Overlap:
    return case.measure(case.split("both"))


def waits(scene: Scene, path: Path, schema: str = "3.20") -> list[int | None]:
    """Exposed time waited for by compute, by the host, by nothing, and unknown."""
    part = both(scene.case(path / "t.sqlite", schema=schema))
    return [getattr(part, name) for name in ADDITIVE]


def copied(kind: str = "h2d", stream: int = 20, api: str = "cudaMemcpyAsync_v3020") -> Scene:
    """Compute on stream 7 until 30; a copy from 100 to 200, launched at 10."""
    scene = Scene()
    scene.run("compute", 7, 1, 20, 30)
    scene.run(kind, stream, 10, 100, 200, api=api)
    return scene


@pytest.mark.parametrize("schema", ["3.1", "3.16", "3.20", "3.25"])
def test_a_copy_then_a_synchronisation_then_the_next_launch(tmp_path: Path, schema: str) -> None:
    scene = copied()
    scene.synchronise("Stream", 120, 205, stream=20)
    scene.run("compute", 7, 210, 220, 230)
    assert waits(scene, tmp_path, schema) == [0, 80, 20, 0]


def test_the_host_that_waits_for_another_stream_does_not_wait_for_the_copy(tmp_path: Path) -> None:
    scene = copied()
    scene.synchronise("Stream", 120, 205, stream=7)
    scene.run("compute", 7, 210, 220, 230)
    assert waits(scene, tmp_path) == [0, 0, 100, 0]


def test_a_stream_that_waits_for_the_copy_stands_for_it(tmp_path: Path) -> None:
    scene = copied()
    scene.record(20, 12, 5)
    scene.wait(7, 14, 5)
    scene.synchronise("Stream", 120, 205, stream=7)
    scene.run("compute", 7, 210, 220, 230)
    assert waits(scene, tmp_path) == [0, 80, 20, 0]


@pytest.mark.parametrize(("recorded", "host"), [(12, 80), (8, 0)])
def test_an_event_recorded_behind_the_copy(tmp_path: Path, recorded: int, host: int) -> None:
    scene = copied()
    scene.record(20, recorded, 5)
    scene.synchronise("Event", 120, 205, event=5)
    scene.run("compute", 7, 210, 220, 230)
    assert waits(scene, tmp_path) == [0, host, 100 - host, 0]


@pytest.mark.parametrize(("until", "host"), [(205, 80), (190, 0)])
def test_a_device_synchronisation_has_no_row(tmp_path: Path, until: int, host: int) -> None:
    """One that returned before the copy was done waited for something else."""
    scene = copied()
    scene.synchronise("Device", 120, until)
    scene.run("compute", 7, 210, 220, 230)
    assert waits(scene, tmp_path) == [0, host, 100 - host, 0]


def test_a_kernel_launched_meanwhile_was_held_up_by_no_host(tmp_path: Path) -> None:
    """Another thread launched it while this one waited: compute waited, behind the copy."""
    scene = copied()
    scene.record(20, 12, 5)
    scene.wait(7, 14, 5)
    scene.synchronise("Stream", 120, 205, stream=20)
    scene.run("compute", 7, 150, 210, 230)
    assert waits(scene, tmp_path) == [50, 0, 50, 0]


def test_nothing_follows_but_the_host_waits(tmp_path: Path) -> None:
    scene = copied("d2h")
    scene.synchronise("Stream", 90, 205, stream=20)
    assert waits(scene, tmp_path) == [0, 100, 0, 0]


@pytest.mark.parametrize(
    ("kind", "api"),
    [
        ("h2d", "cudaMemcpy_v3020"),
        ("d2h", "cuMemcpyDtoH_v2"),
        ("h2d_pageable", "cudaMemcpyAsync_v3020"),
        ("d2h_pageable", "cudaMemcpyAsync_v3020"),
    ],
)
@pytest.mark.parametrize(("until", "host"), [(205, 100), (150, 100), (11, 0)])
def test_copies_that_hold_their_thread(
    tmp_path: Path, kind: str, api: str, until: int, host: int
) -> None:
    """A pageable copy may return before its last piece has moved, but not before it began."""
    scene = Scene()
    scene.run("compute", 7, 1, 20, 30)
    scene.run(kind, 20, None, 100, 200, correlation=50)
    scene.builder.api(api, 10, until, 50)
    scene.run("compute", 7, 210, 220, 230)
    assert waits(scene, tmp_path) == [0, host, 100 - host, 0]


def test_an_async_copy_of_pinned_memory_holds_nothing(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("compute", 7, 1, 20, 30)
    scene.run("h2d", 20, None, 100, 200, correlation=50)
    scene.builder.api("cudaMemcpyAsync_v3020", 10, 205, 50)
    scene.run("compute", 7, 210, 220, 230)
    assert waits(scene, tmp_path) == [0, 0, 100, 0]


@pytest.mark.parametrize(
    ("launched", "host"),
    [(200, 197), (200 + 2 * MS, 197), (200 + 2 * MS + 1, 0)],
)
def test_a_pause_that_ends_soon_after_all_work_is_a_wait(
    tmp_path: Path, launched: int, host: int
) -> None:
    """XLA waits without a call: 12 ns of calls, silence, then the next launch."""
    scene = Scene()
    scene.run("compute", 7, 1 - 2 * MS, 20 - 2 * MS, 30 - 2 * MS)
    scene.run("d2h", 20, 3 - MS - 1_000, 3, 200)
    scene.run("compute", 7, launched, launched + 5, launched + 9)
    assert waits(scene, tmp_path) == [0, host, 197 - host, 0]


def test_a_short_pause_is_none(tmp_path: Path) -> None:
    scene = copied("d2h")
    scene.run("compute", 7, 11 + MS, 20 + MS, 30 + MS)
    assert waits(scene, tmp_path) == [0, 0, 100, 0]


def test_a_process_does_not_pause_while_another_thread_calls(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("d2h", 20, 0, 3, 3 * MS)
    scene.run("compute", 7, 3 * MS + 5, 3 * MS + 9, 3 * MS + 12)
    assert waits(scene, tmp_path)[1] == 3 * MS - 3
    for at in range(1, 30):
        scene.builder.api("cudaEventRecord_v3020", at * MS // 10, at * MS // 10 + 1, tid=2)
    assert waits(scene, tmp_path)[1] == 0


def test_without_calls_nobody_can_tell(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("compute", 7, None, 20, 30)
    scene.run("d2h", 20, None, 100, 200)
    assert waits(scene, tmp_path) == [None, None, None, 100]


@pytest.mark.parametrize("name", h200_names())
@pytest.mark.parametrize("steps", ["auto", "none"])
def test_the_exposed_time_is_split_whole(name: str, steps: str) -> None:
    assert_split(analyze(h200(name), steps=steps).to_dict())


@pytest.mark.parametrize("path", public_traces())
def test_the_exposed_time_of_public_traces_too(path: Path) -> None:
    assert_split(analyze(path).to_dict())


def assert_split(node: object) -> None:
    """Every split in a report adds up, and says null where it knows nothing."""
    if isinstance(node, list):
        for item in node:
            assert_split(item)
    if not isinstance(node, dict):
        return
    for value in node.values():
        assert_split(value)
    if "unresolved_ns" in node:
        parts = [node[name] for name in ADDITIVE]
        assert sum(part or 0 for part in parts) == node["exposed_ns"]
        unknown = node["unresolved_ns"] == node["exposed_ns"] > 0
        if node["exposed_ns"]:
            assert [part is None for part in parts] == [unknown] * 3 + [False]


def test_what_the_host_of_real_traces_waited_for() -> None:
    """micro_pageable: every call held its thread; 404 of the 425 ms of its first step."""
    report = analyze(h200("micro_pageable"))
    whole, first = report.total("both"), report.devices[0].steps[0]
    assert whole.host_blocking_ns is not None
    assert whole.host_blocking_ns > 0.999 * whole.exposed_ns
    assert (first.both.host_blocking_ns or 0) // MS == 404
    assert round(first.duration_ns / MS) == 425


def test_a_copy_a_synchronisation_a_launch() -> None:
    path = PUBLIC / "rep-llmcommunity-a100x8.sqlite"
    if not path.exists():
        pytest.skip("the public traces are not part of the repository")
    part = analyze(path).total("both")
    shown = [round(getattr(part, name) / MS, 1) for name in ("exposed_ns", *ADDITIVE)]
    assert shown == [44.6, 10.9, 33.7, 0.0, 0.0]
