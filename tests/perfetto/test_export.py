"""Exports of real and drawn traces: format, tracks, arrows, counters, and totals of the report."""

from __future__ import annotations

import gzip
import sqlite3
from bisect import bisect_right
from collections import defaultdict
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nsysoverlap import analyze
from nsysoverlap.cli import main

from ..hostile import HOSTILE_NAMES, hostile_trace
from ..tracebuilder import TraceBuilder, draw
from ..traces import h200, h200_names
from .chrome import ChromeTrace, Slice, Track, read_chrome

REAL = [name for name in h200_names() if name != "jax_fsdp2_events_lost"]
WITH_TRANSFERS = [
    "jax_unroll_lhs",
    "jax_scan_pipelined",
    "jax_fsdp2_lhs",
    "ddp_two_procs",
    "jax_scan_pipelined_graph_node",
]


def export(path: Path, output: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["export", str(path), "-o", str(output), *options])


def exported(path: Path, folder: Path, *options: str) -> ChromeTrace:
    output = folder / "out.json.gz"
    result = export(path, output, *options)
    assert result.exit_code == 0, result.stderr
    return read_chrome(output)


def by_track(trace: ChromeTrace) -> dict[Track, list[Slice]]:
    tracks = defaultdict(list)
    for one in sorted(trace.slices, key=lambda s: (s.start, -s.end)):
        tracks[one.track].append(one)
    return tracks


@pytest.mark.parametrize("name", REAL)
def test_slices_of_a_track_nest(name: str, tmp_path: Path) -> None:
    tracks = by_track(exported(h200(name), tmp_path))
    assert len(tracks) > 2
    for slices in tracks.values():
        open_ends: list[int] = []
        for one in slices:
            while open_ends and open_ends[-1] <= one.start:
                open_ends.pop()
            assert not open_ends or one.end <= open_ends[-1], one
            open_ends.append(one.end)


@pytest.mark.parametrize("name", REAL)
def test_every_track_has_a_name_and_gpu_tracks_never_overlap(name: str, tmp_path: Path) -> None:
    trace = exported(h200(name), tmp_path)
    assert {one.track for one in trace.slices} <= set(trace.threads)
    assert {pid for pid, _ in trace.threads} <= set(trace.processes)
    assert len(trace.devices) == len(analyze(h200(name)).devices)
    for track, slices in by_track(trace).items():
        if track[0] in trace.devices:
            assert all(one.end <= following.start for one, following in pairwise(slices))


@pytest.mark.parametrize("name", REAL)
def test_every_gpu_row_is_there_to_the_nanosecond(name: str, tmp_path: Path) -> None:
    trace = exported(h200(name), tmp_path)
    on_gpu = {"step", "exposed_h2d", "exposed_d2h"}
    drawn = sorted(
        (one.start, one.end)
        for one in trace.slices
        if one.track[0] in trace.devices and one.category not in on_gpu
    )
    rows: list[tuple[int, int]] = []
    with closing(sqlite3.connect(f"file:{h200(name)}?mode=ro", uri=True)) as connection:
        for table in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"):
            full = f"CUPTI_ACTIVITY_KIND_{table}"
            known = "SELECT 1 FROM sqlite_master WHERE name = ?"
            if connection.execute(known, (full,)).fetchone():
                rows += connection.execute(f'SELECT start, "end" FROM {full}').fetchall()
    assert drawn == sorted(rows)


@pytest.mark.parametrize("name", WITH_TRANSFERS)
def test_totals_are_those_of_the_report(name: str, tmp_path: Path) -> None:
    report = analyze(h200(name))
    trace = exported(h200(name), tmp_path)
    for pid, device in zip(trace.devices, report.devices, strict=True):
        steps = [(step.start_ns, step.end_ns) for step in device.steps]
        assert sorted((one.start, one.end) for one in trace.of("step", pid)) == sorted(steps)
        for direction in ("h2d", "d2h"):
            part = getattr(device, direction)
            exposed = trace.of(f"exposed_{direction}", pid)
            assert sum(one.end - one.start for one in exposed) == part.exposed_ns
            mine = [
                one
                for one in trace.of(direction, pid)
                if any(start <= one.start < end for start, end in steps)
            ]
            assert len(mine) == part.n
            assert sum(one.args.get("bytes", 0) for one in mine) == part.bytes
            counter = trace.counters[pid, f"{direction.upper()} exposed so far"]
            assert (counter[-1][1] * 1_000_000 if counter else 0) == part.exposed_ns


