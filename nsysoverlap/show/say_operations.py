"""Operations: which tensors were exposed; and which kernels hid the transfers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..core.formatting import NONE, format_ns
from ..result.columns import Column, Place, at, named
from ..result.device_names import NAMES
from ..result.metrics import STEP_MEAN
from ..result.model import KernelReport, OperationReport, OverlapReport, format_share, share
from ..result.tables import KERNEL, OPERATION
from .blocks import Block, Table
from .cells import cell, rest_note, table_of
from .view import View

N_SHORT = 5
N_FULL = 15
N_KERNELS = 5
_HOST = "host waited"
_STEPPED = f"exposed, {STEP_MEAN}"
_STACKED = {
    "operation": ("operation", "followed_by"),
    "n, size": ("n", "size"),
    "wall, hidden": ("wall_ns", "hidden_share"),
    _STEPPED: ("exposed_ns", "exposed_per_step_ns"),
    "compute waited": ("blocking_ns", "blocking_share"),
    _HOST: ("host_blocking_ns", "host_blocking_share"),
    "GB/s": ("gb_per_s",),
}
"""Columns of the long table: what stands in the first row of an operation, and below it."""


def operations_section(report: OverlapReport, view: View) -> list[Block]:
    """Operations with the most exposed time: a few, or with `by="op"` all about more of them."""
    ordered = sorted(report.operations, key=lambda o: o.overlap.exposed_ns, reverse=True)
    if view.by == "op":
        return [_full_table(report, ordered[:N_FULL])] if ordered else []
    exposed = [operation for operation in ordered if operation.overlap.exposed_ns]
    return [_short_table(report, exposed[:N_SHORT])] if exposed else []


def _stepped(shown: Sequence[OperationReport]) -> bool:
    return any(operation.exposed_per_step_ns is not None for operation in shown)


def _hosted(shown: Sequence[OperationReport]) -> bool:
    """Whether the host waited for any of them."""
    return any(operation.overlap.host_blocking_ns for operation in shown)


def _short_table(report: OverlapReport, shown: Sequence[OperationReport]) -> Table:
    # The time of a step says more than that of all, where there are steps.
    left_out = {"exposed_ns" if _stepped(shown) else "exposed_per_step_ns"}
    if not _hosted(shown):
        left_out.add("host_blocking_share")
    columns = [column for column in at(OPERATION, Place.TEXT) if column.name not in left_out]
    others = len(report.operations) - len(shown)
    rest = f"{others} more: --by op. " if others else ""
    note = f"{rest}{_mean(report)}{_known(report)}".rstrip()
    return table_of("Most exposed operations", columns, shown, note)


def _full_table(report: OverlapReport, shown: Sequence[OperationReport]) -> Table:
    """Two rows an operation: amounts, and below them shares, the mean step and what followed."""
    note = (
        "'Then' names the kernel that followed most of the exposed time; hidden is the share "
        "behind compute; waited is the exposed time for which compute, or else the host, did. "
    )
    total = len(report.operations)
    if total > len(shown):
        note += f"Shown are {len(shown)} of {total}; all are in the JSON report. "
    note = f"{note}{_mean(report)}{_known(report)} {_left_over(report)}".rstrip()
    pairs = {name: names for name, names in _STACKED.items() if _hosted(shown) or name != _HOST}
    if not _stepped(shown):
        pairs = {"exposed" if n == _STEPPED else n: names for n, names in pairs.items()}
    stacked = [named(OPERATION, *names) for names in pairs.values()]
    rows = tuple(row for operation in shown for row in _two_rows(operation, stacked))
    return Table("Operations by exposed time", tuple(pairs), rows, note)


def _two_rows(
    operation: OperationReport, stacked: Sequence[Sequence[Column[OperationReport]]]
) -> Iterator[tuple[str, ...]]:
    yield tuple(cell(pair[0], operation) for pair in stacked)
    below = [cell(pair[1], operation) if len(pair) > 1 else "" for pair in stacked]
    if operation.followed_by:
        below[0] = f"then {below[0]}"
    yield tuple("" if text == NONE else text for text in below)


def operations_table(report: OverlapReport, most: int) -> Table | None:
    """All about the `most` exposed operations, to sort and to filter; None without any."""
    shown = report.operations[:most]
    note = rest_note(len(report.operations), len(shown))
    columns = at(OPERATION, Place.PAGE)
    return table_of("Operations", columns, shown, note, name="operations") if shown else None


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


def _known(report: OverlapReport) -> str:
    """What share of bytes has an operation, and for how much time blocking is known."""
    known = report.attribution
    if known is None or not known.total_bytes:
        return ""
    named = format_share(share(known.attributed_bytes, known.total_bytes))
    text = f"{named} of the bytes have an operation"
    if known.exposed_ns:
        told = format_share(share(known.resolved_ns, known.exposed_ns))
        text += f"; who waited is known for {told} of the exposed time"
    return f"{text}."


def kernels_section(report: OverlapReport, view: View) -> list[Block]:
    """With `by="op"`: the kernels that hid most, and the compute that hid nothing."""
    if view.by != "op":
        return []
    hid = _most(report.kernels, "beside_ns")
    alone = _most([kernel for kernel in report.kernels if kernel.role == "compute"], "alone_ns")
    tables: list[Block] = []
    if hid:
        tables.append(table_of("Kernels that ran beside transfers", at(KERNEL, Place.TEXT), hid))
    if alone:
        title = "Compute with no transfer beside it"
        tables.append(table_of(title, at(KERNEL, Place.TEXT), alone))
    return tables


def _most(kernels: Sequence[KernelReport], field: str) -> list[KernelReport]:
    ordered = sorted(kernels, key=lambda kernel: getattr(kernel, field), reverse=True)
    return [kernel for kernel in ordered[:N_KERNELS] if getattr(kernel, field)]


def kernels_table(report: OverlapReport, most: int) -> Table | None:
    """The kernels that took most time, to sort and to filter; None without any."""
    shown = report.kernels[:most]
    note = rest_note(len(report.kernels), len(shown))
    columns = at(KERNEL, Place.PAGE)
    return table_of("Kernels", columns, shown, note, name="kernels") if shown else None
