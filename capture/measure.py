"""Measuring one arm in this process: prove, compile, warm up, time, record."""

from __future__ import annotations

import gzip
import hashlib
import math
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nsysoverlap.core.formatting import number_of

from .arms import PROFILE
from .errors import RefusedError
from .flops import step_flops, tflops_per_device
from .link import host_rates
from .manifest import flags_seen
from .power import reading
from .profiler import Window
from .program import Program, build, make_mesh, tensor_bytes
from .proof import host_traffic, placement_calls
from .spec import HLO, Spec, ranked

GIB = 1 << 30
AUTOTUNE_CACHE = "xla_gpu_per_fusion_autotune_cache_dir"


def check(spec: Spec) -> dict[str, Any]:
    """Refuse unknown XLA options before anything runs; `spec.options` holds those of all arms."""
    check_options(dict(spec.options))
    return {"status": "ok"}


def measure(spec: Spec) -> dict[str, Any]:
    """Run the arm and return its part of the manifest."""
    arm, recording = spec.the_arm, spec.config.recording
    mesh = make_mesh(spec.config, jax.devices())
    on_gpu = mesh.devices.flat[0].platform == "gpu"
    options = compile_options(spec, on_gpu)
    check_options(options)
    window = Window() if spec.trace else None
    program = build(spec.config, arm, mesh, "cudnn" if on_gpu else "xla")
    _log("tracing")
    traced = program.step.trace(program.state, program.tokens)
    traffic = host_traffic(traced.jaxpr)
    lowered = traced.lower()
    as_gpu = lowered if on_gpu else traced.lower(lowering_platforms=("cuda",))
    _log("compiling")
    began = time.perf_counter()
    compiled = lowered.compile(compiler_options=typed(options))
    compile_s = time.perf_counter() - began
    runner = Runner(spec, program, compiled)
    _log(f"compiled in {compile_s:.1f} s; warming up")
    runner.run(recording.warm_up)
    with reading() as clocks:
        timed_ms = [runner.run(recording.timed) for _ in range(2)]
    step_ms = sum(timed_ms) / len(timed_ms)
    _log(f"step {step_ms:.1f} ms")
    traced_ms = _record(runner, window, recording.traced) if window else None
    result = {
        "status": "ok",
        "mesh": {"fsdp": mesh.size},
        "device": {"kind": mesh.devices.flat[0].device_kind, "platform": _platform_version(mesh)},
        "options": {k: _shown(v) for k, v in options.items()},
        "options_seen": _seen(spec, set(options)),
        "compile_s": compile_s,
        "hlo_sha256": _keep_hlo(spec, compiled.as_text()),
        "traffic": asdict(traffic),
        "tensors": tensor_bytes(spec.config),
        "placement_calls": placement_calls(as_gpu.as_text()),
        "step_ms": step_ms,
        "timed_ms": timed_ms,
        "traced_ms": traced_ms,
        "traced_steps": recording.traced if window else 0,
        "losses": runner.losses(),
        "flops_per_device": step_flops(spec.config),
        "tflops_per_device": tflops_per_device(spec.config, step_ms),
        "memory": memory(compiled, mesh),
        "clocks": clocks.summary(),
    }
    runner.release()
    result["link"] = host_rates(mesh.local_devices[0], 512 if on_gpu else 4)
    _log("done")
    return result


class Runner:
    """Runs steps without waiting between them, and keeps the losses on the device."""

    def __init__(self, spec: Spec, program: Program, compiled: Any) -> None:
        self._compiled = compiled
        self._state: Any = program.initial()
        self._tokens: Any = program.make_tokens(spec.config.training.seed + 1)
        self._losses: list[Any] = []
        self._sharding = program.tokens.sharding
        # Every process feeds its own sequences.
        self._host = _local_rows(self._tokens) if spec.the_arm.feed else None
        self._waits = spec.the_arm.waits

    def run(
        self, n_steps: int, step_range: Callable[[str], AbstractContextManager[Any]] | None = None
    ) -> float:
        """Milliseconds a step over `n_steps`; waits only before the first and after the last."""
        jax.block_until_ready((self._state, self._tokens))
        began = time.perf_counter()
        for _ in range(n_steps):
            with step_range(f"step {len(self._losses)}") if step_range else nullcontext():
                self._state, loss = self._compiled(self._state, self._tokens)
                if self._host is not None:
                    # Sent while the step above runs: the copy belongs to the next one.
                    self._tokens = jax.make_array_from_process_local_data(
                        self._sharding, self._host
                    )
            self._losses.append(loss)
            if self._waits:
                jax.block_until_ready(loss)
        jax.block_until_ready((self._state, self._losses))
        return (time.perf_counter() - began) * 1e3 / n_steps

    def losses(self) -> list[float | None]:
        """Losses of all steps so far, None for one that is not finite, which JSON cannot hold."""
        values = [float(loss) for loss in self._losses]
        return [value if math.isfinite(value) else None for value in values]

    def release(self) -> None:
        """Give the device memory back."""
        del self._state, self._tokens, self._compiled


