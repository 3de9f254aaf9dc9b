"""Which compute kernels ran beside which transfers, by pairs found with binary search."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ..core.arrays import Int64Array
from ..roles.rules import Classified, Role
from .lanes import Transfers

_PAIRS_AT_ONCE = 1 << 22


def top_hiding_kernel(classified: Classified, device: int, rows: Transfers) -> Int64Array:
    """For each transfer the name (index into `Trace.names`) of the compute kernel that ran
    longest beside it, all launches of a name together; -1 where none did. Shape (n,).
    """
    best_ns = np.zeros(len(rows), np.int64)
    best_name = np.full(len(rows), -1, np.int64)
    for transfer, name, ns in _beside(classified, device, rows):
        # The longest of each transfer comes first, and of equals the first name.
        order = np.lexsort((name, -ns, transfer))
        first = order[np.concatenate(([True], np.diff(transfer[order]) > 0))]
        best_ns[transfer[first]] = ns[first]
        best_name[transfer[first]] = name[first]
    return np.where(best_ns > 0, best_name, -1)


def _beside(
    classified: Classified, device: int, rows: Transfers
) -> Iterator[tuple[Int64Array, Int64Array, Int64Array]]:
    """(transfer, kernel name, ns together), summed over launches, in runs of whole transfers."""
    trace = classified.trace
    kernels = trace.kernels
    here = classified.kernel_rows(device, Role.COMPUTE)
    lanes = [here[kernels.stream[here] == stream] for stream in np.unique(kernels.stream[here])]
    # Within a stream kernels follow one another, so few that do not overlap are looked at.
    reach = [np.maximum.accumulate(kernels.end_ns[lane]) for lane in lanes]
    n_names = max(1, len(trace.names))
    bounds = [
        (
            np.searchsorted(reached, rows.start_ns, side="right"),
            np.searchsorted(kernels.start_ns[lane], rows.end_ns, side="left"),
        )
        for lane, reached in zip(lanes, reach, strict=True)
    ]
    counts = sum((np.maximum(hi - lo, 0) for lo, hi in bounds), np.zeros(len(rows), np.int64))
    for begin, end in _runs(counts):
        keys, together = [], []
        for lane, (lo, hi) in zip(lanes, bounds, strict=True):
            transfer, at = _expand(lo[begin:end], hi[begin:end])
            transfer += begin
            kernel = lane[at]
            ns = np.minimum(kernels.end_ns[kernel], rows.end_ns[transfer]) - np.maximum(
                kernels.start_ns[kernel], rows.start_ns[transfer]
            )
            real = ns > 0
            keys.append((transfer * n_names + kernels.name[kernel])[real])
            together.append(ns[real])
        key, inverse = np.unique(np.concatenate(keys or [counts[:0]]), return_inverse=True)
        total = np.zeros(len(key), np.int64)
        np.add.at(total, inverse, np.concatenate(together or [counts[:0]]))
        if len(key):
            yield key // n_names, key % n_names, total


def _runs(counts: Int64Array) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive transfers with a bounded number of pairs in each."""
    run = np.cumsum(counts) // _PAIRS_AT_ONCE
    cuts = np.flatnonzero(np.diff(run)) + 1
    edges = [0, *cuts.tolist(), len(counts)]
    yield from pairwise(edges)


def _expand(low: Int64Array, high: Int64Array) -> tuple[Int64Array, Int64Array]:
    """All (i, j) with low[i] <= j < high[i], as two arrays."""
    count = np.maximum(high - low, 0)
    i = np.repeat(np.arange(len(low)), count)
    j = np.arange(len(i)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return i, j
