"""Runs of layers that issue their own copies, so that both directions can hide behind compute.

`jax.checkpoint` says what goes to the host and leaves the when to XLA's scheduler, which works
bottom-up and puts each copy as late as its user allows: the copy to the host slips into the
backward pass (no memory freed) and the reload starts only when it is already needed. Here the
program fixes the order with barriers. The tensors that come back stand in for those the layer
would compute again, so one layer function serves the forward and the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .config import OffloadConfig
from .kept_tensors import Kept
from .models.common import Mark, Stack, Weights
from .placement import DEVICE, HOST, cut, move, stand_in, tie

Saved = dict[str, Any]
Run = Callable[[Any, Array], Array]


def unrolled(stack: Stack, kept: Kept, *, on_host: bool) -> Run:
    """`stack` as straight-line code; with `on_host` false the same program without the copies.

    To the host: the copy of layer i - 1 must be over when layer i is, so it cannot slip away.
    Back: a reload may start once the gradient `ahead` layers earlier in the backward pass
    exists, not before, which bounds the memory. Weight gradients are tied to their layer, else
    XLA collects them at the end of the step and their inputs stay alive. The last layer's
    tensors are needed at once and never leave.
    """
    offload = kept.offload
    away = [kept.on_host(i) if on_host and i < stack.n - 1 else () for i in range(stack.n)]

    def forward(weights: Any, x: Array) -> tuple[Array, Any]:
        inputs: list[Array] = []
        sent: list[Any] = []
        stays: list[Saved] = []
        for index, w in enumerate(weights):
            inputs.append(x)
            x, saved = _forward_layer(stack, kept.names(index), w, x)
            saved = _cast(saved, kept.on_host(index), offload)
            leaving = [name for name in saved if name in away[index]]
            sent.append(_send({name: saved.pop(name) for name in leaving}, offload))
            stays.append(saved)
            if index and away[index - 1]:
                x, sent[index - 1] = tie((x, sent[index - 1]))
        return x, (weights, inputs, sent, stays)

    def backward(residuals: Any, gradient: Array) -> tuple[Any, Array]:
        weights, inputs, sent, stays = residuals
        ready: list[Any] = [{} for _ in range(stack.n)]
        gradients: list[Any] = [None] * stack.n

        def reload(index: int, gradient: Array) -> Array:
            if index >= 0 and away[index]:
                source, gradient = tie((sent[index], gradient))
                ready[index] = _fetch(source)
            return gradient

        for index in reversed(range(max(0, stack.n - offload.ahead), stack.n)):
            gradient = reload(index, gradient)
        for index in reversed(range(stack.n)):
            gradient = reload(index - offload.ahead, gradient)
            # The tie also keeps XLA from merging the recomputation with the forward pass.
            x, back, here, gradient = tie((inputs[index], ready[index], stays[index], gradient))
            ready[index] = stays[index] = None
            saved = {**_join(back, offload), **here}
            dw, gradient = _backward_layer(stack, weights[index], x, saved, gradient)
            gradient, gradients[index] = tie((gradient, dw))
        return type(weights)(gradients), gradient

    return _with_backward(forward, backward)


def scanned(stack: Stack, kept: Kept, *, on_host: bool) -> Run:
    """`stack` as a scan whose backward loop carries the reloaded tensors.

    The reload for layer i - 1 is issued at the start of iteration i and leaves it as a carry, so
    it has the whole iteration. The barrier makes each copy to the host wait for the slices of
    this layer's weights, which would else queue behind it on one of XLA's four streams. Indices
    are plain counter arithmetic: anything else turns the reload from a copy into a kernel that
    reads host memory. The last layer's tensors are carried over and need no reload, so a run of
    one layer sends nothing.
    """
    kept.alike()
    names = kept.names(0)
    sends = frozenset(kept.on_host(0) if on_host and stack.n > 1 else ())

    def moved(saved: Saved, space: Any) -> Saved:
        return {k: jax.device_put(v, space) if k in sends else v for k, v in saved.items()}

    def forward(weights: Any, x: Array) -> tuple[Array, Any]:
        def body(carry: tuple[Array, Saved], w: Weights) -> tuple[tuple[Array, Saved], Any]:
            x, _ = carry
            out, saved = _forward_layer(stack, names, w, x, barrier=True)
            return (out, saved), (x, moved(saved, HOST))

        empty = _empty_saved(stack, names, weights, x)
        (out, last), (inputs, away) = jax.lax.scan(body, (x, empty), weights)
        return out, (weights, inputs, away, last)

    def backward(residuals: Any, gradient: Array) -> tuple[Any, Array]:
        weights, inputs, away, last = residuals

        def layer(index: Any, gradient: Array, saved: Saved, sums: Any) -> tuple[Array, Any]:
            w = jax.tree.map(lambda t: _at(t, index), weights)
            x, saved, gradient = tie((_at(inputs, index), saved, gradient))
            dw, gradient = _backward_layer(stack, w, x, saved, gradient)
            put = jax.lax.dynamic_update_index_in_dim
            return gradient, jax.tree.map(lambda s, d: put(s, d, index, 0), sums, dw)

        def body(n: Any, carry: tuple[Array, Saved, Any]) -> tuple[Array, Saved, Any]:
            gradient, saved, sums = carry
            index = stack.n - 1 - n
            coming = moved({k: _at(v, index - 1) for k, v in away.items()}, DEVICE)
            gradient, sums = layer(index, gradient, saved, sums)
            return gradient, coming, sums

        start = (gradient, last, jax.tree.map(jnp.zeros_like, weights))
        gradient, saved, sums = jax.lax.fori_loop(0, stack.n - 1, body, start)
        gradient, sums = layer(0, gradient, saved, sums)
        return sums, gradient

    return _with_backward(forward, backward)


def _with_backward(forward: Any, backward: Any) -> Run:
    run: Any = jax.custom_vjp(lambda weights, x: forward(weights, x)[0])
    run.defvjp(forward, backward)
    return run  # type: ignore[no-any-return]


def _forward_layer(
    stack: Stack, names: tuple[str, ...], w: Weights, x: Array, *, barrier: bool = False
) -> tuple[Array, Saved]:
    """The layer's output and its named tensors."""
    saved: Saved = {}

    def mark(name: str, value: Array, weights: Weights) -> tuple[Array, Weights]:
        if name in names:
            if barrier:
                value, weights = tie((value, weights))
            saved[name] = value
        return value, weights

    with jax.named_scope("forward"):
        return stack.layer(w, x, mark), saved