@pytest.mark.parametrize("name", WITH_TRANSFERS)
def test_the_rate_counter_holds_all_bytes(name: str, tmp_path: Path) -> None:
    trace = exported(h200(name), tmp_path)
    for pid in trace.devices:
        for direction in ("h2d", "d2h"):
            counter = trace.counters[pid, f"{direction.upper()} GB/s"]
            times = [at for at, _ in counter]
            assert times == sorted(set(times))
            moved = sum(value * (following[0] - at) for (at, value), following in pairwise(counter))
            expected = sum(one.args.get("bytes", 0) for one in trace.of(direction, pid))
            assert float(moved) == pytest.approx(expected, rel=1e-5)
            assert not counter or counter[-1][1] == 0


@pytest.mark.parametrize("name", WITH_TRANSFERS)
def test_arrows_lead_from_the_launching_call_to_the_copy(name: str, tmp_path: Path) -> None:
    trace = exported(h200(name), tmp_path)
    tracks = by_track(trace)

    def at(track: Track, time: int) -> Slice:
        starts = [one.start for one in tracks[track]]
        return tracks[track][bisect_right(starts, time) - 1]

    transfers = len(trace.of("h2d")) + len(trace.of("d2h"))
    assert len(trace.flows) == transfers > 0
    launched: dict[int, set[int]] = defaultdict(set)
    with closing(sqlite3.connect(f"file:{h200(name)}?mode=ro", uri=True)) as connection:
        for table in ("KERNEL", "MEMCPY"):
            rows = connection.execute(
                f"SELECT start, correlationId FROM CUPTI_ACTIVITY_KIND_{table}"
            )
            for start, correlation in rows:
                launched[start].add(correlation)
    for (source, sent), (target, arrived) in trace.flows:
        call, copy = at(source, sent), at(target, arrived)
        assert call.category == "cuda_api"
        assert call.start <= sent <= call.end
        assert copy.start == arrived
        assert copy.category in ("h2d", "d2h")
        assert sent < arrived
        assert call.args["correlation"] in launched[arrived]


def test_findings_are_instants_where_their_evidence_is(tmp_path: Path) -> None:
    report = analyze(h200("jax_unroll_lhs"))
    trace = exported(h200("jax_unroll_lhs"), tmp_path)
    expected = sorted(
        (row.start_ns, f"{finding.code}: {finding.title}", finding.remedy)
        for finding in report.findings
        for row in finding.evidence
    )
    drawn = [(one.start, one.name, one.args["remedy"]) for one in trace.instants]
    assert sorted(drawn) == expected
    assert len(expected) >= 2
    assert {trace.threads[one.track] for one in trace.instants} == {"findings"}


def test_a_drawing(tmp_path: Path) -> None:
    builder = draw(
        """
        dev0 s7  compute:         .####....####
        dev0 s8  kernel slow_one: ..####.......
        dev0 s20 bytes=1000 h2d:  ...####......
        """
    )
    trace = exported(builder.write(tmp_path / "a.sqlite"), tmp_path, "--steps", "none")
    (pid,) = trace.devices
    (copy,) = trace.of("h2d")
    assert (copy.start, copy.end) == (3_000, 7_000)
    assert copy.args == {
        "op": "cudaMemcpyAsync",
        "bytes": 1000,
        "gb_per_s": copy.args["gb_per_s"],
        "exposed_ns": 1_000,
    }
    assert float(copy.args["gb_per_s"]) == 0.25
    assert [(one.start, one.end) for one in trace.of("exposed_h2d")] == [(6_000, 7_000)]
    rate = [(at, float(value)) for at, value in trace.counters[pid, "H2D GB/s"]]
    assert rate == [(3_000, 0.25), (7_000, 0.0)]
    names = {trace.threads[one.track] for one in trace.of("compute")}
    assert names == {"stream 7", "stream 8"}


