"""Rows that the calls promise and the tables lack, and rows that no GPU can have written: each
limit from both sides, and all real traces within all of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from nsysoverlap import analyze
from nsysoverlap.health.blocking import BLOCKING, blocks
from nsysoverlap.health.impossible import stream_overlap
from nsysoverlap.result.model import HealthEntry
from nsysoverlap.roles.links import LinkOverride
from nsysoverlap.trace.load import read_trace

from .readerkit import KERNEL, MEMCPY, RUNTIME, execute
from .tracebuilder import CopyKind, TraceBuilder
from .traces import h200, h200_names, public_traces

US = 1_000
Judge = Callable[..., dict[str, HealthEntry]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Health of a builder by code, after some SQL on its file."""

    def run(builder: TraceBuilder, *statements: str) -> dict[str, HealthEntry]:
        path = builder.write(tmp_path / "t.sqlite", "3.20")
        if statements:
            execute(path, *statements)
        return {entry.code: entry for entry in analyze(path, steps="none").health}

    return run


def steady(n: int = 100, copies: int = 10, pid: int = 1000, lead_us: int = 5) -> TraceBuilder:
    """`n` kernels of 10 us and among them some copies, each launched 5 us before it runs."""
    return add_steady(TraceBuilder(), n, copies, pid, lead_us)


