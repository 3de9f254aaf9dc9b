"""From GPU rows to launch calls, and from calls to the NVTX range around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoverlap.steps.launches import Launches, Nests
from nsysoverlap.trace.contents import Activities, Trace
from nsysoverlap.trace.host import Calls, HostSide, Ranges
from nsysoverlap.trace.load import read_trace

from .casekit import Scene
from .tracebuilder import TraceBuilder, global_tid
from .traces import h200, h200_names

Spans = list[tuple[int, int, int]]
"""Thread, start and end of each range."""


def calls_behind(trace: Trace, table: Activities) -> list[int | None]:
    """Start of the call behind each row."""
    found = Launches(trace).of(table).tolist()
    return [None if call < 0 else int(trace.host.calls.start_ns[call]) for call in found]


def test_each_row_finds_its_own_call(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("compute", 7, 30, 100, 110)
    scene.run("compute", 7, 20, 120, 130)
    scene.run("compute", 7, None, 140, 150)
    scene.run("compute", 7, None, 160, 170, correlation=0)
    scene.run("h2d", 8, 10, 100, 110)
    trace = read_trace(scene.builder.write(tmp_path / "t.sqlite"))
    assert calls_behind(trace, trace.kernels) == [30, 20, None, None]
    assert calls_behind(trace, trace.copies) == [10]
    assert calls_behind(trace, trace.memsets) == []
    asked = Launches(trace).of(trace.kernels, np.array([2, 1, 1]))
    assert [trace.host.calls.start_ns[i] if i >= 0 else None for i in asked] == [None, 20, 20]


def test_processes_number_their_calls_alike(tmp_path: Path) -> None:
    scene = Scene()
    for pid, at in ((1000, 10), (2000, 50)):
        scene.builder.api("cudaLaunchKernel_v7000", at, at + 1, 77, pid=pid)
        scene.run("compute", 7, None, at + 100, at + 110, pid=pid, correlation=77)
    # Process 3000 has a row with that number, but its call was not traced.
    scene.run("compute", 7, None, 300, 310, pid=3000, correlation=77)
    trace = read_trace(scene.builder.write(tmp_path / "t.sqlite"))
    assert calls_behind(trace, trace.kernels) == [10, 50, None]


def test_nodes_of_a_graph_share_its_launch(tmp_path: Path) -> None:
    scene = Scene()
    launch = scene.run("compute", 7, 10, 100, 110, graph=True)
    scene.run("d2h", 7, None, 105, 120, graph=True, correlation=launch)
    trace = read_trace(scene.builder.write(tmp_path / "t.sqlite"))
    assert calls_behind(trace, trace.kernels) == calls_behind(trace, trace.copies) == [10]


def test_rows_that_do_not_name_their_process(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("compute", 7, 10, 100, 110)
    trace = read_trace(scene.builder.write(tmp_path / "t.sqlite", "cut"))
    assert trace.streams[0].global_pid == 0
    assert calls_behind(trace, trace.kernels) == [10]


def test_without_calls_nothing_is_found(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(100, 110, api=None)
    trace = read_trace(builder.write(tmp_path / "t.sqlite"))
    assert calls_behind(trace, trace.kernels) == [None]


@pytest.mark.parametrize("name", h200_names())
def test_in_real_traces_calls_come_before_their_work(name: str) -> None:
    trace = read_trace(h200(name))
    launches = Launches(trace)
    n_rows = n_found = 0
    for table in trace.tables.values():
        call = launches.of(table)
        found = call >= 0
        calls = trace.host.calls
        assert np.all(calls.start_ns[call[found]] < table.start_ns[found])
        assert np.all(calls.correlation_id[call[found]] == table.correlation_id[found])
        n_rows += int((table.correlation_id != 0).sum())
        n_found += int(found.sum())
    # Migrations of managed memory have no id; all else was launched within the capture.
    assert n_found == n_rows
    assert (n_rows == 0) == (name == "jax_fsdp2_events_lost")


def host_side(spans: Spans, asked: list[tuple[int, int]], n_threads: int = 3) -> HostSide:
    """Ranges and calls of threads 0 to n - 1; both come out sorted as the reader sorts them."""
    ordered = sorted(spans, key=lambda s: (s[1], -s[2]))
    thread, start, end = np.array(ordered, np.int64).reshape(-1, 3).T
    call_thread, at = np.array(asked, np.int64).reshape(-1, 2).T
    n = len(ordered)
    return HostSide(
        threads=tuple(global_tid(1000, tid=t + 1) for t in range(n_threads)),
        api_names=("cuLaunchKernel",),
        texts=("",),
        calls=Calls(
            start_ns=at,
            end_ns=at + 1,
            thread=call_thread.astype(np.int32),
            correlation_id=np.arange(1, len(at) + 1),
            name=np.zeros(len(at), np.int32),
        ),
        ranges=Ranges(
            start, end, thread.astype(np.int32), np.zeros(n, np.int32), np.ones(n, np.bool_)
        ),
    )


def found_spans(host: HostSide) -> list[tuple[int, int, int] | None]:
    """The range found around each call."""
    found = Nests(host).innermost(np.arange(len(host.calls))).tolist()
    r = host.ranges
    return [
        None if i < 0 else (int(r.thread[i]), int(r.start_ns[i]), int(r.end_ns[i])) for i in found
    ]


def walk(spans: Spans, thread: int, at: int) -> tuple[int, int, int] | None:
    """What is on top of the thread's stack at an instant, pushing and popping one by one."""
    stack: Spans = []
    for span in sorted(spans, key=lambda s: (s[1], -s[2])):
        if span[0] != thread or span[1] > at:
            continue
        while stack and stack[-1][2] <= span[1]:
            stack.pop()
        stack.append(span)
    while stack and stack[-1][2] <= at:
        stack.pop()
    return stack[-1] if stack else None


