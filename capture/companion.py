"""The same program on a second GPU of the host, copying at once: what a shared link would show."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from nsysoverlap.core.processes import group_beside

from .errors import CaptureError
from .launch import worker_command, worker_environment
from .spec import Spec

FOLDER = "companion"
ENDLESS = 1_000_000
"""Steps that the companion would time: it is ended long before."""
READY = "warming up"
"""What a worker says once its program is compiled."""


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES has them."""
    if "CUDA_VISIBLE_DEVICES" in environment:
        return [part for part in environment["CUDA_VISIBLE_DEVICES"].split(",") if part]
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        done = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = [line for line in done.stdout.splitlines() if line.startswith("GPU ")]
    return [str(number) for number in range(len(lines))]


def two_gpus(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """CUDA_VISIBLE_DEVICES of a program and of its companion, empty on a CPU, which is its own.

    None where there is no second GPU.
    """
    if environment.get("JAX_PLATFORMS", "").startswith("cpu"):
        return "", ""
    found = visible_gpus(environment)
    return (found[0], found[1]) if len(found) > 1 else None


@contextmanager
def companion(spec: Spec, more: Mapping[str, str], timeout_s: float) -> Iterator[None]:
    """Run the program of `spec` with the variables `more` for as long as the block lasts.

    The block begins when the companion steps. Raises `CaptureError` where it ends before that.
    """
    recording = replace(spec.config.recording, timed=ENDLESS)
    folder = Path(spec.folder, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    own = replace(
        spec, config=replace(spec.config, recording=recording), folder=str(folder), trace=False
    )
    own.write(folder / "spec.json")
    environment = worker_environment(own, {**os.environ, **more})
    with (folder / "log.txt").open("wb") as log:
        command = worker_command(own, None)
        with group_beside(command, environment, log) as process:
            end = time.monotonic() + timeout_s
            while READY not in (folder / "log.txt").read_text(encoding="utf-8", errors="replace"):
                if process.poll() is not None or time.monotonic() > end:
                    raise CaptureError(
                        "The program on the second GPU did not come to its steps.",
                        f"See {FOLDER}/log.txt.",
                    )
                time.sleep(0.2)
            yield
