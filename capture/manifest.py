"""The manifest beside each trace: what ran, with what, and what it measured.

No host names, users or paths; `manifest.schema.json` describes the file.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from nsysoverlap import __version__

from .spec import Spec

FORMAT = "nsysoverlap.capture"
FORMAT_VERSION = 1
PACKAGES = ("jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda13-pjrt", "jax-cuda12-plugin", "optax")


def header(spec: Spec) -> dict[str, Any]:
    """What is known before anything ran."""
    config = spec.config.to_dict()
    arm = spec.the_arm
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "generator": f"nsysoverlap {__version__}",
        "arm": arm.name,
        "title": arm.title,
        "control": arm.control,
        "config": config,
        "rank": spec.rank,
        "processes": spec.processes,
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """Versions of what takes part; None where it is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    found["driver"] = _driver_version()
    return found


def _driver_version() -> str | None:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        done = subprocess.run(
            [tool, "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.splitlines()[0].strip() if done.stdout else None


def flags_seen(dump: Path, wanted: set[str]) -> dict[str, str]:
    """The wanted flags as XLA had them, from the debug options it dumped of the step.

    XLA lists only options that differ from their default.
    """
    found: dict[str, str] = {}
    for path in sorted(dump.glob("*jit_step*debug_options")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            matched = re.match(r"(\w+): (.*)", line)
            if matched and matched[1] in wanted:
                value = matched[2].strip('"')
                found[matched[1]] = "…" if value.startswith("/") else value
    return found
