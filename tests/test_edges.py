"""Edges that a changed number or comparison crossed unnoticed, each by hand or by plain loops."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nsysoverlap import analyze
from nsysoverlap.core.errors import ConfigError, UsageError
from nsysoverlap.core.intervals import IntervalSet, merge_groups
from nsysoverlap.core.window import Window
from nsysoverlap.judge.baseline import Baseline
from nsysoverlap.judge.evaluate import judge
from nsysoverlap.judge.thresholds import Thresholds, build_thresholds, load_gate_table
from nsysoverlap.result.model import HealthEntry, OverlapReport
from nsysoverlap.result.provenance import TraceReport
from nsysoverlap.roles.rules import classify
from nsysoverlap.run.rank_checks import rank_health
from nsysoverlap.steps.choice import Candidate, choose, rejected
from nsysoverlap.steps.guess import _longest_run
from nsysoverlap.steps.markers import Marker, MarkerKind
from nsysoverlap.steps.plan import StepSpec, plan_steps, steps_in_window
from nsysoverlap.steps.projection import last_end
from nsysoverlap.trace.contents import ProcessLaunches
from nsysoverlap.trace.load import read_trace

from .gatekit import step_trace
from .readerkit import execute
from .sample_reports import plain
from .stepreports import report_of_steps
from .tracebuilder import TraceBuilder

SEEDS = range(30)


# The sweep.


def drawn_set(choose: random.Random) -> tuple[IntervalSet, set[int]]:
    """Up to five spans below 40, and their instants."""
    spans = [
        (s := choose.randrange(30), s + choose.randrange(9)) for _ in range(choose.randrange(6))
    ]
    instants = {t for start, end in spans for t in range(start, end)}
    return IntervalSet.from_spans([s for s, _ in spans], [e for _, e in spans]), instants


def instants_of(found: IntervalSet) -> set[int]:
    assert (found.ends > found.starts).all()
    assert (found.starts[1:] > found.ends[:-1]).all()
    return {t for start, end in found.pieces() for t in range(start, end)}


@pytest.mark.parametrize("seed", SEEDS)
def test_sets_are_sets_of_instants(seed: int) -> None:
    choose_ = random.Random(seed)
    (a, in_a), (b, in_b) = drawn_set(choose_), drawn_set(choose_)
    assert instants_of(a) == in_a
    assert a.length == len(in_a)
    assert instants_of(a.union(b)) == in_a | in_b
    assert instants_of(a.intersect(b)) == in_a & in_b
    assert instants_of(a.subtract(b)) == in_a - in_b
    low, high = choose_.randrange(40), choose_.randrange(40)
    assert instants_of(a.clip(low, high)) == in_a & set(range(low, high))
    assert a.contains(np.arange(-2, 42)).tolist() == [t in in_a for t in range(-2, 42)]
    pairs = [(s, e) for s in range(-1, 41, 3) for e in range(-1, 41, 4)]
    covered = a.covered([s for s, _ in pairs], [e for _, e in pairs]).tolist()
    assert covered == [len(in_a & set(range(s, e))) for s, e in pairs]


@pytest.mark.parametrize("seed", SEEDS)
def test_spans_are_merged_within_their_group(seed: int) -> None:
    choose_ = random.Random(seed)
    spans = [
        (choose_.randrange(3), s := choose_.randrange(20), s + choose_.randrange(6))
        for _ in range(choose_.randrange(1, 20))
    ]
    columns = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    found = sorted(zip(*(c.tolist() for c in merge_groups(*columns)), strict=True))
    for group in range(3):
        instants = {t for g, s, e in spans if g == group for t in range(s, e)}
        mine = IntervalSet.from_spans(
            *np.array([*instants, *(t + 1 for t in instants)]).reshape(2, -1)
        )
        assert [(s, e) for g, s, e in found if g == group] == mine.pieces()


# Steps.


def candidate(
    name: str, n: int, inside: int, between: int = 1000, around: bool = False
) -> Candidate:
    rows = np.arange(n, dtype=np.int64)
    return Candidate(Marker(MarkerKind(name, around), 7, rows, rows), inside, between)


@pytest.mark.parametrize(
    ("few", "chosen"),
    # What launches so much of what the most launch is enough, and then fewer steps win.
    [(500, "few"), (499, "many"), (1000, "few")],
)
def test_the_marker_of_fewest_steps_that_holds_enough(few: int, chosen: str) -> None:
    found = choose([candidate("many", 9, 1000), candidate("few", 3, few, few)])
    assert found is not None
    assert found.marker.kind.name == chosen


@pytest.mark.parametrize(("inside", "taken"), [(800, True), (799, False)])
def test_a_marker_launches_most_of_what_is_between(inside: int, taken: bool) -> None:
    assert (choose([candidate("step", 5, inside)]) is not None) == taken


def test_one_range_is_no_steps_and_epochs_come_last() -> None:
    assert choose([candidate("once", 1, 1000)]) is None
    found = choose([candidate("epoch", 2, 1000, around=True), candidate("step", 8, 1000)])
    assert found is not None
    assert found.marker.kind.name == "step"


@pytest.mark.parametrize(("n", "more"), [(3, ""), (4, " and 1 more"), (9, " and 6 more")])
def test_three_rejected_markers_are_named(n: int, more: str) -> None:
    (note,) = rejected([candidate(f"r{i}", 4, 100 - i) for i in range(n)], [])
    assert note.count == n
    assert note.message.startswith("Not taken as steps: r0 (4 x, 10.0 % of the GPU time")
    assert note.message.endswith(f"r2 (4 x, 9.8 % of the GPU time launched between them){more}.")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_longest_run(seed: int) -> None:
    values = [random.Random(seed * 99 + i).random() < 0.6 for i in range(seed % 11)]
    runs = [(0, 0)]
    for first in range(len(values)):
        for last in range(first + 1, len(values) + 1):
            if all(values[first:last]):
                runs.append((first, last - first))
    longest = max(length for _, length in runs)
    expected = next(run for run in runs if run[1] == longest)
    assert _longest_run(np.array(values, np.bool_)) == expected


@pytest.mark.parametrize(
    ("borders", "gpu_end", "host_end", "others", "expected"),
    [
        ([10, 20], 25, None, [], 25),
        ([10, 20], 20, None, [], 21),
        ([10, 20], 25, 40, [], 40),
        ([10, 20], 25, 24, [], 25),
        ([10, 20, 31], 35, 60, [], 41),
        ([10, 20, 31], 41, 60, [], 60),
        ([10, 20, 31], 35, 38, [], 38),
        ([10, 20, 31], 35, 60, [36, 90], 36),
        ([10, 20, 31], 35, 60, [34, 90], 41),
        ([10, 20, 31], 35, 60, [35], 35),
    ],
)
def test_where_the_last_step_ends(
    borders: list[int], gpu_end: int, host_end: int | None, others: list[int], expected: int
) -> None:
    at, after = np.array(borders, np.int64), np.array(others, np.int64)
    assert last_end(at, gpu_end, host_end, after) == expected


@pytest.fixture(scope="module")
def ten_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps of 1 ms from 10 ms on."""
    return step_trace(tmp_path_factory.mktemp("ten") / "t.sqlite", [90] * 10)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (StepSpec(first=10, last=10), "step 10 is not among its 10 steps"),
        (StepSpec(first=4, last=3), "step 4:3 is not among its 10 steps"),
        (StepSpec(first=0, last=10), "step 0:10 is not among its 10 steps"),
        (StepSpec(skip=10), "leaving out the first 10 leaves none of 10 steps"),
        (StepSpec(skip=8, first=3, last=6), "leaving out the first 8 leaves none of 4 steps"),
        (StepSpec(skip=8, first=6, last=6), "leaving out the first 8 leaves none of 1 step"),
    ],
)
def test_steps_that_are_not_there(ten_steps: Path, spec: StepSpec, message: str) -> None:
    with pytest.raises(UsageError) as error:
        plan_steps(classify(read_trace(ten_steps)), spec)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("spec", "kept", "skipped"),
    [
        (StepSpec(), list(range(10)), 0),
        (StepSpec(first=9, last=9), [9], 9),
        (StepSpec(first=0, last=0), [0], 9),
        (StepSpec(skip=9), [9], 9),
        (StepSpec(skip=3, first=2, last=5), [3, 4, 5], 7),
    ],
)
def test_steps_that_are(ten_steps: Path, spec: StepSpec, kept: list[int], skipped: int) -> None:
    plan = plan_steps(classify(read_trace(ten_steps)), spec)
    assert [window.index for window in plan.windows] == kept
    assert (plan.skipped, len(plan.left_out)) == (skipped, skipped)