def add_steady(
    builder: TraceBuilder, n: int, copies: int, pid: int = 1000, lead_us: int = 5
) -> TraceBuilder:
    """As `steady`, on a builder that is there already."""
    for i in range(n):
        at = (100 + 10 * i) * US
        builder.kernel(at, at + 9 * US, correlation=i + 1, api=None, pid=pid)
        call = at - lead_us * US
        builder.api("cudaLaunchKernel_v7000", call, call + 500, i + 1, pid=pid)
    for i in range(copies):
        at, correlation = (102 + 10 * n * i // copies) * US, n + i + 1
        builder.copy(at, at + 5 * US, "d2h", stream=20, correlation=correlation, api=None, pid=pid)
        call = at - lead_us * US
        builder.api("cudaMemcpyAsync_v3020", call, call + 2 * US, correlation, pid=pid)
    return builder


LOST = {"copies-lost", "launches-lost", "end-lost", "process-lost", "head-lost"}


def lost(found: dict[str, HealthEntry]) -> set[str]:
    return LOST & found.keys()


def test_a_whole_trace_lost_nothing(judge: Judge) -> None:
    assert judge(steady()) == {}


@pytest.mark.parametrize("sign", ["", "-"])
def test_one_copy_is_too_many(judge: Judge, sign: str) -> None:
    """Also where the ids are below 0, as those from 2**31 on are of 32 bits with a sign."""
    tables = (RUNTIME, KERNEL, MEMCPY)
    ids = [f"UPDATE {table} SET correlationId = {sign}correlationId" for table in tables]
    found = judge(steady(), f"DELETE FROM {MEMCPY} WHERE rowid = 4", *ids)
    assert lost(found) == {"copies-lost"}
    entry = found["copies-lost"]
    assert (entry.severity, entry.count) == ("error", 1)
    # The first of ten was launched before the first row.
    assert entry.message.startswith("1 of 9 copies has no GPU row")


@pytest.mark.parametrize(("took_ns", "missed"), [(999, set()), (1_000, {"copies-lost"})])
def test_a_copy_with_nothing_to_copy_is_not_missed(
    judge: Judge, took_ns: int, missed: set[str]
) -> None:
    builder = steady()
    builder.api("cudaMemcpyAsync_v3020", 500 * US, 500 * US + took_ns, 999)
    assert lost(judge(builder)) == missed


@pytest.mark.parametrize("api", ["cudaMemcpy_v3020", "cuMemcpyDtoH_v2", "cudaMemcpy2D_v3020"])
def test_a_copy_that_blocks_is_missed_too(judge: Judge, api: str) -> None:
    builder = steady(copies=0)
    builder.copy(502 * US, 507 * US, "d2h", stream=20, correlation=999, api=None)
    builder.api(api, 500 * US, 508 * US, 999)
    assert lost(judge(builder)) == set()
    found = judge(builder, f"DELETE FROM {MEMCPY}")
    assert lost(found) == {"copies-lost"}
    assert found["copies-lost"].message.startswith("1 of 1 copy has no GPU row")


@pytest.mark.parametrize(("gone", "missed"), [(2, set()), (3, {"launches-lost"})])
def test_a_thousandth_of_the_kernels_may_be_missing(
    judge: Judge, gone: int, missed: set[str]
) -> None:
    """2 of 2,000 launches between the first row and the last call with one are 0.1 %."""
    builder = steady(2_001)
    rows = f"DELETE FROM {KERNEL} WHERE rowid BETWEEN 900 AND {899 + gone}"
    found = judge(builder, rows)
    assert lost(found) == missed
    if missed:
        # The first kernel was launched before the first row, which is its own.
        assert found["launches-lost"].message.startswith(
            "3 of 2,000 kernel launches (0.1 %) have no"
        )


@pytest.mark.parametrize(("gone", "missed"), [(5, set()), (6, {"end-lost"})])
def test_a_twentieth_may_follow_the_last_row(judge: Judge, gone: int, missed: set[str]) -> None:
    found = judge(steady(100, 0), f"DELETE FROM {KERNEL} WHERE rowid > {100 - gone}")
    assert lost(found) == missed
    if missed:
        assert "The last 6 of 100 kernel launches and copies (6.0 %)" in (found["end-lost"].message)


def test_a_call_without_an_id_is_not_the_last_one_with_a_row(judge: Judge) -> None:
    """Its id, 0, is also that of a migration."""
    builder = steady()
    builder.copy(1_500 * US, 1_600 * US, "unified_h2d")
    builder.api("cudaMemcpyAsync_v3020", 1_700 * US, 1_702 * US, 999)
    builder.api("cudaMalloc_v3020", 1_800 * US, 1_801 * US)
    assert lost(judge(builder)) == set()
    builder.copy(1_900 * US, 1_901 * US, "d2h", stream=20)
    assert lost(judge(builder)) == {"copies-lost"}


def test_a_late_start_is_a_warning(judge: Judge) -> None:
    found = judge(steady(100, 0), f"DELETE FROM {KERNEL} WHERE rowid <= 57")
    assert lost(found) == {"head-lost"}
    entry = found["head-lost"]
    assert (entry.severity, entry.count) == ("warning", 57)
    assert "first 57 of 100 kernel launches and copies (57.0 %) have no GPU row" in entry.message
    assert not blocks(entry)


def test_each_process_counts_for_itself(judge: Judge) -> None:
    builder = add_steady(steady(1_000, 0), 1_000, 0, pid=2_000)
    only_second = f"DELETE FROM {KERNEL} WHERE globalPid = (SELECT max(globalPid) FROM {KERNEL})"
    found = judge(builder, f"{only_second} AND rowid % 2000 IN (900, 901, 902, 903)")
    assert lost(found) == {"launches-lost"}
    assert "of process 2000 " in found["launches-lost"].message
    found = judge(builder, only_second)
    assert lost(found) == {"process-lost"}
    assert "1 process (2000) launched 1,000 kernels" in found["process-lost"].message
    assert found["process-lost"].severity == "error"


def capturing(begin: str, end: str | None, *, end_pid: int = 1000) -> TraceBuilder:
    """Five kernels and two copies that go into a graph and never run themselves."""
    builder = steady(100, 0)
    builder.api(begin, 500 * US + 100, 500 * US + 200)
    for i in range(5):
        builder.api("cudaLaunchKernel_v7000", 501 * US + i, 501 * US + i, 901 + i)
    for i in range(2):
        builder.api("cudaMemcpyAsync_v3020", 502 * US, 502 * US + 2 * US, 906 + i)
    if end is not None:
        builder.api(end, 506 * US, 506 * US + 100, pid=end_pid)
    return builder


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("cudaStreamBeginCapture_v10000", "cudaStreamEndCapture_v10000"),
        ("cuStreamBeginCapture_v2", "cuStreamEndCapture"),
        ("cudaStreamBeginCaptureToGraph_v12030", "cudaStreamEndCapture_v10000"),
    ],
)
def test_what_is_captured_into_a_graph_is_not_missed(judge: Judge, begin: str, end: str) -> None:
    assert lost(judge(capturing(begin, end))) == set()


def test_a_capture_that_never_ends_or_of_another_thread_excuses_nothing(judge: Judge) -> None:
    missed = {"copies-lost", "launches-lost"}
    begin, end = "cudaStreamBeginCapture_v10000", "cudaStreamEndCapture_v10000"
    assert lost(judge(capturing(begin, None))) == missed
    assert lost(judge(capturing(begin, end, end_pid=7))) == missed
    # The end of one that began before the trace is no begin.
    assert lost(judge(capturing(end, None))) == missed


