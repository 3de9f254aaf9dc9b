"""What the models share: norms, rotary positions, the plain MLP, embedding and loss.

Activations are [batch, sequence, features] in the compute dtype. A layer marks each tensor that
may be saved or offloaded by calling `mark(name, value, weights)` and goes on with what that
returns: the arms differ only in what `mark` does. What computes a tensor runs in a scope of its
name, so a recording tells what computing it again would take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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


def swiglu(x: Array, w: Weights, mark: Mark) -> Array:
    """The gated MLP with weights gate, up, down."""
    with jax.named_scope("mlpwi_0"):
        gate, w = mark("mlpwi_0", x @ w["gate"], w)
    with jax.named_scope("mlpwi_1"):
        up, w = mark("mlpwi_1", x @ w["up"], w)
    out, w = mark("mlpwo", (jax.nn.silu(gate) * up) @ w["down"], w)
    return out


def mean_loss(
    head: Weights, tokens: Array, run_stacks: Callable[[Array], Array], dtype: str
) -> Array:
    """Mean cross-entropy of predicting `tokens` [batch, sequence + 1] one position ahead."""
    x = head["embedding"].astype(dtype)[tokens[:, :-1]]
    x = run_stacks(x)
    with jax.named_scope("head"):
        x = rms_norm(x, head["norm"])
        logits = (x @ head["unembedding"].astype(dtype)).astype(jnp.float32)
        target = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
        return (jax.nn.logsumexp(logits, axis=-1) - target).mean()
