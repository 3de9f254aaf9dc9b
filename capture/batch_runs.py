"""The largest batch of several arms, each found in a process of its own; found ones are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nsysoverlap.core.output import write_atomically

from .arms import find_arm
from .config import Config
from .flops import tflops_per_device
from .launch import launch
from .matrix import Plan, spec_of
from .results import read_manifest

BATCH_ARMS = ("keep", "remat", "save", "offload", "prefetch")
SIZES_AT_MOST = 12
"""Sizes that a search tries at most, each of which may take as long as an arm."""
COLUMNS = (
    "arm",
    "sequences a device that fit",
    "step ms",
    "sequences/s",
    "TFLOP/s/device",
    "planned GiB",
)


@dataclass(frozen=True)
class Largest:
    """The largest batch a device of an arm, the step there, and the memory it plans.

    `open_ended`: the search ended there, not the memory. `problem` is why nothing was found.
    """

    arm: str
    batch: int = 0
    open_ended: bool = False
    step_ms: float | None = None
    planned_gib: float | None = None
    problem: str = ""


def find_batches(
    config: Config, plan: Plan, arms: Sequence[str], say: Callable[[str], None]
) -> list[Largest]:
    """Search for each arm that has no result in the folder yet; one that fails stops no other."""
    chosen = [find_arm(config, name).name for name in arms]
    began, longest = time.monotonic(), 0.0
    found = []
    for name in chosen:
        folder = plan.folder / f"{name}-batch"
        known = _kept(name, folder)
        if known is not None:
            say(f"{name}: has a result already: {known.batch} sequences a device")
            found.append(known)
            continue
        at = time.monotonic()
        if plan.budget_s is not None and at - began + longest > plan.budget_s:
            say(f"time budget spent; not run: {', '.join(chosen[len(found) :])}")
            break
        spec = spec_of(config, find_arm(config, name), plan, "find-batch")
        outcome = launch(
            replace(spec, folder=str(folder.resolve())), None, SIZES_AT_MOST * plan.arm_timeout_s
        )
        problem = f"{outcome.status}: {outcome.reason}" if outcome.status != "ok" else ""
        one = Largest(name, problem=problem) if problem else _kept(name, folder) or Largest(name)
        found.append(one)
        longest = max(longest, time.monotonic() - at)
        say(f"{name}: {problem or f'{one.batch} sequences a device'}")
    return found


def _kept(arm: str, folder: Path) -> Largest | None:
    """What an earlier search left."""
    values = read_manifest(folder) or {}
    if values.get("status") != "ok" or "largest_batch_per_device" not in values:
        return None
    largest = values["largest_batch_per_device"]
    tried = {entry["batch_per_device"]: entry for entry in values["tried"]}
    there = tried.get(largest, {})
    return Largest(
        arm, largest, values["search_ended"], there.get("step_ms"), there.get("planned_gib")
    )


def write_batches(config: Config, folder: Path, found: Sequence[Largest]) -> str:
    """Write `batches.md`; returns it."""
    table = batch_table(config, found)
    write_atomically(folder / "batches.md", table)
    return table


def batch_table(config: Config, found: Sequence[Largest]) -> str:
    """A line an arm, and which trains most sequences in a second."""
    lines = [list(COLUMNS), ["---"] + ["---:"] * (len(COLUMNS) - 1)]
    lines += [_cells(config, one) for one in found]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    able = [one for one in found if one.batch and one.step_ms]
    if not able:
        return f"{table}\n"
    fullest = max(able, key=lambda one: one.batch)
    fastest = max(able, key=_rate)
    return (
        f"{table}\n\nLargest batch: {fullest.arm}, {fullest.batch} sequences a device. Most "
        f"sequences a second: {fastest.arm}, {_rate(fastest):.2f} a device.\n"
    )


def _rate(one: Largest) -> float:
    return 1e3 * one.batch / one.step_ms if one.step_ms else 0.0


def _cells(config: Config, one: Largest) -> list[str]:
    if one.problem:
        return [one.arm, f"**{one.problem}**", *["–"] * (len(COLUMNS) - 2)]
    size = f"{'at least ' if one.open_ended else ''}{one.batch}"
    if not one.step_ms:
        return [one.arm, size, *["–"] * (len(COLUMNS) - 2)]
    training = replace(config.training, batch_per_device=one.batch)
    tflops = tflops_per_device(replace(config, training=training), one.step_ms)
    planned = "–" if one.planned_gib is None else f"{one.planned_gib:.1f}"
    rate = f"{_rate(one):.2f}"
    return [one.arm, size, f"{one.step_ms:,.1f}", rate, f"{tflops:,.1f}", planned]
