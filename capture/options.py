"""XLA options of an arm, and the inherited environment that would contradict them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from .arms import (
    ASYNC_LIMIT,
    COMMAND_BUFFER,
    ESTIMATOR,
    PIPELINED,
    PROFILE,
    SCHEDULER,
    SLOP,
    Arm,
)
from .errors import RefusedError

EXPERIMENTAL = frozenset(
    {SCHEDULER, ESTIMATOR, PIPELINED, ASYNC_LIMIT, COMMAND_BUFFER, SLOP, PROFILE}
)
"""Options that the experiment is about: from the environment they would reach every arm."""

REFUSED_VARIABLES = {
    "JAX_OPTIMIZATION_LEVEL": ("", "UNKNOWN", "O0"),
    "JAX_EXEC_TIME_OPTIMIZATION_EFFORT": ("", "0", "0.0"),
    "JAX_ENABLE_PGLE": ("", "0", "false", "False"),
    "CUDA_LAUNCH_BLOCKING": ("", "0"),
}
"""Variables that change the schedule of every arm, with the values that do not."""

RECORDED_VARIABLES = (
    "XLA_FLAGS",
    "JAX_OPTIMIZATION_LEVEL",
    "JAX_ENABLE_PGLE",
    "JAX_PLATFORMS",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB",
    "XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_VISIBLE_DEVICES",
    "NCCL_NVLS_ENABLE",
    "NCCL_LAUNCH_MODE",
    "NCCL_P2P_DISABLE",
    "NCCL_MAX_NCHANNELS",
)
_PATH = re.compile(r"(?<![\w.])/[^\s,'\"]*")


def xla_flags(text: str) -> dict[str, str]:
    """Flags of an XLA_FLAGS value by name; a flag without a value is "true".

    Raises `RefusedError` for a quote that is not closed.
    """
    found = {}
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise RefusedError(f"XLA_FLAGS cannot be read: {error}.", "Close the quote.") from error
    for part in parts:
        name, _, value = part.lstrip("-").partition("=")
        found[name] = value if "=" in part else "true"
    return found


def check_environment(arm: Arm, environment: Mapping[str, str]) -> None:
    """Raise `RefusedError` where a variable would run the arm as something other than it says."""
    for name, harmless in REFUSED_VARIABLES.items():
        if environment.get(name, "") not in harmless:
            raise RefusedError(
                f"{name}={environment[name]} is set and changes the schedule of every arm.",
                f"Run again with: env -u {name} ...",
            )
    flags = xla_flags(environment.get("XLA_FLAGS", ""))
    clash = sorted(name for name in flags if name in EXPERIMENTAL or name in arm.options)
    if clash:
        raise RefusedError(
            f"XLA_FLAGS sets {clash[0]}, which arm {arm.name} has to decide.",
            "Take it out of XLA_FLAGS; arms set their flags themselves.",
        )


def recorded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables worth knowing, with paths masked."""
    return {
        name: _PATH.sub("…", environment[name])
        for name in RECORDED_VARIABLES
        if name in environment
    }
