"""Decoder models as plain functions over nested dicts of arrays."""

from __future__ import annotations

from dataclasses import replace

from jax import Array

from ..config import ModelConfig
from . import dense, moe
from .common import Layer, Mark, Stack, Weights, mean_loss

__all__ = ["Layer", "Stack", "mean_loss", "stacks"]


def stacks(config: ModelConfig, attention: str) -> tuple[Stack, ...]:
    """The runs of equal layers of a model, in order. `attention`: cudnn or xla."""
    build = dense.stacks if config.kind == "dense" else moe.stacks
    return tuple(replace(stack, layer=_cast(stack.layer)) for stack in build(config, attention))


def _cast(layer: Layer) -> Layer:
    """The layer with its weights in the dtype of the activations."""

    def in_compute_dtype(w: Weights, x: Array, mark: Mark) -> Array:
        return layer({name: value.astype(x.dtype) for name, value in w.items()}, x, mark)

    return in_compute_dtype
