"""Steps: a row each and their median, minimum and maximum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import median

from ..core.limits import Unit
from ..result.columns import Column, Place, at, lifted, named
from ..result.device_names import FEW_DEVICES, device_names
from ..result.metrics import STEP_MEDIAN
from ..result.model import DeviceReport, OverlapReport, StepReport
from ..result.tables import STEP
from .blocks import Block, Paragraph, Table
from .cells import rest_note, summary_row, table_of

ALL_STEPS = 12
"""Up to here each step gets a row; of more only the slowest and the fastest do."""
N_SLOWEST = 3
N_NAMED = 10
OUTLIER = 0.2
"""Share of the median by which the time of an outlier differs from it."""


def steps_section(report: OverlapReport) -> list[Block]:
    """Steps of each device, by process where several share it; nothing without steps."""
    names = device_names(report)
    groups = [
        (name, device, steps)
        for name, device in zip(names, report.devices, strict=True)
        for steps in _by_process(device)
    ]
    if not groups:
        return []
    if len(report.devices) > FEW_DEVICES:
        return [_each_device(groups)]
    return [_steps_block(*group) for group in groups]


def is_outlier(step: StepReport, steps: Sequence[StepReport]) -> bool:
    """Whether the step time differs from the median of all by more than `OUTLIER`."""
    return step in _outliers([step], steps)


def _outliers(some: Sequence[StepReport], steps: Sequence[StepReport]) -> list[StepReport]:
    """Those of `some` steps that are outliers among `steps`."""
    middle = median(step.duration_ns for step in steps)
    return [step for step in some if abs(step.duration_ns - middle) > OUTLIER * middle]


def _by_process(device: DeviceReport) -> list[list[StepReport]]:
    groups: dict[int, list[StepReport]] = {}
    for step in device.steps:
        groups.setdefault(step.pid, []).append(step)
    return list(groups.values())


def _owner(device: DeviceReport, name: str, steps: Sequence[StepReport]) -> str:
    """The device, and whose steps they are where processes share it."""
    shared = len({step.pid for step in device.steps}) > 1
    return f"{name}, pid {steps[0].pid}" if shared else name


def _steps_block(name: str, device: DeviceReport, steps: Sequence[StepReport]) -> Block:
    title = f"Steps, {_owner(device, name, steps)} (n = {len(steps)})"
    if not any(step.both.n or step.both.wall_ns for step in steps):
        middle, least, most = _times(steps)
        return Paragraph(f"{title}: no transfers; median time {middle}, from {least} to {most}.")
    columns = at(STEP, Place.TEXT)
    names = Column[StepReport]("step", Unit.NAME, "", partial(_marked, steps), "step")
    single = table_of(title, [names, *columns], _shown(steps), _note(steps))
    summary = [summary_row(name, columns, steps) for name in _SUMMARIES]
    return replace(single, rows=(*summary, *single.rows))


def steps_table(report: OverlapReport, most: int) -> Table | None:
    """Steps of all devices in order, to sort and to filter; of too many the most exposed."""
    every = [
        (name, step)
        for name, device in zip(device_names(report), report.devices, strict=True)
        for step in device.steps
    ]
    shown = every
    if len(every) > most:
        shown = sorted(every, key=lambda pair: -pair[1].both.exposed_ns)[:most]
    columns = (
        *([_DEVICE] if len(report.devices) > 1 else []),
        Column[_Named]("step", Unit.NAME, "", lambda pair: str(pair[1].index), "step"),
        *lifted(at(STEP, Place.PAGE), lambda pair: pair[1]),
    )
    note = rest_note(len(every), len(shown))
    return table_of("Single steps", columns, shown, note, name="steps") if shown else None


_Named = tuple[str, StepReport]
_DEVICE = Column[_Named]("device", Unit.NAME, "", lambda pair: pair[0], "device")
_SUMMARIES = ("median", "min", "max")


def _shown(steps: Sequence[StepReport]) -> list[StepReport]:
    """All steps of a short run, in order; of a long one the slowest, then the fastest."""
    if len(steps) <= ALL_STEPS:
        return list(steps)
    by_time = sorted(steps, key=lambda step: step.duration_ns, reverse=True)
    return [*by_time[:N_SLOWEST], by_time[-1]]


def _marked(steps: Sequence[StepReport], step: StepReport) -> str:
    return f"{_step_name(step, steps)}{' outlier' if is_outlier(step, steps) else ''}"


def _step_name(step: StepReport, steps: Sequence[StepReport]) -> str:
    """Its index, and its label where labels differ; `step 3` alone where that is index 3."""
    if not step.label or len({other.label for other in steps}) == 1:
        return str(step.index)
    last_word = step.label.split()[-1:]
    return step.label if last_word == [str(step.index)] else f"{step.index} ({step.label})"


def _note(steps: Sequence[StepReport]) -> str:
    sentences = []
    outliers = [str(step.index) for step in _outliers(steps, steps)]
    if outliers:
        sentences.append(f"Outlier: time over {OUTLIER * 100:.0f} % off the median.")
        if steps[0].index == 0 and is_outlier(steps[0], steps):
            sentences.append("Step 0 counts in all totals: leave it out with --skip-steps 1.")
    if len(steps) > ALL_STEPS:
        sentences.append(
            f"Shown are the {N_SLOWEST} slowest steps and the fastest; all are in the JSON report."
        )
        more = f" and {len(outliers) - N_NAMED} more" if len(outliers) > N_NAMED else ""
        if outliers:
            sentences.append(f"Outliers: steps {', '.join(outliers[:N_NAMED])}{more}.")
    return " ".join(sentences)


def _times(steps: Sequence[StepReport]) -> tuple[str, ...]:
    """Median, least and most step time."""
    duration = named(STEP, "duration_ns")
    return tuple(summary_row(name, duration, steps)[1] for name in _SUMMARIES)


def _each_device(groups: Sequence[tuple[str, DeviceReport, list[StepReport]]]) -> Table:
    columns = ("device", "n", "median time", "min time", "max time")
    medians = named(STEP, "both_exposed_ns", "relief_share")
    rows = tuple(
        (
            *(_owner(device, name, steps), str(len(steps)), *_times(steps)),
            *summary_row("median", medians, steps)[1:],
        )
        for name, device, steps in groups
    )
    note = (
        "Exposed and relief are medians over steps; relief is the share of the offloaded bytes "
        "that was on the host at once. Single steps are in the JSON report."
    )
    headings = (*columns, f"exposed, {STEP_MEDIAN}", "relief")
    return Table("Steps, each device", headings, rows, note)
