"""What each arm's program moves between device and host: exactly its tensors, no more."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import pytest

from capture.arms import Arm, all_arms, find_arm
from capture.config import Config
from capture.errors import RefusedError

from .kit import changed, program_key, tiny

jax = pytest.importorskip("jax")
pytest.importorskip("optax")

from capture.models import stacks  # noqa: E402
from capture.program import Program, build, make_mesh  # noqa: E402
from capture.proof import HostTraffic, host_traffic, placement_calls  # noqa: E402

PRESETS = ("toy", "toy-moe")
ARMS = [arm.name for arm in all_arms(tiny())]
FLOAT = 4


def program_of(config: Config, arm: Arm) -> Program:
    return build(config, arm, make_mesh(config, jax.devices()), "xla")


@cache
def layer_bytes(preset: str) -> int:
    """Bytes of the offloaded tensors of one layer, from the configuration alone."""
    config = tiny(preset)
    model, training = config.model, config.training
    features = {
        "qkv_proj": (model.heads + 2 * model.kv_heads) * model.head_width,
        "mlpwi_0": model.mlp_width,
        "mla_q": model.q_rank,
        "query_proj": model.heads * (model.nope_width + model.rope_width),
    }
    width = sum(features[name] for name in config.offload.names)
    return training.batch_per_device * training.sequence * width * FLOAT


def weight_bytes(config: Config, *, head: bool) -> int:
    """Bytes of all weights, with or without embedding, last norm and unembedding."""
    layers = sum(
        stack.n * sum(math.prod(shape) for shape in stack.shapes.values())
        for stack in stacks(config.model, "xla")
    )
    model = config.model
    ends = 2 * model.vocabulary * model.width + model.width if head else 0
    return (layers + ends) * FLOAT


def expected_bytes(preset: str, arm: Arm) -> tuple[int, int]:
    """D2H and H2D bytes of a step by the definition of the arm."""
    config = tiny(preset)
    runs = [stack.n for stack in stacks(config.model, "xla")]
    size = layer_bytes(preset)
    if arm.optimizer_on_host:
        # AdamW's two moments go there and back.
        moments = 2 * weight_bytes(config, head=True)
        return moments, moments
    if arm.parameters_on_host:
        # Read by the forward pass, the recomputation and the update; written once.
        weights = weight_bytes(config, head=False)
        return weights, 3 * weights
    if not arm.offloads:
        return 0, 0
    if arm.keeps == "offloaded":
        return size * sum(runs), size * sum(runs)
    back = size * sum(n - 1 for n in runs)
    # The last layer of a run is needed at once. A scan cannot leave out one iteration.
    away = size * sum(n for n in runs if n > 1) if arm.scan else back
    return away, back


def traced(program: Program) -> Any:
    return program.step.trace(program.state, program.tokens)


@cache
def step_of(preset: str, key: tuple[Any, ...]) -> tuple[HostTraffic, dict[str, int], list[str]]:
    """Traffic, placements in the lowering for CUDA, and memory kinds of the state; arms that
    differ in XLA options only share one.
    """
    config = tiny(preset)
    arm = next(arm for arm in all_arms(config) if program_key(arm) == key)
    program = program_of(config, arm)
    trace = traced(program)
    calls = placement_calls(trace.lower(lowering_platforms=("cuda",)).as_text())
    kinds = [leaf.sharding.memory_kind for leaf in jax.tree.leaves(program.state)]
    return host_traffic(trace.jaxpr), calls, kinds


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", ARMS)
def test_the_program_moves_what_the_arm_says(preset: str, name: str) -> None:
    arm = find_arm(tiny(preset), name)
    traffic, calls, kinds = step_of(preset, program_key(arm))
    assert (traffic.d2h_bytes, traffic.h2d_bytes) == expected_bytes(preset, arm)
    assert arm.expects_transfers == (traffic.d2h_bytes > 0)

    # The lowering marks each copy, and each array of the state where it has to end.
    if not arm.expects_transfers:
        assert calls == {}
        return
    on_host = kinds.count("pinned_host")
    assert calls == {
        "pinned_host": traffic.d2h_sites + on_host,
        "device": traffic.h2d_sites + len(kinds) - on_host,
    }


@pytest.mark.parametrize("names", [["qkv_proj"], ["mlpwi_0"], ["qkv_proj", "context"]])
@pytest.mark.parametrize("name", ["lhs", "lhs-scan", "prefetch", "prefetch-scan", "barrier-scan"])
def test_only_the_named_tensors_leave(names: list[str], name: str) -> None:
    config = changed(tiny(), offload={"names": names})
    traffic = host_traffic(traced(program_of(config, find_arm(config, name))).jaxpr)
    n_layers = config.model.layers - 1 if name == "prefetch" else config.model.layers
    assert traffic.d2h_copies == n_layers * len(names)


def own(like: str, **offload: Any) -> tuple[Config, Arm]:
    """A configuration of three layers with one arm of its own."""
    config = replace(tiny(), arms={"own": {"like": like, "offload": offload}})
    return config, find_arm(config, "own")


BY_LAYER = {
    "names": ["qkv_proj", "context", "mlpwi_0"],
    "host": {"qkv_proj": "0-2", "context": "1"},
    "device": {"context": "0", "mlpwi_0": "0-2"},
}
FEATURES = {"qkv_proj": (4 + 2 * 2) * 16, "context": 4 * 16, "mlpwi_0": 128}


@pytest.mark.parametrize(
    ("like", "layers"),
    [
        # The prefetching program keeps the last layer's tensors on the device.
        ("prefetch", {"qkv_proj": 2, "context": 1}),
        ("lhs", {"qkv_proj": 3, "context": 1}),
        ("save-tied", {}),
        ("save", {}),
    ],
)
def test_exactly_the_named_layers_leave(like: str, layers: dict[str, int]) -> None:
    config, arm = own(like, **BY_LAYER)
    traffic = host_traffic(traced(program_of(config, arm)).jaxpr)
    per_feature = 2 * 16 * FLOAT
    expected = sum(FEATURES[name] * n * per_feature for name, n in layers.items())
    assert (traffic.d2h_bytes, traffic.h2d_bytes) == (expected, expected)
    assert (traffic.d2h_copies, traffic.h2d_copies) == (sum(layers.values()),) * 2


def test_copies_and_casts_move_what_they_say() -> None:
    plain, twice, wide = (
        host_traffic(traced(program_of(*own("prefetch", **fields))).jaxpr)
        for fields in ({}, {"copies": 2}, {"cast": "float16"})
    )
    assert plain.d2h_bytes > 0
    assert (twice.d2h_bytes, twice.h2d_bytes) == (2 * plain.d2h_bytes, 2 * plain.h2d_bytes)
    assert (wide.d2h_bytes, wide.d2h_copies) == (plain.d2h_bytes // 2, plain.d2h_copies)


@pytest.mark.parametrize("like", ["prefetch", "lhs", "save"])
def test_with_the_output_of_attention_its_forward_pass_is_spared(like: str) -> None:
    def exponentials(names: list[str]) -> int:
        program = program_of(*own(like, names=names))
        compiled = program.gradients.lower(program.state, program.tokens).compile()
        return len(re.findall(r" (?:log|log-plus-one)\(", compiled.as_text()))

    # Only the forward pass of attention, and the loss, take logarithms.
    assert exponentials(["context"]) == exponentials(["qkv_proj"]) - tiny().model.layers


def test_a_scan_takes_no_layers_by_name() -> None:
    with pytest.raises(RefusedError, match="A scan keeps the same tensors in all its layers"):
        traced(program_of(*own("lhs-scan", host={"qkv_proj": "0"})))
    same = {"qkv_proj": "0-2"}
    traffic = host_traffic(traced(program_of(*own("prefetch-scan", host=same))).jaxpr)
    assert traffic.d2h_bytes == layer_bytes("toy") * 3


@pytest.mark.parametrize("name", ["lhs", "prefetch", "prefetch-scan"])
def test_two_devices_move_twice_the_bytes_of_one(name: str) -> None:
    arm = find_arm(tiny(), name)
    one = host_traffic(traced(program_of(tiny(), arm)).jaxpr)
    two = host_traffic(traced(program_of(tiny(fsdp=2), arm)).jaxpr)
    assert asdict(two) == {
        key: value * (2 if key.endswith("bytes") else 1) for key, value in asdict(one).items()
    }


def test_prefetched_tensors_are_cut_into_pieces() -> None:
    # 64 sequences make the tensors 1.5 and 0.5 MiB a layer, in pieces of at most 1 MiB.
    config = tiny(sequence=64, batch_per_device=48)
    traffic = host_traffic(traced(program_of(config, find_arm(config, "prefetch"))).jaxpr)
    sizes = [48 * 64 * features * FLOAT for features in (128, 128)]
    assert [size / 2**20 for size in sizes] == [1.5, 1.5]
    assert traffic.d2h_copies == 2 * (config.model.layers - 1) * len(sizes)
    assert traffic.d2h_bytes == sum(sizes) * (config.model.layers - 1)


@pytest.mark.parametrize(("scan", "unrolled"), [("save-scan", "save"), ("lhs-scan", "lhs")])
def test_a_scan_over_one_layer_computes_it_again(scan: str, unrolled: str) -> None:
    # XLA unrolls it, and could then merge both passes: the tensors would never leave.
    config = changed(tiny(), model={"layers": 1})

    def products(name: str) -> int:
        program = program_of(config, find_arm(config, name))
        compiled = program.gradients.lower(program.state, program.tokens).compile()
        return len(re.findall(r"= \S+ dot\(", compiled.as_text()))

    assert products(scan) == products(unrolled) > products("keep")


def test_a_copy_that_nothing_asks_for_is_not_counted() -> None:
    on_device = jax.jit(lambda x: jax.device_put(x, jax.memory.Space.Device) + 1)
    assert host_traffic(on_device.trace(jax.numpy.ones(3)).jaxpr) == HostTraffic()


def test_repetitions_of_a_loop_count() -> None:
    host, device = jax.memory.Space.Host, jax.memory.Space.Device

    def body(carry: Any, _: Any) -> tuple[Any, None]:
        return jax.device_put(jax.device_put(carry, host), device), None

    loop = jax.jit(lambda x: jax.lax.scan(body, x, None, length=5)[0])
    traffic = host_traffic(loop.trace(jax.numpy.ones(7, "float32")).jaxpr)
    assert traffic == HostTraffic(5, 5 * 28, 1, 5, 5 * 28, 1)
