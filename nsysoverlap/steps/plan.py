"""Which steps a trace has, and which of them the user wants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..core.errors import UsageError
from ..core.formatting import number_of
from ..core.window import Window
from ..result.model import HealthEntry
from ..roles.rules import Classified
from ..trace.host import HostSide
from .guess import guess_borders
from .launches import Launches
from .markers import asked_marker, candidate_markers
from .projection import Projection, StepWindow


@dataclass(frozen=True)
class StepSpec:
    """What the user asked for: `mode` is auto, none, guess or a regex for NVTX text.

    `skip` steps of warm-up are left out; `first` and `last` (included) keep only some, by index.
    """

    mode: str = "auto"
    skip: int = 0
    first: int | None = None
    last: int | None = None

    @property
    def words(self) -> str:
        """As the options say it, such as `auto, 2 skipped` or `auto, step 3 to 5`."""
        skipped = f", {self.skip} skipped" if self.skip else ""
        kept = "" if self.first is None else f", step {self.first} to {self.last}"
        return f"{self.mode}{skipped}{kept}"


@dataclass(frozen=True)
class StepPlan:
    """The kept steps, in order of device, process and index; empty where the trace has none.

    `marker` says in words what marks a step, None without steps. `skipped` counts what was left
    out on the device that has most; `left_out` are the rows of `HostSide.ranges` that mark it.
    """

    marker: str | None = None
    windows: tuple[StepWindow, ...] = ()
    skipped: int = 0
    notes: tuple[HealthEntry, ...] = ()
    left_out: tuple[int, ...] = ()

    def of(self, device: int) -> tuple[StepWindow, ...]:
        """Kept steps of one device."""
        return tuple(window for window in self.windows if window.device == device)

    @property
    def n_steps(self) -> int:
        """Most steps kept on any device for any process."""
        counts: dict[tuple[int, int], int] = {}
        for window in self.windows:
            key = (window.device, window.global_pid)
            counts[key] = counts.get(key, 0) + 1
        return max(counts.values(), default=0)


def plan_steps(
    classified: Classified, spec: StepSpec, launches: Launches | None = None
) -> StepPlan:
    """Find the steps of a trace as asked for; `launches` are those of the trace, where at hand.

    Raises `UsageError` for a regex that matches nothing or launches nothing, and for step numbers
    that the trace does not have.
    """
    if spec.mode == "none":
        if spec.skip or spec.first is not None:
            raise UsageError(
                "--steps none leaves no steps to choose from.",
                "Drop it, or drop --step and --skip-steps.",
            )
        return StepPlan()
    host, name = classified.trace.host, classified.trace.info.file_name
    notes = _unclosed(host)
    if spec.mode == "guess":
        plan = guessed_plan(classified)
        if plan is None:
            raise UsageError(
                f"{name}: no repeating pattern of kernels to guess steps from.",
                "Use --steps none, or mark steps with NVTX ranges when capturing.",
            )
        return _select(replace(plan, notes=notes), spec, name)
    work = Projection(classified, launches or Launches(classified.trace))
    if spec.mode == "auto":
        for marker in candidate_markers(host):
            windows = work.windows(marker)
            if windows and (len(marker.ranges) > 1 or not marker.name.startswith("XlaModule")):
                return _select(StepPlan(marker.name, windows, 0, notes), spec, name)
        return _unmarked(classified, spec, notes)
    marker = asked_marker(host, spec.mode, name)
    windows = work.windows(marker)
    if not windows:
        raise UsageError(
            f"{name}: the ranges that match --steps {spec.mode!r} launched no GPU work.",
            "Name ranges that enclose the launches, or use --steps auto.",
        )
    return _select(StepPlan(marker.name, windows, 0, notes), spec, name)


def _unclosed(host: HostSide) -> tuple[HealthEntry, ...]:
    n = host.ranges.n_unclosed
    if not n:
        return ()
    message = f"{number_of(n, 'NVTX range')} without an end {'was' if n == 1 else 'were'} left out."
    return (HealthEntry("ranges-unclosed", "note", message, "They mark no step.", count=n),)


def _unmarked(classified: Classified, spec: StepSpec, notes: tuple[HealthEntry, ...]) -> StepPlan:
    """No marker: the whole trace is measured, and a guess is offered."""
    if spec.skip or spec.first is not None:
        raise UsageError(
            f"{classified.trace.info.file_name}: no steps were found to choose from.",
            "Give --steps REGEX, or --steps guess to go by the repeating kernels.",
        )
    guess = guessed_plan(classified)
    hint = "Mark steps with NVTX ranges, or name them with --steps REGEX."
    if guess is not None:
        steps = [w for w in guess.windows if w.device == guess.windows[0].device]
        period = int(np.median([w.end_ns - w.start_ns for w in steps]))
        hint = (
            f"A guess: kernels repeat {len(steps)} times, every {period / 1e6:.1f} ms, from "
            f"{guess.windows[0].label} on; --steps guess takes that for steps."
        )
    message = "Nothing in the trace marks steps, so the numbers are over the whole trace."
    return StepPlan(None, (), 0, (*notes, HealthEntry("no-step-marker", "note", message, hint)))


def guessed_plan(classified: Classified) -> StepPlan | None:
    """Steps by the repeating pattern of kernels, labelled as a guess; None without a pattern."""
    windows: list[StepWindow] = []
    for device in classified.trace.devices:
        guess = guess_borders(classified, device.index)
        if guess is None:
            continue
        name, borders = guess
        windows.extend(
            StepWindow(device.index, device.global_pids[0], i, name, start, end)
            for i, (start, end) in enumerate(pairwise(borders))
        )
    return (
        StepPlan(f"a guess from repeating kernels ({windows[0].label})", tuple(windows))
        if (windows)
        else None
    )


def steps_in_window(
    classified: Classified, spec: StepSpec, window: Window, launches: Launches | None = None
) -> StepPlan:
    """No steps, for a window is measured as one piece, but a note of those that it touches."""
    if spec.mode == "none":
        return StepPlan()
    found = plan_steps(classified, spec, launches)
    touched = [w.index for w in found.windows if w.start_ns < window.high and window.low < w.end_ns]
    if not touched:
        return StepPlan()
    first, last = min(touched), max(touched)
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    message = (
        f"The window is measured as one piece: {steps} in it ({found.marker}) "
        f"{'is' if first == last else 'are'} not told apart."
    )
    option = f"--step {first}" if first == last else f"--step {first}:{last}"
    hint = f"Give {option} in place of --window for numbers a step."
    note = HealthEntry("steps-not-told-apart", "note", message, hint, count=last - first + 1)
    return StepPlan(notes=(note,))


def _select(plan: StepPlan, spec: StepSpec, file_name: str) -> StepPlan:
    """Leave out what the user does not want."""
    n = plan.n_steps
    first = spec.skip if spec.first is None else max(spec.first, spec.skip)
    last = n - 1 if spec.last is None else spec.last
    if spec.first is not None and not 0 <= spec.first <= last < n:
        raise UsageError(
            f"{file_name}: step {spec.first}{'' if last == spec.first else f':{last}'} is not "
            f"among its {number_of(n, 'step')}.",
            f"Steps are numbered from 0 to {n - 1}.",
        )
    kept = tuple(window for window in plan.windows if first <= window.index <= last)
    if not kept:
        wanted = n if spec.first is None else last - spec.first + 1
        raise UsageError(
            f"{file_name}: leaving out the first {spec.skip} leaves none of "
            f"{number_of(wanted, 'step')}.",
            "Use a smaller --skip-steps.",
        )
    kept_plan = replace(plan, windows=kept)
    marked = {w.marked_by for w in plan.windows} - {w.marked_by for w in kept}
    left_out = tuple(sorted(row for row in marked if row is not None))
    return replace(kept_plan, skipped=n - kept_plan.n_steps, left_out=left_out)
