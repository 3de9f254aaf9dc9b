"""The largest batch that fits, found by running steps of growing size in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from .config import Config
from .errors import is_out_of_memory
from .measure import GIB, check_options, compile_options, typed
from .program import build, make_mesh
from .spec import Spec

MOST = 1 << 12
"""Where the search ends: nothing that is worth offloading fits so often."""


def find_batch(spec: Spec) -> dict[str, Any]:
    """The largest batch per device that runs some steps, and every size that was tried."""
    mesh = make_mesh(spec.config, jax.devices())
    on_gpu = mesh.devices.flat[0].platform == "gpu"
    options = compile_options(spec, on_gpu)
    check_options(options)
    tried: list[dict[str, Any]] = []

    def fits(batch: int) -> bool:
        training = replace(spec.config.training, batch_per_device=batch)
        config = replace(spec.config, training=training)
        outcome = _try(config, spec, mesh, options, "cudnn" if on_gpu else "xla")
        print(f"batch {batch}: {outcome}", flush=True)
        tried.append({"batch_per_device": batch, **outcome})
        return bool(outcome["fits"])

    largest = search(fits, spec.config.training.batch_per_device, MOST)
    return {
        "status": "ok",
        "largest_batch_per_device": largest,
        "search_ended": largest == MOST,
        "tried": tried,
    }


def search(fits: Callable[[int], bool], start: int, most: int) -> int:
    """The largest size for which `fits` holds, 0 if none: doubling from `start`, then halving.

    `fits` must hold for every size below one for which it holds.
    """
    low, high = 0, None
    size = max(1, start)
    while high is None and size <= most:
        if fits(size):
            low, size = size, size * 2
        else:
            high = size
    high = min(size, most + 1) if high is None else high
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _try(
    config: Config, spec: Spec, mesh: Any, options: dict[str, str], attention: str
) -> dict[str, Any]:
    program = build(config, spec.the_arm, mesh, attention)
    try:
        lowered = program.step.trace(program.state, program.tokens).lower()
        compiled = lowered.compile(compiler_options=typed(options))
        state, tokens = program.initial(), program.make_tokens(1)
        for _ in range(2):
            state, loss = compiled(state, tokens)
        jax.block_until_ready((state, loss))
        began = time.perf_counter()
        for _ in range(spec.config.recording.timed):
            state, loss = compiled(state, tokens)
        jax.block_until_ready((state, loss))
        step_ms = (time.perf_counter() - began) * 1e3 / spec.config.recording.timed
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return {"fits": False}
    plan = compiled.memory_analysis()
    planned = plan.temp_size_in_bytes + plan.argument_size_in_bytes
    return {"fits": True, "planned_gib": planned / GIB, "step_ms": step_ms}
