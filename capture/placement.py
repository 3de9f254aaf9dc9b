"""Moving arrays between the device's and the host's memory inside a jitted program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

HOST: Any = jax.memory.Space.Host
DEVICE: Any = jax.memory.Space.Device


def tie(values: Any) -> Any:
    """The same values, none of which may be used before all of them exist."""
    return jax.lax.optimization_barrier(values)


def move(pieces: Sequence[Array], space: Any) -> list[Array]:
    """The pieces in the other memory, each copy starting after the one before has ended.

    XLA's scheduler gives every copy the same assumed time, so chained copies get a window each.
    """
    moved: list[Array] = []
    for piece in pieces:
        if moved:
            piece, moved[-1] = tie((piece, moved[-1]))
        moved.append(jax.device_put(piece, space))
    return moved


def cut(value: Array, piece_bytes: int) -> list[Array]:
    """`value` [batch, sequence, ...] in equal pieces of the sequence, of at most `piece_bytes`.

    The batch is spread over devices, so the sequence is cut; `piece_bytes` counts all devices.
    """
    length = value.shape[1]
    wanted = min(length, -(-value.size * value.dtype.itemsize // piece_bytes))
    n_pieces = next(n for n in range(wanted, length + 1) if length % n == 0)
    pieces: list[Array] = jnp.split(value, n_pieces, axis=1)
    return pieces


def fetch(on_host: Array, landing: Array) -> Array:
    """`on_host` copied to the device; its gradient goes to `landing`, which stays there.

    The plain transpose of the copy would send the gradient to the host.
    """
    return _FETCH(on_host, landing)


_FETCH: Any = jax.custom_vjp(lambda on_host, landing: jax.device_put(on_host, DEVICE))
_FETCH.defvjp(
    lambda on_host, landing: (jax.device_put(on_host, DEVICE), None),
    lambda _, gradient: (None, gradient),
)


def stand_in(computed: Array, loaded: Array) -> Array:
    """`loaded` in place of `computed`, whose gradient still flows to what computed it.

    Nothing reads `computed` any more, so the work that produced it is dropped.
    """
    return _STAND_IN(computed, loaded)


_STAND_IN: Any = jax.custom_vjp(lambda computed, loaded: loaded)
_STAND_IN.defvjp(
    lambda computed, loaded: (loaded, None),
    lambda _, gradient: (gradient, None),
)
