"""The pinned-memory rates of this node, measured from the running process."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

REPEATS = 4


def host_rates(device: Any, mebibytes: int) -> dict[str, float | None]:
    """GB/s (10^9) of the best of a few copies each way; None without pinned memory."""
    if "pinned_host" not in {memory.kind for memory in device.addressable_memories()}:
        return {"h2d_gbps": None, "d2h_gbps": None}
    on_device = SingleDeviceSharding(device)
    on_host = SingleDeviceSharding(device, memory_kind="pinned_host")
    here = jax.device_put(jnp.ones((mebibytes << 20) // 4, jnp.float32), on_device)
    there = jax.block_until_ready(jax.device_put(here, on_host))
    return {"h2d_gbps": _best(there, on_device), "d2h_gbps": _best(here, on_host)}


def _best(source: Any, target: Any) -> float:
    rates = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(jax.device_put(source, target))
        rates.append(source.nbytes / (time.perf_counter() - began) / 1e9)
    return float(max(rates))
