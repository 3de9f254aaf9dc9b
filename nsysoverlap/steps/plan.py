"""Which steps a trace has, and which of them the user wants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..core.errors import UsageError
from ..core.formatting import number_of
from ..core.window import Window
from ..result.model import GUESSED, HealthEntry
from ..result.numbers import format_share
from ..roles.rules import Classified
from ..trace.contents import pid_of
from ..trace.host import HostSide
from .choice import choose, rejected, without_steps
from .guess import Guess, guess_steps
from .launches import Launches
from .markers import asked_markers, repeating_ranges
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
        return _select(_guess_asked(classified, notes), spec, name)
    work = Projection(classified, launches or Launches(classified.trace))
    if spec.mode == "auto":
        return _found(classified, work, spec, notes)
    markers = asked_markers(host, spec.mode, name)
    windows = _in_order(window for marker in markers for window in work.windows(marker))
    if not windows:
        raise UsageError(
            f"{name}: the ranges that match --steps {spec.mode!r} launched no kernels.",
            "Name ranges that enclose launches of kernels, or use --steps auto.",
        )
    return _select(StepPlan(markers[0].kind.name, windows, 0, notes), spec, name)


def _in_order(windows: Iterable[StepWindow]) -> tuple[StepWindow, ...]:
    return tuple(sorted(windows, key=lambda w: (w.device, w.global_pid, w.index)))


def _found(
    classified: Classified, work: Projection, spec: StepSpec, notes: tuple[HealthEntry, ...]
) -> StepPlan:
    """Steps by the ranges that mark them, process by process, and by a regular pattern of kernels
    for processes that nothing marks.
    """
    weighed = work.candidates()
    by_process = [
        choose([one for one in weighed if one.marker.global_pid == pid])
        for pid in sorted({one.marker.global_pid for one in weighed})
    ]
    marked = {one.marker.global_pid: work.windows(one.marker) for one in by_process if one}
    chosen = [one for one in by_process if one and marked[one.marker.global_pid]]
    notes = (*notes, *rejected(weighed, chosen))
    open_pids = work.pids - {one.marker.global_pid for one in chosen}
    guesses, without = guess_steps(classified) if open_pids else ([], [])
    own = [guess for guess in guesses if guess.global_pid in open_pids]
    taken = all(guess.regular for guess in own) and not set(without) & open_pids
    if not chosen and not (own and taken):
        return _unmarked(classified, spec, notes, own, without)
    names = [one.marker.kind.name for one in chosen]
    windows = [window for windows in marked.values() for window in windows]
    if own and taken:
        names.append(_guessed_name(own))
        windows += [window for guess in own for window in guess.windows()]
        notes = (*notes, _guessed_note(own))
    elif open_pids:
        pids = sorted(map(pid_of, open_pids))
        notes = (*notes, *without_steps("of their own in the trace", pids))
    plan = StepPlan("; ".join(dict.fromkeys(names)), _in_order(windows), 0, notes)
    return _select(plan, spec, classified.trace.info.file_name)


def _unclosed(host: HostSide) -> tuple[HealthEntry, ...]:
    n = host.ranges.n_unclosed
    if not n:
        return ()
    message = f"{number_of(n, 'NVTX range')} without an end {'was' if n == 1 else 'were'} left out."
    return (HealthEntry("ranges-unclosed", "note", message, "They mark no step.", count=n),)


def _unmarked(
    classified: Classified,
    spec: StepSpec,
    notes: tuple[HealthEntry, ...],
    guesses: list[Guess],
    without: list[int],
) -> StepPlan:
    """No marker: the whole trace is measured, and what might mark steps is offered."""
    if spec.skip or spec.first is not None:
        raise UsageError(
            f"{classified.trace.info.file_name}: no steps were found to choose from.",
            "Give --steps REGEX, or --steps guess to go by the repeating kernels.",
        )
    hints = ["Mark steps with NVTX ranges, or name them with --steps REGEX."]
    if there_are := repeating_ranges(classified.trace.host, least=2):
        hints.append(f"Ranges that repeat, by time: {there_are}.")
    if guesses:
        first = guesses[0]
        lost = f" (nothing repeats in pid {_pids(without)})" if without else ""
        hints.append(
            f"A guess: kernels repeat {len(first.borders) - 1} times, every "
            f"{first.period_ns / 1e6:.1f} ms, from {first.label} on{lost}; --steps guess takes "
            "that for steps."
        )
    message = "Nothing in the trace marks steps, so the numbers are over the whole trace."
    note = HealthEntry("no-step-marker", "note", message, " ".join(hints))
    return StepPlan(None, (), 0, (*notes, note))


def _guess_asked(classified: Classified, notes: tuple[HealthEntry, ...]) -> StepPlan:
    """Steps by whatever repeats; raises `UsageError` where nothing does."""
    guesses, without = guess_steps(classified)
    if not guesses:
        raise UsageError(
            f"{classified.trace.info.file_name}: no repeating pattern of kernels to guess steps "
            "from.",
            "Use --steps none, or mark steps with NVTX ranges when capturing.",
        )
    windows = _in_order(window for guess in guesses for window in guess.windows())
    lost = sorted(map(pid_of, set(without)))
    notes = (*notes, *without_steps("by the guess", lost))
    return StepPlan(_guessed_name(guesses), windows, 0, notes)


def _guessed_name(guesses: list[Guess]) -> str:
    return f"{GUESSED} ({guesses[0].label})"


def _guessed_note(guesses: list[Guess]) -> HealthEntry:
    first = guesses[0]
    message = (
        f"The steps are a guess: nothing marks them, but kernels repeat "
        f"{len(first.borders) - 1} times, every {first.period_ns / 1e6:.1f} ms, from "
        f"{first.label} on, and hold {format_share(first.share)} of what ran."
    )
    cut = " The trace ends within the last one." if first.n_whole < len(first.borders) - 1 else ""
    hint = "Mark steps with NVTX ranges to be sure; --steps none measures the whole trace."
    return HealthEntry("steps-guessed", "warning", message + cut, hint)


def _pids(global_pids: list[int]) -> str:
    return ", ".join(str(pid_of(pid)) for pid in sorted(set(global_pids)))


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
