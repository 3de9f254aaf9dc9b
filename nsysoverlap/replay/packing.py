"""Kernels that only lay a tensor out for its copy to the host, and go when the copy goes.

PyTorch's `copy_` of a tensor that is not contiguous (a transposed weight that `save_on_cpu` saves)
launches a copy kernel into a temporary and then the D2H, from one call and with nothing between.
A tensor that a program made contiguous by itself comes to its hook through Python, and later.
"""

from __future__ import annotations

import re

import numpy as np

from ..core.arrays import Int64Array
from ..trace.contents import Trace
from .replayed import UNKNOWN, Operations, OpKind

_PACKS = re.compile(r"(?<!unrolled_)(?<!vectorized_)\belementwise_kernel<.*direct_copy_kernel")
"""Not those kernels that only change the type, or copy what is contiguous."""
_AT_ONCE_NS = 20_000
"""From the return of its launch to the call of the copy; in two recordings 5 to 28 us (99 % within
20), where Python's hook lay between 23 us and more."""


def packed_by(trace: Trace, ops: Operations) -> Int64Array:
    """For each operation the D2H that it only packs for, -1 for none; shape (n,)."""
    result = np.full(len(ops), -1, np.int64)
    packs = np.array([bool(_PACKS.search(name)) for name in trace.names] + [False], np.bool_)
    calls = trace.host.calls
    known = np.flatnonzero((ops.call != UNKNOWN) & ~ops.from_graph)
    candidates = known[packs[ops.name[known]] & (ops.kind[known] == OpKind.COMPUTE)]
    if not len(candidates):
        return result
    # In the order of issue; on its stream and thread the copy comes next.
    order = np.lexsort((known, ops.stream[known]))
    place = np.flatnonzero(np.isin(known[order], candidates))
    place = place[place + 1 < len(known)]
    kernel, copy = known[order][place], known[order][place + 1]
    gap = calls.start_ns[ops.call[copy]] - calls.end_ns[ops.call[kernel]]
    thread = calls.thread
    found = (
        (ops.stream[kernel] == ops.stream[copy])
        & (ops.kind[copy] == OpKind.D2H)
        & (thread[ops.call[kernel]] == thread[ops.call[copy]])
        & (gap >= 0)
        & (gap <= _AT_ONCE_NS)
    )
    result[kernel[found]] = copy[found]
    return result
