"""Who waits for transfers beside late reloads: the host, compute for what leaves, the whole GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_bytes, format_ns, format_share, short_kernel
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..roles.rules import Role
from .context import Context, Finder, Found
from .engines import queued_since
from .facts import (
    OFFLOAD_BYTES,
    a_step,
    copies,
    named,
    ops_detail,
    pinned_outside_graphs,
    size_text,
    without_version,
)
from .streams import blocks_of
from .waits import SOON_NS, Waits, host_waits_of, kernel_text, waited_rows, waits_of

IDLE_NS = 1_000_000
"""Shorter stretches without any GPU work are launch latency."""
NEAR = 20
"""What leaves before, and comes back after, lies within one part in so many of the stretch."""
COMES_BACK = 10
"""At least one part in so many of what left comes back after the stretch."""


def host_waits(ctx: Context) -> Iterator[Found]:
    """The host waits for a copy before it launches more work, so the GPU has nothing else to run.

    A thread stands in a synchronisation of the copy's stream, event or device, in a copy that
    returns when it is done (`cudaMemcpy`, any copy of pageable memory), in a call that frees
    memory, or, as under XLA, makes no call until the GPU is done; and the next compute kernel was
    launched only after that. See *blocking* in [metric.md](metric.md).

    **Cost**: time per step during which one of these copies was exposed and the host waited for it.

    **What helps**: do not wait for each copy: pinned memory and `cudaMemcpyAsync`, order by
    `cudaStreamWaitEvent` on the GPU in place of a synchronisation on the host, and values such as
    the loss fetched every few steps (`.item()`, `float(loss)`, `print(loss)`).

    **Silent** for less than 0.1 % of the time; where the copies are pageable or all lie behind the
    last work of a step those findings say it.
    """
    waits = [host_waits_of(case) for case in ctx.cases]
    cost = ctx.worth([wait.total_ns for wait in waits])
    if cost is None:
        return
    held = waited_rows(ctx, waits)
    yield cost.found(
        title=f"The host waits for {copies(held.n)} before it launches more work",
        detail=" ".join(filter(None, (_held_by(ctx, waits), ops_detail(held)))),
        remedy=ctx.remedy("host-waits", large=held.n_bytes >= OFFLOAD_BYTES * held.n),
        evidence=held.examples(
            lambda i, row, ns: (
                f"{size_text(ctx, i, row)}, "
                f"{_holder(ctx.cases[i], waits[i], row)} held the host {format_ns(ns)} for it"
            )
        ),
        rows=held,
    )


def d2h_awaited(ctx: Context) -> Iterator[Found]:
    """Compute waits for data that goes to the host: its copy holds up what comes after it.

    Looks at D2H copies of pinned memory outside CUDA graphs; waits are told as for `late-h2d`. A
    copy that holds the engine while the one that compute waits for is ready counts too. Copies
    behind which other work is queued that compute needs are left to `head-of-line`.

    **Cost**: time per step during which nothing hid such a copy and the next kernel waited for it,
    or for one that stood behind it.

    **What helps**: wait for a copy only before its source is written or freed: a second buffer,
    more copies under way at once, `record_stream` in PyTorch; in JAX a
    `jax.lax.optimization_barrier` between the copy and what waits for it; or offload less.

    **Silent** for less than 0.1 % of the time.
    """
    waits = []
    for i, case in enumerate(ctx.cases):
        mine = (case.rows.role == Role.D2H) & pinned_outside_graphs(case)
        held = waits_of(case).pick(mine)
        behind = blocks_of(case).by_row(len(case.rows), case.window.subtract(case.lanes.active))
        direct = held.pick(2 * behind < held.by_row(len(case.rows)))
        waits.append(direct.joined(_engine_held(ctx, i, direct, mine)))
    cost = ctx.worth([wait.total_ns for wait in waits])
    if cost is None:
        return
    awaited = waited_rows(ctx, waits)
    n_all = ctx.rows(lambda case: case.rows.role == Role.D2H).n
    yield cost.found(
        title=f"Compute waits for {awaited.n:,} of {copies(n_all, 'D2H')}",
        detail=" ".join(filter(None, (_waiting(ctx, waits), ops_detail(awaited)))),
        remedy=ctx.remedy("d2h-awaited"),
        evidence=awaited.examples(kernel_text(ctx, waits)),
        rows=awaited,
    )


def gpu_idle_beside_offload(ctx: Context) -> Iterator[Found]:
    """The GPU idles between what leaves for the host and what comes back: the CPU works meanwhile.

    So it is with an optimizer on the CPU: gradients go out, the host updates, parameters come in.
    Looks at stretches of more than 1 ms without any GPU work, right behind a D2H of at least 1 MB
    and right before an H2D of at least 1 MB, where at least a tenth of what left comes back.

    **Cost**: these stretches, per step. This is not exposed time; it is what offload costs beside.

    **What helps**: make the work on the CPU shorter (a fused optimizer, more threads, fewer
    updates), do it in parts so that the first part returns while the next is worked on, or leave a
    part of it on the GPU.

    **Silent** for less than 0.1 % of the time.
    """
    idle = [_idle_beside(case) for case in ctx.cases]
    lost = [stretches.length for stretches in idle]
    cost = ctx.worth(lost)
    if cost is None:
        return
    i = lost.index(max(lost))
    exposed = format_ns(ctx.per_step(ctx.devices[i].both.exposed_ns))
    share = format_share(lost[i] / ctx.cases[i].window.length)
    yield cost.found(
        title=(
            f"The GPU idles {share} of the time between what leaves for the host and what comes "
            "back"
        ),
        detail=(
            f"For {format_ns(ctx.per_step(lost[i]))} {a_step(ctx)} the CPU works alone, on an "
            f"optimizer say; the copies themselves are exposed for {exposed}."
        ),
        remedy=ctx.remedy("gpu-idle-beside-offload"),
        evidence=ctx.longest(
            [
                (
                    at,
                    start,
                    end,
                    f"{format_ns(end - start)} without any GPU work, {_left(case, start)}",
                )
                for at, (case, stretches) in enumerate(zip(ctx.cases, idle, strict=True))
                for start, end in stretches.pieces()[:1_000]
            ]
        ),
    )


FINDERS: tuple[Finder, ...] = (gpu_idle_beside_offload, d2h_awaited, host_waits)


def _engine_held(ctx: Context, i: int, waits: Waits, mine: BoolArray) -> Waits:
    """Exposed pieces of D2H copies that held the engine before others that were ready and that
    compute waits for, `waits`: it waits for those in front of them as well.
    """
    case = ctx.cases[i]
    behind, since = queued_since(case, ctx.measured[i], Role.D2H)
    awaited = np.isin(behind, waits.transfer)
    behind, since = behind[awaited], since[awaited]
    start, pieces = case.rows.start_ns[behind], case.pieces
    # The part that compute waits for directly ends a piece, and is counted already.
    at = np.flatnonzero(mine[pieces.transfer] & (pieces.blocked_ns - pieces.start_ns > SOON_NS))
    place = np.searchsorted(start, pieces.end_ns[at], side="left")
    at, place = at[place < len(behind)], place[place < len(behind)]
    kernel = waits.kernel[np.searchsorted(waits.transfer, behind[place])]
    held = Waits(pieces.transfer[at], pieces.start_ns[at], pieces.blocked_ns[at], kernel)
    queued = IntervalSet.from_spans(since, np.maximum(start, since))
    return held.within(queued.intersect(case.window).subtract(case.lanes.opaque))


def _by_name(names: Sequence[str], ns: Sequence[int]) -> str:
    """Names by the time they stand for, such as `cudaMemcpy (12.0 ms), a pause (1.0 ms)`."""
    total: dict[str, int] = {}
    for name, one in zip(names, ns, strict=True):
        total[name] = total.get(name, 0) + one
    ordered = sorted(total, key=lambda name: (-total[name], name))
    return named([f"{name} ({format_ns(total[name])})" for name in ordered])


def _held_by(ctx: Context, waits: list[Waits]) -> str:
    """In which calls the host was held, and for how long."""
    names: list[str] = []
    ns: list[int] = []
    for case, wait in zip(ctx.cases, waits, strict=True):
        host = case.classified.trace.host
        code = np.where(wait.kernel >= 0, host.calls.name[wait.kernel], -1)
        for one in np.unique(code).tolist():
            names.append(_call_name(host.api_names, one))
            ns.append(int((wait.end_ns - wait.start_ns)[code == one].sum()))
    return f"Held by {_by_name(names, ns)}."


def _call_name(api_names: Sequence[str], code: int) -> str:
    return without_version(api_names[code]) if code >= 0 else "a wait without a call"


def _holder(case: DeviceCase, waits: Waits, row: int) -> str:
    host = case.classified.trace.host
    call = int(waits.kernel[np.flatnonzero(waits.transfer == row)[0]])
    return _call_name(host.api_names, int(host.calls.name[call]) if call >= 0 else -1)


def _waiting(ctx: Context, waits: list[Waits]) -> str:
    """Which kernels waited, and for how long."""
    names: list[str] = []
    ns: list[int] = []
    for case, wait in zip(ctx.cases, waits, strict=True):
        trace = case.classified.trace
        code = trace.kernels.name[wait.kernel]
        for one in np.unique(code).tolist():
            names.append(short_kernel(trace.names[one]))
            ns.append(int((wait.end_ns - wait.start_ns)[code == one].sum()))
    return f"What waited: {_by_name(names, ns)}."


def _idle_beside(case: DeviceCase) -> IntervalSet:
    """Measured stretches without GPU work between a D2H and an H2D that belong together."""
    lanes, rows = case.lanes, case.offloading
    busy = lanes.active.union(lanes.other).union(lanes.unified).union(lanes.opaque)
    gaps = case.window.subtract(busy.union(case.rows.union))
    length = gaps.ends - gaps.starts
    start, end = gaps.starts[length > IDLE_NS], gaps.ends[length > IDLE_NS]
    out, back = (_large(case, role) for role in (Role.D2H, Role.H2D))
    if not len(start) or not out.any() or not back.any():
        return IntervalSet.empty()
    slack = (end - start) // NEAR
    ends = np.sort(rows.end_ns[out])
    last = np.concatenate(([np.iinfo(np.int64).min // 2], ends))
    before = start - last[np.searchsorted(ends, start, side="right")] <= slack
    starts = np.sort(rows.start_ns[back])
    first = np.concatenate((starts, [np.iinfo(np.int64).max // 2]))
    at = np.searchsorted(starts, end, side="left")
    # Behind the last work nothing comes back any more, and the step is as long as the others.
    after = (first[at] - end <= slack) | (at == len(starts))
    between = before & after & _returned(case, start, end)
    between &= (at < len(starts)) | (before & (at < len(starts))).any()
    return IntervalSet.from_spans(start[between], end[between])


def _large(case: DeviceCase, role: Role) -> BoolArray:
    rows = case.offloading
    result: BoolArray = (rows.role == role) & (rows.n_bytes + rows.bytes_estimated >= OFFLOAD_BYTES)
    return result


def _returned(case: DeviceCase, start: Int64Array, end: Int64Array) -> BoolArray:
    """Whether enough of what left since the stretch before comes back until the next one."""
    rows = case.offloading
    low = np.concatenate(([np.iinfo(np.int64).min], end[:-1]))
    high = np.concatenate((start[1:], [np.iinfo(np.int64).max]))

    def moved(role: Role, first: Int64Array, last: Int64Array) -> Int64Array:
        mine = rows.role == role
        total = np.concatenate(([0], np.cumsum(rows.n_bytes[mine])))
        at = [np.searchsorted(rows.start_ns[mine], edge, side="left") for edge in (first, last)]
        result: Int64Array = total[at[1]] - total[at[0]]
        return result

    came = moved(Role.H2D, end, high)
    none_left = np.searchsorted(rows.start_ns[rows.role == Role.H2D], end) == np.count_nonzero(
        rows.role == Role.H2D
    )
    result: BoolArray = (came * COMES_BACK >= moved(Role.D2H, low, start)) | none_left
    return result


def _left(case: DeviceCase, at: int) -> str:
    """What had left last before an instant."""
    rows = case.offloading
    out = np.flatnonzero(_large(case, Role.D2H) & (rows.end_ns <= at))
    row = out[np.argmax(rows.end_ns[out])]
    return f"after {format_bytes(int(rows.n_bytes[row] + rows.bytes_estimated[row]))} D2H"
