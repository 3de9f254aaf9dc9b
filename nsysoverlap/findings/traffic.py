"""What goes over the link: too much for it, or hardly anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_bytes, format_ns, format_rate, format_share, number_of
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..roles.rules import Role
from .context import NOTE, Context, Cost, Finder, Found
from .facts import a_step, copies, pageable, pinned_outside_graphs, size_text, spans

BUSY_SHARE = 0.95
"""A copy engine that is busy for this share of a phase leaves no room for another schedule."""
LEAST_COPIES = 4
"""So many copies make a phase."""
IMMATERIAL = 1000
"""Transfers of less than one part in so many of the time are not what takes it."""


def link_bound(ctx: Context) -> Iterator[Found]:
    """A copy engine is busy nearly all of the phase in which its copies can run.

    For each direction and step the phase lasts from the first of its copies of pinned memory to the
    last: of activations that is the forward pass for D2H, the backward pass for H2D. Where copies
    run for 95 % of it and more, no other order within the phase hides much more of them. Copies
    that could start before the phase or end after it may be hidden all the same; the *bound* of the
    report, where there is one, takes that into account.

    **Cost**: time per step of these phases during which a copy was exposed.

    **What helps**: move fewer bytes in that phase: keep or recompute some of the tensors. The
    finding says how many bytes the compute of the phase can hide at the rate that they had.

    **Silent** for less than four copies a step, for less than 0.1 % of the time, and for copies on
    a stream that computes, which wait for it anyway.
    """
    phases = [_phases(ctx, i) for i in range(len(ctx.cases))]
    bound = ctx.rows().of(tuple(phase.rows for phase in phases))
    lost = [
        ctx.exposed(i, phase.rows).intersect(phase.when).length for i, phase in enumerate(phases)
    ]
    cost = ctx.worth(lost)
    if cost is None:
        return
    i = lost.index(max(lost))
    names = " and ".join(side.role.name for side in phases[i].sides)
    yield cost.found(
        title=f"The link is busy with {names} from first copy to last: no order within that time "
        "hides much more",
        detail=" ".join(
            [*(_side_text(ctx, side) for side in phases[i].sides), _sizes(ctx, i, phases[i].rows)]
        ),
        remedy=ctx.remedy("link-bound"),
        evidence=bound.examples(
            lambda i, row, ns: f"{size_text(ctx, i, row)}, {format_ns(ns)} exposed"
        ),
        rows=bound,
        target=sum(side.fits for side in phases[i].sides)
        / max(1, sum(side.n_bytes for side in phases[i].sides)),
    )


def one_time_transfers(ctx: Context) -> Iterator[Found]:
    """All transfers lie before the first kernel or after the last: data is loaded or saved once.

    What else is wrong with them is not said, but for what holds for any copy of the device: to pin
    memory, or to pack, for a single copy takes as long as it wins.

    **Cost**: none a step; a longer run pays no more.

    **What helps**: nothing in the step. To see what a step does, capture some of them (`--steps`,
    or `cudaProfilerStart` behind the warm-up).

    **Silent** where steps are measured, and where any transfer runs between kernels.
    """
    if ctx.n_steps or not ctx.cases:
        return
    moved = ctx.rows()
    for case, mask in zip(ctx.cases, moved.masks, strict=True):
        compute = case.lanes.compute
        if mask.any() and not len(compute):
            return
        rows = case.rows.select(mask)
        if ((rows.end_ns > compute.starts[:1]) & (rows.start_ns < compute.ends[-1:])).any():
            return
    if not moved.n:
        return
    busiest = f" on the busiest of {len(ctx.cases)} devices" if len(ctx.cases) > 1 else ""
    yield Cost(0, NOTE).found(
        title="All transfers lie before the first kernel or after the last: one-time loading",
        detail=f"{copies(moved.n)}, {format_bytes(moved.n_bytes)} in all, "
        f"{format_ns(max(moved.wall))}{busiest}. Nothing of that is in the way of compute."
        f"{_from_pageable(ctx)}",
        remedy=ctx.remedy("one-time-transfers"),
        evidence=moved.by_length.examples(lambda i, row, _: size_text(ctx, i, row)),
    )


def immaterial_transfers(ctx: Context) -> Iterator[Found]:
    """Transfers take less than 0.1 % of the time: hiding them wins nothing.

    **Cost**: none worth a line.

    **What helps**: look at what takes the time instead: the time budget names it.

    **Silent** without transfers.
    """
    moved = ctx.rows()
    wall, whole = sum(moved.wall), sum(case.window.length for case in ctx.cases)
    if not wall or wall * IMMATERIAL >= whole:
        return
    yield Cost(0, NOTE).found(
        title="Transfers take less than 0.1 % of the time: nothing to win here",
        detail=f"{number_of(moved.n, 'transfer')}, {format_bytes(moved.n_bytes)} in all.",
        remedy=ctx.remedy("immaterial-transfers"),
        evidence=moved.by_length.examples(lambda i, row, _: size_text(ctx, i, row)),
    )


FINDERS: tuple[Finder, ...] = (link_bound, one_time_transfers, immaterial_transfers)


def _from_pageable(ctx: Context) -> str:
    """How many bytes are from or to pageable memory, and at what rate; '' for none."""
    rows = ctx.rows(pageable)
    if not rows.n_bytes:
        return ""
    return (
        f" {format_bytes(rows.n_bytes)} are from or to pageable memory, at "
        f"{format_rate(rows.n_bytes / rows.busy_ns)} GB/s: to pin memory for a single copy takes "
        "as long as it wins."
    )


@dataclass(frozen=True)
class _Side:
    """One direction in its phases, over all steps: lengths, and what compute there was."""

    role: Role
    phase_ns: int
    busy_ns: int
    n_bytes: int
    active_ns: int

    @property
    def fits(self) -> float:
        """Bytes that the compute of the phases can hide."""
        return self.n_bytes * min(1.0, self.active_ns / self.busy_ns)


@dataclass(frozen=True)
class _Phases:
    """The copies of one device in phases that the link decides, and when those are."""

    rows: BoolArray
    when: IntervalSet
    sides: tuple[_Side, ...]


def _phases(ctx: Context, i: int) -> _Phases:
    case = ctx.cases[i]
    picked, when, sides = np.zeros(len(case.rows), np.bool_), IntervalSet.empty(), []
    own_stream = pinned_outside_graphs(case) & ctx.measured[i] & ~_computes(case)
    for role in (Role.D2H, Role.H2D):
        mine = np.flatnonzero(own_stream & (case.rows.role == role))
        found = _phases_of(case, mine)
        if not len(found):
            continue
        start, end, first, last = found.T
        inside = np.concatenate([mine[low:high] for low, high in zip(first, last, strict=True)])
        rows = case.rows.select(inside)
        picked[inside] = True
        when = when.union(IntervalSet.from_spans(start, end))
        sides.append(
            _Side(
                role=role,
                phase_ns=int((end - start).sum()),
                busy_ns=rows.union.length,
                n_bytes=int((rows.n_bytes + rows.bytes_estimated).sum()),
                active_ns=int(case.lanes.active.covered(start, end).sum()),
            )
        )
    return _Phases(picked, when.intersect(case.window), tuple(sides))


def _phases_of(case: DeviceCase, mine: Int64Array) -> Int64Array:
    """(start, end, first, one past last) of each phase in which the engine is always busy; `first`
    and `last` are places in `mine`, copies of one direction by start.
    """
    low, high = spans(case)
    starts, ends = case.rows.start_ns[mine], case.rows.end_ns[mine]
    first, last = (np.searchsorted(starts, edge, side="left") for edge in (low, high))
    many = last - first >= LEAST_COPIES
    first, last = first[many], last[many]
    if not len(first):
        return np.empty((0, 4), np.int64)
    start = starts[first]
    end = np.maximum.reduceat(np.append(ends, 0), np.stack([first, last], axis=1).reshape(-1))[::2]
    busy = case.rows.select(mine).union.covered(start, end)
    # Where nothing computes in the phase, the work to hide behind lies elsewhere.
    full = (busy >= BUSY_SHARE * (end - start)) & (case.lanes.active.covered(start, end) > 0)
    return np.stack([start, end, first, last], axis=1)[full]


def _computes(case: DeviceCase) -> BoolArray:
    """Which rows of a case stand on a stream that computes too."""
    kernels = case.classified.trace.kernels
    compute = case.classified.kernel_rows(case.device.index, Role.COMPUTE)
    return np.isin(case.rows.stream, np.unique(kernels.stream[compute]))


def _side_text(ctx: Context, side: _Side) -> str:
    """How busy the engine of a direction was, and what would fit."""
    phase, moved = ctx.per_step(side.phase_ns), ctx.per_step(side.n_bytes)
    return (
        f"{side.role.name}: busy for {format_share(side.busy_ns / side.phase_ns)} of "
        f"{format_ns(phase)} {a_step(ctx)}; of {format_bytes(moved)} the compute of that time can "
        f"hide {format_bytes(ctx.per_step(int(side.fits)))}."
    )


def _sizes(ctx: Context, i: int, mask: BoolArray) -> str:
    """The largest tensors that could stay, by size, such as `2 x 1.95 GiB`."""
    rows = ctx.cases[i].rows
    out = mask & (rows.role == Role.D2H)
    sizes = rows.n_bytes[out if out.any() else mask].tolist()
    counted = sorted(Counter(sizes).items(), key=lambda item: -item[0] * item[1])[:3]
    shown = ", ".join(f"{ctx.per_step(n) or 1} x {format_bytes(size)}" for size, n in counted)
    return f"Most bytes: {shown} {a_step(ctx)}."