def test_captures_within_captures(judge: Judge) -> None:
    builder = steady(100, 0)
    for name, at in (("Begin", 500), ("Begin", 510), ("End", 520), ("End", 540)):
        builder.api(f"cudaStream{name}Capture_v10000", at * US + 10, at * US + 20)
    builder.api("cudaMemcpyAsync_v3020", 530 * US, 535 * US, 999)
    assert lost(judge(builder)) == set()
    builder.api("cudaMemcpyAsync_v3020", 541 * US, 543 * US, 998)
    assert lost(judge(builder)) == {"copies-lost"}


def test_exports_that_name_no_process_are_taken_as_one(judge: Judge, tmp_path: Path) -> None:
    path = steady().write(tmp_path / "t.sqlite", "3.20", drop_columns=["globalPid", "globalTid"])
    assert not {e.code for e in analyze(path, steps="none").health} & LOST


# Rows that cannot be.


def impossible(found: dict[str, HealthEntry]) -> set[str]:
    errors = {code for code, entry in found.items() if entry.severity == "error"}
    assert errors <= BLOCKING.keys()
    return errors


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ('"end" = start', "copies-without-time"),
        ('"end" = start + 1', "copies-without-time"),
        ('bytes = 0, "end" = start', None),
        ('bytes = 400 * 1999, "end" = start + 400', None),
        # The link of an H200 moves 63 GB/s, and 1.25 times that are 78.75.
        ('bytes = 1575000, "end" = start + 20000', None),
        ('bytes = 1575020, "end" = start + 20000', "copies-too-fast"),
        ('bytes = 999999, "end" = start + 5000', None),
        ('bytes = 1000000, "end" = start + 5000', "copies-too-fast"),
    ],
)
def test_copies_that_took_no_time(judge: Judge, change: str, code: str | None) -> None:
    found = judge(steady(), f"UPDATE {MEMCPY} SET {change} WHERE rowid = 5")
    assert impossible(found) == ({code} if code else set())
    if code:
        assert found[code].count == 1


def test_another_link_may_be_faster(tmp_path: Path) -> None:
    path = steady().write(tmp_path / "t.sqlite", "3.20")
    execute(path, f'UPDATE {MEMCPY} SET bytes = 1000000, "end" = start + 10000 WHERE rowid = 5')
    for links, codes in (((63, 63), {"copies-too-fast"}), ((63, 90), set()), ((20, 20), None)):
        found = analyze(path, steps="none", links=LinkOverride(*links)).health
        errors = {entry.code for entry in found if entry.severity == "error"}
        # A slower one is what the user reaches, not what it can do.
        assert errors == ({"copies-too-fast"} if codes is None else codes)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("copyKind = 8", True),
        ("copyKind = 10", True),
        ("copyKind = 1", True),
        ("copyKind = 3", True),
        ("srcKind = 1", True),
        ("srcKind = 1, dstKind = 2", True),
        # Half of a copy to another GPU by way of the host.
        ("dstKind = 2", False),
        ("srcKind = 1, dstKind = 2, copyKind = 1", False),
        ("srcKind = 2, dstKind = 2, copyKind = 8", False),
        ("srcKind = 4, dstKind = 4", False),
        ("srcKind = NULL, dstKind = NULL", False),
        ("srcKind = 3, dstKind = 0, copyKind = 4", False),
    ],
)
def test_copies_are_of_the_memory_that_they_name(judge: Judge, change: str, found: bool) -> None:
    """Those of `steady` go from the device to pinned memory."""
    got = judge(steady(), f"UPDATE {MEMCPY} SET {change} WHERE rowid = 5")
    assert impossible(got) == ({"copies-of-other-memory"} if found else set())
    if found:
        assert got["copies-of-other-memory"].message.startswith("1 copy is of a kind that")


def test_a_context_is_of_one_device(judge: Judge) -> None:
    builder = steady()
    for i in range(20):
        builder.kernel((2_000 + i) * US, (2_001 + i) * US, device=1, stream=9)
    assert impossible(judge(builder)) == set()
    got = judge(builder, f"UPDATE {KERNEL} SET deviceId = 0 WHERE deviceId = 1 AND rowid % 2")
    assert impossible(got) == {"context-of-two-devices"}
    assert got["context-of-two-devices"].message.startswith("1 CUDA context has rows on")


