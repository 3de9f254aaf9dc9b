"""The sparse decoder layer: multi-head latent attention, routed and shared experts.

Shapes are DeepSeek-V3's. Routing: sigmoid scores, the best few of all experts, normalised. Each
sequence fills each expert up to a fixed capacity and drops the rest, so that shapes are static
and every device dispatches its own sequences.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array

from ..config import ModelConfig
from .attention import causal_attention
from .common import Mark, Stack, Weights, rms_norm, rope, swiglu


def stacks(config: ModelConfig, attention: str) -> tuple[Stack, ...]:
    """The leading dense layers, then the layers with experts."""

    def dense_layer(w: Weights, x: Array, mark: Mark) -> Array:
        x, w = _latent_attention(config, attention, w, x, mark)
        return x + swiglu(rms_norm(x, w["mlp_norm"]), w, mark)

    def sparse_layer(w: Weights, x: Array, mark: Mark) -> Array:
        x, w = _latent_attention(config, attention, w, x, mark)
        return x + _experts(config, w, rms_norm(x, w["mlp_norm"]), mark)

    common, width = _attention_shapes(config), config.width
    dense = {**common, **_mlp_shapes(width, config.mlp_width)}
    sparse = {
        **common,
        **_mlp_shapes(width, config.shared_experts * config.expert_width),
        "router": (width, config.experts),
        "expert_gate": (config.experts, width, config.expert_width),
        "expert_up": (config.experts, width, config.expert_width),
        "expert_down": (config.experts, config.expert_width, width),
    }
    found = (
        Stack("dense_layers", config.dense_layers, dense_layer, dense),
        Stack("layers", config.layers - config.dense_layers, sparse_layer, sparse),
    )
    return tuple(stack for stack in found if stack.n)


def _attention_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    width, heads = config.width, config.heads
    return {
        "attention_norm": (width,),
        "query_a": (width, config.q_rank),
        "query_norm": (config.q_rank,),
        "query_b": (config.q_rank, heads * (config.nope_width + config.rope_width)),
        "kv_a": (width, config.kv_rank + config.rope_width),
        "kv_norm": (config.kv_rank,),
        "kv_b": (config.kv_rank, heads * (config.nope_width + config.value_width)),
        "out": (heads * config.value_width, width),
        "mlp_norm": (width,),
    }


def _mlp_shapes(width: int, inner: int) -> dict[str, tuple[int, ...]]:
    return {"gate": (width, inner), "up": (width, inner), "down": (inner, width)}


def _latent_attention(
    config: ModelConfig, implementation: str, w: Weights, x: Array, mark: Mark
) -> tuple[Array, Weights]:
    """The residual stream after attention, and the weights to go on with."""
    x, w = mark("decoder_layer_input", x, w)
    normed = rms_norm(x, w["attention_norm"])
    by_head = (*x.shape[:2], config.heads, -1)

    latent, w = mark("query_wa_proj", normed @ w["query_a"], w)
    latent, w = mark("mla_q", rms_norm(latent, w["query_norm"]), w)
    q = (latent @ w["query_b"]).reshape(by_head)
    q_plain, q_turned = jnp.split(q, [config.nope_width], axis=-1)
    q = jnp.concatenate([q_plain, rope(q_turned, config.rope_theta)], axis=-1)
    q, w = mark("query_proj", q, w)

    both, w = mark("kv_wa_proj", normed @ w["kv_a"], w)
    latent, turned = jnp.split(both, [config.kv_rank], axis=-1)
    latent, w = mark("mla_kv", rms_norm(latent, w["kv_norm"]), w)
    kv = (latent @ w["kv_b"]).reshape(by_head)
    k_plain, v = jnp.split(kv, [config.nope_width], axis=-1)
    # All heads share one rotary key.
    shared = rope(turned[:, :, None, :], config.rope_theta)
    shared = jnp.broadcast_to(shared, (*k_plain.shape[:3], config.rope_width))
    k, w = mark("key_proj", jnp.concatenate([k_plain, shared], axis=-1), w)
    v, w = mark("value_proj", v, w)

    context, w = causal_attention(q, k, v, implementation, w, mark)
    out, w = mark("out_proj", context @ w["out"], w)
    return x + out, w


def _experts(config: ModelConfig, w: Weights, x: Array, mark: Mark) -> Array:
    """Shared experts (one wider MLP) plus the routed ones."""
    capacity = expert_capacity(config, x.shape[1])
    source, slot, gate = jax.vmap(
        lambda scores: _route(scores, config.experts_per_token, capacity)
    )(x.astype(jnp.float32) @ w["router"].astype(jnp.float32))
    sent = jax.vmap(lambda rows, index: rows[index])(x, source)
    sent = sent.reshape(x.shape[0], config.experts, capacity, x.shape[-1])
    inner, w = mark("moe_mlpwi_0", jnp.einsum("becd,edf->becf", sent, w["expert_gate"]), w)
    up, w = mark("moe_mlpwi_1", jnp.einsum("becd,edf->becf", sent, w["expert_up"]), w)
    out = jnp.einsum("becf,efd->becd", jax.nn.silu(inner) * up, w["expert_down"])
    out, w = mark("moe_mlpwo", out, w)
    flat = out.reshape(x.shape[0], -1, x.shape[-1])
    back = jax.vmap(lambda rows, index: rows[index])(flat, slot)
    routed = jnp.einsum("bskd,bsk->bsd", back, gate.astype(x.dtype))
    return routed + swiglu(x, w, mark)


def expert_capacity(config: ModelConfig, sequence: int) -> int:
    """Tokens of one sequence that one expert takes."""
    even = sequence * config.experts_per_token / config.experts
    return min(sequence, math.ceil(even * config.capacity_factor))


def _route(logits: Array, n_chosen: int, capacity: int) -> tuple[Array, Array, Array]:
    """Where tokens go, for one sequence with router logits [sequence, experts].

    Returns the token in each expert's place [experts * capacity] (unused places repeat token 0),
    the place of each token's choices [sequence, n_chosen], and their weights, 0 where dropped.
    """
    sequence, experts = logits.shape
    scores, chosen = jax.lax.top_k(jax.nn.sigmoid(logits), n_chosen)
    gate = scores / scores.sum(-1, keepdims=True)
    flat = chosen.reshape(-1)
    taken = jax.nn.one_hot(flat, experts, dtype=jnp.int32)
    place = jnp.take_along_axis(jnp.cumsum(taken, axis=0) - 1, flat[:, None], axis=1)[:, 0]
    kept = place < capacity
    slot = jnp.where(kept, flat * capacity + place, 0)
    token = jnp.arange(sequence * n_chosen, dtype=jnp.int32) // n_chosen
    nowhere = experts * capacity
    source = jnp.zeros(nowhere, jnp.int32)
    source = source.at[jnp.where(kept, slot, nowhere)].set(token, mode="drop")
    shape = (sequence, n_chosen)
    return source, slot.reshape(shape), jnp.where(kept.reshape(shape), gate, 0.0)
