"""Copies at the wrong time: reloads issued too late, nothing beside them, nothing after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.arrays import Int64Array
from ..core.formatting import format_ns
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..measure.lanes import Transfers
from ..result.model import format_share
from ..roles.rules import Role
from .context import NOTE, Context, Cost, Finder, Found
from .facts import (
    copies,
    hiding,
    in_scan,
    ops_detail,
    pageable,
    pinned_outside_graphs,
    size_text,
    spans,
    waits_on_host,
)
from .idle import idle_beside
from .queues import SOON_NS
from .waits import Waits, kernel_text, waited_rows, waits_of

UNLIMITED = 2**61
"""Room of copies before which nothing stands, in ns."""
MOSTLY_ALONE = 0.98
"""Share of their time without anything beside them at which copies count as not overlapped."""


def late_h2d(ctx: Context) -> Iterator[Found]:
    """Compute waits for data that comes from the host, because its copy was issued too late.

    Looks at H2D copies from pinned memory outside CUDA graphs. Compute waits for one where a
    stream wait or the order of one stream proves it; where the export cannot tell, where a kernel
    starts within 20 µs of the copy's end with nothing running before.

    Copies right behind one another are a run; a run could have started earlier by as long as no H2D
    ran before it, but not before the D2H of the same data was done.

    **Cost**: time per step during which nothing hid an H2D copy and the next kernel waited for it,
    of each run no more than it could have started earlier.

    **What helps**: issue the copy one or two layers before its use. In JAX tie its source to an
    earlier gradient with `jax.lax.optimization_barrier`, or carry a reloaded activation through the
    scan; optimizer state and parameters are on the host from the start of the step, so nothing but
    device memory keeps them from coming early. XLA's scheduler counts a fixed time for every host
    copy (5 ms in 2026), so split larger tensors. Elsewhere copy on a stream of its own and let
    compute wait for the copy's event only where the data is used.

    **Silent** for less than 0.1 % of the time, and for copies that nothing waits for; where
    another finding blames the same copies for a reason behind this one.
    """
    waits = [
        waits_of(case).pick((case.rows.role == Role.H2D) & pinned_outside_graphs(case))
        for case in ctx.cases
    ]
    on_host = [waits_on_host(ctx, i) for i in range(len(ctx.cases))]
    runs = [
        _runs(case, wait, own) for case, wait, own in zip(ctx.cases, waits, on_host, strict=True)
    ]
    late = ctx.weighted([run.late_ns for run in runs])
    totals = [min(pair) for pair in zip(late.blamed, [w.total_ns for w in waits], strict=True)]
    cost = ctx.worth(totals)
    if cost is None:
        return
    n_all = ctx.rows(lambda case: case.rows.role == Role.H2D).n
    worst = totals.index(max(totals))
    yield cost.found(
        title=f"Compute waits for {late.n:,} of {copies(n_all, 'H2D')}, issued too late",
        detail=" ".join(filter(None, (_room(runs), ops_detail(late)))),
        remedy=ctx.remedy(
            "late-h2d", on_host=on_host[worst], scan=in_scan(ctx, worst, late.masks[worst])
        ),
        evidence=late.examples(kernel_text(ctx, waits)),
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
    waited = waited_rows(ctx, waits)
    both = ", in both directions" if _both_directions(ctx, waits) else ""
    yield cost.found(
        title=f"Nothing runs beside the copies: compute stands still for {waited.n:,} of them",
        detail=f"Each copy is waited for as soon as it is issued{both}.",
        remedy=ctx.remedy(
            "nothing-beside",
            scan=any(in_scan(ctx, i, mask) for i, mask in enumerate(waited.masks)),
        ),
        evidence=waited.examples(kernel_text(ctx, waits)),
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

    **Silent** for less than 0.1 % of the time, and where work follows. A note without steps: what
    a program leaves with is no tail that each step pays.
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
    cost = cost if ctx.n_steps else Cost(cost.ns, NOTE)
    yield cost.found(
        title=(f"{copies(late.n, 'D2H')} after the last work {where}, with nothing to hide behind"),
        detail=" ".join(filter(None, (_tail_share(ctx, lost), ops_detail(late)))),
        remedy=ctx.remedy("d2h-tail", works=any(len(idle_beside(case)) for case in ctx.cases)),
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


@dataclass(frozen=True)
class _Runs:
    """H2D copies of a device in runs, each right behind the one before, on whatever stream.

    `room_ns` (k,) is by how much each run could have started earlier: since no H2D ran, and since
    what its first copy brings back was on the host. `late_ns` (n,) is for how long compute waited
    for each row of the case, no more in a run than its room.
    """

    room_ns: Int64Array
    late_ns: Int64Array


def _runs(case: DeviceCase, waits: Waits, on_host: bool) -> _Runs:
    """The runs of a device; with `on_host` nothing that is fetched had to leave before."""
    rows, late = case.rows, np.zeros(len(case.rows), np.int64)
    h2d = np.flatnonzero((rows.role == Role.H2D) & (rows.end_ns > rows.start_ns))
    if not len(h2d) or not len(case.window):
        return _Runs(np.empty(0, np.int64), late)
    start, reach = rows.start_ns[h2d], np.maximum.accumulate(rows.end_ns[h2d])
    # What held the first back lies before the trace, or nowhere.
    before = np.concatenate(([start[0] - UNLIMITED], reach[:-1]))
    heads = np.flatnonzero(start - before > SOON_NS)
    heads = heads if len(heads) and heads[0] == 0 else np.concatenate(([0], heads))
    free = before[heads]
    if not on_host:
        free = np.maximum(free, _left_ns(rows, h2d[heads]))
    room = np.maximum(start[heads] - free, 0)
    run = np.searchsorted(heads, np.arange(len(h2d)), side="right") - 1
    waited = waits.by_row(len(rows))[h2d]
    so_far = np.cumsum(waited)
    in_run = so_far - waited - (so_far - waited)[heads][run]
    late[h2d] = np.clip(np.where(room > SOON_NS, room, 0)[run] - in_run, 0, waited)
    counted = np.unique(run[late[h2d] > 0])
    return _Runs(room[counted], late)


def _left_ns(rows: Transfers, picked: Int64Array) -> Int64Array:
    """When the latest D2H of the size of each picked copy was done before it started."""
    code = np.unique(rows.n_bytes + rows.bytes_estimated, return_inverse=True)[1].reshape(-1)
    out = np.flatnonzero(rows.role == Role.D2H)
    instants = np.unique(np.concatenate((rows.end_ns[out], rows.start_ns[picked])))
    width = len(instants) + 1
    key = np.sort(code[out] * width + np.searchsorted(instants, rows.end_ns[out]))
    asked = code[picked] * width + np.searchsorted(instants, rows.start_ns[picked])
    at = np.searchsorted(key, asked, side="right") - 1
    found = (at >= 0) & (key[np.maximum(at, 0)] // width == code[picked]) if len(key) else at > 0
    result = rows.start_ns[picked] - UNLIMITED
    result[found] = instants[key[at[found]] % width]
    return result


def _room(runs: Sequence[_Runs]) -> str:
    """By how much the late copies could have started earlier."""
    rooms = np.concatenate([run.room_ns for run in runs])
    rooms = rooms[rooms < UNLIMITED]
    if not len(rooms):
        return ""
    which = "They" if len(rooms) == 1 else f"In {len(rooms):,} groups, they"
    median = "" if len(rooms) == 1 else " (median)"
    return (
        f"{which} could have started {format_ns(int(np.median(rooms)))}{median} earlier: "
        "so long no H2D had run, and the data was on the host."
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