@st.composite
def nested(draw: st.DrawFn) -> Spans:
    """Ranges of three threads as pushes and pops make them: nested, touching, alike, empty."""
    spans: Spans = []
    for thread in range(3):
        now, stack = 0, []
        for action in draw(st.lists(st.sampled_from(["push", "pop", "tick", "tick"]), max_size=25)):
            if action == "tick":
                now += 1
            elif action == "push":
                stack.append(now)
            elif stack:
                spans.append((thread, stack.pop(), now))
        spans += [(thread, start, now) for start in stack]
    return draw(st.permutations(spans))


@given(nested(), st.integers(-2, 2))
def test_innermost_range_is_the_top_of_the_stack(spans: Spans, shift: int) -> None:
    spans = [(thread, start + shift, end + shift) for thread, start, end in spans]
    asked = [(thread, at) for thread in range(3) for at in range(-3, 20)]
    expected = [walk(spans, thread, at) for thread, at in asked]
    assert found_spans(host_side(spans, asked)) == expected


@given(st.lists(st.tuples(st.just(0), st.integers(0, 12), st.integers(0, 12)), max_size=12))
def test_ranges_that_cross_give_a_range_around_the_call_or_none(spans: Spans) -> None:
    spans = [(thread, min(a, b), max(a, b)) for thread, a, b in spans]
    asked = [(0, at) for at in range(-1, 14)]
    for (_, at), found in zip(asked, found_spans(host_side(spans, asked)), strict=True):
        assert found is None or found[1] <= at < found[2]


@pytest.mark.parametrize(
    ("spans", "at", "expected"),
    [
        # An empty range inside another one hides neither it nor what comes after.
        ([(0, 0, 10), (0, 5, 5)], 5, (0, 0, 10)),
        ([(0, 0, 10), (0, 5, 5)], 7, (0, 0, 10)),
        # Ranges that touch: the later one holds the instant between them.
        ([(0, 0, 5), (0, 5, 9)], 5, (0, 5, 9)),
        ([(0, 0, 9), (0, 2, 5), (0, 5, 8)], 5, (0, 5, 8)),
        ([(0, 0, 9), (0, 2, 5)], 5, (0, 0, 9)),
        ([(0, 2, 5), (0, 2, 5)], 2, (0, 2, 5)),
        ([(1, 0, 9)], 5, None),
    ],
)
def test_innermost_at_the_edges(
    spans: Spans, at: int, expected: tuple[int, int, int] | None
) -> None:
    assert found_spans(host_side(spans, [(0, at)])) == [expected]


def test_start_end_ranges_are_no_labels(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("compute", 7, 10, 100, 110)
    scene.label("outer", 0, 50)
    scene.builder.nvtx("loose", 5, 20, event_type=60, tid=1)
    host = read_trace(scene.builder.write(tmp_path / "t.sqlite")).host
    found = Nests(host).innermost(np.array([0, -1]))
    assert [host.texts[host.ranges.text[i]] if i >= 0 else None for i in found] == ["outer", None]


@pytest.mark.parametrize("name", ["jax_unroll_lhs", "jax_scan_pipelined", "ddp_two_procs"])
def test_innermost_range_of_real_calls(name: str) -> None:
    host = read_trace(h200(name)).host
    r, calls = host.ranges, host.calls
    spans = [
        (int(t), int(s), int(e)) for t, s, e in zip(r.thread, r.start_ns, r.end_ns, strict=True)
    ]
    some = np.arange(0, len(calls), max(1, len(calls) // 150))
    found = Nests(host).innermost(some)
    n_inside = 0
    for call, i in zip(some.tolist(), found.tolist(), strict=True):
        expected = walk(spans, int(calls.thread[call]), int(calls.start_ns[call]))
        assert expected == (None if i < 0 else spans[i])
        n_inside += i >= 0
    assert n_inside > 30
