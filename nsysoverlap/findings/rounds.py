"""The same data that goes to the host again: a cache that grows, or what comes in and goes out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_bytes, format_ns
from ..core.records import dataclass
from ..result.numbers import OFFLOAD_BYTES
from ..roles.rules import Role
from .context import Context, Finder, Found
from .facts import copies, only_infers, size_text

GROWTH = 0.02
"""What grows by no more each time is the same data with a little that is new."""
LEAST_ROUNDS = 3
MOST_SIZES = 256
"""Of so many sizes, those of most copies, it is asked how often they left; programs have few."""


def offloaded_again(ctx: Context) -> Iterator[Found]:
    """The same data goes to the host again and again.

    So a KV cache is offloaded that grows by a token: the whole cache of every layer leaves anew,
    though only one position changed. Told by the sizes of D2H copies of at least 1 MB: three rounds
    or more, each at most 2 % larger than the one before. Of one size all the while it is told where
    attention runs and no kernel of a backward pass or an optimizer, so that nothing changes but a
    cache: what came in goes out again, three times or more. Weights that come back do so too.

    **Cost**: time per step during which a copy of a later round was exposed.

    **What helps**: keep the data on the device, send only what is new, or use a cache of fixed size
    (a sliding window, a quantized or static cache); weights need no copy back out.

    **Silent** for less than 0.1 % of the time, and for data that does not grow in a program that
    trains or has no attention: whether it changed cannot be told.
    """
    rounds = [_grown(ctx, i) for i in range(len(ctx.cases))]
    unchanged = not any(found.again.any() for found in rounds)
    if unchanged:
        rounds = [_unchanged(ctx, i) for i in range(len(ctx.cases))]
    again = ctx.rows().of(tuple(found.again for found in rounds))
    lost = again.exposed
    cost = ctx.worth(lost)
    if cost is None:
        return
    most = rounds[lost.index(max(lost))]
    yield cost.found(
        title=most.title,
        detail=most.detail,
        remedy=ctx.remedy("offloaded-again", unchanged=unchanged),
        evidence=again.examples(
            lambda i, row, ns: f"{size_text(ctx, i, row)} again, {format_ns(ns)} exposed"
        ),
        rows=again,
    )


FINDERS: tuple[Finder, ...] = (offloaded_again,)


@dataclass(frozen=True)
class _Rounds:
    """D2H copies of a device that send the same data again, a mask (n_rows,), and what to say."""

    again: BoolArray
    title: str = ""
    detail: str = ""


def _grown(ctx: Context, i: int) -> _Rounds:
    """The longest series of rounds of one device, each a little larger than the one before."""
    mine, size = _large(ctx, i, Role.D2H)
    begins = np.flatnonzero(np.diff(size, prepend=-1))
    each, count = size[begins], np.diff(np.append(begins, len(size)))
    grows = (each[1:] > each[:-1]) & (each[1:] <= each[:-1] * (1 + GROWTH))
    # Series of runs of one size each; of equals the first.
    series = np.cumsum(np.concatenate(([True], ~grows)))[: len(each)]
    again = np.zeros(len(ctx.cases[i].rows), np.bool_)
    if not len(each):
        return _Rounds(again)
    longest = int(np.argmax(np.bincount(series)))
    own = np.flatnonzero(series == longest)
    if len(own) < LEAST_ROUNDS:
        return _Rounds(again)
    again[mine[begins[own[1]] : begins[own[-1]] + count[own[-1]]]] = True
    later, before = own[1:], own[:-1]
    same = format_bytes(int((each[before] * count[later]).sum()))
    new = format_bytes(int(((each[later] - each[before]) * count[later]).sum()))
    return _Rounds(
        again=again,
        title=f"The same data goes to the host {len(own):,} times: {same} for {new} that are new",
        detail=f"Rounds of {format_bytes(int(each[own[0]] * count[own[0]]))}, each a little larger "
        "than the one before, as of a cache that grows by one position.",
    )


def _unchanged(ctx: Context, i: int) -> _Rounds:
    """D2H copies of one device that send back what had come in, where nothing can have changed it
    but for a position of a cache.
    """
    rows, again = ctx.cases[i].rows, np.zeros(len(ctx.cases[i].rows), np.bool_)
    (out, out_size), (back, back_size) = (_large(ctx, i, role) for role in (Role.D2H, Role.H2D))
    sizes, count = np.unique(out_size, return_counts=True)
    if not len(sizes) or not only_infers(ctx.cases[i]):
        return _Rounds(again)
    n_bytes = 0
    for size in sizes[np.argsort(-count, kind="stable")][:MOST_SIZES].tolist():
        left, came = out[out_size == size], back[back_size == size]
        # How many of the size were on the host, at the end of each D2H and the start of each H2D.
        at = np.concatenate((rows.end_ns[left], rows.start_ns[came]))
        change = np.repeat((1, -1), (len(left), len(came)))
        level = np.cumsum(change[np.argsort(at, kind="stable")])
        new = max(int(level.max()), 0)
        away = new - min(int(level.min()), 0)
        if len(left) >= LEAST_ROUNDS * away and len(came) >= len(left) - away:
            again[left[new:]] = True
            n_bytes += size * away
    same = format_bytes(int(rows.n_bytes[again].sum()))
    return _Rounds(
        again=again,
        title=f"{copies(int(again.sum()), 'D2H')} send back what had come in: {same} for "
        f"{format_bytes(n_bytes)} of data",
        detail="Attention runs, and no kernel of a backward pass or an optimizer: of a cache one "
        "position changed meanwhile, of weights nothing.",
    )


def _large(ctx: Context, i: int, role: Role) -> tuple[Int64Array, Int64Array]:
    """Measured copies of one direction that can be offload, and their bytes; both (n,)."""
    rows = ctx.cases[i].rows
    mine = np.flatnonzero(ctx.measured[i] & (rows.role == role) & (rows.n_bytes >= OFFLOAD_BYTES))
    return mine, rows.n_bytes[mine]