@pytest.mark.parametrize(("first", "last"), [(2, 2), (2, 3), (0, 9), (4, 8)])
def test_steps_in_a_window(ten_steps: Path, first: int, last: int) -> None:
    classified = classify(read_trace(ten_steps))
    windows = plan_steps(classified, StepSpec()).windows
    inside = Window(windows[first].end_ns - 1, windows[last].start_ns + 1)
    if first == last:
        inside = Window(windows[first].start_ns + 1, windows[first].end_ns - 1)
    (note,) = steps_in_window(classified, StepSpec(), inside).notes
    assert note.count == last - first + 1
    which = f"step {first} in it" if first == last else f"steps {first} to {last} in it"
    assert f": {which}" in note.message
    option = f"--step {first} " if first == last else f"--step {first}:{last} "
    assert option in note.hint


# The gate.


def test_reasons_name_their_trace_among_two() -> None:
    lost = (HealthEntry("copies-lost", "error", "Lost.", "Again.", trace="b.sqlite"),)
    one = replace(plain(), health=lost, traces=(TraceReport("b.sqlite"),))
    two = replace(one, traces=(TraceReport("a.sqlite"), TraceReport("b.sqlite")))
    assert judge(one, Thresholds()).blockers[0] == "Lost. Again."
    assert judge(two, Thresholds()).blockers[0] == "b.sqlite: Lost. Again."


