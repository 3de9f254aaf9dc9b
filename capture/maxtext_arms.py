"""Arms through MaxText: run, recorded, checked, and left as our own driver leaves its arms.

MaxText may live in another environment (`--python`). Its own train step is traced first, on the
CPU, so that the bytes that a recording has to hold are those of its own program.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nsysoverlap.core.errors import NsysOverlapError
from nsysoverlap.core.output import write_atomically

from . import nsys
from .arms import Arm
from .config import Config
from .errors import RefusedError
from .flops import step_flops, tflops_per_device
from .json_files import read_json
from .launch import RECORDINGS, ROOT, STEM, last_error, run_logged
from .manifest import header
from .matrix import Plan, prepare, spec_of
from .maxtext import ENVIRONMENT, maxtext_options, xla_flags
from .maxtext_log import NO_LIBRARY, planned_gib, timings
from .options import check_environment, recorded_environment
from .overlap import analyze_folder
from .profiler import runtime_candidates
from .results import Row, is_done, load_rows, write_outcome
from .tables import write_results

WORKER = "capture.maxtext_worker"
MAXTEXT_ARMS = ("remat-scan", "save-scan", "offload-control-scan", "lhs-scan", "published-scan")
"""Run unless others are asked for: full, device, and offload in three ways."""
ON_CPU = {"hardware": "cpu", "attention": "dot_product"}
"""For tracing without a GPU: cuDNN's attention asks for one, and names no other tensors."""
CUDART = "libcudart.so"
"""The only name under which MaxText looks for the library that opens the recording."""
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory")
Say = Callable[[str], None]
_FIND = """import importlib.util as u, pathlib
found = u.find_spec("maxtext")
print(pathlib.Path(found.origin).parent / "configs" / "base.yml" if found else "")"""


@dataclass(frozen=True)
class Installed:
    """MaxText as it is installed: the Python that has it, and its basic configuration."""

    python: str
    base: str


