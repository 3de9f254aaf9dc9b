"""The GPU that has nothing to do between what leaves for the host and what comes back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_bytes, format_ns, format_share
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..result.numbers import OFFLOAD_BYTES
from ..roles.rules import Role
from ..trace.schema import ALLOCATE_API
from .context import Context, Finder, Found
from .facts import a_step

IDLE_NS = 1_000_000
"""Shorter stretches without any GPU work are launch latency."""
NEAR = 20
"""What leaves before, and comes back after, lies within one part in so many of the stretch."""
COMES_BACK = 10
"""At least one part in so many of what left comes back after the stretch."""


def gpu_idle_beside_offload(ctx: Context) -> Iterator[Found]:
    """The GPU idles between what leaves for the host and what comes back: the CPU works meanwhile.

    So it is with an optimizer on the CPU: gradients go out, the host updates, parameters come in.
    Looks at stretches of more than 1 ms without any GPU work, right behind a D2H of at least 1 MB
    and right before an H2D of at least 1 MB, where at least a tenth of what left comes back.
    Stretches that the host spends mostly in calls that allocate, pin or free memory are a finding
    of their own.

    **Cost**: these stretches, per step. This is not exposed time; it is what offload costs beside.

    **What helps**: make the work on the CPU shorter (a fused optimizer, more threads, fewer
    updates), do it in parts so that the first part returns while the next is worked on, or leave a
    part of it on the GPU. Allocate and pin memory once, not between copies.

    **Silent** for less than 0.1 % of the time.
    """
    idle = [idle_beside(case) for case in ctx.cases]
    held = [_mostly_allocates(case, part) for case, part in zip(ctx.cases, idle, strict=True)]
    works = [part.subtract(own) for part, own in zip(idle, held, strict=True)]
    yield from _idle(ctx, works, allocates=False)
    yield from _idle(ctx, held, allocates=True)


def _idle(ctx: Context, idle: list[IntervalSet], *, allocates: bool) -> Iterator[Found]:
    lost = [stretches.length for stretches in idle]
    cost = ctx.worth(lost)
    if cost is None:
        return
    i = lost.index(max(lost))
    exposed = format_ns(ctx.per_step(ctx.devices[i].both.exposed_ns))
    share = format_share(lost[i] / ctx.cases[i].window.length)
    doing = "the CPU works alone, on an optimizer say"
    if allocates:
        doing = "the host is mostly in calls that allocate, pin or free memory"
    yield cost.found(
        title=(
            f"The GPU idles {share} of the time between what leaves for the host and what comes "
            f"back{', while memory is allocated' if allocates else ''}"
        ),
        detail=(
            f"For {format_ns(ctx.per_step(lost[i]))} {a_step(ctx)} {doing}; the copies themselves "
            f"are exposed for {exposed}."
        ),
        remedy=ctx.remedy("gpu-idle-beside-offload", allocates=allocates),
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


FINDERS: tuple[Finder, ...] = (gpu_idle_beside_offload,)


def idle_beside(case: DeviceCase) -> IntervalSet:
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


def _mostly_allocates(case: DeviceCase, idle: IntervalSet) -> IntervalSet:
    """Those of some stretches that calls of memory fill for half of the time and more."""
    host = case.classified.trace.host
    names = np.array([bool(ALLOCATE_API.match(name)) for name in host.api_names], np.bool_)
    if not len(idle) or not names.any():
        return IntervalSet.empty()
    calls = np.flatnonzero(names[host.calls.name])
    pid = host.thread_pid[host.calls.thread[calls]]
    calls = calls[np.isin(pid, np.array(case.device.global_pids, np.int64))]
    held = IntervalSet.from_spans(host.calls.start_ns[calls], host.calls.end_ns[calls])
    start, end = idle.starts, idle.ends
    mostly = 2 * held.covered(start, end) >= end - start
    return IntervalSet.from_spans(start[mostly], end[mostly])


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
