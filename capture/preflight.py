"""What can be known of every arm without a GPU: traced and lowered for CUDA, never compiled.

The process sees as many CPU devices as the configuration wants GPUs, so bytes and shardings are
those of the real mesh.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax

from .arms import Arm, all_arms, find_arm
from .config import Config
from .measure import check_options
from .program import Program, build, make_mesh
from .proof import HostTraffic, host_traffic, placement_calls
from .spec import Spec

GIB = 1 << 30
DEFAULT_HOST_LIMIT_GB = 64.0
HOST_LIMIT = "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB"


def preflight(spec: Spec) -> dict[str, Any]:
    """One entry an arm of `spec.arms`, with `problem` empty where nothing speaks against it."""
    config = spec.config
    arms = [find_arm(config, name) for name in spec.arms]
    options: dict[str, str] = {}
    for arm in arms:
        options |= arm.options
    check_options({**options, **spec.options})
    mesh = make_mesh(config, jax.devices())
    silent = silent_names(config)
    known: dict[Any, dict[str, Any]] = {}
    entries = []
    for arm in arms:
        key = replace(arm, name="", title="", options={}, control=None, profile_from=None)
        if repr(key) not in known:
            print(f"tracing {arm.name}", flush=True)
            known[repr(key)] = examine(config, arm, mesh, silent)
        entries.append({"arm": arm.name, "title": arm.title, **known[repr(key)]})
    return {"status": "ok", "devices": mesh.size, "arms": entries}


def examine(config: Config, arm: Arm, mesh: Any, silent: tuple[str, ...]) -> dict[str, Any]:
    """Copies, bytes and placements of an arm's program; sizes are those of one device."""
    program = build(config, arm, mesh, "xla")
    traced = program.step.trace(program.state, program.tokens)
    traffic = host_traffic(traced.jaxpr)
    calls = placement_calls(traced.lower(lowering_platforms=("cuda",)).as_text())
    on_host = state_bytes(program, "pinned_host")
    away = traffic.d2h_bytes / mesh.size if arm.offloads else 0
    host_gb = (on_host + away) / 1e9
    return {
        "d2h_copies": traffic.d2h_copies,
        "d2h_gb": traffic.d2h_bytes / mesh.size / 1e9,
        "h2d_gb": traffic.h2d_bytes / mesh.size / 1e9,
        "host_gb": host_gb,
        "state_gib": state_bytes(program, "device") / GIB,
        "placement_calls": calls,
        "problem": _problem(config, arm, traffic, calls, host_gb, silent),
    }


def _problem(
    config: Config,
    arm: Arm,
    traffic: HostTraffic,
    calls: dict[str, int],
    host_gb: float,
    silent: tuple[str, ...],
) -> str:
    limit = float(config.environment.get(HOST_LIMIT, DEFAULT_HOST_LIMIT_GB))
    if arm.expects_transfers and not traffic.d2h_bytes * traffic.h2d_bytes:
        return "the program moves nothing to the host"
    if arm.expects_transfers and not calls.get("pinned_host"):
        return "the lowering for CUDA places nothing on the host"
    if not arm.expects_transfers and traffic.d2h_bytes + traffic.h2d_bytes:
        return "the program moves data to the host, and the arm must not"
    if arm.keeps == "offloaded" and silent:
        return f"no backward pass needs {silent[0]}, so it is not offloaded"
    if host_gb > limit:
        return f"needs {host_gb:.0f} GB of pinned memory a device, {HOST_LIMIT} is {limit:.0f}"
    return ""


def silent_names(config: Config) -> tuple[str, ...]:
    """Named tensors that the remat policy cannot offload because they are no residuals.

    Found by offloading each alone in a model of the fewest layers that has all kinds of them.
    """
    model = replace(config.model, layers=min(config.model.layers, config.model.dense_layers + 1))
    arm = next(arm for arm in all_arms(config) if arm.keeps == "offloaded" and arm.scan)
    training = replace(config.training, fsdp=1)
    found = []
    for name in config.offload.names:
        offload = replace(config.offload, names=(name,))
        small = replace(config, model=model, training=training, offload=offload)
        program = build(small, arm, make_mesh(small, jax.devices()), "xla")
        if not host_traffic(program.step.trace(program.state, program.tokens).jaxpr).d2h_bytes:
            found.append(name)
    return tuple(found)


def state_bytes(program: Program, kind: str) -> int:
    """Bytes of parameters and optimizer state that one device keeps in that memory."""
    total = 0
    for leaf in jax.tree.leaves(program.state):
        if (leaf.sharding.memory_kind == "pinned_host") == (kind == "pinned_host"):
            shape = leaf.sharding.shard_shape(leaf.shape)
            total += math.prod(shape) * leaf.dtype.itemsize
    return total