def _backward_layer(
    stack: Stack, w: Weights, x: Array, saved: Saved, gradient: Array
) -> tuple[Weights, Array]:
    """Gradients of weights and input; the layer is computed again except for `saved`."""

    def mark(name: str, value: Array, weights: Weights) -> tuple[Array, Weights]:
        if name not in saved:
            return value, weights
        return stand_in(value, saved[name].astype(value.dtype)), weights

    return_gradients: Mark = mark
    with jax.named_scope("again"):
        _, pull = jax.vjp(lambda w, x: stack.layer(w, x, return_gradients), w, x)
    dw, dx = pull(gradient)
    return dw, dx


def _cast(saved: Saved, names: tuple[str, ...], offload: OffloadConfig) -> Saved:
    """The tensors that leave in the dtype in which they do."""
    if not offload.cast:
        return saved
    return {k: v.astype(offload.cast) if k in names else v for k, v in saved.items()}


def _send(saved: Saved, offload: OffloadConfig) -> Saved:
    """The tensors on the host, in pieces, each `copies` times, copied one after the other.

    In the order in which the layer makes them: the first need not wait for the last.
    """
    pieces = {
        name: [p for p in cut(value, offload.piece_mib << 20) for _ in range(offload.copies)]
        for name, value in saved.items()
    }
    return _moved(pieces, HOST)


def _fetch(pieces: Saved) -> Saved:
    return _moved(pieces, DEVICE)


def _moved(pieces: Saved, space: Any) -> Saved:
    over = iter(move([piece for parts in pieces.values() for piece in parts], space))
    return {name: [next(over) for _ in parts] for name, parts in pieces.items()}


def _join(pieces: Saved, offload: OffloadConfig) -> Saved:
    """The tensors from their pieces; of several copies each gives a part, so all are needed."""
    n = offload.copies
    whole = {
        name: [part for at in range(0, len(parts), n) for part in _shares(parts[at : at + n])]
        for name, parts in pieces.items()
    }
    return {k: v[0] if len(v) == 1 else jnp.concatenate(v, axis=1) for k, v in whole.items()}


def _shares(copies: list[Array]) -> list[Array]:
    """The first of n equal copies' first n-th, the second's second, and so on."""
    if len(copies) == 1:
        return copies
    edges = [copies[0].shape[1] * i // len(copies) for i in range(len(copies) + 1)]
    return [c[:, a:b] for c, a, b in zip(copies, edges[:-1], edges[1:], strict=True)]


def _at(stacked: Array, index: Any) -> Array:
    return jax.lax.dynamic_index_in_dim(stacked, index, 0, keepdims=False)


def _empty_saved(stack: Stack, names: tuple[str, ...], weights: Any, x: Array) -> Saved:
    """Zeros shaped like the named tensors of a layer."""
    first = jax.tree.map(lambda t: t[0], weights)
    shapes = jax.eval_shape(lambda w, x: _forward_layer(stack, names, w, x)[1], first, x)
    return {name: jnp.zeros(s.shape, s.dtype) for name, s in shapes.items()}
