"""Operations: which tensors were exposed; and which kernels hid the transfers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..core.formatting import NONE, format_bytes, format_ns, format_rate, short_kernel
from ..result.device_names import NAMES
from ..result.model import (
    KernelReport,
    OperationReport,
    Overlap,
    OverlapReport,
    format_share,
    share,
)
from .blocks import Block, Table
from .view import View

N_SHORT = 5
N_FULL = 15
N_KERNELS = 5


def operations_section(report: OverlapReport, view: View) -> list[Block]:
    """Operations with the most exposed time: a few, or with `by="op"` all about more of them."""
    ordered = sorted(report.operations, key=lambda o: o.overlap.exposed_ns, reverse=True)
    if view.by == "op":
        return [_full_table(report, ordered[:N_FULL])] if ordered else []
    exposed = [operation for operation in ordered if operation.overlap.exposed_ns]
    return [_short_table(report, exposed[:N_SHORT])] if exposed else []


def _short_table(report: OverlapReport, shown: Sequence[OperationReport]) -> Table:
    per_step = any(operation.exposed_per_step_ns is not None for operation in shown)
    exposed = "exposed a step" if per_step else "exposed"
    columns = ("operation", "followed by", "n", exposed, "of it blocking", "behind compute")
    rows = []
    for operation in shown:
        part = operation.overlap
        blocking = None if part.blocking_ns is None else share(part.blocking_ns, part.exposed_ns)
        rows.append(
            (
                f"{NAMES[operation.direction]} {_name(operation)}",
                _followed_by(operation, 26),
                f"{part.n:,}",
                _time(operation.exposed_per_step_ns) if per_step else format_ns(part.exposed_ns),
                format_share(blocking),
                format_share(part.hidden_share),
            )
        )
    others = len(report.operations) - len(shown)
    rest = f"{others} more: --by op. " if others else ""
    note = f"{rest}{_mean(report)}{_known(report)}".rstrip()
    return Table("Most exposed operations", columns, tuple(rows), note, 2)


def _full_table(report: OverlapReport, shown: Sequence[OperationReport]) -> Table:
    """Two rows an operation: amounts, and below them shares, the time a step and what followed."""
    columns = ("operation", "n, size", "wall, hidden", "exposed, a step", "blocking")
    rows = tuple(row for operation in shown for row in _two_rows(operation))
    note = (
        "'Then' names the kernel that followed most of the exposed time; hidden is the share "
        "behind compute, blocking the exposed time for which compute demonstrably waited. "
    )
    total = len(report.operations)
    if total > len(shown):
        note += f"Shown are {len(shown)} of {total}; all are in the JSON report. "
    note = f"{note}{_mean(report)}{_known(report)} {_left_over(report)}".rstrip()
    return Table("Operations by exposed time", (*columns, "GB/s"), rows, note)


def _mean(report: OverlapReport) -> str:
    """What a time per step is of several devices."""
    if len(report.devices) < 2 or not report.basis.n_steps:
        return ""
    return "A step's exposed time is the mean over devices. "


def _left_over(report: OverlapReport) -> str:
    """By how much the rows exceed the totals: operations that ran at once share their time."""
    parts = []
    for direction in ("h2d", "d2h"):
        rows = (o.overlap.wall_ns for o in report.operations if o.direction == direction)
        shared = sum(rows) - report.total(direction).wall_ns
        if shared > 0:
            parts.append(f"{format_ns(shared)} more {NAMES[direction]} time than the total")
    if not parts:
        return ""
    return f"All rows together hold {' and '.join(parts)}: operations that overlap count it twice."


def _two_rows(operation: OperationReport) -> Iterator[tuple[str, ...]]:
    part = operation.overlap
    yield (
        f"{NAMES[operation.direction]} {_name(operation)}",
        f"{part.n:,}",
        format_ns(part.wall_ns),
        format_ns(part.exposed_ns),
        _time(part.blocking_ns),
        format_rate(part.gb_per_s),
    )
    a_step = operation.exposed_per_step_ns
    yield (
        f"then {_followed_by(operation, 27)}" if operation.followed_by else "",
        _size(part),
        format_share(part.hidden_share),
        "" if a_step is None else format_ns(a_step),
        "" if part.blocking_ns is None else format_share(share(part.blocking_ns, part.exposed_ns)),
        "",
    )


def _name(operation: OperationReport) -> str:
    label = f" ({operation.label})" if operation.label else ""
    return f"{operation.op or 'no operation known'}{label}"


def _followed_by(operation: OperationReport, limit: int) -> str:
    return NONE if operation.followed_by is None else short_kernel(operation.followed_by, limit)


def _size(part: Overlap) -> str:
    """Bytes copied, or about how many where kernels did it."""
    if part.bytes or not part.bytes_estimated:
        return format_bytes(part.bytes)
    return f"~{format_bytes(part.bytes_estimated)}"


def _time(ns: int | None) -> str:
    return NONE if ns is None else format_ns(ns)


def _known(report: OverlapReport) -> str:
    """What share of bytes has an operation, and for how much time blocking is known."""
    known = report.attribution
    if known is None or not known.total_bytes:
        return ""
    named = format_share(share(known.attributed_bytes, known.total_bytes))
    text = f"{named} of the bytes have an operation"
    if known.exposed_ns:
        told = format_share(share(known.resolved_ns, known.exposed_ns))
        text += f"; whether compute waited is known for {told} of the exposed time"
    return f"{text}."


def kernels_section(report: OverlapReport, view: View) -> list[Block]:
    """With `by="op"`: the kernels that hid most, and the compute that hid nothing."""
    if view.by != "op":
        return []
    hid = _most(report.kernels, "beside_ns")
    alone = _most([kernel for kernel in report.kernels if kernel.role == "compute"], "alone_ns")
    tables: list[Block] = []
    if hid:
        title = "Kernels that ran beside transfers"
        tables.append(_kernel_table(title, hid))
    if alone:
        title = "Compute with no transfer beside it"
        tables.append(_kernel_table(title, alone))
    return tables


def _most(kernels: Sequence[KernelReport], field: str) -> list[KernelReport]:
    ordered = sorted(kernels, key=lambda kernel: getattr(kernel, field), reverse=True)
    return [kernel for kernel in ordered[:N_KERNELS] if getattr(kernel, field)]


def _kernel_table(title: str, kernels: Sequence[KernelReport]) -> Table:
    columns = ("kernel", "role", "n", "beside transfers", "alone")
    rows = tuple(
        (
            short_kernel(kernel.name),
            kernel.role,
            f"{kernel.n:,}",
            format_ns(kernel.beside_ns),
            format_ns(kernel.alone_ns),
        )
        for kernel in kernels
    )
    return Table(title, columns, rows, n_words=2)
