"""What the models share: norms, rotary positions, attention, the plain MLP, embedding and loss.

Activations are [batch, sequence, features] in the compute dtype. A layer marks each tensor that
may be saved or offloaded by calling `mark(name, value, weights)` and goes on with what that
returns: the arms differ only in what `mark` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

Weights = dict[str, Array]
Mark = Callable[[str, Array, Weights], tuple[Array, Weights]]
Layer = Callable[[Weights, Array, Mark], Array]


@dataclass(frozen=True)
class Stack:
    """`n` equal layers. `shapes` maps weight names to shapes; a vector is a norm's scale."""

    key: str
    n: int
    layer: Layer
    shapes: Mapping[str, tuple[int, ...]]


def rms_norm(x: Array, scale: Array) -> Array:
    """Root-mean-square norm over features, computed in float32."""
    wide = x.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)
    return (wide * scale.astype(jnp.float32)).astype(x.dtype)


def rope(x: Array, theta: float) -> Array:
    """Rotary positions for [batch, sequence, heads, even width], halves paired."""
    half = x.shape[-1] // 2
    frequency = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(x.shape[1], dtype=jnp.float32)[:, None] * frequency
    cos, sin = jnp.cos(angle)[:, None, :], jnp.sin(angle)[:, None, :]
    one, two = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)
    return turned.astype(x.dtype)


def causal_attention(q: Array, k: Array, v: Array, implementation: str) -> Array:
    """Causal attention of [batch, sequence, heads, width]; features of all heads side by side.

    Keys and values may have fewer heads. Where values are narrower than keys they are padded,
    which every fused kernel accepts, and the padding is cut off again.
    """
    width, narrow = q.shape[-1], v.shape[-1]
    if narrow < width:
        v = jnp.pad(v, ((0, 0), (0, 0), (0, 0), (0, width - narrow)))
    out: Any = jax.nn.dot_product_attention(
        q, k, v, is_causal=True, implementation="cudnn" if implementation == "cudnn" else "xla"
    )
    return out[..., :narrow].reshape(*q.shape[:2], -1)


def swiglu(x: Array, w: Weights, mark: Mark) -> Array:
    """The gated MLP with weights gate, up, down."""
    gate, w = mark("mlpwi_0", x @ w["gate"], w)
    up, w = mark("mlpwi_1", x @ w["up"], w)
    out, w = mark("mlpwo", (jax.nn.silu(gate) * up) @ w["down"], w)
    return out


def mean_loss(
    head: Weights, tokens: Array, run_stacks: Callable[[Array], Array], dtype: str
) -> Array:
    """Mean cross-entropy of predicting `tokens` [batch, sequence + 1] one position ahead."""
    x = head["embedding"].astype(dtype)[tokens[:, :-1]]
    x = rms_norm(run_stacks(x), head["norm"])
    logits = (x @ head["unembedding"].astype(dtype)).astype(jnp.float32)
    target = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - target).mean()
