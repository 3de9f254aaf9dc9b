"""Step windows: what marks a step, where it begins and ends on the GPU, and what is left out."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from nsysoverlap import analyze
from nsysoverlap.core.errors import UsageError
from nsysoverlap.roles.rules import classify
from nsysoverlap.steps.plan import StepSpec, plan_steps
from nsysoverlap.trace.load import read_trace

from .stepdrawing import Dispatch, windows
from .tracebuilder import TraceBuilder
from .traces import h200


def two_steps() -> Dispatch:
    """Each step ends before the host dispatches the next; the last one with its range.

    host   [step 0   ] [step 1    ]
    gpu      KKK  KK       KKK
    """
    drawn = Dispatch()
    drawn.range("step 0", 10, 40)
    drawn.run(12, 15, 20)
    drawn.run(13, 22, 25)
    drawn.range("step 1", 41, 70)
    drawn.run(45, 50, 60)
    return drawn


def test_a_step_reaches_from_its_first_work_to_that_of_the_next(tmp_path: Path) -> None:
    plan = two_steps().plan(tmp_path / "t.sqlite")
    assert windows(plan) == [("step 0", 15, 50), ("step 1", 50, 70)]
    assert plan.marker == "NVTX ranges 'step N'"


def test_dispatch_runs_ahead(tmp_path: Path) -> None:
    """host  [step 0][step 1][step 2]
    gpu           AAAA     BBBB     CC
    """
    drawn = Dispatch()
    for i, (start, end) in enumerate([(100, 140), (150, 190), (200, 220)]):
        drawn.range(f"step {i}", 10 * i, 10 * i + 9)
        drawn.run(10 * i + 1, start, start + 10)
        drawn.run(10 * i + 2, start + 12, end)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert windows(plan) == [("step 0", 100, 150), ("step 1", 150, 200), ("step 2", 200, 250)]


def test_an_early_prefetch_does_not_cut_the_step_before(tmp_path: Path) -> None:
    """compute  AAAAAAAA     BBBB
    h2d              11111              fetched early for B
    """
    drawn = Dispatch()
    drawn.range("step 0", 0, 9)
    drawn.run(1, 100, 180)
    drawn.range("step 1", 10, 19)
    drawn.run(11, 150, 200, "h2d")
    drawn.run(12, 210, 250)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert windows(plan) == [("step 0", 100, 210), ("step 1", 210, 250)]


def test_the_ends_take_in_their_own_transfers(tmp_path: Path) -> None:
    """set-up   ##
    h2d           11111            of step 0
    compute            AAAA  BBBB
    d2h                          222  of step 1
    """
    drawn = Dispatch()
    drawn.run(0, 10, 20)
    drawn.range("step 0", 21, 30)
    drawn.run(22, 30, 80, "h2d")
    drawn.run(23, 80, 120)
    drawn.range("step 1", 31, 40)
    drawn.run(32, 130, 170)
    drawn.run(33, 175, 200, "d2h")
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert windows(plan) == [("step 0", 30, 130), ("step 1", 130, 200)]


def test_leading_transfers_reach_back_no_further_than_what_was_before(tmp_path: Path) -> None:
    """set-up   ######
    h2d         11111111           of step 0
    compute             AAAA
    """
    drawn = Dispatch()
    drawn.run(0, 10, 60)
    drawn.range("step 0", 1, 30)
    drawn.run(2, 20, 80, "h2d")
    drawn.run(3, 80, 120)
    drawn.range("step 1", 31, 40)
    drawn.run(32, 130, 170)
    assert windows(drawn.plan(tmp_path / "t.sqlite"))[0] == ("step 0", 60, 130)


def test_launches_of_other_threads_belong_to_the_range_of_their_process(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in (0, 1):
        drawn.range(f"step {i}", 100 * i, 100 * i + 50, tid=1)
        drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 40, tid=2)
        drawn.range(f"step {i}", 100 * i, 100 * i + 50, tid=1, pid=2000)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert windows(plan) == [("step 0", 20, 120), ("step 1", 120, 150)]
    assert {w.pid for w in plan.windows} == {1000}


def test_graph_launches_open_steps(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in (0, 1):
        drawn.range(f"step {i}", 100 * i, 100 * i + 50)
        drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 90, "graph")
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert windows(plan) == [("step 0", 20, 120), ("step 1", 120, 190)]


def test_nodes_of_a_graph_share_one_launch(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in (0, 1):
        drawn.range(f"step {i}", 100 * i, 100 * i + 50)
        drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 40, graph_node=5)
        drawn.run(0, 100 * i + 40, 100 * i + 80, graph_node=6, correlation=i + 1)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert windows(plan) == [("step 0", 20, 120), ("step 1", 120, 180)]


def test_each_device_has_its_own_windows(tmp_path: Path) -> None:
    """One process, a thread for each GPU, both running the same XLA module."""
    drawn = Dispatch()
    for i in (0, 1):
        for device, late in ((0, 0), (1, 5)):
            text = f"XlaModule:#hlo_module=jit_step,program_id={7}#"
            drawn.range(text, 100 * i, 100 * i + 50, tid=10 + device)
            drawn.run(
                100 * i + 10, 100 * i + 20 + late, 100 * i + 60, tid=10 + device, device=device
            )
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert plan.marker == "XlaModule jit_step"
    assert windows(plan, 0) == [("jit_step", 20, 120), ("jit_step", 120, 160)]
    assert windows(plan, 1) == [("jit_step", 25, 125), ("jit_step", 125, 160)]
    assert plan.n_steps == 2


def test_processes_on_one_gpu_have_steps_of_their_own(tmp_path: Path) -> None:
    drawn = Dispatch()
    drawn.builder.gpu(0, "NVIDIA H200", "11111111-0000-0000-0000-000000000000")
    for pid, late in ((1000, 0), (2000, 30)):
        for i in (0, 1):
            drawn.range(f"step {i}", 100 * i, 100 * i + 50, pid=pid)
            drawn.run(100 * i + 10, 100 * i + 20 + late, 100 * i + 60 + late, pid=pid)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert [(w.pid, w.index, w.start_ns // 1000, w.end_ns // 1000) for w in plan.of(0)] == [
        (1000, 0, 20, 120),
        (1000, 1, 120, 160),
        (2000, 0, 50, 150),
        (2000, 1, 150, 190),
    ]


def test_named_steps_come_before_modules_and_nested_ranges_count_once(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in range(2):
        drawn.range(f"iteration {i}", 100 * i, 100 * i + 90)
        for part in (0, 40):
            at = 100 * i + part
            drawn.range("XlaModule:#hlo_module=jit_f,program_id=1#", at + 5, at + 30)
            drawn.range("iteration 7", at + 6, at + 20)
            drawn.run(at + 10, at + 12, at + 30)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert windows(plan) == [("iteration 0", 12, 112), ("iteration 1", 112, 190)]


def test_any_regex_of_the_user(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in (0, 1):
        drawn.range(f"batch-{i}", 100 * i, 100 * i + 50)
        drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 40)
    plan = drawn.plan(tmp_path / "t.sqlite", StepSpec(r"^batch-\d"))
    assert windows(plan) == [("batch-0", 20, 120), ("batch-1", 120, 150)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (StepSpec("("), "no regular expression"),
        (StepSpec("a{1,99999999999}"), "no regular expression"),
        (StepSpec("nothing like it"), "no NVTX range matches"),
        (StepSpec("idle"), "launched no kernels"),
        (StepSpec(first=2, last=2), "step 2 is not among its 2 steps"),
        (StepSpec(first=1, last=5), "step 1:5 is not among"),
        (StepSpec(skip=2), "leaves none of 2"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, spec: StepSpec, message: str) -> None:
    drawn = two_steps()
    drawn.range("idle", 200, 210)
    with pytest.raises(UsageError, match=message):
        drawn.plan(tmp_path / "t.sqlite", spec)


def test_ranges_may_be_called_what_reports_call_them(tmp_path: Path) -> None:
    """With N for numbers, and where such a name is cut or no regular expression at all."""
    long = "forward (layers.{}._checkpoint_wrapped_module.self_attn, eager)"
    drawn = Dispatch()
    for i in (0, 1):
        drawn.range(f"step {i}", 100 * i, 100 * i + 50)
        drawn.range(long.format(i), 100 * i + 5, 100 * i + 45)
        drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 40)
    expected = drawn.plan(tmp_path / "a.sqlite", StepSpec("^step")).windows
    for name in ("step N", "NVTX ranges 'step N'"):
        assert drawn.plan(tmp_path / "b.sqlite", StepSpec(name)).windows == expected
    shown = long.replace("{}", "N")[:48]
    with pytest.raises(UsageError, match="no NVTX range matches") as raised:
        drawn.plan(tmp_path / "c.sqlite", StepSpec("epoch"))
    assert repr(shown) in (raised.value.hint or "")
    with pytest.raises(re.error):
        re.compile(shown)
    named = drawn.plan(tmp_path / "c.sqlite", StepSpec(shown))
    assert len(named.windows) == 2


def test_a_regex_that_matches_nothing_is_told_what_is_there(tmp_path: Path) -> None:
    drawn = two_steps()
    # Longer than all steps together, but once.
    drawn.range("run", 0, 10_000)
    with pytest.raises(UsageError) as raised:
        drawn.plan(tmp_path / "a.sqlite", StepSpec("epoch"))
    assert raised.value.hint == (
        "Its ranges, by time: 'step N' (2 x), 'run' (1 x). --steps none measures the whole trace."
    )
    bare = Dispatch()
    bare.run(0, 1, 2)
    with pytest.raises(UsageError, match="It has none"):
        bare.plan(tmp_path / "b.sqlite", StepSpec("epoch"))


def test_steps_can_be_left_out(tmp_path: Path) -> None:
    skipped = two_steps().plan(tmp_path / "t.sqlite", StepSpec(skip=1))
    assert (windows(skipped), skipped.skipped) == ([("step 1", 50, 70)], 1)
    chosen = two_steps().plan(tmp_path / "t.sqlite", StepSpec(first=0, last=0))
    assert windows(chosen) == [("step 0", 15, 50)]
    assert two_steps().plan(tmp_path / "t.sqlite", StepSpec("none")).windows == ()


def test_ranges_that_never_close_mark_nothing_and_are_counted(tmp_path: Path) -> None:
    drawn = two_steps()
    drawn.range("step 9", 80, None)
    drawn.run(81, 82, 90)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert [label for label, _, _ in windows(plan)] == ["step 0", "step 1"]
    assert [(note.code, note.count) for note in plan.notes] == [("ranges-unclosed", 1)]


def test_ranges_before_time_zero(tmp_path: Path) -> None:
    drawn = Dispatch()
    drawn.range("step 0", -500, -400)
    drawn.range("step 1", -50, 30)
    drawn.run(-20, 10, 40)
    assert windows(drawn.plan(tmp_path / "t.sqlite")) == [("step 1", 10, 40)]


def test_without_an_nvtx_table_nothing_is_made_up(tmp_path: Path) -> None:
    plan = two_steps().plan(tmp_path / "t.sqlite", drop_tables=["NVTX_EVENTS"])
    assert (plan.marker, plan.windows) == (None, ())
    assert plan.notes[0].code == "no-step-marker"


def test_no_pattern_no_guess(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i, name in enumerate("abcdefgh"):
        drawn.run(10 * i, 10 * i + 2, 10 * i + 9, name=name)
    with pytest.raises(UsageError, match="no repeating pattern"):
        drawn.plan(tmp_path / "t.sqlite", StepSpec("guess"))


@pytest.mark.parametrize(
    ("name", "n_steps", "step_ms"),
    [
        ("jax_unroll_nolhs", 4, 378),
        ("jax_unroll_lhs", 4, 306),
        ("jax_unroll_save", 4, 268),
        ("jax_scan_lhs", 4, 376),
        ("jax_scan_pipelined", 4, 519),
        ("jax_scan_pipelined_graph_node", 4, 517),
        ("jax_scan_pipelined_graph_level", 4, 513),
        ("jax_fsdp2_lhs", 4, 167),
        ("micro_hidden", 3, None),
        ("micro_serial", 3, None),
        ("micro_duplex", 3, None),
        ("micro_samedir", 3, None),
        ("micro_pageable", 3, None),
        ("micro_managed", 3, None),
        ("micro_graph_node", 3, None),
        ("micro_graph_graph", 3, None),
        ("ddp_two_procs", 3, None),
    ],
)
def test_real_traces(name: str, n_steps: int, step_ms: int | None) -> None:
    plan = plan_steps(classify(read_trace(h200(name))), StepSpec())
    devices = {window.device for window in plan.windows}
    for device in devices:
        steps = plan.of(device)
        assert [step.index for step in steps] == list(range(n_steps))
        assert all(a.end_ns == b.start_ns for a, b in pairwise(steps))
    if step_ms is not None:
        durations = sorted(w.end_ns - w.start_ns for w in plan.windows)
        assert durations[len(durations) // 2] / 1e6 == pytest.approx(step_ms, rel=0.015)


def test_copies_only_outside_the_steps_are_not_said_to_be_missing(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy(0, 5_000, "h2d", pid=1000)
    for i in (1, 2, 3):
        builder.nvtx(f"step {i}", i * 100_000 - 5_000, i * 100_000 + 50_000, pid=1000)
        builder.kernel(i * 100_000, i * 100_000 + 40_000, pid=1000)
    builder.copy(10_000, 15_000, "d2h", pid=2000)
    report = analyze(builder.write(tmp_path / "t.sqlite"), steps="step", skip_steps=1)
    assert sum(device.n_outside_steps for device in report.devices) == 2
    (entry,) = [entry for entry in report.health if entry.code == "no-transfers"]
    assert "but 2 outside them" in entry.message


@pytest.mark.parametrize("name", ["jax_unroll_lhs", "jax_fsdp2_lhs", "ddp_two_procs"])
def test_steps_and_what_lies_outside_add_up_to_the_trace(name: str) -> None:
    stepped, whole = analyze(h200(name)), analyze(h200(name), steps="none")
    assert (stepped.basis.kind, whole.basis.kind) == ("steps", "trace")
    for device, all_of_it in zip(stepped.devices, whole.devices, strict=True):
        for direction in ("h2d", "d2h"):
            outside = getattr(device.outside_steps, direction)
            assert getattr(device, direction) + outside == getattr(all_of_it, direction)
            steps = [getattr(step, direction) for step in device.steps]
            assert sum(steps[1:], steps[0]) == getattr(device, direction)
        budgets = [step.time_budget for step in device.steps]
        assert sum(budgets[1:], budgets[0]) == device.time_budget


@pytest.mark.parametrize("spec", [StepSpec("none", skip=1), StepSpec("none", first=1, last=1)])
def test_steps_cannot_be_chosen_where_none_are_wanted(tmp_path: Path, spec: StepSpec) -> None:
    with pytest.raises(UsageError):
        two_steps().plan(tmp_path / "t.sqlite", spec)
