"""The training step of one arm: parameters, AdamW, FSDP shardings, and the jitted function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import models
from .arms import Arm
from .config import Config
from .errors import RefusedError
from .kept_tensors import Kept
from .placement import DEVICE, HOST
from .stacking import run_stack

AXIS = "fsdp"


@dataclass(frozen=True)
class Program:
    """A step ready to trace: `step(state, tokens) -> (state, loss)`, the state donated.

    `state` and `tokens` are ShapeDtypeStructs with shardings; `initial()` makes the arrays.
    """

    step: Any
    state: Any
    tokens: Any
    initial: Any
    make_tokens: Any
    gradients: Any
    """`gradients(state, tokens) -> (loss, gradients of the parameters)`, for tests."""
    mesh: Mesh


def build(config: Config, arm: Arm, mesh: Mesh, attention: str) -> Program:
    """The program of `arm` over the devices of `mesh`. Raises `RefusedError` for a bad batch."""
    training = config.training
    # Pieces are sized per device, and the program sees the arrays of all devices.
    offload = arm.offload_of(config)
    offload = replace(offload, piece_mib=offload.piece_mib * mesh.size)
    stacks = models.stacks(config.model, attention)
    optimizer = optax.adamw(training.learning_rate)
    batch_sharding = NamedSharding(mesh, PartitionSpec(AXIS))

    def loss_of(parameters: Any, landing: Any, tokens: Any) -> Any:
        def layers(x: Any) -> Any:
            first = 0
            for stack in stacks:
                x = jax.lax.with_sharding_constraint(x, batch_sharding)
                ground = None if landing is None else landing[stack.key]
                kept = Kept(offload, first, stack.n)
                x = run_stack(stack, parameters[stack.key], ground, x, arm, kept)
                first += stack.n
            return x

        return models.mean_loss(parameters["head"], tokens, layers, training.compute_dtype)

    def gradients(state: Any, tokens: Any) -> tuple[Any, Any]:
        parameters = state["parameters"]
        if not arm.parameters_on_host:
            return jax.value_and_grad(loss_of)(parameters, None, tokens)  # type: ignore[no-any-return]
        on_host = {k: v for k, v in parameters.items() if k != "head"}
        landing = jax.tree.map(lambda w: jnp.zeros(w.shape, w.dtype), on_host)

        def split(head: Any, landing: Any) -> Any:
            return loss_of({**parameters, "head": head}, landing, tokens)

        loss, (head, layers) = jax.value_and_grad(split, (0, 1))(parameters["head"], landing)
        return loss, {**layers, "head": head}

    def step(state: Any, tokens: Any) -> tuple[Any, Any]:
        loss, grads = gradients(state, tokens)
        return _update(optimizer, arm, state, grads), loss

    shapes = jax.eval_shape(lambda: _initial_state(config, arm, stacks, optimizer))
    shardings = _state_shardings(arm, mesh, shapes)
    initial = jax.jit(
        lambda: _initial_state(config, arm, stacks, optimizer), out_shardings=shardings
    )
    shape = (training.batch_per_device * mesh.size, training.sequence + 1)
    return Program(
        step=jax.jit(step, donate_argnums=0, out_shardings=(shardings, None)),
        state=jax.tree.map(_described, shapes, shardings),
        tokens=jax.ShapeDtypeStruct(shape, jnp.int32, sharding=batch_sharding),
        initial=initial,
        make_tokens=jax.jit(
            lambda seed: jax.random.randint(
                jax.random.key(seed), shape, 0, config.model.vocabulary, jnp.int32
            ),
            out_shardings=batch_sharding,
        ),
        gradients=jax.jit(gradients),
        mesh=mesh,
    )


def _described(leaf: Any, sharding: NamedSharding) -> Any:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def tensor_bytes(config: Config) -> dict[str, int]:
    """Bytes of each named tensor of a layer on one device; of the last kind of layer."""
    stack = models.stacks(config.model, "xla")[-1]
    training = config.training
    found: dict[str, int] = {}

    def mark(name: str, value: Any, weights: Any) -> Any:
        found[name] = value.size * value.dtype.itemsize
        return value, weights

    weights = {
        name: jax.ShapeDtypeStruct(shape, training.parameter_dtype)
        for name, shape in stack.shapes.items()
    }
    shape = (training.batch_per_device, training.sequence, config.model.width)
    x = jax.ShapeDtypeStruct(shape, training.compute_dtype)
    jax.eval_shape(lambda w, x: stack.layer(w, x, mark), weights, x)
    return {name: size for name, size in found.items() if name in config.model.names}


def make_mesh(config: Config, devices: Any) -> Mesh:
    """One FSDP axis over the devices asked for. Raises `RefusedError` where there are too few."""
    wanted = config.training.fsdp or len(devices)
    if wanted > len(devices):
        raise RefusedError(
            f"{config.name}: FSDP over {wanted} devices, and there "
            f"{'is' if len(devices) == 1 else 'are'} {len(devices)}.",
            "Set fsdp in [training], or start more processes.",
        )
    return Mesh(np.asarray(devices[:wanted]), (AXIS,))


def _update(optimizer: Any, arm: Arm, state: Any, grads: Any) -> Any:
    parameters, moments = state["parameters"], state["moments"]
    if arm.parameters_on_host:
        parameters = {**parameters, **_move_layers(parameters, DEVICE)}
    if arm.optimizer_on_host:
        moments = _move_arrays(moments, DEVICE)
    # Moments are float32 whatever the parameters are.
    wide = jax.tree.map(lambda g: g.astype(jnp.float32), grads)
    updates, moments = optimizer.update(
        wide, moments, jax.tree.map(lambda p: p.astype(jnp.float32), parameters)
    )
    parameters = optax.apply_updates(parameters, updates)
    if arm.optimizer_on_host:
        moments = _move_arrays(moments, HOST)
    if arm.parameters_on_host:
        parameters = {**parameters, **_move_layers(parameters, HOST)}
    return {"parameters": parameters, "moments": moments}


def _move_arrays(tree: Any, space: Any) -> Any:
    """All but scalars in the other memory."""
    return jax.tree.map(lambda t: jax.device_put(t, space) if t.ndim else t, tree)


def _move_layers(parameters: Any, space: Any) -> Any:
    return {k: _move_arrays(v, space) for k, v in parameters.items() if k != "head"}


def _initial_state(config: Config, arm: Arm, stacks: Any, optimizer: Any) -> Any:
    parameters = _initial_parameters(config, arm, stacks)
    wide = jax.tree.map(lambda p: p.astype(jnp.float32), parameters)
    return {"parameters": parameters, "moments": optimizer.init(wide)}


def _initial_parameters(config: Config, arm: Arm, stacks: Any) -> Any:
    """The same values for scanned and unrolled layers: each layer has a key of its own."""
    dtype, width = config.training.parameter_dtype, config.model.width
    root = jax.random.key(config.training.seed)

    def draw(key: Any, shape: tuple[int, ...]) -> Any:
        if len(shape) == 1:
            return jnp.ones(shape, dtype)
        return (jax.random.normal(key, shape, jnp.float32) / shape[-2] ** 0.5).astype(dtype)

    def layer(stack: models.Stack, key: Any) -> Any:
        keys = jax.random.split(key, len(stack.shapes))
        return {n: draw(k, s) for k, (n, s) in zip(keys, stack.shapes.items(), strict=True)}

    parameters: dict[str, Any] = {}
    for number, stack in enumerate(stacks):
        keys = jax.random.split(jax.random.fold_in(root, number), stack.n)
        stacked = jax.vmap(lambda key, stack=stack: layer(stack, key))(keys)
        parameters[stack.key] = stacked if arm.scan else unstack(stacked, stack.n)
    one, two = jax.random.split(jax.random.fold_in(root, len(stacks)))
    parameters["head"] = {
        "embedding": draw(one, (config.model.vocabulary, width)),
        "norm": jnp.ones(width, dtype),
        "unembedding": draw(two, (width, config.model.vocabulary)),
    }
    return parameters


def unstack(stacked: Any, n: int) -> tuple[Any, ...]:
    """A tuple of n trees from one whose leaves carry the layers along axis 0."""
    return tuple(jax.tree.map(lambda t, i=index: t[i], stacked) for index in range(n))


def _state_shardings(arm: Arm, mesh: Mesh, shapes: Any) -> Any:
    def sharding(path: Any, leaf: Any) -> NamedSharding:
        keys = [getattr(entry, "key", None) for entry in path]
        stacked = arm.scan and "head" not in keys
        spec = _spec(leaf.shape, mesh.size, skip_first=stacked)
        if leaf.ndim and _lives_on_host(arm, keys):
            return NamedSharding(mesh, spec, memory_kind="pinned_host")
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(sharding, shapes)


def _lives_on_host(arm: Arm, keys: list[Any]) -> bool:
    if "parameters" in keys:
        return arm.parameters_on_host and "head" not in keys
    return arm.optimizer_on_host


def _spec(shape: tuple[int, ...], n_devices: int, *, skip_first: bool) -> PartitionSpec:
    """The largest axis that divides evenly is spread over the devices; axis 0 of a scan is not."""
    axes = [
        axis
        for axis in range(len(shape))
        if not (skip_first and axis == 0)
        if shape[axis] % n_devices == 0
    ]
    if not axes:
        return PartitionSpec()
    chosen = max(axes, key=lambda axis: shape[axis])
    return PartitionSpec(*(AXIS if axis == chosen else None for axis in range(len(shape))))
