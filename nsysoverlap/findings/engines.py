"""Findings about the copy engines: one for each direction, and what becomes of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..core.arrays import Int64Array
from ..core.formatting import format_ns
from ..measure.waiting import in_graph
from ..roles.rules import Role
from .context import Context, Finder, Found, Rows
from .facts import copies, exposed_text, size_text
from .queues import SOON_NS, depends, transfers_sent_ns

TOGETHER_AT_MOST = 20
"""Directions take turns if less than one part in so many of the shorter one runs beside the other.
"""


def same_direction_queue(ctx: Context) -> Iterator[Found]:
    """Copies of one direction queue behind one another although they are on different streams.

    A GPU has one copy engine for each direction, so more streams do not make copies of one
    direction run together. Counts a copy that starts within 20 µs of the end of one of the same
    direction on another stream, though it had been launched, the streams it waits for were done,
    and nothing told it to wait for that copy. One finding for each direction; nodes of CUDA graphs
    are left out.

    **Cost**: for each copy that queued, the smaller of its exposed time and of the time it queued,
    per step.

    **What helps**: issue the copies at different times, each with compute beside it, or move fewer
    bytes; more streams do not help.

    **Silent** for less than 0.1 % of the time.
    """
    for role in (Role.H2D, Role.D2H):
        yield from _queue_of_direction(ctx, role)


def no_duplex(ctx: Context) -> Iterator[Found]:
    """H2D and D2H copies take turns, though the link carries both directions at once.

    Less than 5 % of the direction that moved for less time ran beside the other. Looks at copies
    that follow one another within 20 µs, and leaves out those told to wait for the one before:
    what comes back at once cannot run beside its own leaving. Nodes of CUDA graphs are left out.

    **Cost**: in each row of such copies the smaller of the exposed times of the two directions,
    per step: so much could at most run at the same time.

    **What helps**: one stream for each direction. For copies between unrolled layers, XLA takes
    `--xla_gpu_experimental_parallel_async_compute_limit=8` (2 by default; in JAX 0.11 it governs
    `copy-start` only, so not the copies of a scan; depends on the version).

    **Silent** for less than 0.1 % of the time, and where only one direction moves.
    """
    turns = [_turns(ctx, i) for i in range(len(ctx.cases))]
    cost = ctx.worth([turn.lost_ns for turn in turns])
    if cost is None:
        return
    taking = Rows(ctx, tuple(turn.run >= 0 for turn in turns))
    yield cost.found(
        title="H2D and D2H copies take turns, though the link carries both at once",
        detail=f"{copies(taking.n)} follow one another directly without being told to wait, "
        f"{_on_one_stream(ctx, turns)} of them on the stream of the one before.",
        remedy=ctx.remedy("no-duplex"),
        evidence=taking.examples(
            lambda i, row, ns: f"{size_text(ctx, i, row)}, {format_ns(ns)} exposed"
        ),
        rows=taking,
    )


FINDERS: tuple[Finder, ...] = (same_direction_queue, no_duplex)


def _queue_of_direction(ctx: Context, role: Role) -> Iterator[Found]:
    queued = [_queued(ctx, i, role) for i in range(len(ctx.cases))]
    rows = ctx.weighted(
        [np.minimum(ns, own) for ns, own in zip(queued, ctx.exposed_ns, strict=True)]
    )
    cost = ctx.worth(rows.blamed)
    if cost is None:
        return
    # Copies that queued and were hidden all the same lost nothing by it.
    waited = sum(int(ns[mask].sum()) for ns, mask in zip(queued, rows.masks, strict=True))
    mean_ns = waited // rows.n
    yield cost.found(
        title=f"{copies(rows.n, role.name)} queued behind another one on a different stream",
        detail=f"Ready {format_ns(mean_ns)} earlier on average: one engine serves all {role.name} "
        "copies, so streams of their own do not make them run together.",
        remedy=ctx.remedy("same-direction-queue"),
        evidence=rows.examples(
            lambda i, row, _: (
                f"{size_text(ctx, i, row)}, queued for {format_ns(int(queued[i][row]))}, "
                f"then exposed for {exposed_text(ctx, i, row)}"
            )
        ),
        rows=rows,
    )


def _queued(ctx: Context, i: int, role: Role) -> Int64Array:
    """For how long each row of one direction was ready while another stream's held the engine."""
    case = ctx.cases[i]
    result = np.zeros(len(case.rows), np.int64)
    behind, since = ctx.queued[i][role]
    outside = ~in_graph(case.classified, case.rows)
    engine = case.rows.select((case.rows.role == role) & outside).union
    result[behind] = engine.covered(since, case.rows.start_ns[behind])
    return result


@dataclass(frozen=True)
class Turns:
    """Rows of copies that take turns: `run` (n,) numbers the one that each row of the case is in,
    -1 for none; `lost_ns` is what both directions together could have saved.
    """

    run: Int64Array
    lost_ns: int = 0


def _turns(ctx: Context, i: int) -> Turns:
    case, rows = ctx.cases[i], ctx.cases[i].rows
    nothing = Turns(np.full(len(rows), -1, np.int64))
    h2d, d2h = (
        rows.select(rows.role == role).union.intersect(case.window) for role in (Role.H2D, Role.D2H)
    )
    if h2d.intersect(d2h).length * TOGETHER_AT_MOST >= min(h2d.length, d2h.length):
        return nothing
    mine = np.flatnonzero(~in_graph(case.classified, rows))
    if len(mine) < 2:
        return nothing
    stream, sent = rows.stream[mine], transfers_sent_ns(case)[mine]
    reach = np.maximum.accumulate(rows.end_ns[mine])
    linked = rows.start_ns[mine][1:] - reach[:-1] <= SOON_NS
    linked &= ~depends(case, (stream[:-1], sent[:-1]), (stream[1:], sent[1:]))
    number = np.concatenate(([0], np.cumsum(~linked)))
    is_d2h = rows.role[mine] == Role.D2H
    exposed = np.zeros((int(number[-1]) + 1, 2), np.int64)
    np.add.at(exposed, (number, is_d2h.astype(int)), ctx.exposed_ns[i][mine])
    shorter = exposed.min(axis=1)
    run = nothing.run
    run[mine] = np.where(shorter[number] > 0, number, -1)
    most = [
        ctx.exposed(i, (run >= 0) & (rows.role == role)).length for role in (Role.H2D, Role.D2H)
    ]
    return Turns(run, min(int(shorter.sum()), *most))


def _on_one_stream(ctx: Context, turns: list[Turns]) -> str:
    """How many of the copies that take turns follow one on their own stream."""
    n = 0
    for case, turn in zip(ctx.cases, turns, strict=True):
        mine = np.flatnonzero(turn.run >= 0)
        stream, run = case.rows.stream[mine], turn.run[mine]
        n += int(((stream[1:] == stream[:-1]) & (run[1:] == run[:-1])).sum())
    return f"{n:,}" if n else "none"
