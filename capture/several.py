"""Several arms in one process: compiled without running, or run in turns to compare their times."""

from __future__ import annotations

import gzip
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from .arms import find_arm
from .errors import RefusedError, is_out_of_memory
from .measure import check_options, compile_options, planned_memory, typed
from .power import reading
from .program import Program, build, make_mesh
from .spec import HLO, Spec


def compile_arms(spec: Spec) -> dict[str, Any]:
    """What the compiler plans for each of `spec.arms`; the scheduled program is left beside it.

    An arm that cannot be compiled for lack of memory says so, and the others go on.
    """
    entries: dict[str, Any] = {}
    for name in spec.arms:
        began = time.perf_counter()
        try:
            _, compiled = _compiled(spec, name)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            entries[name] = {"status": "out-of-memory"}
            continue
        Path(spec.folder, f"{name}.{HLO}").write_bytes(gzip.compress(compiled.as_text().encode()))
        seconds = time.perf_counter() - began
        entries[name] = {"status": "ok", "compile_s": seconds, **planned_memory(compiled)}
        print(f"compiled {name} in {seconds:.1f} s", flush=True)
    return {"status": "ok", "compiled": entries}


def run_rounds(spec: Spec) -> dict[str, Any]:
    """Milliseconds a step of each of `spec.arms`, which take turns `spec.rounds` times.

    All work on one training state, so only arms that keep it alike can take part. The first
    step of each turn is not timed.
    """
    programs = {name: _compiled(spec, name) for name in spec.arms}
    first = programs[spec.arms[0]][0]
    for name, (program, _) in programs.items():
        if jax.tree.structure(program.state) != jax.tree.structure(first.state):
            raise RefusedError(
                f"{name} keeps its training state otherwise than {spec.arms[0]}.",
                "Only unrolled arms with their state on the device can take turns.",
            )
    state, tokens = first.initial(), first.make_tokens(spec.config.training.seed + 1)
    found: dict[str, list[float]] = {name: [] for name in spec.arms}
    clocks: dict[str, Any] = {}
    for turn in range(spec.rounds):
        # Every other round goes backwards, so that none always follows the same one.
        for name in spec.arms if turn % 2 == 0 else reversed(spec.arms):
            waits = find_arm(spec.config, name).waits
            with reading() as readings:
                state, ms = _turn(spec, programs[name][1], state, tokens, waits)
            found[name].append(ms)
            clocks.setdefault(name, []).append(readings.summary())
        print(f"round {turn + 1} of {spec.rounds} done", flush=True)
    return {"status": "ok", "rounds": found, "clocks": clocks}


def _turn(spec: Spec, compiled: Any, state: Any, tokens: Any, waits: bool) -> tuple[Any, float]:
    n_steps = spec.config.recording.timed
    state, loss = compiled(state, tokens)
    jax.block_until_ready((state, loss))
    began = time.perf_counter()
    for _ in range(n_steps):
        state, loss = compiled(state, tokens)
        if waits:
            jax.block_until_ready(loss)
    jax.block_until_ready((state, loss))
    return state, (time.perf_counter() - began) * 1e3 / n_steps


def _compiled(spec: Spec, name: str) -> tuple[Program, Any]:
    arm = find_arm(spec.config, name)
    mesh = make_mesh(spec.config, jax.devices())
    on_gpu = mesh.devices.flat[0].platform == "gpu"
    options = compile_options(replace(spec, arm=name), on_gpu)
    check_options(options)
    program = build(spec.config, arm, mesh, "cudnn" if on_gpu else "xla")
    lowered = program.step.trace(program.state, program.tokens).lower()
    return program, lowered.compile(compiler_options=typed(options))