@pytest.mark.parametrize(
    ("drop", "source"), [(None, "a drop of 1.0 points, by default"), ("2", "--max-drop 2.0")]
)
def test_a_drop_says_whose_it_is(drop: str | None, source: str) -> None:
    then = report_of_steps([(90, 100)] * 8)
    limits = build_thresholds({"max_drop": drop} if drop else {})
    verdicts = judge(then, limits, Baseline("then.json", then)).verdicts
    assert {verdict.source for verdict in verdicts} == {source}


def test_a_level_is_said_in_percent() -> None:
    now = report_of_steps([(70, 100), (99, 100)] * 4)
    then = report_of_steps([(90, 100)] * 8)
    limits = build_thresholds({"max_drop": "5", "confidence": "95"})
    reasons = [v.reason for v in judge(now, limits, Baseline("then.json", then)).verdicts]
    assert all("points at 95 % confidence; about " in reason for reason in reasons), reasons


def ranks(*numbers: int | None) -> OverlapReport:
    traces = tuple(TraceReport(f"{i}.sqlite", rank) for i, rank in enumerate(numbers))
    return OverlapReport(traces, (), ())


@pytest.mark.parametrize(
    ("found", "wanted", "message"),
    [
        ((0, 1, 3), None, "Rank 2 is not among the 3 traces."),
        ((0, 1, 4), None, "Ranks 2, 3 are not among the 3 traces."),
        ((0, 8, 16), None, None),
        ((0, 2), None, None),
        ((0, 1), {0, 1}, None),
        ((0, 1), {0, 1, 2}, "Rank 2 is not among the 2 traces."),
        ((0, 1), set(range(9)), "Ranks 2, 3, 4, 5 and 3 more are not among the 2 traces."),
        # Traces that name no rank are counted.
        ((None, None), {0, 1, 2}, "2 of 3 ranks are there."),
        ((None, None), {0, 1}, None),
        ((0, None), {0, 1, 2}, "2 of 3 ranks are there."),
    ],
)
def test_ranks_that_are_not_there(
    found: tuple[int | None, ...], wanted: set[int] | None, message: str | None
) -> None:
    entries = rank_health([], [], ranks(*found), frozenset(wanted) if wanted else None)
    assert [entry.message for entry in entries] == ([message] if message else [])


