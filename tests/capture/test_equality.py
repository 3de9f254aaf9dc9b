"""Every arm computes what `keep` computes: the same loss, the same gradients, the same steps."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from capture.arms import Arm, all_arms, find_arm

from .kit import program_key, tiny

jax = pytest.importorskip("jax")
pytest.importorskip("optax")

from capture.program import Program, build, make_mesh  # noqa: E402

PRESETS = ("toy", pytest.param("toy-moe", marks=pytest.mark.slow))
# Sums in another order differ in the last bits of a float32.
TOLERANCE = 1e-5
ARMS = [arm.name for arm in all_arms(tiny())]


OWN = {
    "by-layer": {
        "like": "prefetch",
        "offload": {
            "names": ["qkv_proj", "context", "mlpwi_0"],
            "host": {"qkv_proj": "0-1", "context": "0"},
            "device": {"context": "2", "mlpwi_0": "1-2"},
        },
    },
    "by-layer-policy": {
        "like": "lhs",
        "offload": {
            "names": ["context", "mlpwi_1"],
            "host": {"context": "0,2", "mlpwi_1": "1"},
            "device": {"mlpwi_1": "2"},
        },
    },
    "by-layer-kept": {
        "like": "save-tied",
        "offload": {"names": ["context", "out_proj"], "device": {"context": "0-1"}},
    },
    "copied-twice": {"like": "prefetch", "offload": {"copies": 2, "ahead": 1}},
}
"""Arms of one's own: what a layer keeps differs from layer to layer."""


def program_of(preset: str, arm: Arm, n_devices: int = 1) -> Program:
    config = tiny(preset, fsdp=n_devices, batch_per_device=2 // n_devices)
    return build(config, arm, make_mesh(config, jax.devices()), "xla")


@cache
def start(preset: str) -> tuple[Any, Any]:
    """Parameters of unrolled layers and tokens, on no device."""
    random = np.random.default_rng(0)
    program = program_of(preset, find_arm(tiny(preset), "keep"))

    def draw(like: Any) -> Any:
        scale = like.shape[-2] ** -0.5 if like.ndim > 1 else 1.0
        return (scale * random.standard_normal(like.shape)).astype(like.dtype)

    tokens = random.integers(0, tiny(preset).model.vocabulary, program.tokens.shape)
    return jax.tree.map(draw, program.state["parameters"]), tokens.astype(np.int32)


def stacked(parameters: Any) -> Any:
    """Unrolled parameters as a scan wants them."""
    return {
        key: value if key == "head" else jax.tree.map(lambda *t: np.stack(t), *value)
        for key, value in parameters.items()
    }


@cache
def gradients(preset: str, key: tuple[Any, ...], n_devices: int) -> tuple[float, Any]:
    """Loss and gradients, with the layers of a scan stacked or not as the arm has them."""
    arm = next(a for a in all_arms(tiny(preset)) if program_key(a, updates=False) == key)
    return gradients_of(preset, arm, n_devices)


def gradients_of(preset: str, arm: Arm, n_devices: int) -> tuple[float, Any]:
    program = program_of(preset, arm, n_devices)
    parameters, tokens = start(preset)
    given = {"parameters": stacked(parameters) if arm.scan else parameters}
    wanted = {"parameters": program.state["parameters"]}
    given = jax.tree.map(lambda value, like: jax.device_put(value, like.sharding), given, wanted)
    loss, found = program.gradients(given, jax.device_put(tokens, program.tokens.sharding))
    return float(loss), jax.tree.map(np.asarray, found)


def assert_equal_to_keep(preset: str, arm: Arm, n_devices: int = 1) -> None:
    keep_loss, keep = gradients(preset, program_key(find_arm(tiny(), "keep"), updates=False), 1)
    if arm.offload:
        loss, found = gradients_of(preset, arm, n_devices)
    else:
        loss, found = gradients(preset, program_key(arm, updates=False), n_devices)
    assert loss == pytest.approx(keep_loss, rel=TOLERANCE)
    expected = stacked(keep) if arm.scan else keep
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    leaves = jax.tree_util.tree_leaves_with_path(expected)
    for (path, value), other in zip(leaves, jax.tree.leaves(found), strict=True):
        scale = np.abs(value).max()
        assert scale > 0, f"{path}: a gradient of nothing but zeros proves nothing"
        assert np.abs(other - value).max() <= TOLERANCE * scale, path


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", ARMS)
def test_loss_and_gradients_are_keeps(preset: str, name: str) -> None:
    assert_equal_to_keep(preset, find_arm(tiny(preset), name))


@pytest.mark.parametrize("name", list(OWN))
def test_a_program_by_layer_computes_what_keep_does(name: str) -> None:
    config = replace(tiny(), arms=OWN)
    assert_equal_to_keep("toy", find_arm(config, name))


def test_a_cast_of_what_leaves_changes_gradients_and_not_the_loss() -> None:
    # Half the bits: the forward pass keeps its own tensors.
    values = {"half": {"like": "prefetch", "offload": {"cast": "float16"}}}
    arm = find_arm(replace(tiny(), arms=values), "half")
    keep_loss, keep = gradients("toy", program_key(find_arm(tiny(), "keep"), updates=False), 1)
    loss, found = gradients_of("toy", arm, 1)
    assert loss == pytest.approx(keep_loss, rel=TOLERANCE)
    apart = max(
        float(np.abs(one - two).max() / np.abs(one).max())
        for one, two in zip(jax.tree.leaves(keep), jax.tree.leaves(found), strict=True)
    )
    assert TOLERANCE < apart < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lhs", "prefetch", "prefetch-scan"])
def test_two_devices_compute_what_one_does(name: str) -> None:
    assert_equal_to_keep("toy", find_arm(tiny(), name), n_devices=2)


def steps(preset: str, name: str, n: int) -> tuple[list[float], Any]:
    """Losses of the first steps, and the state after them."""
    arm = find_arm(tiny(preset), name)
    program = program_of(preset, arm)
    parameters, tokens = start(preset)
    given = {
        "parameters": stacked(parameters) if arm.scan else parameters,
        "moments": jax.tree.map(
            lambda like: np.zeros(like.shape, like.dtype), program.state["moments"]
        ),
    }
    state = jax.tree.map(
        lambda value, like: jax.device_put(value, like.sharding), given, program.state
    )
    losses = []
    for _ in range(n):
        state, loss = program.step(state, tokens)
        losses.append(float(loss))
    return losses, state


@pytest.mark.parametrize(
    ("name", "like"), [("optimizer", "save"), ("parameters-scan", "save-scan")]
)
def test_state_on_the_host_takes_the_same_steps(name: str, like: str) -> None:
    losses, state = steps("toy", name, 3)
    expected, device_state = steps("toy", like, 3)
    assert losses == pytest.approx(expected, rel=TOLERANCE)
    assert losses[2] < losses[0], "the parameters do not move"
    jax.tree.map(
        lambda one, two: np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6),
        state["parameters"],
        device_state["parameters"],
    )
    kinds = {leaf.sharding.memory_kind for leaf in jax.tree.leaves(state) if leaf.ndim}
    assert kinds == {"device", "pinned_host"}


def test_scanned_and_unrolled_layers_start_alike() -> None:
    unrolled, scanned = (
        jax.tree.map(np.asarray, program_of("toy", find_arm(tiny(), name)).initial()["parameters"])
        for name in ("keep", "keep-scan")
    )
    # Compiled differently, the last bit may differ; other random numbers would not be near.
    jax.tree.map(
        lambda one, two: np.testing.assert_allclose(one, two, rtol=1e-6), stacked(unrolled), scanned
    )
