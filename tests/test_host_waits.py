"""Exposed time for which a host thread waited: synchronisations, blocking copies, silent pauses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoverlap import analyze
from nsysoverlap.cli.app import main
from nsysoverlap.core.formatting import NONE
from nsysoverlap.measure.case import DeviceCase
from nsysoverlap.result.columns import named
from nsysoverlap.result.model import Overlap, OverlapReport
from nsysoverlap.result.quantities import OVERLAP
from nsysoverlap.show.cells import cell

from .casekit import Scene
from .traces import PUBLIC, h200, h200_names, programs, public_traces

MS = 1_000_000
WAITED = ("blocking_ns", "blocking_share", "host_blocking_ns", "host_blocking_share")
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


OWN = [*h200_names(), *programs()]


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("steps", ["auto", "none"])
def test_the_exposed_time_is_split_whole(name: str, steps: str) -> None:
    report = analyze(h200(name), steps=steps)
    assert_split(report.to_dict())
    assert_unknown_is_no_nothing(report)


@pytest.mark.parametrize("path", public_traces())
def test_the_exposed_time_of_public_traces_too(path: Path) -> None:
    report = analyze(path)
    assert_split(report.to_dict())
    assert_unknown_is_no_nothing(report)


def assert_unknown_is_no_nothing(report: OverlapReport) -> None:
    """No cell says 0 of a part that may be more, whichever device, step or operation it is of."""
    holders = [*report.devices, *(step for device in report.devices for step in device.steps)]
    parts = [getattr(one, name) for one in holders for name in ("h2d", "d2h", "both")]
    parts += [operation.overlap for operation in report.operations]
    for part in parts:
        for column in named(OVERLAP, *WAITED):
            text, value = cell(column, part), column.take(part)
            assert (text == NONE) == (value is None or (not value and part.unresolved_ns > 0))


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


def half_known() -> Scene:
    """Two copies of one operation: a node of a graph follows the first, nothing the second."""
    scene = Scene()
    scene.run("compute", 7, 1, 20, 30)
    scene.run("d2h", 20, 40, 100, 200, api="cudaMemcpyAsync_v3020")
    scene.run("compute", 7, 50, 210, 220, graph=True)
    scene.run("d2h", 20, 230, 300, 400, api="cudaMemcpyAsync_v3020")
    return scene


@pytest.mark.parametrize("kind", ["text", "markdown", "html"])
@pytest.mark.parametrize(
    "name", ["half known", "micro_graph_node", "jax_scan_pipelined_graph_node"]
)
def test_no_format_prints_the_unknown_as_nothing(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / "t.sqlite"
    if name == "half known":
        half_known().builder.write(path, "3.20")
    else:
        path = h200(name)
    page = CliRunner().invoke(main, ["report", str(path), "--format", kind, "--by", "op"]).stdout
    if kind != "html":
        known = "50.0" if name == "half known" else "0.0"
        assert f"who waited is known for {known} % of the exposed time" in " ".join(page.split())
    waited = waited_cells(page, kind)
    # A page has no column of which nothing is known.
    assert bool(waited) == (kind != "html" or name == "half known")
    assert not [text for text in waited if text.startswith("0")]


def waited_cells(page: str, kind: str) -> list[str]:
    """What stands below the headings of who waited, in all tables of a report."""
    found = []
    # Pinned details of a page are a table without rows until something is pinned.
    for table in filter(None, tables_of(page, kind)):
        at = [i for i, text in enumerate(table[0]) if text.endswith(" waited")]
        found += [row[i] for row in table[1:] for i in at if row[i]]
    return found


def tables_of(page: str, kind: str) -> list[list[list[str]]]:
    if kind == "html":
        page = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
        found = re.findall(r"<table.*?</table>", page, re.DOTALL)
        rows = [re.findall(r"<tr.*?</tr>", table, re.DOTALL) for table in found]
        cells = r"<t[hd][^>]*>(.*?)</t[hd]>"
        return [
            [[re.sub("<[^>]*>", "", c).strip() for c in re.findall(cells, r, re.DOTALL)] for r in t]
            for t in rows
        ]
    if kind == "markdown":
        lines = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
        return [[[c.strip() for c in r.split("|")] for r in t.splitlines()] for t in lines]
    # Columns of text are aligned to the right: each cell ends where its heading does.
    lines = page[page.index("Operations by exposed time") :].splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("──"))
    until = next(i for i, line in enumerate(lines) if line.startswith("'Then'"))
    ends = [match.end() for match in re.finditer(" waited", lines[rule - 1])]
    body = [[line[end - 8 : end].strip() for end in ends] for line in lines[rule + 1 : until]]
    return [[["who waited"] * len(ends), *body]]


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
