"""Findings about kernels: those that move data themselves, and those of other processes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.arrays import Int64Array, rows_by_key
from ..core.formatting import format_bytes, format_ns, format_rate, number_of, short_kernel
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..result.numbers import format_share
from ..roles.rules import Role
from .context import NOTE, WARNING, Context, Cost, Finder, Found, Rows
from .facts import exposed_text, named, size_text

WARNING_SHARE, NOTE_SHARE = 10, 100
"""One part in so many of the transfer time, hidden by other processes only, is worth a word."""
PIPELINING_PAYS = 20
"""Below one part in so many of the time the flags that make such kernels are not advised against.
"""


def transfer_kernels(ctx: Context) -> Iterator[Found]:
    """Some transfers are no copies but kernels that read or write host memory themselves.

    They take multiprocessors from compute for as long as the link needs, and have no memcpy row:
    other tools take them for compute that hides copies. XLA makes them of the copies that
    pipelined host offloading moves out of a scan (the first and last of a loop).

    **Cost**: time per step during which one of these kernels was exposed.

    **What helps**: `--xla_gpu_enable_pipelined_host_offloading=false` in `XLA_FLAGS`, and no
    `JAX_OPTIMIZATION_LEVEL=O1`, which turns it on whatever the flag says (depends on the version).
    Elsewhere use `cudaMemcpyAsync` in place of kernels on mapped host memory. Below 5 % of the time
    leave pipelining on: it is among NVIDIA's published flags and may win more than it costs here.

    **Silent** without such kernels; a note where they cost less than 5 % of the time.
    """
    moving = ctx.rows(lambda case: case.rows.by_kernel)
    cost = ctx.worth(moving.exposed, NOTE)
    if not moving.n or cost is None:
        return
    small = cost.ns * PIPELINING_PAYS < ctx.measured_ns
    cost = Cost(cost.ns, NOTE if small else cost.severity)
    yield cost.found(
        title="Kernels that move host memory themselves: "
        f"{moving.n:,} of {number_of(ctx.rows().n, 'transfer')}",
        detail=_kernel_detail(moving),
        remedy=ctx.remedy("transfer-kernels", small=small),
        evidence=moving.by_length.examples(lambda i, row, _: _kernel_text(ctx, i, row)),
        rows=moving,
    )


def hidden_by_other_process(ctx: Context) -> Iterator[Found]:
    """Transfers of one process are hidden by kernels of another one on the same GPU.

    The device's hidden share counts all kernels on it. For the process that waits for its own
    transfer that is no gain: its own compute stands still meanwhile.

    **Cost**: none of its own; this time is not exposed.

    **What helps**: measure a process by itself, with the GPU to itself (`CUDA_VISIBLE_DEVICES`),
    or read the numbers of steps, which belong to one process.

    **Silent** for less than 1 % of the transfer time, and where each GPU has one process; a
    warning from 10 % on.
    """
    others = [_hidden_by_others(case) for case in ctx.cases]
    wall = sum(case.rows.union.intersect(case.window).length for case in ctx.cases)
    total = sum(spans.length for _, spans in others)
    if not total or total * NOTE_SHARE < wall:
        return
    rows = ctx.weighted([by_row for by_row, _ in others])
    yield Cost(0, WARNING if total * WARNING_SHARE >= wall else NOTE).found(
        title="Transfers are hidden by kernels of another process on the same GPU",
        detail=f"{format_ns(total)}, {format_share(total / wall)} of the transfer time: the "
        "process that moved the data did not compute meanwhile.",
        remedy=ctx.remedy("hidden-by-other-process"),
        evidence=rows.examples(
            lambda i, row, ns: (
                f"{size_text(ctx, i, row)} of pid {_pid(ctx.cases[i], row)}, "
                f"{format_ns(ns)} of it beside kernels of others only"
            )
        ),
        rows=rows,
    )


FINDERS: tuple[Finder, ...] = (transfer_kernels, hidden_by_other_process)


def _hidden_by_others(case: DeviceCase) -> tuple[Int64Array, IntervalSet]:
    """Measured time for which each row ran beside compute of other processes only, and when."""
    trace, rows = case.classified.trace, case.rows
    if len(case.device.global_pids) < 2:
        return np.zeros(len(rows), np.int64), IntervalSet.empty()
    compute = case.classified.kernel_rows(case.device.index, Role.COMPUTE)
    kernels, measured = trace.kernels, case.lanes.compute.intersect(case.window)
    # All compute, less that of the row's own process: each kernel and row is looked at once.
    by_row = measured.covered(rows.start_ns, rows.end_ns)
    by_process = dict(rows_by_key(trace.stream_pid[kernels.stream[compute]]))
    alone = [IntervalSet.empty()]
    for pid, mine in rows_by_key(trace.stream_pid[rows.stream]):
        own = compute[by_process.get(pid, compute[:0])]
        own_compute = IntervalSet.from_spans(kernels.start_ns[own], kernels.end_ns[own])
        alone.append(rows.select(mine).union.subtract(own_compute))
        own_measured = own_compute.intersect(measured)
        by_row[mine] -= own_measured.covered(rows.start_ns[mine], rows.end_ns[mine])
    spans = IntervalSet.from_spans(
        np.concatenate([one.starts for one in alone]), np.concatenate([one.ends for one in alone])
    )
    return by_row, spans.intersect(measured)


def _kernel_detail(moving: Rows) -> str:
    """Names, time, bytes and rate of the transfer kernels."""
    names: dict[str, None] = {}
    n_bytes = known_ns = 0
    for case, mask in zip(moving.context.cases, moving.masks, strict=True):
        rows, trace = case.rows.select(mask), case.classified.trace
        names |= dict.fromkeys(
            short_kernel(trace.names[i]) for i in np.unique(trace.kernels.name[rows.row]).tolist()
        )
        n_bytes += int(rows.bytes_estimated.sum())
        known_ns += int((rows.end_ns - rows.start_ns)[rows.bytes_estimated > 0].sum())
    rate = (
        f", about {format_bytes(n_bytes)} at {format_rate(n_bytes / known_ns)} GB/s (from their "
        "threads)"
        if known_ns
        else ""
    )
    return (
        f"{named(list(names))} ran for {format_ns(moving.busy_ns)}{rate}. They hold "
        "multiprocessors for as long as the link needs, and have no memcpy row."
    )


def _kernel_text(ctx: Context, i: int, row: int) -> str:
    case = ctx.cases[i]
    trace = case.classified.trace
    name = short_kernel(trace.names[trace.kernels.name[case.rows.row[row]]])
    return f"{name} moves about {size_text(ctx, i, row)}, {exposed_text(ctx, i, row)} exposed"


def _pid(case: DeviceCase, row: int) -> int:
    return case.classified.trace.streams[int(case.rows.stream[row])].pid
