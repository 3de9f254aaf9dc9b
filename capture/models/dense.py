"""The dense decoder layer: RMSNorm, rotary positions, grouped-query attention, SwiGLU."""

from __future__ import annotations

import jax
from jax import Array

from ..config import ModelConfig
from .attention import causal_attention
from .common import Mark, Stack, Weights, rms_norm, rope, swiglu


def stacks(config: ModelConfig, attention: str) -> tuple[Stack, ...]:
    """One run of Llama layers."""
    width, head = config.width, config.head_width
    projected = (config.heads + 2 * config.kv_heads) * head
    shapes = {
        "attention_norm": (width,),
        "qkv": (width, projected),
        "out": (config.heads * head, width),
        "mlp_norm": (width,),
        "gate": (width, config.mlp_width),
        "up": (width, config.mlp_width),
        "down": (config.mlp_width, width),
    }

    def layer(w: Weights, x: Array, mark: Mark) -> Array:
        x, w = mark("decoder_layer_input", x, w)
        attended, w = _attention(config, attention, w, x, mark)
        x = x + attended
        return x + swiglu(rms_norm(x, w["mlp_norm"]), w, mark)

    return (Stack("layers", config.layers, layer, shapes),)


def _attention(
    config: ModelConfig, implementation: str, w: Weights, x: Array, mark: Mark
) -> tuple[Array, Weights]:
    heads, kv_heads, width = config.heads, config.kv_heads, config.head_width
    with jax.named_scope("qkv_proj"):
        qkv, w = mark("qkv_proj", rms_norm(x, w["attention_norm"]) @ w["qkv"], w)
    qkv = qkv.reshape(*qkv.shape[:2], heads + 2 * kv_heads, width)
    q, k, v = qkv[..., :heads, :], qkv[..., heads:-kv_heads, :], qkv[..., -kv_heads:, :]
    q, k = rope(q, config.rope_theta), rope(k, config.rope_theta)
    context, w = causal_attention(q, k, v, implementation, w, mark)
    with jax.named_scope("out_proj"):
        return mark("out_proj", context @ w["out"], w)