@pytest.mark.parametrize("table", [KERNEL, MEMCPY])
def test_rows_that_stand_there_twice(judge: Judge, table: str) -> None:
    again = f"INSERT INTO {table} SELECT * FROM {table} WHERE rowid IN (3, 4)"
    found = judge(steady(), again)
    assert "duplicate-rows" in impossible(found)
    assert found["duplicate-rows"].count == 2
    near = (
        f'UPDATE {table} SET "end" = "end" - 1 WHERE rowid > (SELECT max(rowid) - 2 FROM {table})'
    )
    assert "duplicate-rows" not in judge(steady(), again, near)


def test_twins_that_are_none(judge: Judge) -> None:
    """Nodes of a graph and migrations may share their times."""
    builder = steady()
    for node in (1, 2):
        builder.kernel(2_000 * US, 2_001 * US, correlation=500, graph_node=node << 32)
        builder.copy(2_002 * US, 2_003 * US, "d2h", correlation=500, graph_node=node << 32)
    for _ in range(2):
        builder.copy(2_004 * US, 2_005 * US, "unified_h2d", 4096)
    # The third of those that run at once on their stream is what each of the others is not.
    assert impossible(judge(builder)) == set()


def overlapping(copy_ns: int) -> TraceBuilder:
    """1 ms of kernels on stream 7, and a copy there that begins `copy_ns` before the last ends."""
    builder = TraceBuilder()
    for i in range(10):
        builder.kernel(i * 100 * US, (i + 1) * 100 * US)
    builder.copy(1_000 * US - copy_ns, 1_000 * US + 1_000, "d2h", stream=7)
    return builder


@pytest.mark.parametrize(("copy_ns", "found"), [(1_000, set()), (1_100, {"stream-overlap"})])
def test_a_stream_does_one_thing_at_a_time(judge: Judge, copy_ns: int, found: set[str]) -> None:
    """1,000 of 1,001,000 ns busy are below a thousandth, 1,100 of 1,001,000 are above it."""
    assert impossible(judge(overlapping(copy_ns))) == found


def test_streams_side_by_side_are_told_apart_to_the_ns(tmp_path: Path) -> None:
    """One ends with the trace, the other begins with it, however close they are put together."""
    builder = TraceBuilder()
    builder.copy(2_000, 3_072, "d2h", stream=20)
    builder.memset(1_023, 2_000, stream=21)
    builder.kernel(1_100, 1_200)
    trace = read_trace(builder.write(tmp_path / "t.sqlite"))
    assert stream_overlap(trace) == (0, 1_072 + 977 + 100)


def test_pairs_that_may_overlap(judge: Judge) -> None:
    builder = steady()
    builder.kernel(3_000 * US, 3_100 * US)
    builder.kernel(3_010 * US, 3_110 * US)
    builder.kernel(4_000 * US, 4_100 * US, correlation=700, graph_node=5 << 32)
    builder.copy(4_010 * US, 4_090 * US, "d2h", stream=7, correlation=700, graph_node=6 << 32)
    builder.copy(5_000 * US, 5_100 * US, "unified_h2d")
    builder.copy(5_050 * US, 5_150 * US, "unified_h2d")
    builder.kernel(6_000 * US, 6_100 * US)
    builder.copy(6_010 * US, 6_090 * US, "d2h", stream=20)
    assert impossible(judge(builder)) == set()


def test_copies_of_one_stream_at_once(judge: Judge) -> None:
    builder = steady()
    builder.copy(3_000 * US, 3_100 * US, "d2h", stream=20)
    builder.memset(3_050 * US, 3_060 * US, stream=20)
    assert impossible(judge(builder)) == {"stream-overlap"}


@pytest.mark.parametrize(
    ("beyond_ns", "found"), [(-500, set()), (0, set()), (900, set()), (920, {"stream-overlap"})]
)
def test_a_kernel_ends_before_the_second_next_begins(
    judge: Judge, beyond_ns: int, found: set[str]
) -> None:
    """Of 911.9 us of kernels 900 ns are below a thousandth and 920 ns are above it."""
    until = f'UPDATE {KERNEL} SET "end" = start + {20 * US + beyond_ns} WHERE rowid = 50'
    got = judge(steady(100, 0), until)
    assert impossible(got) == found
    if found:
        assert got["stream-overlap"].message.startswith("1 kernel runs on for 920 ns (0.1 % of")
    apart = f"UPDATE {KERNEL} SET streamId = rowid % 40"
    assert impossible(judge(steady(100, 0), until, apart)) == set()


