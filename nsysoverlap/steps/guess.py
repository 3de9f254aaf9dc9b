"""Guess steps from the repeating pattern of kernels, for traces that nothing marks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..core.arrays import Int64Array
from ..roles.rules import Classified, Role
from ..trace.model import short_name

_ALIKE = 0.95
_ANCHORS = 24
_FEWEST = 2


def guess_borders(classified: Classified, device: int) -> tuple[str, list[int]] | None:
    """Name of the kernel that begins each repetition, and where repetitions begin and the last
    one ends, on one device; None where its kernels do not repeat.

    Of all kernels that could begin a repetition, the one that occurs least often is taken whose
    repetitions hold nearly the same kernels.
    """
    trace = classified.trace
    kernels = trace.kernels
    rows = classified.kernel_rows(device, Role.COMPUTE)
    if len(rows) < 2 * _FEWEST:
        return None
    names = kernels.name[rows].astype(np.int64)
    count = np.bincount(names, minlength=len(trace.names))
    first = np.full(len(trace.names), len(rows), np.int64)
    np.minimum.at(first, names, np.arange(len(rows)))
    candidates = np.flatnonzero(count >= _FEWEST)
    candidates = candidates[np.lexsort((first[candidates], count[candidates]))][:_ANCHORS]
    for anchor in candidates.tolist():
        at = np.flatnonzero(names == anchor)
        if _repeats(names, at, len(trace.names)):
            starts = kernels.start_ns[rows[at]].tolist()
            return short_name(trace.names[anchor]), [*starts, int(kernels.end_ns[rows].max())]
    return None


def _repeats(names: Int64Array, at: Int64Array, n_names: int) -> bool:
    """Whether the stretches from one occurrence to the next hold the same kernels."""
    lengths = np.diff(at)
    if len(lengths) < 1 or lengths.min() < _FEWEST or len(names) - at[-1] > 2 * lengths.max():
        return False
    whole = [np.bincount(names[a:b], minlength=n_names) for a, b in pairwise(at.tolist())]
    # The last stretch ends with the trace, which may cut it short or go on after it.
    alike = [np.minimum(one, two).sum() / max(one.sum(), two.sum()) for one, two in pairwise(whole)]
    last = np.bincount(names[at[-1] :], minlength=n_names)
    alike.append(np.minimum(last, whole[-1]).sum() / whole[-1].sum())
    return bool(min(alike) >= _ALIKE)
