"""What runs where MaxText is installed: `python -m capture.maxtext_worker MODE OUT BASE OPTION...`.

`program` traces MaxText's own train step, lowers it for CUDA and leaves what it moves; nothing is
compiled or run, and no GPU is needed. `train` is MaxText's own training with the same arguments,
and leaves what the allocator says at its end. OUT is a JSON file. Nothing of nsysoverlap is
imported.
"""

from __future__ import annotations

import json
import math
import runpy
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from .proof import HostTraffic, host_traffic, on_host, placement_calls

MODULE = "maxtext.trainers.pre_train.train"
GIB = 1 << 30


def main(arguments: list[str]) -> None:
    """Do what the mode says."""
    mode, out, *options = arguments
    if mode == "train":
        train(Path(out), options)
        return
    Path(out).write_text(json.dumps(program(options)) + "\n", encoding="utf-8")


def train(out: Path, options: list[str]) -> None:
    """Run MaxText as if called by itself; it ends with an exit, which is passed on."""
    sys.argv = [MODULE, *options]
    try:
        runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
    finally:
        out.write_text(json.dumps(device_memory()) + "\n", encoding="utf-8")


def device_memory() -> dict[str, float | str | None]:
    """The most that was in use on the first device and its limit, in GiB, and what it is."""
    import jax

    device = jax.local_devices()[0]
    stats = device.memory_stats() or {}

    def gib(name: str) -> float | None:
        return stats[name] / GIB if name in stats else None

    return {
        "peak_gib": gib("peak_bytes_in_use"),
        "limit_gib": gib("bytes_limit"),
        "kind": device.device_kind,
        "platform": str(device.client.platform_version).splitlines()[-1].strip(),
    }


def program(options: list[str]) -> dict[str, Any]:
    """Copies of MaxText's train step by its jaxpr, and placements in its lowering for CUDA.

    Raises what MaxText raises for options that it does not accept.
    """
    import jax

    traced, state = traced_step(options)
    lowered = traced.lower(lowering_platforms=("cuda",))
    traffic = host_traffic(traced.jaxpr) + left_on_host(traced.jaxpr, jax.tree.leaves(state))
    return {
        "traffic": asdict(traffic),
        "placement_calls": placement_calls(lowered.as_text()),
        "devices": len(jax.devices()),
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """Versions of what takes part; None where it is not installed."""
    found: dict[str, str | None] = {}
    for package in ("maxtext", "jax", "jaxlib", "flax", "optax"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def left_on_host(jaxpr: Any, state: list[Any]) -> HostTraffic:
    """Copies of results that the step computes on the device and gives back on the host.

    Optimizer state goes back that way: no operation says it, only the sharding of the result.
    `state` are the shardings of the first results.
    """
    total = HostTraffic()
    for variable, sharding in zip(jaxpr.jaxpr.outvars, state, strict=False):
        if sharding.memory_kind == "pinned_host" and not on_host(variable.aval):
            n_bytes = math.prod(variable.aval.shape) * variable.aval.dtype.itemsize
            total += HostTraffic(d2h_copies=1, d2h_bytes=n_bytes, d2h_sites=1)
    return total


def traced_step(options: list[str]) -> tuple[Any, Any]:
    """The train step as MaxText's own ahead-of-time compilation builds it, traced.

    Beside it the shardings of the training state, its first results.
    """
    import jax
    from flax.core.spmd import logical_axis_rules
    from maxtext.configs import pyconfig
    from maxtext.trainers.pre_train import train as trainer
    from maxtext.trainers.pre_train import train_compile
    from maxtext.utils import maxtext_utils, sharding

    jax.config.update("jax_default_prng_impl", "unsafe_rbg")
    config = pyconfig.initialize([MODULE, *options])
    devices = maxtext_utils.create_device_mesh(config, jax.devices())
    kinds = (jax.sharding.AxisType.Auto,) * len(config.mesh_axes)
    mesh = jax.sharding.Mesh(devices, config.mesh_axes, axis_types=kinds)
    arguments, named, state, _, model = train_compile.get_shaped_inputs(mesh, config)
    weights, state = sharding.maybe_update_params_sharding_with_opt(config, state)
    inputs = sharding.build_zero1_input_state_mesh_shardings(config, state, weights)
    step, takes, gives, static, donated = maxtext_utils.get_functional_train_with_signature(
        trainer.train_step,
        sharding.get_input_data_sharding(config, mesh),
        inputs,
        model,
        config,
        weights,
    )
    with jax.set_mesh(mesh), logical_axis_rules(config.logical_axis_rules):
        jitted = jax.jit(
            step,
            in_shardings=takes,
            out_shardings=gives,
            static_argnums=static,
            donate_argnums=donated,
        )
        return jitted.trace(*arguments, **named), gives[0]


if __name__ == "__main__":
    main(sys.argv[1:])
