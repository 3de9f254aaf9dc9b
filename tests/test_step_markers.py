"""Which ranges are steps: by their text, and by the GPU time that they launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap.roles.rules import classify
from nsysoverlap.steps.markers import kind_of
from nsysoverlap.steps.plan import StepPlan, StepSpec, plan_steps
from nsysoverlap.trace.load import read_trace

from .stepdrawing import Dispatch, windows
from .tracebuilder import TraceBuilder
from .traces import h200

NS = 1_000_000


def repeated(path: Path, text: str, times: int = 3) -> StepPlan:
    """The steps of a trace in which ranges of one text, `{}` for a number, launch all there is."""
    drawn = Dispatch()
    for i in range(times):
        drawn.range(text.replace("{}", str(i + 10)), 100 * i, 100 * i + 80)
        # Launches that repeat nothing, so that there is no guess either.
        drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 40 + i, name=f"kernel_{i}")
    return drawn.plan(path)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("step {}", "step N"),
        ("Step {}", "Step N"),
        ("step", "step"),
        ("step_{}", "step_N"),
        ("step {}/100", "step N/N"),
        ("Step [{}]", "Step [N]"),
        ("Step {} to {}0", "Step N to N"),
        ("train_step {}", "train_step N"),
        ("train step {}", "train step N"),
        ("Trainer::train_step", "Trainer::train_step"),
        ("global_step={}", "global_step=N"),
        ("timestep {}", "timestep N"),
        ("iter {}", "iter N"),
        ("iter_{}", "iter_N"),
        ("iteration_{}", "iteration_N"),
        ("Iteration {}/100", "Iteration N/N"),
        ("batch {}", "batch N"),
        ("train_batch", "train_batch"),
        ("epoch 0, step {}", "epoch N, step N"),
        ("train#step_num={}#", "train#step_num=N#"),
        ("ProfilerStep#{}", "ProfilerStep#N"),
        ("ProfilerStep#{}, op_id = {}7", "ProfilerStep#N"),
        ("[pl][profile]run_training_batch", "[pl][profile]run_training_batch"),
        ("[Executor] _forward_step {}: 0 ctx reqs, {} gen reqs", "[Executor] _forward_step"),
        ("[Executor] _forward_step: 1 ctx reqs, {} gen reqs", "[Executor] _forward_step"),
        ("execute_context_1(8)_generation_0({})", "execute_context_generation"),
        ("execute_{}_context_1(sq4sk4)_generation_1(sq1)", "execute_context_generation"),
    ],
)
def test_texts_that_mark_steps(tmp_path: Path, text: str, name: str) -> None:
    plan = repeated(tmp_path / "t.sqlite", text)
    assert (plan.marker, plan.n_steps) == (f"NVTX ranges '{name}'", 3)


@pytest.mark.parametrize("module", ["jit_train_step", "jit_forward_loss", "jit_update_params"])
def test_modules_of_xla_mark_steps_whatever_they_are_called(tmp_path: Path, module: str) -> None:
    for prefix in ("", "TSL:"):
        text = f"{prefix}XlaModule:#hlo_module={module},program_id={{}}#"
        plan = repeated(tmp_path / f"{len(prefix)}.sqlite", text)
        assert (plan.marker, plan.n_steps) == (f"XlaModule {module}", 3)


@pytest.mark.parametrize(
    "text",
    [
        *("optimizer.step", "Optimizer.step#AdamW.step", "optimizer step {}", "opt_step {}"),
        *("lr_scheduler.step", "scheduler.step", "scaler.step", "backward_step", "forward_step"),
        *("forward_backward_step {}", "loss step {}", "microbatch {}", "micro_batch {}"),
        *("data step {}", "DataLoader batch {}", "FSDP::post_backward_step (layers.3)"),
        *("aten::batch_norm", "aten::step", "DeepSpeedEngine.step", "DeepSpeedEngine.forward"),
        "DeepSpeedZeroOptimizer_Stage3.step",
        "[pl][profile][Strategy]SingleDeviceStrategy.training_step",
        "[pl][profile][LightningModule]Model.optimizer_step",
        *(
            "stepper {}",
            "first_steps",
            "optimizer {}",
            "timestep_embed",
            "step_size",
            "batch_size 8",
        ),
        *("BatchNorm2d", "batch_norm_2", "misstep {}", "iterator", "iterate {}", "batched_gemm {}"),
        # Repeated ranges without a word for a step.
        *("MobileNetV3", "saxpy", "Forward", "layer {}"),
    ],
)
def test_texts_that_do_not(tmp_path: Path, text: str) -> None:
    assert kind_of(text.replace("{}", "3")) is None
    plan = repeated(tmp_path / "t.sqlite", text)
    assert plan.marker is None
    assert [note.code for note in plan.notes] == ["no-step-marker"]


@pytest.mark.parametrize("text", ["MobileNetV3", "saxpy", "Forward"])
def test_repeated_ranges_without_a_word_for_a_step_are_offered(tmp_path: Path, text: str) -> None:
    (note,) = repeated(tmp_path / "t.sqlite", text, times=5).notes
    assert f"Ranges that repeat, by time: '{text}' (5 x)." in note.hint
    assert "--steps REGEX" in note.hint


def test_ranges_of_a_library_are_not_offered(tmp_path: Path) -> None:
    (note,) = repeated(tmp_path / "t.sqlite", "aten::mm, seq = {}").notes
    assert "aten" not in note.hint


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("step_{}", ("optimizer.step",)),
        ("step {}", ("Optimizer.step#AdamW.step", "lr_scheduler.step")),
        ("iteration {}", ("forward_step", "backward_step", "optimizer.step")),
        ("ProfilerStep#{}", ("FSDP::pre_forward (layers.0)", "Optimizer.step#AdamW.step")),
    ],
)
def test_phases_inside_a_step_are_neither_steps_nor_named(
    tmp_path: Path, outer: str, inner: tuple[str, ...]
) -> None:
    drawn = Dispatch()
    for i in range(3):
        drawn.range(outer.format(i), 100 * i, 100 * i + 90)
        for k, text in enumerate(inner):
            at = 100 * i + 25 * k + 5
            drawn.range(text, at, at + 20)
            drawn.run(at + 2, at + 5, at + 24)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert (plan.marker, plan.n_steps) == (f"NVTX ranges '{outer.format('N')}'", 3)
    assert plan.notes == ()


def test_small_modules_between_the_steps_are_none_however_many(tmp_path: Path) -> None:
    """module  [train_step    ]m m m[train_step    ]m m m[train_step    ]"""
    drawn = Dispatch()
    for i in range(3):
        at = 1000 * i
        drawn.range("XlaModule:#hlo_module=jit_train_step,program_id=1#", at, at + 800)
        drawn.run(at + 5, at + 10, at + 810)
        for k in range(3 if i < 2 else 0):
            small = at + 850 + 40 * k
            drawn.range("XlaModule:#hlo_module=jit_multiply,program_id=2#", small, small + 20)
            drawn.run(small + 5, small + 8, small + 12)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert (plan.marker, plan.n_steps) == ("XlaModule jit_train_step", 3)
    (note,) = plan.notes
    assert note.code == "steps-rejected"
    # 24 of 824 us that were launched from the first to the last of them.
    assert "XlaModule jit_multiply (6 x, 2.9 % of the GPU time" in note.message


def in_turn(order: str, lengths: dict[str, int]) -> Dispatch:
    """XLA modules in the order of their letters, with a kernel each, of so many microseconds."""
    drawn, at = Dispatch(), 0
    for number, letter in enumerate(order):
        drawn.range(f"XlaModule:#hlo_module=jit_{letter},program_id=1#", at, at + 90)
        drawn.run(at + 5, at + 10, at + 10 + lengths[letter], name=f"kernel_{number}")
        at += 100
    return drawn


@pytest.mark.parametrize(
    ("order", "n_steps", "marker"),
    [
        ("gugugu", 3, "XlaModules jit_g, jit_u in turn"),
        ("gugug", 2, "XlaModules jit_g, jit_u in turn"),
        ("gaugaugau", 3, "XlaModules jit_g, jit_a, jit_u in turn"),
        # Not in turn, and a module that runs once.
        ("gguugu", 0, None),
        ("gug", 0, None),
    ],
)
def test_modules_that_run_in_turn_are_one_step(
    tmp_path: Path, order: str, n_steps: int, marker: str | None
) -> None:
    plan = in_turn(order, {"g": 60, "u": 40, "a": 30}).plan(tmp_path / "t.sqlite")
    assert (plan.marker, plan.n_steps) == (marker, n_steps)
    if marker:
        assert not [note for note in plan.notes if note.code == "steps-rejected"]
        n_modules = len(set(order))
        starts = [start for _, start, _ in windows(plan)]
        assert starts == [10 + 100 * n_modules * i for i in range(n_steps)]


def test_a_module_that_holds_nearly_all_is_the_step(tmp_path: Path) -> None:
    plan = in_turn("tmtmtm", {"t": 80, "m": 2}).plan(tmp_path / "t.sqlite")
    assert (plan.marker, plan.n_steps) == ("XlaModule jit_t", 3)


def test_two_small_modules_side_by_side_are_no_steps(tmp_path: Path) -> None:
    """They hold all that was launched between them, which is next to nothing."""
    drawn = Dispatch()
    for i in range(2):
        drawn.range("XlaModule:#hlo_module=jit_init,program_id=1#", 20 * i, 20 * i + 15)
        drawn.run(20 * i + 1, 20 * i + 2, 20 * i + 5)
    for i in range(3):
        at = 100 + 1000 * i
        drawn.range(f"step {i}", at, at + 900)
        drawn.run(at + 5, at + 10, at + 810)
    assert drawn.plan(tmp_path / "t.sqlite").marker == "NVTX ranges 'step N'"


def test_short_ranges_by_the_thousand_are_no_steps(tmp_path: Path) -> None:
    """A solver opens a range called step for each of its own, microseconds long, inside a step."""
    drawn = Dispatch()
    for i in range(4):
        at = 10_000 * i
        drawn.range(f"iteration {i}", at, at + 9_000)
        for k in range(1000):
            drawn.range("step", at + 9 * k, at + 9 * k + 1)
        drawn.run(at + 5, at + 10, at + 8_000)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert (plan.marker, plan.n_steps) == ("NVTX ranges 'iteration N'", 4)
    assert "'step' (4,000 x, 0.0 % of the GPU time" in plan.notes[0].message


def test_what_holds_steps_comes_after_them(tmp_path: Path) -> None:
    """epoch  [                ][                ]
    step   [   ][   ][   ]    [   ][   ][   ]
    """
    drawn = Dispatch()
    for epoch in range(2):
        drawn.range(f"epoch {epoch}", 1000 * epoch, 1000 * epoch + 900)
        for i in range(3):
            at = 1000 * epoch + 300 * i
            drawn.range(f"train step {i}", at, at + 280)
            drawn.range("optimizer.step", at + 200, at + 270)
            drawn.run(at + 10, at + 20, at + 250)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert (plan.marker, plan.n_steps) == ("NVTX ranges 'train step N'", 6)
    assert "'epoch N' (2 x, 100.0 %" in plan.notes[0].message


@pytest.mark.parametrize("text", ["epoch {}", "Epoch [{}]", "training loop {}"])
def test_epochs_and_loops_are_taken_where_nothing_else_marks_steps(
    tmp_path: Path, text: str
) -> None:
    assert repeated(tmp_path / "t.sqlite", text).n_steps == 3


def test_warm_up_steps_come_after_steps(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in range(5):
        text = f"warmup step {i}" if i < 2 else f"step {i}"
        drawn.range(text, 100 * i, 100 * i + 80)
        drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 60)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert (plan.marker, plan.n_steps) == ("NVTX ranges 'step N'", 3)


def test_one_range_is_no_step(tmp_path: Path) -> None:
    assert repeated(tmp_path / "t.sqlite", "step {}", times=1).marker is None


def test_ranges_of_two_threads_that_overlap_are_one_step(tmp_path: Path) -> None:
    """thread 1  [step 0   ]   [step 1   ]
    thread 2    [step 0   ]   [step 1   ]
    """
    drawn = Dispatch()
    for i in range(3):
        at = 100 * i
        for tid in (1, 2):
            drawn.range(f"step {i}", at + 5 * tid, at + 5 * tid + 60, tid=tid)
            drawn.run(at + 5 * tid + 5, at + 10 + 30 * tid, at + 35 + 30 * tid, tid=tid)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert plan.n_steps == 3
    assert windows(plan) == [("step 0", 40, 140), ("step 1", 140, 240), ("step 2", 240, 340)]


def test_a_thread_that_runs_ahead_of_another_makes_no_chain(tmp_path: Path) -> None:
    """One thread for each GPU: range 1 of the first begins while range 0 of the second is open."""
    drawn = Dispatch()
    for i in range(3):
        for device in (0, 1):
            at = 100 * i + 20 * device
            drawn.range(f"step {i}", at, at + 95, tid=10 + device)
            drawn.run(at + 5, at + 10, at + 90, tid=10 + device, device=device)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert [len(plan.of(device)) for device in (0, 1)] == [3, 3]


def test_launches_of_the_backward_thread_count_for_the_step(tmp_path: Path) -> None:
    """The range is on the main thread, most launches on another, as in PyTorch."""
    drawn = Dispatch()
    for i in range(3):
        at = 100 * i
        drawn.range(f"step {i}", at, at + 90, tid=1)
        drawn.run(at + 5, at + 10, at + 20, tid=1)
        drawn.run(at + 30, at + 35, at + 85, tid=2)
    assert drawn.plan(tmp_path / "t.sqlite").n_steps == 3


def test_each_process_has_its_own_marker(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in range(3):
        for pid, text in ((1000, f"step {i}"), (2000, f"iteration {i}")):
            drawn.range(text, 100 * i, 100 * i + 90, pid=pid)
            drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 80, pid=pid)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert plan.marker == "NVTX ranges 'step N'; NVTX ranges 'iteration N'"
    assert sorted((w.pid, w.index) for w in plan.windows) == [
        (pid, i) for pid in (1000, 2000) for i in range(3)
    ]


def test_a_rank_without_markers_is_named(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in range(3):
        drawn.range(f"step {i}", 100 * i, 100 * i + 90)
        drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 80)
        drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 80, pid=2000, name=f"other_{i}")
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert {w.pid for w in plan.windows} == {1000}
    (note,) = plan.notes
    assert (note.code, note.severity, note.count) == ("rank-without-steps", "warning", 1)
    assert "pid 2000" in note.message


def test_a_rank_without_markers_gets_steps_by_its_kernels(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in range(4):
        drawn.range(f"step {i}", 100 * i, 100 * i + 90)
        drawn.run(100 * i + 10, 100 * i + 20, 100 * i + 80)
        for k, name in enumerate(("embed", "attention", "mlp", "head")):
            at = 100 * i + 20 * k
            drawn.run(at + 1, at + 2, at + 19, pid=2000, name=name)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert plan.marker == "NVTX ranges 'step N'; a guess from repeating kernels (embed)"
    assert {w.pid: w.index for w in plan.windows} == {1000: 3, 2000: 3}
    assert [note.code for note in plan.notes] == ["steps-guessed"]


# The end of the last step.


def test_what_the_host_does_after_the_last_kernel_belongs_to_the_step(tmp_path: Path) -> None:
    """range  [step 0        ][step 1        ]
    gpu       KKKK             KKKK              then an optimizer on the CPU
    """
    drawn = Dispatch()
    for i in range(2):
        drawn.range(f"step {i}", 100 * i, 100 * i + 98)
        drawn.run(100 * i + 5, 100 * i + 10, 100 * i + 40)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert windows(plan) == [("step 0", 10, 110), ("step 1", 110, 198)]


def test_the_last_step_is_no_longer_than_the_shortest_before(tmp_path: Path) -> None:
    """The last range stays open while the program ends."""
    drawn = Dispatch()
    for i in range(3):
        drawn.range(f"step {i}", 100 * i, 100 * i + (98 if i < 2 else 900))
        drawn.run(100 * i + 5, 100 * i + 10, 100 * i + 40)
    assert windows(drawn.plan(tmp_path / "t.sqlite"))[-1] == ("step 2", 210, 310)


def test_the_last_step_ends_where_other_work_begins(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in range(3):
        drawn.range(f"step {i}", 100 * i, 100 * i + 50)
        drawn.run(100 * i + 5, 100 * i + 10, 100 * i + 40)
    # Launched between two ranges, and the last step's work is done by then.
    drawn.run(199, 245, 247)
    drawn.range("after", 320, 330)
    assert windows(drawn.plan(tmp_path / "t.sqlite"))[-1] == ("step 2", 210, 245)


def test_the_last_step_never_ends_before_its_last_kernel(tmp_path: Path) -> None:
    drawn = Dispatch()
    for i in range(3):
        drawn.range(f"step {i}", 10 * i, 10 * i + 9)
        drawn.run(10 * i + 5, 100 * i + 10, 100 * i + (80 if i < 2 else 150))
    assert windows(drawn.plan(tmp_path / "t.sqlite"))[-1] == ("step 2", 210, 350)


# Real traces of programs.


@pytest.mark.parametrize(
    ("name", "marker", "step_ms"),
    [
        # Milliseconds of the unprofiled step, as README of the fixtures gives them.
        ("pytorch/offload_stream", "NVTX ranges 'iteration N'", (792.8, 3)),
        ("pytorch/fsdp2_cpu", "NVTX ranges 'ProfilerStep#N'", (587.0, 2)),
        ("maxtext/maxtext_off_nolhs", "XlaModule jit_train_step", (883.5, 4)),
        ("maxtext/maxtext_off_lhs", "XlaModule jit_train_step", (828.5, 4)),
        ("pytorch/save", "a guess from repeating kernels (vectorized_gather_kernel)", (153.1, 3)),
        (
            "pytorch/save_on_cpu",
            "a guess from repeating kernels (vectorized_gather_kernel)",
            (1054.5, 3),
        ),
        ("pytorch/lightning", "a guess from repeating kernels (vectorized_gather_kernel)", (0, 4)),
    ],
)
def test_real_programs(name: str, marker: str, step_ms: tuple[float, int]) -> None:
    plan = plan_steps(classify(read_trace(h200(name))), StepSpec())
    expected_ms, n_steps = step_ms
    assert plan.marker == marker
    for device in {window.device for window in plan.windows}:
        steps = plan.of(device)
        assert len(steps) == n_steps
        if expected_ms:
            for step in steps:
                took = (step.end_ns - step.start_ns) / NS
                assert took == pytest.approx(expected_ms, rel=0.05)


def test_a_generation_is_one_step() -> None:
    """Layers and tokens repeat, yet neither tiles what ran."""
    plan = plan_steps(classify(read_trace(h200("pytorch/gen_offloaded"))), StepSpec())
    assert (plan.marker, plan.windows) == (None, ())


def test_candidates_of_real_maxtext_are_named() -> None:
    plan = plan_steps(classify(read_trace(h200("maxtext/maxtext_off_nolhs"))), StepSpec())
    (note,) = plan.notes
    assert note.code == "steps-rejected"
    assert "XlaModule jit_multiply (12 x, <0.1 % of the GPU time" in note.message
    assert "jit_train_step" not in note.message


def test_a_trace_without_launch_calls_has_no_steps(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for i in range(3):
        builder.nvtx(f"step {i}", 100_000 * i, 100_000 * i + 90_000)
        builder.kernel(100_000 * i + 10_000, 100_000 * i + 80_000, f"kernel_{i}", api=None)
    plan = plan_steps(classify(read_trace(builder.write(tmp_path / "t.sqlite"))), StepSpec())
    assert plan.marker is None
