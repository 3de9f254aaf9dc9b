"""The tuner: its choice is the best there is, its schedules are replayed as drawn."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest

from capture.config import layer_text, layers_of, load_config
from capture.errors import RefusedError
from capture.predictions import (
    Prediction,
    off_by,
    ranking_accuracy,
    read_predictions,
    step_of,
    write_predictions,
)
from capture.results import Row
from capture.schedule import costs_by_signature, outside, read_schedule, replay, short_windows
from capture.search import Counts, StepModel, Tensor, best, offload_fields, with_clock
from capture.toml_text import toml_text
from capture.tune import counts_of, own_values, promising, tensors_of
from capture.tune_tables import maxtext_answers, maxtext_line, tensor_table, tune_text, why_not

from .kit import say, tiny


def every_way(model: StepModel, limit_gib: float) -> list[Counts]:
    """All placements within the limit."""
    layers = range(model.layers + 1)
    ways = [(away, stays) for away in layers for stays in layers if away + stays <= model.layers]
    found = itertools.product(ways, repeat=len(model.tensors))
    return [counts for counts in found if model.peak_gib(counts) <= limit_gib]


def drawn_model(draw: random.Random) -> StepModel:
    """A model with few layers, whose link may be far too slow or fast enough."""
    layers = draw.choice([2, 3, 4])
    tensors = tuple(
        Tensor(f"t{n}", draw.choice([0.3, 1.0, 2.0, 3.0]), draw.choice([0.1, 0.2, 0.3, 0.5]))
        for n in range(draw.choice([1, 2]) if layers == 4 else draw.choice([1, 2, 3]))
    )
    return StepModel(
        layers=layers,
        remat_ms=40.0 * layers,
        remat_gib=24.0,
        forward_ms=draw.choice([2.0, 4.0, 8.0, 12.0]),
        backward_ms=28.0,
        d2h_gbps=draw.choice([20.0, 53.0]),
        h2d_gbps=draw.choice([20.0, 54.0]),
        ahead=draw.choice([1, 2]),
        tensors=tensors,
        clock=draw.choice([0.0, 0.37]),
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_choice_is_the_best_of_all(seed: int) -> None:
    draw = random.Random(seed)
    model = drawn_model(draw)
    limit = 24.0 + draw.choice([0.0, 0.2, 0.5, 1.0, 2.0])
    chosen = best(model, limit)
    assert model.peak_gib(chosen) <= limit
    assert model.step_ms(chosen) == min(model.step_ms(c) for c in every_way(model, limit))


@pytest.mark.parametrize("seed", range(30))
def test_the_choice_for_maxtext_is_the_best_of_those_it_can_say(seed: int) -> None:
    draw = random.Random(seed)
    model = drawn_model(draw)
    limit = 24.0 + draw.choice([0.0, 0.2, 0.5, 1.0, 2.0])
    places = ((0, 0), (model.layers, 0), (0, model.layers))
    ways = itertools.product(places, repeat=len(model.tensors))
    fit = [counts for counts in ways if model.peak_gib(counts) <= limit]
    chosen = best(model, limit, alike=True)
    assert chosen in fit
    assert model.step_ms(chosen) == min(map(model.step_ms, fit))


def test_where_nothing_fits_nothing_is_kept() -> None:
    model = drawn_model(random.Random(1))
    nothing = ((0, 0),) * len(model.tensors)
    assert best(model, 1.0) == nothing
    assert own_values(model, nothing)["like"] == "remat"


def model_of(**fields: float) -> StepModel:
    """Four layers of 10 ms forward and 20 ms backward; one tensor of 0.5 GB a layer."""
    values = {"forward_ms": 10.0, "backward_ms": 20.0, "d2h_gbps": 50.0, "h2d_gbps": 50.0}
    rest = {**values, **fields}
    tensors = (Tensor("t", 2.0, 0.5),)
    return StepModel(4, 130.0, 20.0, ahead=2, tensors=tensors, clock=0.0, **rest)


def test_the_model_by_hand() -> None:
    # A copy takes as long as a layer: each is over exactly when the next layer is.
    assert model_of().exposed_ms(((4, 0),)) == 0.0
    # At half the rate layers 0 to 2 are over at 20, 40 and 60: layer 2 waits 10 until 40, the
    # last one, which ends at 50, another 10 until 60.
    assert model_of(d2h_gbps=25.0).exposed_ms(((4, 0),)) == 20.0
    # Back: released at 0 the reload of layer 2 takes 40, wanted after 18 ms; that of layer 1 is
    # released with it and over at 80, wanted at 58; layer 0 comes at 120, wanted at 98.
    assert model_of(h2d_gbps=12.5).exposed_ms(((4, 0),)) == pytest.approx(22 + 22 + 22)
    assert model_of().peak_gib(((3, 1),)) == pytest.approx(20 + 0.5e9 / 2**30)
    assert model_of().work_ms(((3, 1),)) == 122.0


def test_the_clock_gives_some_of_the_waiting_back() -> None:
    assert with_clock(100.0, 0.0, 0.37) == 100.0
    step = with_clock(100.0, 10.0, 0.37)
    assert step == pytest.approx(100 * (1 - 10 / step) ** 0.37 + 10)
    assert with_clock(100.0, 10.0, 0.0) == 110.0
    # Below the floor the clock is at its top.
    assert with_clock(100.0, 900.0, 0.37) == pytest.approx(900 + 100 * 0.68**0.37)


PROGRAM = """HloModule jit_step, is_scheduled=true, entry_computation_layout={()->()}