def test_launches_are_counted_by_what_became_of_them(tmp_path: Path) -> None:
    """Kernels and copies before the first row, between, captured, lost, and after the last."""
    builder = TraceBuilder()
    calls = [  # (call, what, at, row or none)
        (1, "kernel", 10, None),
        (2, "copy", 11, None),
        (3, "kernel", 20, 100),
        (4, "copy", 110, 120),
        (5, "kernel", 130, 140),
        (6, "kernel", 150, None),
        (7, "copy", 160, None),
        (8, "copy", 170, 180),
        (9, "kernel", 190, 200),
        (10, "kernel", 210, None),
        (11, "copy", 220, None),
        (12, "copy", 230, None),
    ]
    for number, what, at, row in calls:
        name = "cudaLaunchKernel_v7000" if what == "kernel" else "cudaMemcpyAsync_v3020"
        builder.api(name, at * 1000, at * 1000 + 2000, number)
        if row and what == "kernel":
            builder.kernel(row * 1000, row * 1000 + 900, correlation=number, api=None)
        elif row:
            builder.copy(row * 1000, row * 1000 + 900, correlation=number, api=None, stream=20)
    builder.api("cudaStreamBeginCapture_v10000", 145_000, 145_100, 90)
    builder.api("cudaLaunchKernel_v7000", 146_000, 146_100, 91)
    builder.api("cudaMemcpyAsync_v3020", 147_000, 149_000, 92)
    builder.api("cudaStreamEndCapture_v10000", 149_200, 149_300, 93)
    path = builder.write(tmp_path / "t.sqlite")
    (own,) = read_trace(path).facts.launches.processes
    # After the first row lie 4 to 9, of which 6 and 7 left none; 3 was launched before its row.
    assert own == ProcessLaunches(
        1000, 12, n_copies=3, n_kernels=3, copies_missing=1, kernels_missing=1,
        head_missing=2, tail_missing=3,
    )  # fmt: skip
    messages = {entry.code: entry.message for entry in analyze(path, steps="none").health}
    assert messages["head-lost"].startswith("The first 2 of 12 kernel launches and copies")
    assert "have no GPU row: recording" in messages["head-lost"]


def test_one_lost_launch_has_no_row(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.api("cudaLaunchKernel_v7000", 1000, 2000, 77)
    for i in range(9):
        at = 20_000 + 9_000 * i
        builder.api("cudaLaunchKernel_v7000", at + 1_000, at + 2_000, i + 1)
        builder.kernel(at + 5_000, at + 9_000, correlation=i + 1, api=None)
    health = analyze(builder.write(tmp_path / "t.sqlite"), steps="none").health
    (lost,) = [entry for entry in health if entry.code == "head-lost"]
    said = "The first 1 of 10 kernel launches and copies (10.0 %) has no GPU row"
    assert lost.message.startswith(said)


def test_launches_of_three_processes_add_up(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for pid in (1000, 1001, 1002):
        builder.api("cudaLaunchKernel_v7000", 10_000, 11_000, 1, pid=pid)
        builder.kernel(20_000, 30_000, correlation=1, api=None, pid=pid, stream=pid)
        builder.api("cudaLaunchKernel_v7000", 40_000, 41_000, 2, pid=pid)
    facts = read_trace(builder.write(tmp_path / "t.sqlite")).facts.launches
    assert (facts.n_launches, facts.n_launches_without_row) == (6, 3)
    assert [(own.pid, own.tail_missing) for own in facts.processes] == [
        (1000, 1),
        (1001, 1),
        (1002, 1),
    ]


@pytest.mark.parametrize("written", ["[1]", "1", '["both.n >= 1", 2]', "{}"])
def test_requirements_of_a_file_are_a_list_of_texts(tmp_path: Path, written: str) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(f"[gate]\nrequire = {written}\n")
    with pytest.raises(ConfigError, match="must be a list of texts"):
        load_gate_table(path)
    path.write_text('[gate]\nrequire = ["both.n >= 1"]\n')
    assert load_gate_table(path)["require"] == ["both.n >= 1"]


def test_ranges_without_a_text_mark_no_step(ten_steps: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(ten_steps.read_bytes())
    rows = "SELECT * FROM NVTX_EVENTS WHERE rowid = (SELECT max(rowid) FROM NVTX_EVENTS)"
    execute(
        path,
        f"CREATE TABLE n AS {rows}",
        "UPDATE n SET text = NULL, textId = NULL, start = start + 1000",
        "INSERT INTO NVTX_EVENTS SELECT * FROM n",
        "DROP TABLE n",
    )
    found, whole = (plan_steps(classify(read_trace(p)), StepSpec()) for p in (path, ten_steps))
    assert found.windows == whole.windows
