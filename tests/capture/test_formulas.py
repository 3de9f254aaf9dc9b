"""FLOPs, expert capacity, batch search, and the profile written from a trace."""

from __future__ import annotations

from typing import Any

import pytest

from capture.config import load_config
from capture.flops import step_flops, tflops_per_device
from capture.pgle import operation_costs, profile_text
from nsysoverlap import read_trace

from ..traces import h200
from .kit import tiny


def test_flops_of_a_dense_step_by_hand() -> None:
    config = tiny()
    tokens, layers = 2 * 16, 3
    # qkv (4 + 2 x 2 heads of 16), out (4 x 16), three MLP products, and the unembedding.
    weights = layers * (32 * 128 + 64 * 32 + 3 * 32 * 128) + 32 * 64
    scores = 4 * 2 * 16**2 * 4 * 16 / 2 * layers
    assert step_flops(config) == 3 * (2 * tokens * weights + scores)
    assert tflops_per_device(config, 2.0) == pytest.approx(step_flops(config) / 2e-3 / 1e12)


def test_flops_of_a_sparse_step_by_hand() -> None:
    config = tiny("toy-moe")
    tokens, width = 2 * 16, 32
    attention = width * 32 + 32 * 4 * 24 + width * 24 + 16 * 4 * 32 + 4 * 16 * width
    dense = 3 * width * 128
    # The router, two of four experts, and the shared one.
    sparse = width * 4 + 3 * 3 * width * 32
    weights = 3 * attention + dense + 2 * sparse + width * 64
    scores = 4 * 2 * 16**2 * 4 * (24 + 16) / 2 / 2 * 3
    assert step_flops(config) == 3 * (2 * tokens * weights + scores)


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [("llama3.1-405b-gb200", 405e9), ("deepseek-v3-671b-gb200", 37e9)],
)
def test_flops_of_the_published_models(preset: str, parameters: float) -> None:
    config = load_config(preset)
    tokens = config.training.batch_per_device * config.training.sequence
    # Six FLOPs a token and active parameter; attention is what comes on top.
    assert 1 <= step_flops(config) / (6 * tokens * parameters) <= 1.2


def test_places_of_an_expert() -> None:
    pytest.importorskip("jax")
    from capture.models.moe import expert_capacity

    model = tiny("toy-moe").model
    # 16 tokens x 2 choices over 4 experts are 8 each; a quarter more is room for.
    assert expert_capacity(model, 16) == 10
    assert expert_capacity(model, 1) == 1


@pytest.mark.parametrize("largest", [0, 1, 2, 3, 7, 8, 40, 99])
@pytest.mark.parametrize("start", [1, 3, 8])
def test_the_largest_batch_is_found(largest: int, start: int) -> None:
    pytest.importorskip("jax")
    from capture.batches import search

    tried: list[int] = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= largest

    assert search(fits, start, 4096) == largest
    assert len(set(tried)) == len(tried), "a size is run twice"


@pytest.mark.parametrize("really", [67, 66, 60, 31])
def test_plans_bracket_the_largest_batch(really: int) -> None:
    """3 GiB and 0.7 for each sequence: 67 fit into 50 GiB by plan, and perhaps fewer in truth."""
    pytest.importorskip("jax")
    from capture.batches import by_plan, search

    tried: list[dict[str, Any]] = []

    def fits(size: int) -> bool:
        plan = 3 + 0.7 * size
        fit = size <= really and plan <= 50.0
        tried.append({"batch_per_device": size, "fits": fit, "planned_gib": plan})
        return fit

    assert search(fits, 8, 4096, lambda: by_plan(tried, 50.0)) == really
    sizes = [one["batch_per_device"] for one in tried]
    assert len(set(sizes)) == len(sizes)
    assert sizes[:3] == [8, 16, 67]
    assert len(sizes) <= (4 if really == 67 else 9)


def test_without_a_limit_or_a_second_plan_nothing_is_guessed() -> None:
    pytest.importorskip("jax")
    from capture.batches import by_plan

    one = {"batch_per_device": 8, "fits": True, "planned_gib": 8.6}
    two = {"batch_per_device": 16, "fits": True, "planned_gib": 14.2}
    assert by_plan([one, two], None) is None
    assert by_plan([one, two], 50.0) == 67
    assert by_plan([one, {**two, "fits": False}], 50.0) is None, "its plan did not hold"
    assert by_plan([one, {"batch_per_device": 16, "fits": True}], 50.0) is None


def test_the_search_ends_where_everything_fits() -> None:
    pytest.importorskip("jax")
    from capture.batches import search

    assert search(lambda size: True, 3, most=20) == 20


def test_a_profile_from_a_trace() -> None:
    costs = operation_costs(read_trace(h200("jax_unroll_lhs")), 4)
    assert sum(costs.values()) > 250_000, "most of a step of 300 ms is named"
    copies = [name for name in costs if name.startswith("copy-start")]
    assert copies
    text = profile_text({"copy-start.3": 8000.25, "gemm_fusion.1": 10.0})
    assert text == (
        'costs { name: "copy-start.3" cost_us: 8000.250 }\n'
        'costs { name: "gemm_fusion.1" cost_us: 10.000 }\n'
        'latencies { source: "copy-start.3" target: "copy-done.3" latency_us: 8000.250 }\n'
    )
