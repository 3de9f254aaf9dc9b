"""How much device memory offloading freed: what was on the host at one time.

R(t) is the bytes offloaded and not yet reloaded: it rises by a tensor at the end of its D2H, when
its device memory can go, and falls at the start of its H2D, when it needs that memory again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
from ..result.model import Relief
from ..roles.rules import Role
from .lanes import Transfers


@dataclass(frozen=True)
class Stays:
    """Tensors that left and came back; columns of shape (n,), in order of their reload.

    `ns` is the time between the end of the D2H and the start of the H2D; `d2h` and `h2d` index the
    transfers.
    """

    ns: Int64Array
    d2h: Int64Array
    h2d: Int64Array


def measure_relief(
    rows: Transfers, windows: Sequence[tuple[int, int]], *, comes_in_first: bool = True
) -> list[Relief]:
    """One `Relief` for each window `(start, end)`, R starting from 0 in each.

    A D2H belongs to the window that holds its end (`start < end_ns <= end`), an H2D to the one
    that holds its start (`start <= start_ns < end`). Only sizes that move in both directions
    within the window count: batches, losses and set-up copies relieve nothing.

    Where data `comes_in_first`, as optimizer state does in a step, what it leaves free before
    counts too. Without steps that cannot be told from a program that loads and stores.
    """
    moves = _moves(rows)
    results = []
    for first, last in zip(*moves.bounds(windows), strict=True):
        window = moves.select(slice(first, last))
        counted = window.select(window.both_ways)
        level = counted.levels[1]
        offloaded = int(counted.n_bytes[counted.out].sum())
        moved = int(counted.n_bytes.sum())
        if not comes_in_first and not (level > 0).any():
            results.append(Relief())
            continue
        lowest = min(level.min(initial=0), 0) if comes_in_first else 0
        results.append(
            Relief(
                # More came in than left where parameters are fetched twice: that frees nothing.
                relief_bytes=min(int(max(level.max(initial=0), 0) - lowest), offloaded),
                offloaded_bytes=offloaded,
                excluded_bytes=int(window.n_bytes.sum()) - moved,
            )
        )
    return results


def median_relief(parts: Sequence[Relief]) -> Relief:
    """The relief of the step in the middle by `relief_bytes`, of two the lower; none of no steps.

    All three numbers are those of one step, so that its share is one that occurred.
    """
    ordered = sorted(parts, key=lambda r: (r.relief_bytes, r.offloaded_bytes, r.excluded_bytes))
    return ordered[(len(ordered) - 1) // 2] if ordered else Relief()


def relief_curve(rows: Transfers, window: tuple[int, int]) -> tuple[Int64Array, Int64Array]:
    """R(t) over a window as a step function: times (n,), rising, and bytes (n,) from each on.

    The first time is the start of the window, the first value 0 unless an H2D starts right there.
    """
    moves = _moves(rows)
    ((first,), (last,)) = moves.bounds([window])
    inside = moves.select(slice(first, last))
    times, level = inside.select(inside.both_ways).levels
    if len(times) and times[0] == window[0]:
        return times, level
    return np.concatenate(([window[0]], times)), np.concatenate(([0], level))


def stays(rows: Transfers, window: tuple[int, int]) -> Stays:
    """How long each reloaded tensor stayed away, matched by size, first out first in.

    A trace does not name tensors. Where equal sizes are away together another match is possible;
    the sum over all of them would be the same. Reloads of what left before the window stay
    unmatched, and so does what never comes back.
    """
    moves = _moves(rows)
    ((first,), (last,)) = moves.bounds([window])
    queue = moves.select(slice(first, last))
    queue = queue.select(np.argsort(queue.size, kind="stable"))
    starved = _starved(queue)
    left, back = queue.select(queue.out), queue.select(~queue.out & ~starved)
    # Within a size the k-th reload takes what was offloaded k-th.
    matched = left.select(_place_in_size(left.size, back.size))
    order = np.argsort(back.at_ns, kind="stable")
    d2h, h2d = matched.index[order], back.index[order]
    return Stays(ns=(back.at_ns - matched.at_ns)[order], d2h=d2h, h2d=h2d)


@dataclass(frozen=True)
class _Moves:
    """Ends of D2H (`out`) and starts of H2D in order of time, D2H first; columns of shape (n,).

    `size` numbers the distinct sizes, `index` is the transfer.
    """

    at_ns: Int64Array
    out: BoolArray
    n_bytes: Int64Array
    size: Int64Array
    index: Int64Array

    def select(self, which: slice | BoolArray | Int64Array) -> _Moves:
        return _Moves(
            self.at_ns[which],
            self.out[which],
            self.n_bytes[which],
            self.size[which],
            self.index[which],
        )

    def bounds(self, windows: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
        """First and one-past-last move of each window."""
        edges = np.array(windows, dtype=np.int64).reshape(len(windows), 2)
        # At an edge, an end belongs to what came before and a start to what comes after.
        before = np.searchsorted(self.at_ns[self.out], edges, side="right")
        before += np.searchsorted(self.at_ns[~self.out], edges, side="left")
        return before[:, 0].tolist(), before.max(axis=1).tolist()

    @property
    def both_ways(self) -> BoolArray:
        """Which moves have a size that moves in both directions."""
        both = np.intersect1d(self.size[self.out], self.size[~self.out])
        at = np.minimum(np.searchsorted(both, self.size), len(both) - 1)
        return both[at] == self.size if len(both) else np.zeros(len(self.size), np.bool_)

    @property
    def levels(self) -> tuple[Int64Array, Int64Array]:
        """Distinct instants, and R from each on; moves at one instant net out."""
        level = np.cumsum(np.where(self.out, self.n_bytes, -self.n_bytes))
        last = np.ones(len(level), np.bool_)
        last[:-1] = self.at_ns[1:] != self.at_ns[:-1]
        return self.at_ns[last], level[last]


def _moves(rows: Transfers) -> _Moves:
    """The moves of h2d and d2h transfers; unified migrations are none."""
    index = np.flatnonzero(np.isin(rows.role, (Role.H2D, Role.D2H)))
    out = rows.role[index] == Role.D2H
    at_ns = np.where(out, rows.end_ns[index], rows.start_ns[index])
    n_bytes = (rows.n_bytes + rows.bytes_estimated)[index]
    size = np.unique(n_bytes, return_inverse=True)[1].reshape(-1)
    return _Moves(at_ns, out, n_bytes, size, index).select(np.lexsort((~out, at_ns)))


def _starved(queue: _Moves) -> BoolArray:
    """Which reloads find nothing of their size away; `queue` is in order of size, then time."""
    balance = np.cumsum(np.where(queue.out, 1, -1))
    begins = np.diff(queue.size, prepend=-1) != 0
    size = np.cumsum(begins) - 1
    balance -= np.append(0, balance)[np.flatnonzero(begins)][size]
    # Shifted so far down that no balance of an earlier size is below one of a later.
    shift = size * (2 * len(balance) + 1)
    lowest = np.minimum.accumulate(balance - shift)
    lowest_before = np.where(begins, 0, np.append(0, lowest[:-1]) + shift)
    result: BoolArray = balance < np.minimum(lowest_before, 0)
    return result


def _place_in_size(left: Int64Array, back: Int64Array) -> Int64Array:
    """For each of `back` the place in `left` of the same size and rank; both sorted by size."""
    rank = np.arange(len(back)) - np.searchsorted(back, back, side="left")
    result: Int64Array = np.searchsorted(left, back, side="left") + rank
    return result
