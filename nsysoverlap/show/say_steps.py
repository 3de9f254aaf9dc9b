"""Steps: a row each and their median, minimum and maximum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from ..core.formatting import NONE, format_bytes, format_ns
from ..result.device_names import FEW_DEVICES, device_names
from ..result.model import DeviceReport, OverlapReport, StepReport, format_share
from .blocks import Block, Paragraph, Table

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
        times = _summary([step.duration_ns for step in steps], _time)
        return Paragraph(
            f"{title}: no transfers; median time {times['median']}, from {times['min']} to "
            f"{times['max']}."
        )
    columns = ("step", "time", "H2D behind compute", "D2H behind compute", "exposed", "relief")
    rows = [*_summary_rows(steps), *(_row(step, steps) for step in _shown(steps))]
    return Table(title, (*columns, "relief share"), tuple(rows), _note(steps))


def _shown(steps: Sequence[StepReport]) -> list[StepReport]:
    """All steps of a short run, in order; of a long one the slowest, then the fastest."""
    if len(steps) <= ALL_STEPS:
        return list(steps)
    by_time = sorted(steps, key=lambda step: step.duration_ns, reverse=True)
    return [*by_time[:N_SLOWEST], by_time[-1]]


def _row(step: StepReport, steps: Sequence[StepReport]) -> tuple[str, ...]:
    mark = " outlier" if is_outlier(step, steps) else ""
    return (
        f"{_step_name(step, steps)}{mark}",
        format_ns(step.duration_ns),
        format_share(step.h2d.hidden_share),
        format_share(step.d2h.hidden_share),
        format_ns(step.both.exposed_ns),
        format_bytes(step.relief.relief_bytes) if step.relief.offloaded_bytes else NONE,
        format_share(step.relief.relief_share),
    )


def _step_name(step: StepReport, steps: Sequence[StepReport]) -> str:
    """Its index, and its label where labels differ; `step 3` alone where that is index 3."""
    if not step.label or len({other.label for other in steps}) == 1:
        return str(step.index)
    last_word = step.label.split()[-1:]
    return step.label if last_word == [str(step.index)] else f"{step.index} ({step.label})"


_Show = Callable[[float], str]


def _summary_rows(steps: Sequence[StepReport]) -> list[tuple[str, ...]]:
    relieved = [step.relief for step in steps if step.relief.offloaded_bytes]
    parts = [
        _summary([step.duration_ns for step in steps], _time),
        _summary([step.h2d.hidden_share for step in steps], format_share),
        _summary([step.d2h.hidden_share for step in steps], format_share),
        _summary([step.both.exposed_ns for step in steps], _time),
        _summary([relief.relief_bytes for relief in relieved], _size),
        _summary([relief.relief_share for relief in relieved], format_share),
    ]
    return [(name, *(part[name] for part in parts)) for name in ("median", "min", "max")]


def _time(ns: float) -> str:
    return format_ns(round(ns))


def _size(n_bytes: float) -> str:
    return format_bytes(round(n_bytes))


def _summary(values: Sequence[float | None], show: _Show) -> dict[str, str]:
    """Median, minimum and maximum of the values that are known, as text."""
    known = [value for value in values if value is not None]
    if not known:
        return dict.fromkeys(("median", "min", "max"), NONE)
    return {
        "median": show(median(known)),
        "min": show(min(known)),
        "max": show(max(known)),
    }


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


def _each_device(groups: Sequence[tuple[str, DeviceReport, list[StepReport]]]) -> Table:
    columns = ("device", "n", "median time", "min time", "max time", "exposed", "relief")
    rows = []
    for name, device, steps in groups:
        times = _summary([step.duration_ns for step in steps], _time)
        exposed = _summary([step.both.exposed_ns for step in steps], _time)["median"]
        relief = _summary([step.relief.relief_share for step in steps], format_share)["median"]
        rows.append(
            (_owner(device, name, steps), str(len(steps)), *times.values(), exposed, relief)
        )
    note = (
        "Exposed and relief are medians over steps; relief is the share of the offloaded bytes "
        "that was on the host at once. Single steps are in the JSON report."
    )
    return Table("Steps, each device", columns, tuple(rows), note)