def test_a_copy_without_length_has_no_rate(tmp_path: Path) -> None:
    builder = draw("dev0 s7 compute: ####\ndev0 s20 bytes=1000 h2d: .#..")
    builder.copy(3_000, 3_000, "h2d", 1 << 30)
    trace = exported(builder.write(tmp_path / "a.sqlite"), tmp_path)
    (pid,) = trace.devices
    rate = [(at, float(value)) for at, value in trace.counters[pid, "H2D GB/s"]]
    assert rate == [(1_000, 1.0), (2_000, 0.0)]


def test_activities_that_overlap_on_one_stream_get_tracks_of_their_own(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for start, end in ((0, 100), (50, 150), (60, 90), (100, 120), (150, 160)):
        builder.kernel(start, end)
    trace = exported(builder.write(tmp_path / "a.sqlite"), tmp_path)
    tracks: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in trace.of("compute"):
        tracks[trace.threads[one.track]].append((one.start, one.end))
    assert tracks == {
        "stream 7": [(0, 100), (100, 120), (150, 160)],
        "stream 7 (2)": [(50, 150)],
        "stream 7 (3)": [(60, 90)],
    }


def test_ranges_that_do_not_nest_get_tracks_of_their_own(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(5_000, 6_000)
    for text, start, end in (("outer", 0, 100), ("inner", 10, 50), ("across", 40, 120)):
        builder.nvtx(text, start, end)
    trace = exported(builder.write(tmp_path / "a.sqlite"), tmp_path)
    where = {one.name: trace.threads[one.track] for one in trace.of("nvtx")}
    assert where["inner"] == where["outer"]
    assert where["across"] == f"{where['outer']} (2)"


def test_names_of_all_kinds_are_valid_json(tmp_path: Path) -> None:
    trace = exported(hostile_trace(tmp_path / "a.sqlite"), tmp_path)
    drawn = [one.name for one in sorted(trace.of("compute"), key=lambda one: one.start)]
    assert drawn[0] == HOSTILE_NAMES[0]
    assert drawn[1] == "Größe 零"
    assert drawn[2] == "a\\b c"
    assert drawn[3] == HOSTILE_NAMES[3]
    assert drawn[4] == "(no name)"


def test_processes_of_one_number_stay_apart(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(1_000, 2_000, vm=1)
    builder.kernel(1_000, 2_000, vm=2)
    trace = exported(builder.write(tmp_path / "a.sqlite"), tmp_path)
    hosts = [pid for pid, name in trace.processes.items() if name.startswith("host")]
    assert len(hosts) == 2
    assert len(trace.devices) == 2


def test_the_same_trace_gives_the_same_file(tmp_path: Path) -> None:
    one, two, plain = (tmp_path / name for name in ("1.json.gz", "2.json.gz", "3.json"))
    for path in (one, two, plain):
        assert export(h200("micro_hidden"), path).exit_code == 0
    assert one.read_bytes() == two.read_bytes()
    assert gzip.decompress(one.read_bytes()) == plain.read_bytes()
    printed = CliRunner().invoke(main, ["export", str(h200("micro_hidden")), "-o", "-"])
    assert printed.stdout_bytes == plain.read_bytes()


def test_a_window_limits_what_counts_as_exposed(tmp_path: Path) -> None:
    window = "100ms:200ms"
    trace = exported(h200("jax_unroll_lhs"), tmp_path, "--window", window)
    exposed = [*trace.of("exposed_h2d"), *trace.of("exposed_d2h")]
    assert exposed
    assert all(100_000_000 <= one.start <= one.end <= 200_000_000 for one in exposed)
    assert min(one.start for one in trace.of("h2d")) < 100_000_000


@pytest.mark.parametrize("name", ["jax_fsdp2_events_lost", "micro_graph_graph"])
def test_a_trace_without_transfers_exports_what_there_is(name: str, tmp_path: Path) -> None:
    trace = exported(h200(name), tmp_path)
    assert not trace.flows
    assert trace.of("cuda_api")


def test_usage_errors(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["export", str(h200("micro_hidden"))]).exit_code == 2
    missing = export(h200("micro_hidden"), tmp_path / "no" / "out.json")
    assert missing.exit_code == 2
    assert "no: " in missing.stderr or "out.json" in missing.stderr
    source = tmp_path / "a.sqlite"
    draw("dev0 s7 compute: ##").write(source)
    before = source.read_bytes()
    assert export(source, source).exit_code == 2
    assert source.read_bytes() == before