def _local_rows(tokens: Any) -> np.ndarray[Any, Any]:
    shards = sorted(tokens.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards])


def _record(runner: Runner, window: Window, n_steps: int) -> float:
    try:
        import nvtx
    except ImportError:
        raise RefusedError(
            "The package nvtx is missing, which marks the steps in the trace.",
            "pip install nvtx, or use --no-trace.",
        ) from None
    _log(f"recording {number_of(n_steps, 'step')} through {window.library}")
    with window.recording():
        return runner.run(n_steps, lambda text: nvtx.annotate(text))


def compile_options(spec: Spec, on_gpu: bool) -> dict[str, str]:
    """Options of the arm, the user's, and the autotuning cache that all arms share."""
    options = {**spec.the_arm.options, **spec.options}
    if spec.profile:
        options[PROFILE] = spec.profile
    if on_gpu and spec.shared:
        cache = Path(spec.shared, "autotune")
        cache.mkdir(parents=True, exist_ok=True)
        options[AUTOTUNE_CACHE] = str(cache)
    return options


def typed(options: dict[str, str]) -> dict[str, str | bool]:
    """Options as jax takes them: truth values must not be text."""
    words = {"true": True, "false": False}
    return {name: words.get(value, value) for name, value in options.items()}


def check_options(options: dict[str, str]) -> None:
    """Raise `RefusedError` for an option or a value that this XLA does not take."""
    trivial = jax.jit(lambda x: x).lower(jnp.float32(0))
    for name, value in options.items():
        if name == PROFILE:
            # A profile has to fit the program.
            continue
        try:
            trivial.compile(compiler_options=typed({name: value}))
        except jax.errors.JaxRuntimeError as error:
            raise RefusedError(
                f"XLA does not take the option {name}={value!r}: {str(error).splitlines()[0]}",
                f"Check the name and value against jax {jax.__version__}.",
            ) from None


def memory(compiled: Any, mesh: Any) -> dict[str, Any]:
    """Memory of one device in GiB: what the compiler planned and the most that was in use."""
    stats = mesh.local_devices[0].memory_stats() or {}
    peak = stats.get("peak_bytes_in_use")
    return {
        "peak_gib": None if peak is None else peak / GIB,
        "limit_gib": stats["bytes_limit"] / GIB if "bytes_limit" in stats else None,
        **planned_memory(compiled),
    }


def planned_memory(compiled: Any) -> dict[str, float]:
    """GiB of the compiler's buffer assignment; results that take an argument's place count once."""
    plan = compiled.memory_analysis()

    def gib(name: str) -> float:
        return float(getattr(plan, name, 0) / GIB)

    arguments, temporary = gib("argument_size_in_bytes"), gib("temp_size_in_bytes")
    results = gib("output_size_in_bytes") - gib("alias_size_in_bytes")
    return {
        "arguments_gib": arguments,
        "temporary_gib": temporary,
        "planned_gib": arguments + temporary + max(0.0, results),
        "host_gib": gib("host_temp_size_in_bytes") + gib("host_argument_size_in_bytes"),
    }


def _platform_version(mesh: Any) -> str:
    return str(mesh.devices.flat[0].client.platform_version).splitlines()[-1].strip()


def _shown(value: str) -> str:
    return "…" if value.startswith("/") else value


def _seen(spec: Spec, wanted: set[str]) -> dict[str, str]:
    """Flags from XLA's dump, which is then thrown away but for the thunk sequence."""
    dump = Path(spec.folder, ranked("xla", spec.rank, spec.processes))
    seen = flags_seen(dump, wanted)
    for path in dump.glob("*jit_step*thunk_sequence.txt"):
        target = Path(spec.folder, ranked("thunks.txt.gz", spec.rank, spec.processes))
        target.write_bytes(gzip.compress(path.read_bytes()))
    shutil.rmtree(dump, ignore_errors=True)
    return seen


def _keep_hlo(spec: Spec, text: str) -> str:
    """The fingerprint of the final program, whose text is kept beside the manifest."""
    data = text.encode()
    name = ranked(HLO, spec.rank, spec.processes)
    Path(spec.folder, name).write_bytes(gzip.compress(data))
    return hashlib.sha256(data).hexdigest()


def _log(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)