%fused (p: bf16[8,8]) -> bf16[8,8] {
  %ignored.1 = bf16[8,8]{1,0} negate(%p)
}

ENTRY %main (a: bf16[8,8]) -> bf16[8,8] {
  %a = bf16[8,8]{1,0} parameter(0)
  %dot.1 = bf16[8,8]{1,0} fusion(%a, %a), kind=kCustom, metadata={op_name="jit(step)/jvp(qkv)/x"}
  %copy-start.1 = (bf16[500,1000]{1,0:S(5)}, bf16[500,1000]{1,0}, u32[]) copy-start(%dot.1)
  %dot.2 = bf16[8,8]{1,0} fusion(%dot.1, %a), kind=kCustom
  %copy-done.1 = bf16[500,1000]{1,0:S(5)} copy-done(%copy-start.1)
  %add.7 = bf16[8,8]{1,0} fusion(%dot.2), kind=kLoop
  %copy-start.2 = (bf16[500,1000]{1,0}, bf16[500,1000]{1,0:S(5)}, u32[]) copy-start(%copy-done.1)
  %copy-done.2 = bf16[500,1000]{1,0} copy-done(%copy-start.2)
  ROOT %dot.3 = bf16[8,8]{1,0} fusion(%dot.2, %copy-done.2), kind=kCustom
}
"""


def test_a_schedule_is_replayed_as_drawn() -> None:
    ops = read_schedule(PROGRAM)
    assert [(op.name, op.kind, op.direction) for op in ops] == [
        ("dot.1", "work", ""),
        ("copy-start.1", "start", "d2h"),
        ("dot.2", "work", ""),
        ("copy-done.1", "end", ""),
        ("add.7", "work", ""),
        ("copy-start.2", "start", "h2d"),
        ("copy-done.2", "end", ""),
        ("dot.3", "work", ""),
    ]
    assert ops[0].scope == "jit(step)/jvp(qkv)/x"
    costs = costs_by_signature(
        ops, {"dot.1": 2000.0, "dot.2": 2000.0, "add.7": 500.0, "dot.3": 3000.0}
    )
    # 1 MB each way at 0.25 and 0.5 GB/s: 4 ms from 2 on, work waits from 4 to 6; then 2 ms alone.
    found = replay(ops, costs, {"d2h": 0.25, "h2d": 0.5})
    assert found.work_ms == pytest.approx(2 + 2 + 0.5 + 3)
    assert found.exposed_ms == pytest.approx(2 + 2)
    assert found.step_ms == pytest.approx(11.5)
    assert found.known_share == pytest.approx(1.0)
    assert found.windows == {"d2h": ((2.0, 4.0, 4.0),), "h2d": ((4.5, 4.5, 2.0),)}
    assert short_windows(found) == 2
    assert outside(found, found) == 0.0
    without = replay([op for op in ops if "copy" not in op.name], costs, {})
    assert (without.exposed_ms, outside(without, found), outside(found, without)) == (0, 0, 1.0)


def test_equal_work_has_equal_cost_whatever_its_number() -> None:
    ops = read_schedule(PROGRAM)
    assert ops[0].signature == ops[2].signature != ops[-1].signature
    assert costs_by_signature(ops, {"dot.1": 2.0, "dot.2": 4.0})[ops[0].signature] == 3.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("HloModule x\n\nENTRY %m () -> f32[] {\n}\n", "no scheduled program"),
        (PROGRAM.replace("fusion(%dot.2), kind=kLoop", "while(%dot.2)"), "a loop cannot be"),
    ],
)
def test_programs_that_cannot_be_replayed(text: str, problem: str) -> None:
    with pytest.raises(RefusedError, match=problem):
        read_schedule(text)


def test_a_prediction_that_is_written_stays(tmp_path: Path) -> None:
    write_predictions(tmp_path, [Prediction("a", "model", 100.0)])
    first = read_predictions(tmp_path)["a"]
    assert first.written > 0
    write_predictions(tmp_path, [Prediction("a", "model", 90.0), Prediction("b", "model", 80.0)])
    found = read_predictions(tmp_path)
    assert found["a"] == first
    assert found["b"].step_ms == 80.0


def test_how_predictions_are_judged() -> None:
    assert off_by(102.0, 100.0) == pytest.approx(0.02)
    assert off_by(None, 100.0) is None
    right = {"a": 1.0, "b": 2.0, "c": 3.0}
    assert ranking_accuracy(right, {"a": 10.0, "b": 30.0, "c": 20.0}) == pytest.approx(2 / 3)
    assert ranking_accuracy({"a": 1.0}, {"a": 1.0}) is None
    row = Row("a", "", "ok", step_ms=100.0)
    assert step_of(row, {"a": [5.0, 1.0, 3.0]}) == 3.0
    assert step_of(row, {}) == 100.0
    assert step_of(replace(row, status="void"), {}) is None


def test_the_fastest_within_each_limit_is_run() -> None:
    made = [
        Prediction("over", "", 90.0, peak_gib=29.0, limit_gib=28.0),
        Prediction("slow", "", 100.0, peak_gib=27.0, limit_gib=28.0),
        Prediction("fast", "", 95.0, peak_gib=27.5, limit_gib=28.0),
        Prediction("other", "", 120.0, peak_gib=25.0, limit_gib=25.0),
        Prediction("none", "", None, limit_gib=40.0),
    ]
    assert promising(made) == ["fast", "other"]
    waits = Prediction("waits", "", 94.0, exposed_ms=3.0, peak_gib=27.0, limit_gib=28.0)
    assert promising([*made, waits]) == ["fast", "other"]
    assert promising([waits]) == ["waits"]


def test_layers_as_text() -> None:
    assert layers_of("0-3, 7") == frozenset({0, 1, 2, 3, 7})
    assert layer_text([7, 0, 1, 2, 3]) == "0-3,7"
    assert layers_of(layer_text(range(5))) == frozenset(range(5))
    for bad in ("a", "1-", "-2", "1-b"):
        with pytest.raises(RefusedError, match="names no layers"):
            layers_of(bad)


def test_a_placement_is_an_arm_and_back() -> None:
    model = replace(
        drawn_model(random.Random(3)),
        layers=4,
        tensors=(Tensor("qkv_proj", 1.0, 0.3), Tensor("mlpwi_0", 2.0, 0.5)),
    )
    counts = ((3, 1), (0, 2))
    values = own_values(model, counts)
    assert offload_fields(model, counts) == {
        "names": ["qkv_proj", "mlpwi_0"],
        "host": {"qkv_proj": "0-2"},
        "device": {"qkv_proj": "3", "mlpwi_0": "2-3"},
    }
    assert counts_of(model, values) == counts
    assert own_values(model, ((0, 1), (0, 0)))["like"] == "save-tied"


def test_what_maxtext_can_say_is_a_remat_policy() -> None:
    model = replace(
        drawn_model(random.Random(3)),
        layers=3,
        tensors=(Tensor("qkv_proj", 1.0, 0.3), Tensor("mlpwi_0", 2.0, 0.5)),
    )
    leaves = own_values(model, ((3, 0), (0, 3)), maxtext=True)
    assert leaves["like"] == "lhs"
    assert own_values(model, ((0, 3), (0, 0)), maxtext=True)["like"] == "save"
    config = replace(tiny(), arms={"tuned-1": leaves})
    assert maxtext_line(config, "tuned-1") == (
        "remat_policy=custom query_proj=offload key_proj=offload value_proj=offload mlpwi_0=device"
    )
    rows = [
        Row("tuned-1", "", "ok", step_ms=700.0, peak_gib=27.0),
        Row("prefetch", "", "ok", step_ms=650.0, peak_gib=27.0),
        Row("remat", "", "ok", step_ms=800.0, peak_gib=24.0),
    ]
    assert maxtext_answers([20.0, 25.0, 28.0], rows, config).splitlines() == [
        "- MaxText, 20.0 GiB: nothing fits",
        "- MaxText, 25.0 GiB: `remat_policy=full` (remat)",
        f"- MaxText, 28.0 GiB: `{maxtext_line(config, 'tuned-1')}` (tuned-1)",
    ]


def test_maxtext_spares_attention_with_transformer_engine_alone() -> None:
    jax = replace(tiny(), maxtext={"attention": "cudnn_flash_jax"})
    assert "context" in tensors_of(tiny(), maxtext=True)
    assert "context" not in tensors_of(jax, maxtext=True)
    assert "context" in tensors_of(jax)
    arms = {"own": {"like": "lhs", "offload": {"names": ["context"]}}}
    said = "own: MaxText names context with attention=cudnn_flash_te only."
    assert maxtext_line(replace(jax, arms=arms), "own") == said


def test_a_sparse_model_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = ["tune", "--config", "toy-moe", "--memory", "1", "--out", tmp_path, "--no-trace"]
    said = say(capsys, monkeypatch, *command, "--maxtext")
    assert (said.status, said.out) == (2, "")
    assert said.err.splitlines() == [
        "Error: toy-moe: tune knows dense models only; the layers of a sparse one are of two "
        "kinds.",
        "Hint: Describe programs as [arms.NAME] and compare them with matrix.",
    ]


def test_tensors_are_ranked_by_what_they_free_for_a_wait() -> None:
    """At half the link `slow` (0.5 GB) waits and `tiny` (0.05 GB) does not."""
    model = replace(
        model_of(d2h_gbps=25.0),
        tensors=(Tensor("slow", 2.0, 0.5), Tensor("tiny", 1.0, 0.05)),
    )
    lines = tensor_table(model).splitlines()
    assert lines[2].startswith("| tiny | 0.14 | 4.0 | 2.0 of 10.0 | 0.0 | no wait |")
    # 0.5 GB of three layers are 1.40 GiB, and both ways wait.
    waits = model.exposed_ms(((4, 0), (0, 0)))
    assert waits > 10
    assert lines[3] == f"| slow | 1.40 | 8.0 | 20.0 of 10.0 | {waits:.1f} | {1.397 / waits:.2f} |"


def test_a_configuration_survives_toml(tmp_path: Path) -> None:
    arms = {"own": {"like": "prefetch", "offload": {"host": {"qkv_proj": "0-1"}}}}
    config = replace(tiny(), arms=arms)
    path = tmp_path / f"{config.name}.toml"
    path.write_text(toml_text(config), encoding="utf-8")
    assert load_config(str(path)) == config


def rows() -> dict[str, Row]:
    def row(arm: str, step: float, peak: float, exposed: float = 0.0) -> Row:
        return Row(arm, "", "ok", step_ms=step, peak_gib=peak, exposed_ms=exposed)

    made = [
        row("keep", 650.0, 59.7),
        row("remat", 810.0, 24.3),
        row("save", 790.0, 28.6),
        row("tuned-1", 740.0, 28.2, 7.0),
        row("tuned-2", 805.0, 28.3, 60.0),
    ]
    return {one.arm: one for one in made}


def test_the_table_says_what_won_and_why_the_others_lost() -> None:
    arms = {
        name: {"like": "prefetch", "offload": {"host": {"qkv_proj": "0-1"}}}
        for name in ("tuned-1", "tuned-2")
    }
    config = replace(tiny(), arms=arms)
    predictions = {
        "tuned-1": Prediction("tuned-1", "", 747.4, 703.0, 6.0, 28.1, 28.6),
        "tuned-2": Prediction("tuned-2", "", 800.0, 703.0, 50.0, 28.1, 28.6),
    }
    turns = {"tuned-1": [749.0, 751.0, 750.0], "save": [800.0]}
    text = tune_text(config, rows(), predictions, turns, None)
    assert "28.6 GiB: tuned-1, 740.0 ms and 28.20 GiB, 6.3 % less time than save" in text
    assert "In turns 750.0 against 800.0 ms: 6.2 %." in text
    assert (
        "| tuned-1 | 28.6 | 740.0 | 747.4 | +1.0 % | -5.0 % | 750.0 | 749.0 – 751.0 | -0.3 % |"
    ) in text
    assert "tuned-1 takes 65.0 ms less; 60.0 ms wait for copies" in text
    assert "off by 0.8 % (median; at most 1.0 %), pairs in the right order 100.0 %" in text
    assert "MaxText: tuned-1: qkv_proj is not in one place in all layers" in text


def test_an_arm_over_its_limit_is_no_answer() -> None:
    row = Row("tuned-1", "", "ok", step_ms=700.0, peak_gib=30.0)
    assert why_not(row, Prediction("tuned-1", "", 1.0, limit_gib=28.6), [row]) == (
        "1.40 GiB over its limit"
    )
