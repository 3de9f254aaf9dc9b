"""Causal attention whose backward pass needs only what can be kept: output and softmax statistics.

A fused kernel saves nothing that a remat policy can name, so the output alone, kept or offloaded,
would not spare running it again: the backward pass wants the softmax statistics as well. Here
both are marked, the output as `context` and the statistics as `context_stats`; with the two at
hand nothing of the forward kernel is left in the recomputation.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .common import Mark, Weights

CONTEXT, STATISTICS = "context", "context_stats"


def causal_attention(
    q: Array, k: Array, v: Array, implementation: str, w: Weights, mark: Mark
) -> tuple[Array, Weights]:
    """Causal attention of [batch, sequence, heads, width]; features of all heads side by side.

    Keys and values may have fewer heads. Where values are narrower than keys they are padded,
    which every fused kernel accepts, and the padding is cut off again.
    """
    narrow = v.shape[-1]
    stop = jax.lax.stop_gradient
    with jax.named_scope(CONTEXT):
        out, statistics = _forward(implementation, stop(q), stop(k), _padded(stop(v), q))
    out, w = mark(CONTEXT, out[..., :narrow], w)
    statistics, w = mark(STATISTICS, statistics, w)
    out = _attended(implementation, q, k, v, stop(out), stop(statistics))
    return out.reshape(*q.shape[:2], -1), w


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attended(implementation: str, q: Any, k: Any, v: Any, out: Any, statistics: Any) -> Any:
    """`out`, whose gradient flows to q, k and v through the backward kernel."""
    return out


def _attended_forward(implementation: str, *given: Any) -> tuple[Any, Any]:
    return given[3], given


def _attended_backward(implementation: str, given: Any, gradient: Any) -> tuple[Any, ...]:
    q, k, v, out, statistics = given
    wide_v, wide_out, wide_g = (_padded(value, q) for value in (v, out, gradient))
    dq, dk, dv = _backward(implementation, q, k, wide_v, wide_out, statistics, wide_g)
    return dq, dk, dv[..., : v.shape[-1]], None, None


_attended.defvjp(_attended_forward, _attended_backward)


def _padded(value: Any, like: Any) -> Any:
    missing = like.shape[-1] - value.shape[-1]
    return jnp.pad(value, ((0, 0),) * 3 + ((0, missing),)) if missing else value


def _forward(implementation: str, q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Output [batch, sequence, heads, width] and statistics [batch, heads, sequence]."""
    if implementation != "cudnn":
        return _plain_forward(q, k, v)
    out, pull = jax.vjp(_fused, q, k, v)
    leaves = jax.tree.leaves(pull)
    return out, leaves[_find_statistics(leaves, q)]


def _backward(
    implementation: str, q: Any, k: Any, v: Any, out: Any, statistics: Any, gradient: Any
) -> Any:
    if implementation != "cudnn":
        return _plain_backward(q, k, v, out, statistics, gradient)
    # The residuals of jax's own rule, with what was kept put in; its forward kernel is then dead.
    computed, pull = jax.vjp(_fused, q, k, v)
    leaves, shape = jax.tree.flatten(pull)
    leaves[_find_statistics(leaves, q)] = statistics
    (place,) = (n for n, leaf in enumerate(leaves) if leaf is computed)
    leaves[place] = out
    return jax.tree.unflatten(shape, leaves)(gradient)


def _fused(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")


def _find_statistics(leaves: list[Any], q: Any) -> int:
    """Which residual holds the statistics."""
    shape = (q.shape[0], q.shape[2], q.shape[1])
    (place,) = (
        n for n, leaf in enumerate(leaves) if leaf.shape == shape and leaf.dtype == jnp.float32
    )
    return place


def _plain_forward(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    scores = _scores(q, k)
    statistics = jax.nn.logsumexp(scores, axis=-1)
    share = jnp.exp(scores - statistics[..., None])
    out = jnp.einsum("bkgst,btkh->bskgh", share, v.astype(jnp.float32))
    return out.reshape(q.shape).astype(q.dtype), statistics.reshape(*q.shape[::2], -1)


def _plain_backward(
    q: Any, k: Any, v: Any, out: Any, statistics: Any, gradient: Any
) -> tuple[Any, Any, Any]:
    grouped = (*q.shape[:2], k.shape[2], -1, q.shape[3])
    scores = _scores(q, k)
    share = jnp.exp(scores - statistics.reshape(*scores.shape[:-1])[..., None])
    wide = [t.astype(jnp.float32) for t in (q, k, v, out, gradient)]
    q5, out5, g5 = (t.reshape(grouped) for t in (wide[0], wide[3], wide[4]))
    dv = jnp.einsum("bkgst,bskgh->btkh", share, g5)
    ahead = jnp.einsum("bskgh,btkh->bkgst", g5, wide[2])
    inner = jnp.einsum("bskgh,bskgh->bkgs", g5, out5)
    ds = share * (ahead - inner[..., None]) * q.shape[-1] ** -0.5
    dq = jnp.einsum("bkgst,btkh->bskgh", ds, wide[1]).reshape(q.shape)
    dk = jnp.einsum("bkgst,bskgh->btkh", ds, q5)
    return dq.astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)


def _scores(q: Any, k: Any) -> Any:
    """Masked scores in float32 [batch, key heads, group, query, key]."""
    grouped = q.astype(jnp.float32).reshape(*q.shape[:2], k.shape[2], -1, q.shape[3])
    scores = jnp.einsum("bskgh,btkh->bkgst", grouped, k.astype(jnp.float32))
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.where(causal, scores * q.shape[-1] ** -0.5, -jnp.inf)
