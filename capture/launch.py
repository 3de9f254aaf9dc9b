"""Starting the process of one arm: its command, environment, log and time limit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nsysoverlap.core.processes import run_group

from . import nsys
from .errors import RefusedError
from .json_files import read_json
from .options import check_environment
from .spec import Spec, ranked

ROOT = Path(__file__).resolve().parent.parent
HOST_COMPUTE = "device compute in host memory space"
STEM = "trace"
RECORDINGS = (".nsys-rep", ".qdstrm", ".sqlite")


@dataclass(frozen=True)
class Outcome:
    """How the process of an arm ended.

    `status`: ok, void, out-of-memory, refused, failed, timeout, or skipped where what the arm
    builds on is not there. `trace` is the recording without its suffix, None without one.
    """

    status: str
    reason: str = ""
    trace: Path | None = None


def worker_environment(spec: Spec, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of the worker: inherited, checked, with the configuration's variables.

    Raises `RefusedError` where the two contradict each other or the arm.
    """
    check_environment(spec.the_arm, inherited)
    for name, value in spec.config.environment.items():
        if inherited.get(name, value) != value:
            raise RefusedError(
                f"{name}={inherited[name]} is set, and {spec.config.name} asks for {value}.",
                f"Run again with: env -u {name} ...",
            )
    environment = {**inherited, **spec.config.environment, "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        part for part in (str(ROOT), inherited.get("PYTHONPATH")) if part
    )
    if spec.mode == "preflight":
        n_devices = max(1, spec.config.training.fsdp)
        inherited = {
            **inherited,
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={n_devices}",
        }
    dump = f"--xla_dump_to={dump_folder(spec)} --xla_dump_hlo_module_re=jit_step"
    flags = inherited.get("XLA_FLAGS", "")
    if "xla_dump_to" not in flags and spec.mode not in ("compile", "rounds"):
        environment["XLA_FLAGS"] = f"{flags} {dump}".strip()
    if spec.mode in ("check", "preflight"):
        # Any backend knows all options, and this one starts at once.
        environment["JAX_PLATFORMS"] = "cpu"
    if spec.shared:
        environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(spec.shared, "jax")))
    return environment


def dump_folder(spec: Spec) -> Path:
    """Where XLA writes what it knows of the program; ranks would overwrite each other's."""
    return Path(spec.folder, ranked("xla", spec.rank, spec.processes))


def worker_command(spec: Spec, nsys_path: Path | None) -> list[str]:
    """The command that runs the spec, under nsys where it is to be recorded."""
    folder = Path(spec.folder)
    spec_file = folder / ranked("spec.json", spec.rank, spec.processes)
    command = [sys.executable, "-m", "capture.worker", str(spec_file)]
    if nsys_path is None:
        return command
    return nsys.profile_command(nsys_path, trace_stem(spec), command)


def trace_stem(spec: Spec) -> Path:
    """Where the recording goes, without suffix; one file a rank."""
    name = f"rank{spec.rank}" if spec.processes > 1 else STEM
    return Path(spec.folder, name)


def launch(
    spec: Spec, nsys_path: Path | None, timeout_s: float, more: Mapping[str, str] | None = None
) -> Outcome:
    """Run the spec in a fresh process and say how it ended; its output is `log.txt`.

    `more` are variables beside the inherited ones.
    """
    folder = Path(spec.folder)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / ranked("manifest.json", spec.rank, spec.processes)
    manifest.unlink(missing_ok=True)
    if spec.mode == "run":
        # What an earlier run left must not pass for this one's.
        for suffix in RECORDINGS:
            trace_stem(spec).with_suffix(suffix).unlink(missing_ok=True)
    environment = worker_environment(spec, {**os.environ, **(more or {})})
    spec.write(folder / ranked("spec.json", spec.rank, spec.processes))
    log = folder / ranked("log.txt", spec.rank, spec.processes)
    code = run_logged(worker_command(spec, nsys_path), environment, log, timeout_s)
    return _outcome(spec, manifest, log, code, timeout_s)


def run_logged(
    command: list[str], environment: Mapping[str, str], log: Path, timeout_s: float
) -> int | None:
    """The exit status of a command whose output goes to a file; None when its time ran out."""
    with log.open("wb") as output:
        try:
            return run_group(command, environment, output, timeout_s).returncode
        except subprocess.TimeoutExpired:
            return None


def _outcome(spec: Spec, manifest: Path, log: Path, code: int | None, timeout_s: float) -> Outcome:
    if code is None:
        return Outcome("timeout", f"not done after {timeout_s:.0f} s")
    text = log.read_text(encoding="utf-8", errors="replace")
    if not manifest.is_file():
        return Outcome("failed", f"status {code}: {last_error(text)}")
    values = read_json(manifest)
    if values["status"] != "ok":
        return Outcome(values["status"], values.get("reason", ""))
    trace = trace_stem(spec) if spec.trace else None
    if HOST_COMPUTE in text:
        return Outcome("void", "XLA computes on the host: see the log", trace)
    return Outcome("ok", "", trace)


def last_error(log: str) -> str:
    """The line of a log that most likely says why it ends."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"Error|error:|FAILED|^F\d{4}|INTERNAL", line)]
    return ((errors or lines or ["no output"])[-1])[:300]
