"""How a run of equal layers is applied: scanned or unrolled, and what is kept for the backward.

Weights of a scanned run are stacked along axis 0; those of an unrolled run are a tuple of dicts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import Array
from jax.ad_checkpoint import checkpoint_name

from .arms import Arm
from .kept_tensors import Kept
from .models.common import Mark, Stack, Weights
from .placement import fetch
from .prefetch import scanned, unrolled


def run_stack(stack: Stack, weights: Any, landing: Any, x: Array, arm: Arm, kept: Kept) -> Array:
    """The activations after all layers of `stack`, with the backward pass that `arm` asks for.

    `landing` is None, or for weights that live on the host the device arrays of the same shape
    whose gradient is theirs.
    """
    if arm.keeps == "prefetch":
        build = scanned if arm.scan else unrolled
        return build(stack, kept, on_host=arm.offloads)(weights, x)
    if arm.scan:
        layer = _layer(stack, arm, kept.alike() if arm.keeps in ("saved", "offloaded") else kept, 0)
        out, _ = jax.lax.scan(lambda x, given: (layer(x, given), None), x, (weights, landing))
        return out
    for index, w in enumerate(weights):
        given = (w, None if landing is None else landing[index])
        x = _layer(stack, arm, kept, index)(x, given)
    return x


def _layer(stack: Stack, arm: Arm, kept: Kept, index: int) -> Callable[[Array, Any], Array]:
    """One layer with its remat policy: `layer(x, (weights, landing))`."""

    def layer(x: Array, given: Any) -> Array:
        w = given[0] if given[1] is None else jax.tree.map(fetch, *given)
        return stack.layer(w, x, _mark(kept.on_host(index) if arm.barrier else ()))

    if arm.keeps == "all":
        return layer
    # Inside a loop nothing can be merged with the forward pass, and the barriers that
    # prevent_cse adds keep XLA from pipelining the reload. A scan over one layer leaves no
    # loop: without barriers XLA merges both passes and the tensors never leave the device.
    loops = arm.scan and stack.n > 1
    wrapped: Any = jax.checkpoint(layer, policy=_policy(arm, kept, index), prevent_cse=not loops)
    return wrapped  # type: ignore[no-any-return]


def _policy(arm: Arm, kept: Kept, index: int) -> Any:
    policies = jax.checkpoint_policies
    if arm.keeps == "none":
        return policies.nothing_saveable
    if arm.keeps == "saved":
        return policies.save_only_these_names(*kept.names(index))
    return policies.save_and_offload_only_these_names(
        names_which_can_be_saved=list(kept.on_device(index)),
        names_which_can_be_offloaded=list(kept.on_host(index)),
        offload_src="device",
        offload_dst="pinned_host",
    )


def _mark(held: tuple[str, ...]) -> Mark:
    def mark(name: str, value: Array, weights: Weights) -> tuple[Array, Weights]:
        if name in held:
            # The copy to the host now waits until this layer's weights are sliced, so no slice
            # that the next product needs queues behind it on the same stream.
            value, weights = jax.lax.optimization_barrier((value, weights))
        return checkpoint_name(value, name), weights

    return mark
