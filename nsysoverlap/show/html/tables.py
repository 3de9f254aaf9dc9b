"""Tables of the page that can be sorted and filtered: cells with the value to sort by."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.formatting import NONE, clean_text, format_bytes, format_ns, format_rate, short_kernel
from ...result.device_names import NAMES, device_names
from ...result.model import (
    KernelReport,
    OperationReport,
    OverlapReport,
    StepReport,
    format_share,
    share,
)

MAX_ROWS = 400
MAX_NAME = 200
_NUMBER, _WORD, _NAME = "n", "word", "name"
"""Classes of columns: numbers, short words, names of any length."""


@dataclass(frozen=True)
class Cell:
    """What is shown; `value` sorts a number, None stands below all; `bar` is a share 0..1."""

    text: str
    value: float | None = None
    bar: float | None = None


@dataclass(frozen=True)
class SortedTable:
    """A table of `Cell`s; `columns` are (title, class), the classes those below."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


def operations_table(report: OverlapReport) -> SortedTable | None:
    """Operations, most exposed first; None without any."""
    shown = report.operations[:MAX_ROWS]
    if not shown:
        return None
    most = max(operation.overlap.exposed_ns for operation in shown)
    per_step = any(operation.exposed_per_step_ns is not None for operation in shown)
    columns = (
        ("direction", _WORD),
        ("operation", _NAME),
        ("n", _NUMBER),
        ("size", _NUMBER),
        ("wall", _NUMBER),
        ("exposed", _NUMBER),
        *([("exposed a step", _NUMBER)] if per_step else []),
        ("blocking", _NUMBER),
        ("behind compute", _NUMBER),
        ("GB/s", _NUMBER),
        ("followed by", _NAME),
    )
    rows = tuple(_operation(operation, most, per_step) for operation in shown)
    return SortedTable(
        "operations", "Operations", columns, rows, _more(len(report.operations), len(shown))
    )


def _operation(operation: OperationReport, most: int, per_step: bool) -> tuple[Cell, ...]:
    part = operation.overlap
    label = f" ({operation.label})" if operation.label else ""
    n_bytes = part.bytes + part.bytes_estimated
    about = "~" if part.bytes_estimated else ""
    return (
        Cell(NAMES[operation.direction]),
        Cell(_name(f"{operation.op or 'no operation known'}{label}")),
        Cell(f"{part.n:,}", part.n),
        Cell(f"{about}{format_bytes(n_bytes)}", n_bytes),
        _time(part.wall_ns),
        Cell(format_ns(part.exposed_ns), part.exposed_ns, share(part.exposed_ns, most)),
        *([_time(operation.exposed_per_step_ns)] if per_step else []),
        _time(part.blocking_ns),
        _share(part.hidden_share),
        Cell(format_rate(part.gb_per_s), part.gb_per_s),
        Cell(_name(operation.followed_by) if operation.followed_by else NONE),
    )


def steps_table(report: OverlapReport) -> SortedTable | None:
    """Steps of all devices in order; of too many those with the most exposed time."""
    every = [
        (name, step)
        for name, device in zip(device_names(report), report.devices, strict=True)
        for step in device.steps
    ]
    if not every:
        return None
    shown = every
    if len(every) > MAX_ROWS:
        shown = sorted(every, key=lambda pair: -pair[1].both.exposed_ns)[:MAX_ROWS]
    several = len(report.devices) > 1
    columns = (
        *([("device", _NAME)] if several else []),
        ("step", _NUMBER),
        ("label", _NAME),
        ("time", _NUMBER),
        ("H2D behind compute", _NUMBER),
        ("D2H behind compute", _NUMBER),
        ("exposed", _NUMBER),
        ("blocking", _NUMBER),
        ("relief", _NUMBER),
        ("relief share", _NUMBER),
    )
    most = max(step.both.exposed_ns for _, step in shown)
    rows = tuple(_step(name if several else None, step, most) for name, step in shown)
    return SortedTable("steps", "Single steps", columns, rows, _more(len(every), len(shown)))


def _step(device: str | None, step: StepReport, most: int) -> tuple[Cell, ...]:
    relief = step.relief
    part = step.both
    return (
        *([Cell(_name(device))] if device is not None else []),
        Cell(str(step.index), step.index),
        Cell(_name(step.label) or NONE),
        _time(step.duration_ns),
        _share(step.h2d.hidden_share),
        _share(step.d2h.hidden_share),
        Cell(format_ns(part.exposed_ns), part.exposed_ns, share(part.exposed_ns, most)),
        _time(part.blocking_ns),
        Cell(format_bytes(relief.relief_bytes), relief.relief_bytes)
        if relief.offloaded_bytes
        else Cell(NONE),
        _share(relief.relief_share),
    )


def kernels_table(report: OverlapReport) -> SortedTable | None:
    """Kernels, most time first; None without any."""
    shown = report.kernels[:MAX_ROWS]
    if not shown:
        return None
    columns = (
        ("kernel", _NAME),
        ("role", _WORD),
        ("n", _NUMBER),
        ("beside transfers", _NUMBER),
        ("alone", _NUMBER),
    )
    rows = tuple(_kernel(kernel) for kernel in shown)
    return SortedTable("kernels", "Kernels", columns, rows, _more(len(report.kernels), len(shown)))


def _kernel(kernel: KernelReport) -> tuple[Cell, ...]:
    return (
        Cell(_name(kernel.name) or "(no name)"),
        Cell(kernel.role),
        Cell(f"{kernel.n:,}", kernel.n),
        _time(kernel.beside_ns),
        _time(kernel.alone_ns),
    )


def _time(ns: int | None) -> Cell:
    return Cell(NONE) if ns is None else Cell(format_ns(ns), ns)


def _share(value: float | None) -> Cell:
    return Cell(format_share(value), value)


def _name(text: str) -> str:
    return short_kernel(clean_text(text), MAX_NAME)


def _more(total: int, shown: int) -> str:
    if total == shown:
        return ""
    return f"The {shown} that cost most of {total:,}; all are in the JSON report."
