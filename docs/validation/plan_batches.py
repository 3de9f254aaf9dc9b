"""The largest batch by XLA's plan for a GPU that is not there.

`plan_batches.py PRESET TARGET ARMS` prints a table. TARGET is the `*.gpu_target_config.pbtxt` that
any run of the driver on such a GPU leaves in an arm's `xla` folder. It needs Python 3.12 and
`jax[cuda13]`, no GPU and no driver. Nothing is run and no product is tried out, so that a plan
differs from that of a run by up to 3 %.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, str(Path(__file__).parents[2]))

from jax.experimental import topologies

from capture.arms import find_arm
from capture.batches import GIB, MOST, QUICK, by_plan, planned_gib, search
from capture.config import Config, load_config
from capture.measure import typed
from capture.program import build, make_mesh

FRACTION = 0.9
"""Share of the memory that the presets let JAX take."""
ASSUMED = 0.8
"""Share that XLA takes it to have where there is no allocator to ask."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("preset")
    parser.add_argument("target", type=Path)
    parser.add_argument("arms", help="such as keep,remat,save,offload,prefetch")
    given = parser.parse_args()
    text = given.target.read_text(encoding="utf-8")
    size = re.search(r"device_memory_size: (\d+)", text)
    if size is None:
        raise SystemExit(f"{given.target}: no device_memory_size in it")
    text = text.replace(size[0], f"device_memory_size: {int(int(size[1]) * FRACTION / ASSUMED)}")
    described = topologies.get_topology_desc(platform="cuda", target_config=text, topology="1x1x1")
    limit = FRACTION * int(size[1]) / GIB
    print("| arm | sequences a device that fit | planned GiB | host GiB |\n|---|---:|---:|---:|")
    for name in given.arms.split(","):
        largest, planned = _largest(load_config(given.preset), name, described.devices, limit)
        print(f"| {name} | {largest} | {planned[0]:.1f} | {planned[1]:.1f} |", flush=True)


def _largest(
    config: Config, name: str, devices: list[Any], limit: float
) -> tuple[int, tuple[float, float]]:
    """The largest batch per device whose plan is within the limit, and its GiB: device and host."""
    tried: list[dict[str, Any]] = []
    plans = {0: (0.0, 0.0)}

    def fits(batch: int) -> bool:
        plans[batch] = _plan(config, name, devices, batch)
        fit = plans[batch][0] <= limit
        tried.append({"batch_per_device": batch, "fits": fit, "planned_gib": plans[batch][0]})
        return fit

    start = config.training.batch_per_device
    found = search(fits, start, MOST, lambda: by_plan(tried, limit))
    return found, plans[found]


def _plan(config: Config, name: str, devices: list[Any], batch: int) -> tuple[float, float]:
    """GiB of the device and of the host that XLA plans."""
    config = replace(config, training=replace(config.training, batch_per_device=batch))
    arm = find_arm(config, name)
    program = build(config, arm, make_mesh(config, devices), "cudnn")
    traced = program.step.trace(program.state, program.tokens)
    lowered = traced.lower(lowering_platforms=("cuda",))
    compiled = lowered.compile(compiler_options=typed({**arm.options, **QUICK}))
    return planned_gib(compiled), compiled.memory_analysis().host_temp_size_in_bytes / GIB


if __name__ == "__main__":
    main()
