"""For which transfers compute demonstrably, or by all appearance, had to wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_ns, short_kernel
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..measure.waiting import in_graph
from .context import Context, Rows
from .facts import size_text
from .queues import SOON_NS


@dataclass(frozen=True)
class Waits:
    """What compute waited for on one device, piece by piece; columns of shape (n,).

    `transfer` indexes the rows of the case, `kernel` the kernel that waited.
    """

    transfer: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array
    kernel: Int64Array

    def pick(self, rows: BoolArray) -> Waits:
        """The waits for some of the rows, a mask (n_rows,)."""
        mine = rows[self.transfer]
        columns = (self.transfer, self.start_ns, self.end_ns, self.kernel)
        return Waits(*(column[mine] for column in columns))

    def joined(self, others: Waits) -> Waits:
        """These and others, by transfer, then time."""
        columns = [
            np.concatenate((getattr(self, f.name), getattr(others, f.name))) for f in fields(Waits)
        ]
        order = np.lexsort((columns[1], columns[0]))
        return Waits(*(column[order] for column in columns))

    def within(self, where: IntervalSet) -> Waits:
        """The parts inside a set of instants."""
        # Intervals of `where` that reach into wait k are lo[k] .. hi[k] - 1.
        lo = np.searchsorted(where.ends, self.start_ns, side="right")
        hi = np.searchsorted(where.starts, self.end_ns, side="left")
        count = np.where(self.end_ns > self.start_ns, np.maximum(hi - lo, 0), 0)
        wait = np.repeat(np.arange(len(count)), count)
        at = np.arange(len(wait)) - np.repeat(np.cumsum(count) - count, count)
        at += np.repeat(lo, count)
        return Waits(
            transfer=self.transfer[wait],
            start_ns=np.maximum(self.start_ns[wait], where.starts[at]),
            end_ns=np.minimum(self.end_ns[wait], where.ends[at]),
            kernel=self.kernel[wait],
        )

    @property
    def total_ns(self) -> int:
        """Time waited; waits for two copies at once count once."""
        return IntervalSet.from_spans(self.start_ns, self.end_ns).length

    def by_row(self, n_rows: int) -> Int64Array:
        """Time waited for each row of the case; shape (n_rows,)."""
        result = np.zeros(n_rows, np.int64)
        np.add.at(result, self.transfer, self.end_ns - self.start_ns)
        return result


def waits_of(case: DeviceCase) -> Waits:
    """Measured time for which compute waited for transfers of a case.

    Proven where the trace joins stream waits to events. Where it cannot tell, an exposed piece at
    the end of a copy counts if compute starts at most `SOON_NS` after it; nodes of CUDA graphs do
    not, since a graph's order is not that of a program that could issue them earlier.
    """
    rows, pieces = case.rows, case.pieces
    kernel_start = case.classified.trace.kernels.start_ns
    start, end, kernel = pieces.blocked_ns, pieces.end_ns, pieces.next_kernel
    guess = ~pieces.resolved & (kernel >= 0) & (rows.end_ns[pieces.transfer] == end)
    guess &= ~in_graph(case.classified, rows)[pieces.transfer]
    guess[guess] = kernel_start[kernel[guess]] - end[guess] <= SOON_NS
    start = np.where(guess, pieces.start_ns, start)
    told = Waits(pieces.transfer, start, end, kernel)
    return told.within(case.window.subtract(case.lanes.opaque))


def host_waits_of(case: DeviceCase) -> Waits:
    """Measured time for which a host thread waited for transfers of a case; `kernel` is the call
    that held it, -1 for a pause between calls.
    """
    pieces = case.pieces
    held = Waits(pieces.transfer, pieces.held_ns, pieces.blocked_ns, pieces.holder)
    return held.within(case.window.subtract(case.lanes.opaque))


def waited_rows(ctx: Context, waits: Sequence[Waits]) -> Rows:
    """The rows that something waited for, by how long it did."""
    return ctx.weighted(
        [w.by_row(len(case.rows)) for w, case in zip(waits, ctx.cases, strict=True)]
    )


def kernel_text(ctx: Context, waits: Sequence[Waits]) -> Callable[[int, int, int], str]:
    """What says of a copy which kernel waited for it, and for how long."""

    def text(i: int, row: int, ns: int) -> str:
        trace = ctx.cases[i].classified.trace
        last = waits[i].kernel[np.flatnonzero(waits[i].transfer == row)[-1]]
        kernel = short_kernel(trace.names[trace.kernels.name[last]])
        return f"{size_text(ctx, i, row)}, {kernel} waited {format_ns(ns)} for it"

    return text
