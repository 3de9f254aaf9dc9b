"""What MaxText says of a run in its log: steps, losses, and the memory that XLA planned."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from statistics import mean
from typing import Any

_STEP = re.compile(r"completed step: (\d+), (.*)")
_VALUE = re.compile(r"([\w/]+): (nan|-?inf|-?[\d.]+(?:e[+-]?\d+)?)", re.IGNORECASE)
_PLAN = re.compile(
    r"Total estimated memory size: ([\d.]+) GB, .*?temp size: ([\d.]+) GB, "
    r"estimated argument size: ([\d.]+) GB, Estimated host temp size: ([\d.]+) GB"
)
NO_LIBRARY = "profiler has no effect"
"""What MaxText says where it finds no library of the name that it loads."""


@dataclass(frozen=True)
class LoggedStep:
    """One line "completed step": its seconds and its loss."""

    number: int
    seconds: float
    loss: float


def logged_steps(text: str) -> list[LoggedStep]:
    """The steps in the order of the log; those that MaxText hides behind its profiler lack."""
    found = []
    for line in text.splitlines():
        matched = _STEP.search(line)
        if matched is None:
            continue
        values = {name: float(value) for name, value in _VALUE.findall(matched[2])}
        if "seconds" in values and "loss" in values:
            found.append(LoggedStep(int(matched[1]), values["seconds"], values["loss"]))
    return found


def planned_gib(text: str) -> dict[str, float | None]:
    """XLA's plan of the train step, to a tenth of a GiB; None where the log does not say."""
    matched = _PLAN.search(text)
    names = ("planned_gib", "temporary_gib", "arguments_gib", "host_gib")
    if matched is None:
        return dict.fromkeys(names)
    return {name: float(value) for name, value in zip(names, matched.groups(), strict=True)}


def timings(text: str, first: int, last: int, n_traced: int) -> dict[str, Any]:
    """Part of a manifest: steps `first` to `last` - 1 ran without the profiler, `n_traced` after.

    Empty where the log lacks one of the former.
    """
    steps = {step.number: step for step in logged_steps(text)}
    timed = [steps[n] for n in range(first, last) if n in steps]
    if len(timed) < last - first:
        return {}
    traced = [steps[n].seconds for n in range(last, last + n_traced) if n in steps]
    return {
        "step_ms": 1e3 * mean(step.seconds for step in timed),
        "timed_ms": [1e3 * step.seconds for step in timed],
        "traced_ms": 1e3 * mean(traced) if traced else None,
        "losses": [s.loss if math.isfinite(s.loss) else None for s in steps.values()],
    }
