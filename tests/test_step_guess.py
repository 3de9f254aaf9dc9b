"""Steps by what repeats, for traces that nothing marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nsysoverlap import analyze
from nsysoverlap.roles.rules import Role, classify
from nsysoverlap.steps.guess import Guess, guess_steps
from nsysoverlap.steps.plan import StepSpec, plan_steps
from nsysoverlap.trace.load import read_trace

from .stepdrawing import Dispatch, windows
from .traces import PUBLIC, h200

STEP = ("embed", "attention", "mlp", "mlp", "head")


def steps_of(n: int, names: Sequence[str] = STEP, *, pid: int = 1000, device: int = 0) -> Dispatch:
    """Kernels of 7 us every 10 us, a step of them every 100 us."""
    drawn = Dispatch()
    add_steps(drawn, n, names, pid=pid, device=device)
    return drawn


def add_steps(
    drawn: Dispatch, n: int, names: Sequence[str] = STEP, *, pid: int = 1000, device: int = 0
) -> None:
    for i in range(n):
        for k, name in enumerate(names):
            at = 100 * i + 10 * k
            drawn.run(at, at + 2, at + 9, name=name, pid=pid, device=device)


def test_a_regular_pattern_is_taken_and_said_loudly(tmp_path: Path) -> None:
    plan = steps_of(5).plan(tmp_path / "t.sqlite")
    assert plan.marker == "a guess from repeating kernels (embed)"
    assert windows(plan)[:2] == [("embed", 2, 102), ("embed", 102, 202)]
    # The last one lasts as long as those before.
    assert windows(plan)[-1] == ("embed", 402, 502)
    (note,) = plan.notes
    assert (note.code, note.severity) == ("steps-guessed", "warning")
    assert "kernels repeat 5 times, every 0.1 ms, from embed on" in note.message
    assert "--steps none" in note.hint


@pytest.mark.parametrize(
    ("n", "names"),
    [
        (2, STEP),
        # A loop over two kernels is a benchmark or a layer.
        (5, ("gemm", "add")),
        (5, ("gemm",) * 5),
    ],
)
def test_what_is_too_little_to_be_sure_is_offered(
    tmp_path: Path, n: int, names: Sequence[str]
) -> None:
    plan = steps_of(n, names).plan(tmp_path / "t.sqlite")
    assert plan.windows == ()
    assert [note.code for note in plan.notes] == ["no-step-marker"]


def test_an_irregular_pattern_is_offered_and_taken_when_asked_for(tmp_path: Path) -> None:
    drawn = steps_of(3)
    for k, name in enumerate(STEP):
        drawn.run(900 + 10 * k, 902 + 10 * k, 909 + 10 * k, name=name)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert plan.windows == ()
    assert "A guess: kernels repeat 4 times" in plan.notes[0].hint
    asked = drawn.plan(tmp_path / "u.sqlite", StepSpec("guess"))
    assert asked.marker == "a guess from repeating kernels (embed)"
    assert windows(asked)[:2] == [("embed", 2, 102), ("embed", 102, 202)]


def test_layers_that_leave_much_beside_them_are_no_steps(tmp_path: Path) -> None:
    drawn = steps_of(8)
    drawn.run(900, 902, 1000, name="lm_head")
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert plan.windows == ()
    assert "A guess: kernels repeat 8 times" in plan.notes[0].hint


def guessed(path: Path, drawn: Dispatch) -> Guess:
    """The one guess for what was drawn, irregular or not."""
    (guess,), _ = guess_steps(classify(read_trace(drawn.builder.write(path))))
    return guess


@pytest.mark.parametrize(
    ("change", "regular"),
    [
        ({}, True),
        ({"n_whole": 2}, False),
        ({"n_launches": 3}, False),
        ({"n_names": 2}, False),
        ({"n_names": 4}, True),
        ({"share": 0.949}, False),
        ({"borders": np.array([0, 100, 200, 325])}, True),
        ({"borders": np.array([0, 100, 200, 326])}, False),
    ],
)
def test_what_is_taken_without_being_asked_for(change: dict[str, Any], regular: bool) -> None:
    least = Guess(0, 1, "embed", np.array([0, 100, 200, 300]), 3, 0.95, 4, 3)
    assert replace(least, **change).regular is regular


def test_what_a_guess_holds_and_where_its_last_step_ends(tmp_path: Path) -> None:
    """With its last copy, but without what follows, and without what the step before left on.

    compute  steps of 175 us in 5, one kernel of them 200 us longer, and 5 us at 600
    D2H                                                    last step ...440-520       650-700
    """
    drawn = steps_of(3)
    for at in (300, 400):
        for k, name in enumerate(STEP):
            longer = 200 if (at, name) == (300, "head") else 0
            drawn.run(at + 10 * k, at + 10 * k + 2, at + 10 * k + 9 + longer, name=name)
    drawn.run(440, 440, 520, "d2h")
    drawn.run(600, 600, 605, name="log")
    drawn.run(650, 650, 700, "d2h")
    guess = guessed(tmp_path / "t.sqlite", drawn)
    assert (guess.label, guess.n_whole) == ("embed", 5)
    assert guess.borders.tolist() == [1000 * t for t in (2, 102, 202, 302, 402, 520)]
    assert guess.share == (175 + 200 + 80) / (175 + 200 + 80 + 5 + 50)


def test_what_else_begins_like_a_step_is_none(tmp_path: Path) -> None:
    drawn = steps_of(5)
    for k, name in enumerate(("embed", "log", "save")):
        drawn.run(500 + 10 * k, 502 + 10 * k, 509 + 10 * k, name=name)
    guess = guessed(tmp_path / "t.sqlite", drawn)
    assert (guess.label, guess.n_whole, len(guess.borders) - 1) == ("embed", 5, 5)


def test_most_whole_steps_come_before_the_longest_pause(tmp_path: Path) -> None:
    """The trace begins and ends with the same kernel: five whole steps from the next one on."""
    drawn = Dispatch()
    places = {"head": 10, "embed": 50, "attention": 60, "mlp": 70}
    for i in range(5):
        for name, k in places.items():
            drawn.run(100 * i + k, 100 * i + k + 2, 100 * i + k + 9, name=name)
    for at in range(0, 501, 100):
        drawn.run(at, at + 2, at + 9, name="norm")
        drawn.run(at + 80, at + 82, at + 89, name="norm")
    guess = guessed(tmp_path / "t.sqlite", drawn)
    assert (guess.label, guess.n_whole) == ("head", 5)


def test_the_end_of_a_step_before_the_first_belongs_to_the_steps(tmp_path: Path) -> None:
    """It is as long as a step, and 19 of its 20 kernels are those of one."""
    drawn = Dispatch()
    layers = ["layer"] * 19
    for k, name in enumerate(["init", *layers, *["embed", *layers] * 4]):
        drawn.run(10 * k, 10 * k + 2, 10 * k + 9, name=name)
    guess = guessed(tmp_path / "t.sqlite", drawn)
    assert (guess.label, guess.n_whole, guess.share) == ("embed", 4, 1)


def test_the_shortest_period_that_tiles_is_the_step(tmp_path: Path) -> None:
    """Every second step ends with a kernel of its own; steps are alike all the same."""
    drawn = Dispatch()
    names = ["embed", *("attention", "mlp", "norm") * 12, "head"]
    for i in range(6):
        for k, name in enumerate([*names, *(["log"] if i % 2 else [])]):
            at = 1000 * i + 10 * k
            drawn.run(at, at + 2, at + 9, name=name)
    assert drawn.plan(tmp_path / "t.sqlite").n_steps == 6


def test_steps_begin_where_least_is_on_the_host(tmp_path: Path) -> None:
    """The capture begins in the middle of a step, with what goes out last and comes back first.

    compute  forth2 back2 back1 update   forth1 | forth2 back2 ...
    H2D            2     1
    D2H       2                           1
    """
    drawn = Dispatch()
    for i in range(5):
        at = 100 * i
        places = {"forth2": 10, "back2": 20, "back1": 30, "update": 40, "forth1": 60}
        for name, start in places.items():
            drawn.run(at + start - 1, at + start, at + start + 9, name=name)
        for start, kind in ((11, "d2h"), (19, "h2d"), (29, "h2d"), (61, "d2h")):
            drawn.run(at + start - 1, at + start, at + start + 7, kind)
    plan = drawn.plan(tmp_path / "t.sqlite")
    # Four whole ones, and the trace ends within the fifth.
    assert windows(plan) == [("forth1", 100 * i + 60, 100 * i + 160) for i in range(4)] + [
        ("forth1", 460, 469)
    ]


def test_every_device_must_repeat_for_a_guess_to_be_taken(tmp_path: Path) -> None:
    drawn = steps_of(5)
    for i in range(5):
        drawn.run(100 * i, 100 * i + 2, 100 * i + 50, name=f"other_{i}", pid=2000, device=1)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert plan.windows == ()
    assert "nothing repeats in pid 2000" in plan.notes[0].hint
    asked = drawn.plan(tmp_path / "u.sqlite", StepSpec("guess"))
    assert {w.pid for w in asked.windows} == {1000}
    (note,) = asked.notes
    assert (note.code, note.severity) == ("rank-without-steps", "warning")
    assert "pid 2000" in note.message


def test_processes_on_one_gpu_repeat_each_for_itself(tmp_path: Path) -> None:
    drawn = steps_of(4)
    drawn.builder.gpu(0, "NVIDIA H200", "11111111-0000-0000-0000-000000000000")
    add_steps(drawn, 4, ("a", "b", "c", "d"), pid=2000)
    plan = drawn.plan(tmp_path / "t.sqlite")
    assert {(w.pid, w.label) for w in plan.of(0)} == {(1000, "embed"), (2000, "a")}
    assert plan.n_steps == 4


def test_a_tensor_goes_out_and_comes_back_within_one_step() -> None:
    """In every whole step of lightning as many bytes return as left."""
    trace = read_trace(h200("pytorch/lightning"))
    classified = classify(trace)
    plan = plan_steps(classified, StepSpec())
    copies, role = trace.copies, classified.copy_role
    for step in plan.windows[:3]:
        inside = (copies.start_ns >= step.start_ns) & (copies.start_ns < step.end_ns)
        large = inside & (copies.n_bytes >= 1 << 20)
        out = copies.n_bytes[large & (role == Role.D2H)].sum()
        back = copies.n_bytes[large & (role == Role.H2D)].sum()
        assert out == back > 0


def test_the_end_of_a_trace_may_cut_the_last_step() -> None:
    guesses, _ = guess_steps(classify(read_trace(h200("pytorch/lightning"))))
    (guess,) = guesses
    assert (guess.n_whole, len(guess.borders) - 1) == (3, 4)
    plan = plan_steps(classify(read_trace(h200("pytorch/lightning"))), StepSpec())
    assert "The trace ends within the last one." in plan.notes[-1].message


def test_the_headline_says_that_steps_are_a_guess() -> None:
    from nsysoverlap.result.sentences import headline

    report = analyze(h200("pytorch/save_on_cpu"))
    assert report.basis.steps == "a guess from repeating kernels (vectorized_gather_kernel)"
    assert headline(report).endswith("Its 3 steps are a guess: nothing marks them.")
    assert "guess" not in headline(analyze(h200("pytorch/offload_stream")))


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public traces are not part of the repository")
def test_no_rank_of_a_public_trace_is_without_steps_in_silence() -> None:
    """One process got 16 steps by the layers of its model, the other none."""
    trace = read_trace(PUBLIC / "v2026.2.1-nsysai-mfu2gpu-nccl.sqlite")
    auto = plan_steps(classify(trace), StepSpec())
    assert auto.windows == ()
    assert "A guess" in auto.notes[-1].hint
    asked = plan_steps(classify(trace), StepSpec("guess"))
    said = any(note.code == "rank-without-steps" for note in asked.notes)
    assert said or {w.pid for w in asked.windows} == {device.pid for device in trace.devices}
