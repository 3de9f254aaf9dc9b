"""The largest batch that fits: bracketed by what XLA plans, decided by running steps there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from .config import Config
from .errors import is_out_of_memory
from .measure import GIB, check_options, compile_options, typed
from .program import Program, build, make_mesh
from .spec import Spec

MOST = 1 << 12
"""Where the search ends: nothing that is worth offloading fits so often."""
QUICK = {"xla_gpu_autotune_level": "0"}
"""For a plan only: XLA would try out products of these sizes for minutes before it says.

Such a plan was up to 3 % larger than that of the program which then runs.
"""
RUN_ABOVE = 0.5
"""Share of the memory limit below which a plan fits without being run."""
ENOUGH_S = 6.0
"""Seconds of timed steps after which two of them are enough."""
GUESSES = 6
"""Sizes taken from the plans so far; then halving ends the search whatever the plans say."""


def find_batch(spec: Spec) -> dict[str, Any]:
    """The largest batch per device that runs some steps, and every size that was tried."""
    mesh = make_mesh(spec.config, jax.devices())
    on_gpu = mesh.devices.flat[0].platform == "gpu"
    options = compile_options(spec, on_gpu)
    check_options(options)
    tried: list[dict[str, Any]] = []
    limit = limit_gib()

    def fits(batch: int, run: bool = False) -> bool:
        training = replace(spec.config.training, batch_per_device=batch)
        config = replace(spec.config, training=training)
        outcome = _try(config, spec, mesh, options, "cudnn" if on_gpu else "xla", limit, run)
        print(f"batch {batch}: {outcome}", flush=True)
        tried.append({"batch_per_device": batch, **outcome})
        return bool(outcome["fits"])

    start = spec.config.training.batch_per_device
    largest = search(fits, start, MOST, lambda: by_plan(tried, limit))
    # A border that was planned only: what is said to fit has run.
    while largest and not any("step_ms" in t for t in tried if t["batch_per_device"] == largest):
        if fits(largest, run=True):
            break
        largest -= 1
    return {
        "status": "ok",
        "largest_batch_per_device": largest,
        "search_ended": largest == MOST,
        "tried": tried,
    }


def limit_gib() -> float | None:
    """What the allocator may take of a device; None where it does not say, or of several processes.

    Each process would read its own, and all have to try the same sizes.
    """
    stats = jax.local_devices()[0].memory_stats() or {}
    if jax.process_count() > 1 or "bytes_limit" not in stats:
        return None
    return float(stats["bytes_limit"]) / GIB


def by_plan(tried: Sequence[Mapping[str, Any]], limit: float | None) -> int | None:
    """The largest size whose plan, a straight line through the last two, is within the limit.

    None where that cannot be told, or a size did not fit although its plan did.
    """
    if limit is None or any(
        not t["fits"] and (t.get("planned_gib") or limit + 1) <= limit for t in tried
    ):
        return None
    planned = [
        (t["batch_per_device"], t["planned_gib"]) for t in tried if t.get("planned_gib") is not None
    ][-2:]
    if len(planned) < 2:
        return None
    (size, gib), (other, other_gib) = planned
    slope = (other_gib - gib) / (other - size) if other != size else 0.0
    return int(size + (limit - gib) / slope) if slope > 0 else None


def search(
    fits: Callable[[int], bool],
    start: int,
    most: int,
    guess: Callable[[], int | None] = lambda: None,
) -> int:
    """The largest size for which `fits` holds, 0 if none: doubling from `start`, then halving.

    `guess` may name a size to try instead. `fits` must hold for every size below one for which
    it holds.
    """
    low, high = 0, most + 1
    size, guesses = min(max(1, start), most), GUESSES
    while high - low > 1:
        if fits(size):
            low = size
        else:
            high = size
        wanted = guess() if guesses else None
        guesses -= wanted is not None
        if wanted is not None:
            size = min(max(wanted, low + 1), high - 1)
        elif high > most:
            size = min(low * 2, most)
        else:
            size = (low + high) // 2
    return low


def _try(
    config: Config,
    spec: Spec,
    mesh: Any,
    options: dict[str, str],
    attention: str,
    limit: float | None,
    run: bool,
) -> dict[str, Any]:
    """Whether a size fits, what is planned, and the step where it was run.

    A plan above the limit, or so far below it that nothing speaks against it, is not run.
    """
    program = build(config, spec.the_arm, mesh, attention)
    planned = None
    try:
        lowered = program.step.trace(program.state, program.tokens).lower()
        if limit is not None:
            planned = planned_gib(lowered.compile(compiler_options=typed(options | QUICK)))
            if planned > limit:
                return {"fits": False, "planned_gib": planned}
            if planned < RUN_ABOVE * limit and not run:
                return {"fits": True, "planned_gib": planned}
        compiled = lowered.compile(compiler_options=typed(options))
        planned = planned_gib(compiled)
        step_ms = _step_ms(program, compiled, spec.config.recording.timed)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return {"fits": False, "planned_gib": planned}
    return {"fits": True, "planned_gib": planned, "step_ms": step_ms}


def planned_gib(compiled: Any) -> float:
    """Device memory that XLA plans: arguments, whose place results take, and temporaries."""
    plan = compiled.memory_analysis()
    return float(plan.temp_size_in_bytes + plan.argument_size_in_bytes) / GIB


def _step_ms(program: Program, compiled: Any, timed: int) -> float:
    """Milliseconds a step, after one that is not timed; fewer steps where they take seconds."""
    state, tokens = program.initial(), program.make_tokens(1)
    state, loss = compiled(state, tokens)
    jax.block_until_ready((state, loss))
    began = time.perf_counter()
    for done in range(1, timed + 1):
        state, loss = compiled(state, tokens)
        jax.block_until_ready((state, loss))
        if done > 1 and time.perf_counter() - began > ENOUGH_S:
            break
    return (time.perf_counter() - began) * 1e3 / done
