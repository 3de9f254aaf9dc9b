"""Copies at the wrong time: reloads issued too late, nothing beside them, nothing after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..core.arrays import Int64Array
from ..core.formatting import format_ns, short_kernel
from ..core.intervals import IntervalSet
from ..result.model import format_share
from ..roles.rules import Role
from .context import Context, Finder, Found, Rows
from .facts import (
    MOST_ROWS,
    copies,
    hiding,
    named,
    pageable,
    pinned_outside_graphs,
    size_text,
    spans,
    waits_on_host,
)
from .waits import SOON_NS, Waits, waits_of

MOSTLY_ALONE = 0.98
"""Share of their time without anything beside them at which copies count as not overlapped."""


def late_h2d(ctx: Context) -> Iterator[Found]:
    """Compute waits for data that comes from the host, because its copy was issued too late.

    Looks at H2D copies from pinned memory outside CUDA graphs. Compute waits for one where a
    stream wait or the order of one stream proves it; where the export cannot tell, where a kernel
    starts within 20 µs of the copy's end with nothing running before.

    **Cost**: time per step during which nothing hid an H2D copy and the next kernel waited for it.

    **What helps**: issue the copy one or two layers before its use. In JAX tie its source to an
    earlier gradient with `jax.lax.optimization_barrier`, or carry a reloaded activation through the
    scan; optimizer state and parameters are on the host from the start of the step, so nothing but
    device memory keeps them from coming early. XLA's scheduler counts a fixed time for every host
    copy (5 ms in 2026), so split larger tensors. Elsewhere copy on a stream of its own and let
    compute wait for the copy's event only where the data is used.

    **Silent** for less than 0.1 % of the time, and for copies that nothing waits for.
    """
    waits = [
        waits_of(case).pick((case.rows.role == Role.H2D) & pinned_outside_graphs(case))
        for case in ctx.cases
    ]
    totals = [wait.total_ns for wait in waits]
    cost = ctx.worth(totals)
    if cost is None:
        return
    late = _waited(ctx, waits)
    n_all = ctx.rows(lambda case: case.rows.role == Role.H2D).n
    yield cost.found(
        title=f"Compute waits for {late.n:,} of {copies(n_all, 'H2D')}, issued too late",
        detail=" ".join(filter(None, (_room(late), _ops_detail(late)))),
        remedy=ctx.remedy("late-h2d", on_host=waits_on_host(ctx, totals.index(max(totals)))),
        evidence=late.examples(_wait_text(ctx, waits)),
        rows=late,
    )


def nothing_beside(ctx: Context) -> Iterator[Found]:
    """No copy of a device runs beside anything: each is waited for before work goes on.

    Looks at devices whose pinned copies, outside CUDA graphs, lie to at least 98 % beside neither
    compute nor communication.

    **Cost**: time per step during which compute waited for one of these copies, told as for
    `late-h2d`.

    **What helps**: for XLA `--xla_gpu_enable_latency_hiding_scheduler=true` in `XLA_FLAGS`
    (without it a single-GPU module waits for every copy as soon as it is issued). Elsewhere put
    copies on a stream of their own and work between a copy and the wait for it.

    **Silent** where some copies are hidden, for less than 0.1 % of the time, for pageable memory
    and for CUDA graphs, which have findings of their own.
    """
    waits = []
    for i, case in enumerate(ctx.cases):
        mine = ctx.measured[i] & pinned_outside_graphs(case)
        wall = case.rows.select(mine).union.intersect(case.window)
        alone = wall.subtract(hiding(case)).length
        mine &= alone >= MOSTLY_ALONE * wall.length
        waits.append(waits_of(case).pick(mine))
    cost = ctx.worth([wait.total_ns for wait in waits])
    if cost is None:
        return
    waited = _waited(ctx, waits)
    both = ", in both directions" if _both_directions(ctx, waits) else ""
    yield cost.found(
        title=f"Nothing runs beside the copies: compute stands still for {waited.n:,} of them",
        detail=f"Each copy is waited for as soon as it is issued{both}.",
        remedy=ctx.remedy("nothing-beside"),
        evidence=waited.examples(_wait_text(ctx, waits)),
        rows=waited,
    )


def d2h_tail(ctx: Context) -> Iterator[Found]:
    """D2H copies run on after the last work of a step, where nothing can hide them.

    Looks at what of D2H copies to pinned memory lies after the last compute, communication or
    opaque graph of its step (of the measured time without steps).

    **Cost**: that time per step, copies at the same time counted once.

    **What helps**: issue these copies earlier, right behind the kernel that made the data; dispatch
    the next step before they are done (no `jax.block_until_ready`, `cudaDeviceSynchronize` or
    `.item()` between steps); leave on the device what the last layer made and the backward pass
    needs first.

    **Silent** for less than 0.1 % of the time, and where work follows.
    """
    tails = [_after_work(*spans(case), hiding(case)) for case in ctx.cases]
    out = ctx.rows(lambda case: (case.rows.role == Role.D2H) & ~pageable(case), everywhere=True)
    lost = [
        case.rows.select(mask).union.intersect(tail).length
        for case, mask, tail in zip(ctx.cases, out.masks, tails, strict=True)
    ]
    cost = ctx.worth(lost)
    if cost is None:
        return
    late = ctx.weighted(
        [
            np.where(mask, tail.covered(case.rows.start_ns, case.rows.end_ns), 0)
            for case, mask, tail in zip(ctx.cases, out.masks, tails, strict=True)
        ]
    )
    where = "of a step" if ctx.n_steps else "of the trace"
    yield cost.found(
        title=(f"{copies(late.n, 'D2H')} after the last work {where}, with nothing to hide behind"),
        detail=" ".join(filter(None, (_tail_share(ctx, lost), _ops_detail(late)))),
        remedy=ctx.remedy("d2h-tail"),
        evidence=late.examples(
            lambda i, row, ns: (
                f"{size_text(ctx, i, row)}, the last {format_ns(ns)} after all work {where}"
            )
        ),
        rows=late,
    )


FINDERS: tuple[Finder, ...] = (late_h2d, nothing_beside, d2h_tail)


def _after_work(start: Int64Array, end: Int64Array, work: IntervalSet) -> IntervalSet:
    """What follows the last work of each span; nothing of spans without work."""
    if not len(work) or not len(start):
        return IntervalSet.empty()
    last = np.searchsorted(work.starts, end, side="left") - 1
    done = np.minimum(work.ends[np.maximum(last, 0)], end)
    worked = (last >= 0) & (done > start)
    return IntervalSet.from_spans(done[worked], end[worked])


def _waited(ctx: Context, waits: list[Waits]) -> Rows:
    """The rows that compute waited for, by how long it did."""
    return ctx.weighted(
        [w.by_row(len(case.rows)) for w, case in zip(waits, ctx.cases, strict=True)]
    )


def _wait_text(ctx: Context, waits: list[Waits]) -> Callable[[int, int, int], str]:
    """What says of a copy what it held up, and for how long."""

    def text(i: int, row: int, ns: int) -> str:
        trace = ctx.cases[i].classified.trace
        last = waits[i].kernel[np.flatnonzero(waits[i].transfer == row)[-1]]
        kernel = short_kernel(trace.names[trace.kernels.name[last]])
        return f"{size_text(ctx, i, row)}, {kernel} waited {format_ns(ns)} for it"

    return text


def _ops_detail(rows: Rows) -> str:
    """Which operations it is, in order of what they cost; '' where the trace does not say."""
    cost: dict[str, int] = {}
    for i, row, ns in rows.worst(MOST_ROWS):
        op = rows.context.op(i, row)
        if op is not None:
            cost[op] = cost.get(op, 0) + ns
    ordered = sorted(cost, key=lambda op: (-cost[op], op))
    return f"By cost: {named(ordered)}." if ordered else ""


def _room(late: Rows) -> str:
    """How long no H2D had run when the late copies started: the room to issue them earlier.

    Copies that started right behind another one were held up by that one; they do not count.
    """
    rooms = [np.empty(0, np.int64)]
    for case, mask in zip(late.context.cases, late.masks, strict=True):
        rows = case.rows
        h2d = np.flatnonzero(rows.role == Role.H2D)
        free = rows.start_ns[h2d][1:] - np.maximum.accumulate(rows.end_ns[h2d])[:-1]
        rooms.append(free[(free > SOON_NS) & mask[h2d][1:]])
    free = np.concatenate(rooms)
    if not len(free):
        return ""
    return (
        f"No H2D had run for {format_ns(int(np.median(free)))} (median) when they started, so they "
        "could have started earlier."
    )


def _tail_share(ctx: Context, lost: list[int]) -> str:
    exposed = sum(device.d2h.exposed_ns for device in ctx.devices)
    return f"That is {format_share(min(sum(lost) / exposed, 1.0))} of the exposed D2H time."


def _both_directions(ctx: Context, waits: list[Waits]) -> bool:
    roles = [
        np.unique(case.rows.role[wait.transfer])
        for wait, case in zip(waits, ctx.cases, strict=True)
    ]
    return any(len(role) > 1 for role in roles)