def test_one_endless_kernel_is_seen_without_the_length_of_the_capture(judge: Judge) -> None:
    endless = f'UPDATE {KERNEL} SET "end" = 1 << 50 WHERE rowid = 50'
    found = judge(steady(100, 0), endless, "DROP TABLE ANALYSIS_DETAILS")
    assert impossible(found) == {"stream-overlap"}


@pytest.mark.parametrize(("gone", "found"), [(5, set()), (6, {"calls-lost"})])
def test_a_twentieth_of_the_calls_may_be_missing(judge: Judge, gone: int, found: set[str]) -> None:
    got = judge(steady(100, 0), f"DELETE FROM {RUNTIME} WHERE rowid BETWEEN 40 AND {39 + gone}")
    assert impossible(got) == found
    if found:
        assert got["calls-lost"].message.startswith(
            "6 of 100 rows of GPU work (6.0 %) have no CUDA API call"
        )


def test_what_was_launched_before_the_capture_has_no_call(judge: Judge) -> None:
    """The first rows of a stream, those of a stream without any call, and migrations."""
    builder = steady(100, 0)
    for i in range(40):
        builder.kernel((50 + i) * 10 * US, (50 + i) * 10 * US + US, stream=9, api=None)
        builder.copy((50 + i) * 10 * US, (50 + i) * 10 * US + US, "unified_h2d", api=None)
    assert impossible(judge(builder, f"DELETE FROM {RUNTIME} WHERE rowid < 60")) == set()


@pytest.mark.parametrize("streams", [1, 3])
def test_calls_are_missed_on_each_stream(judge: Judge, streams: int) -> None:
    """The first row with a call of one stream says nothing of another."""
    for gone, found in ((f"rowid <= {100 - streams}", set()), ("rowid > 94", {"calls-lost"})):
        apart = f"UPDATE {KERNEL} SET streamId = 7 + rowid % {streams}"
        got = judge(steady(100, 0), f"DELETE FROM {RUNTIME} WHERE {gone}", apart)
        assert impossible(got) == found


@pytest.mark.parametrize(
    ("early_ns", "n", "found"),
    [
        (1_000_000, 1, set()),
        (1_000_000, 2, {"rows-before-calls"}),
        (999_999, 2, set()),
        (-5_000, 500, set()),
    ],
)
def test_work_runs_after_its_launch(judge: Judge, early_ns: int, n: int, found: set[str]) -> None:
    call = f"(SELECT start FROM {RUNTIME} WHERE correlationId = {KERNEL}.correlationId)"
    moved = f"{call} - {early_ns}"
    change = f'start = {moved}, "end" = {moved} + 9, streamId = 100 + rowid'
    rows = f"rowid BETWEEN 400 AND {399 + n}"
    got = judge(steady(1_000, 0), f"UPDATE {KERNEL} SET {change} WHERE {rows}")
    assert impossible(got) == found
    if found:
        assert got["rows-before-calls"].message.startswith(
            "2 of 1,000 rows of GPU work begin up to 1.0 ms before the call"
        )


@pytest.mark.parametrize("change", ["deviceId = -1", "globalPid = NULL", "globalPid = 0"])
def test_rows_of_no_device_that_can_be(tmp_path: Path, change: str) -> None:
    path = steady(100, 10).write(tmp_path / "t.sqlite", "3.20")
    assert "rows-without-device" not in {entry.code for entry in analyze(path).health}
    execute(path, f"UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET {change} WHERE rowid % 2 = 0")
    (entry,) = [e for e in analyze(path).health if e.code == "rows-without-device"]
    assert (entry.severity, entry.count) == ("error", 5)


def test_an_export_without_processes_has_devices(tmp_path: Path) -> None:
    path = steady(100, 10).write(tmp_path / "t.sqlite", "3.20")
    for table in (KERNEL, "CUPTI_ACTIVITY_KIND_MEMCPY"):
        execute(path, f"UPDATE {table} SET globalPid = NULL")
    assert "rows-without-device" not in {entry.code for entry in analyze(path).health}


