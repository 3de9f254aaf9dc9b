"""Model FLOPs of a training step, by MaxText's formula: TFLOP/s compare with published ones.

Per device and step: three times (forward, and twice that backward) the matrix products of the
layers and of the unembedding, at 2 FLOPs per multiply-add, plus three times causal attention at
half of the full square: 4 * batch * sequence^2 * heads * head width / 2. What rematerialisation
computes again is not counted, so an arm that recomputes shows fewer TFLOP/s for the same step.
Routed experts count for the tokens they are meant to take (experts per token), not for capacity.
"""

from __future__ import annotations

from .config import Config, ModelConfig


def step_flops(config: Config) -> float:
    """FLOPs of one step on one device."""
    training, model = config.training, config.model
    tokens = training.batch_per_device * training.sequence
    products = 2 * tokens * (_layer_weights(model) + model.width * model.vocabulary)
    square = 4 * training.batch_per_device * training.sequence**2
    attention = square * model.heads * _mean_head_width(model) / 2 * model.layers
    return 3.0 * (products + attention)


def tflops_per_device(config: Config, step_ms: float) -> float:
    """TFLOP/s of one device for a step of that many milliseconds."""
    return step_flops(config) / step_ms / 1e9


def _layer_weights(model: ModelConfig) -> int:
    """Multiply-adds per token in all layers."""
    mlp = 3 * model.width * model.mlp_width
    if model.kind == "dense":
        heads = model.heads + 2 * model.kv_heads
        attention = model.width * model.head_width * (heads + model.heads)
        return model.layers * (attention + mlp)
    key = model.nope_width + model.rope_width
    attention = (
        model.width * model.q_rank
        + model.q_rank * model.heads * key
        + model.width * (model.kv_rank + model.rope_width)
        + model.kv_rank * model.heads * (model.nope_width + model.value_width)
        + model.heads * model.value_width * model.width
    )
    taken = model.experts_per_token + model.shared_experts
    sparse = model.width * model.experts + taken * 3 * model.width * model.expert_width
    n_sparse = model.layers - model.dense_layers
    return model.layers * attention + model.dense_layers * mlp + n_sparse * sparse


def _mean_head_width(model: ModelConfig) -> float:
    """Scores use the key's width and sums the value's; each is half of the work."""
    if model.kind == "dense":
        return model.head_width
    return (model.nope_width + model.rope_width + model.value_width) / 2