def find_maxtext(python: str) -> Installed:
    """Where MaxText is. Raises `RefusedError` where that Python has none."""
    try:
        done = subprocess.run(
            [python, "-c", _FIND], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(
            f"--python {Path(python).name}: cannot be run ({type(error).__name__}).",
            "Give another.",
        ) from None
    base = done.stdout.strip()
    if not base:
        raise RefusedError(
            f"{Path(python).name} has no MaxText.",
            "Give --python of an environment with it: docs/capture.md says how to make one.",
        )
    return Installed(python, base)


def run_maxtext(
    config: Config, arms: Sequence[Arm], plan: Plan, installed: Installed, say: Say
) -> list[Row]:
    """Run the arms that have no result in the folder yet; returns the rows of all that have.

    Raises `RefusedError` for an arm that MaxText has no options for, before any runs.
    """
    for arm in arms:
        check_environment(arm, os.environ)
        maxtext_options(config, arm, plan.folder / arm.name, recorded=plan.nsys is not None)
    prepare(config, plan)
    began, longest = time.monotonic(), 0.0
    for number, arm in enumerate(arms, 1):
        at = time.monotonic()
        if is_done(plan.folder / arm.name):
            say(f"{number}/{len(arms)} {arm.name}: has a result already")
            continue
        if plan.budget_s is not None and at - began + longest > plan.budget_s:
            say(f"time budget spent; not run: {', '.join(a.name for a in arms[number - 1 :])}")
            break
        status, reason = _one(config, arm, plan, installed)
        write_outcome(plan.folder / arm.name, status, reason)
        took = time.monotonic() - at
        longest = max(longest, took)
        say(f"{number}/{len(arms)} {arm.name}: {status} {reason} ({took:.0f} s)")
    rows = load_rows(plan.folder)
    write_results(plan.folder, rows)
    return rows


def _one(config: Config, arm: Arm, plan: Plan, installed: Installed) -> tuple[str, str]:
    """Status and reason of an arm that was traced, run and recorded."""
    folder = (plan.folder / arm.name).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # What an earlier run left must not pass for this one's.
    for name in ("manifest.json", "program.json", "memory.json", "overlap.json"):
        (folder / name).unlink(missing_ok=True)
    for suffix in RECORDINGS:
        (folder / STEM).with_suffix(suffix).unlink(missing_ok=True)
    program, problem = _program(config, arm, plan, installed, folder)
    if problem:
        return "refused", problem
    log = folder / "log.txt"
    code = run_logged(
        train_command(config, arm, plan, installed, folder),
        train_environment(config, arm, plan, os.environ),
        log,
        plan.arm_timeout_s,
    )
    text = log.read_text(encoding="utf-8", errors="replace")
    if code is None:
        return "timeout", f"not done after {plan.arm_timeout_s:.0f} s"
    recording = config.recording
    first, last = recording.warm_up, recording.warm_up + 2 * recording.timed
    n_traced = recording.traced if plan.nsys is not None else 0
    measured = timings(text, first, last, n_traced)
    if not measured:
        if any(word in text for word in OUT_OF_MEMORY):
            return "out-of-memory", last_error(text)
        return "failed", f"status {code}: {last_error(text)}"
    memory = read_json(folder / "memory.json") if (folder / "memory.json").is_file() else {}
    values = _manifest(config, arm, plan, program, measured, memory, text, n_traced)
    write_atomically(folder / "manifest.json", json.dumps(values, indent=1) + "\n")
    return _finish(plan, folder, text, n_traced)


def _program(
    config: Config, arm: Arm, plan: Plan, installed: Installed, folder: Path
) -> tuple[dict[str, Any], str]:
    """What MaxText's own train step moves, and why there is none."""
    out, log = folder / "program.json", folder / "program.log.txt"
    given = maxtext_options(config, arm, folder, recorded=False)
    options = [text for text in given if text.partition("=")[0] not in ON_CPU]
    options += [f"{name}={value}" for name, value in ON_CPU.items()]
    command = [installed.python, "-m", WORKER, "program", str(out), installed.base, *options]
    devices = max(1, config.training.fsdp)
    environment = {
        **_shared_environment(os.environ),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    code = run_logged(command, environment, log, plan.arm_timeout_s)
    if code is None:
        return {}, f"not traced after {plan.arm_timeout_s:.0f} s"
    if not out.is_file():
        text = log.read_text(encoding="utf-8", errors="replace")
        return {}, f"MaxText does not take it: {last_error(text)}"
    return read_json(out), ""


def train_command(
    config: Config, arm: Arm, plan: Plan, installed: Installed, folder: Path
) -> list[str]:
    """MaxText's own training, under nsys where it is to be recorded."""
    options = maxtext_options(config, arm, folder, recorded=plan.nsys is not None)
    out = folder / "memory.json"
    command = [installed.python, "-m", WORKER, "train", str(out), installed.base, *options]
    if plan.nsys is None:
        return command
    return nsys.profile_command(plan.nsys, folder / STEM, command)


def train_environment(
    config: Config, arm: Arm, plan: Plan, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Inherited variables, the arm's, and a folder with the CUDA runtime under MaxText's name.

    Raises `RefusedError` where there is no CUDA runtime to record with.
    """
    environment = {**_shared_environment(inherited), **ENVIRONMENT, **config.environment}
    environment["XLA_FLAGS"] = f"{inherited.get('XLA_FLAGS', '')} {xla_flags(arm)}".strip()
    if plan.nsys is not None:
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(
            part for part in (str(link_cudart(plan)), inherited.get("LD_LIBRARY_PATH")) if part
        )
    return environment


def _shared_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join(p for p in (str(ROOT), inherited.get("PYTHONPATH")) if p)
    # Without it MaxText imports cloud packages that training never needs.
    return {"DECOUPLE_GCLOUD": "TRUE", **inherited, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def link_cudart(plan: Plan, candidates: Sequence[tuple[str, str]] | None = None) -> Path:
    """A folder in which the CUDA runtime has the name that MaxText loads.

    Raises `RefusedError` where there is none.
    """
    folder = (plan.folder / "shared" / "cudart").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tried = runtime_candidates() if candidates is None else candidates
    for name, prefix in tried:
        path = _loaded_from(name) if prefix == "cudaProfiler" else None
        if path is not None:
            link = folder / CUDART
            link.unlink(missing_ok=True)
            link.symlink_to(path)
            return folder
    raise RefusedError(
        f"No CUDA runtime was found, and MaxText records through {CUDART}.",
        "pip install nvidia-cuda-runtime, or use --no-trace.",
    )


def _loaded_from(name: str) -> str | None:
    """The file that a library name loads; None where it does not load."""
    import ctypes

    try:
        ctypes.CDLL(name)
    except OSError:
        return None
    if os.path.isabs(name):
        return name
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        path = line.split(maxsplit=5)[-1]
        if path.startswith("/") and Path(path).name.startswith(name):
            return path
    return None


def _manifest(
    config: Config,
    arm: Arm,
    plan: Plan,
    program: Mapping[str, Any],
    measured: Mapping[str, Any],
    memory: Mapping[str, Any],
    text: str,
    n_traced: int,
) -> dict[str, Any]:
    """The manifest, as of our own arms; what MaxText does not say is None or left out."""
    spec = spec_of(config, arm, plan)
    head = header(spec)
    environment = train_environment(config, arm, replace(plan, nsys=None), os.environ)
    sizes = {key: memory.get(key) for key in ("peak_gib", "limit_gib")}
    return {
        **head,
        "status": "ok",
        "program": f"MaxText {program['versions'].get('maxtext')}",
        "versions": {**head["versions"], **program["versions"]},
        "environment": recorded_environment(environment),
        "mesh": {"fsdp": program["devices"]},
        "device": {key: str(memory.get(key, "unknown")) for key in ("kind", "platform")},
        "options": dict(arm.options),
        "traffic": program["traffic"],
        "placement_calls": program["placement_calls"],
        "traced_steps": n_traced,
        "flops_per_device": step_flops(config),
        "tflops_per_device": tflops_per_device(config, measured["step_ms"]),
        "clocks": {"absent": "not read beside MaxText"},
        **measured,
        "memory": {**sizes, **planned_gib(text)},
    }


def _finish(plan: Plan, folder: Path, text: str, n_traced: int) -> tuple[str, str]:
    """Import, export and measure the recording; void where it does not hold what it should."""
    if plan.nsys is None:
        return "ok", ""
    if NO_LIBRARY in text:
        return "void", f"MaxText found no {CUDART}, so nothing opened the recording"
    try:
        nsys.finish(plan.nsys, folder / STEM, plan.libraries)
        report = analyze_folder(folder)
    except NsysOverlapError as error:
        return "void", str(error)
    found = report["basis"]["n_steps"]
    if found != n_traced:
        return "void", f"{found or 'no'} steps were found in the recording, not {n_traced}"
    return "ok", ""


def check_line() -> str:
    """A line for a shell that fails where MaxText would record nothing."""
    test = f'import ctypes; ctypes.CDLL("{CUDART}")'
    return f"python3 -c {shlex.quote(test)} || exit 1  # else MaxText records nothing"