@pytest.mark.parametrize("shift_ns", [0, 1_700_000_000_000_000_000])
@pytest.mark.parametrize(
    ("change", "outside"),
    [
        ('"end" = "end" + 1', True),
        ('"end" = "end" - 1', False),
        ("start = start - 3000000", True),
    ],
)
def test_times_outside_the_capture(
    tmp_path: Path, shift_ns: int, change: str, outside: bool
) -> None:
    path = steady(100, 0).write(tmp_path / "t.sqlite", "3.20", shift_ns=shift_ns)
    execute(path, f"UPDATE {KERNEL} SET {change} WHERE rowid = 100")
    found = {entry.code: entry for entry in analyze(path, steps="none").health}
    assert ("rows-beyond-capture" in found) == outside
    if outside:
        assert found["rows-beyond-capture"].count == 1


def test_times_made_to_utc_are_not_outside_the_capture(tmp_path: Path) -> None:
    builder = steady(100, 0)
    builder.meta("EXPORT_PARAM_TIME_NORMALIZE", "true")
    path = builder.write(tmp_path / "t.sqlite", "3.20")
    execute(path, f'UPDATE {KERNEL} SET start = start + 9000000000, "end" = "end" + 9000000000')
    codes = {entry.code for entry in analyze(path, steps="none").health}
    assert "rows-beyond-capture" not in codes


# What nsys says.


@pytest.mark.parametrize(
    ("severity", "text", "is_lost"),
    [
        (3, "CUPTI buffer overflow: 120000 GPU events were dropped", True),
        (4, "CUDA trace data lost", True),
        (3, "Some CUPTI events were lost because of insufficient memory", True),
        (2, "Some CUPTI events were lost because of insufficient memory", False),
        (1, "Error when processing events: x", True),
        (None, "Error when processing events: x", True),
        ("Error", "Error when processing events: x", True),
        ("Error", "CUDA trace data lost", True),
        (3, "ERROR WHEN PROCESSING EVENTS: x", True),
        (3, "Unified Memory cannot be traced on this GPU", False),
        (2, "Number of CUPTI events produced: 1367, CUDA events collected: 1356.", False),
        (2, "Not all CUDA events might have been collected.", False),
        (None, "Process was launched", False),
    ],
)
def test_messages_of_lost_events(
    tmp_path: Path, severity: int | str | None, text: str, is_lost: bool
) -> None:
    path = steady().write(tmp_path / "t.sqlite", "3.20")
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE DIAGNOSTIC_EVENT (severity, text)")
        db.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (?, ?)", (severity, text))
        db.commit()
    found = {entry.code: entry for entry in analyze(path, steps="none").health}
    assert ("events-lost" in found) == is_lost
    if is_lost:
        said = "could not process events (1 x)" if "rror when" in text.lower() else text
        assert said in found["events-lost"].message


@pytest.mark.parametrize(
    "change", ["SET start = end, end = start", "SET start = -start, end = -end", "SET nameId = -1"]
)
def test_calls_that_cannot_be_used_are_as_none(judge: Judge, change: str) -> None:
    """Else a copy that is lost as well would pass."""
    found = judge(steady(), f"UPDATE {RUNTIME} {change}", f"DELETE FROM {MEMCPY} WHERE rowid = 2")
    assert blocks(found["no-api-table"])
    assert "no CUDA API call that launched any of its rows" in found["no-api-table"].message


# The limits on real traces.


@pytest.mark.parametrize(
    "path", [*public_traces(), *(pytest.param(h200(n), id=n) for n in h200_names())]
)
def test_no_false_alarm_in_real_traces(path: Path) -> None:
    new = LOST | {"copies-without-time", "duplicate-rows", "stream-overlap", "rows-beyond-capture"}
    found = {entry.code for entry in analyze(path, steps="none").health} & new
    assert found == ({"head-lost"} if path.stem == "jax_capture_fsdp2_prefetch" else set())


@pytest.mark.parametrize("kind", [1, 2])
def test_staged_peer_copies_share_a_launch(judge: Judge, kind: int) -> None:
    builder = steady()
    builder.copy(3_000 * US, 3_100 * US, CopyKind(kind, 2, 2), correlation=800)
    builder.copy(3_000 * US, 3_100 * US, CopyKind(3 - kind, 2, 2), correlation=800, stream=9)
    assert judge(builder) == {}


def test_without_calls_nothing_can_be_missed(judge: Judge) -> None:
    found = judge(steady(), f"DROP TABLE {RUNTIME}", f"DELETE FROM {MEMCPY} WHERE rowid = 4")
    assert lost(found) == set()
    assert found["no-api-table"].severity == "note"
    assert blocks(found["no-api-table"])
