"""Rows held against the calls that launched them: no row without a call, none before it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.arrays import CodeArray, Int64Array
from ..core.formatting import format_ns, number_of
from ..result.model import HealthEntry, format_share
from ..trace.cupti import MIGRATIONS
from .subject import Case

_ROWS_AT_ONCE = 1 << 20
MOST_WITHOUT = 0.05
"""Share of such rows that may have no call: loading a module may copy too. None has, in 51 healthy
traces with calls."""
MOST_EARLY, EARLY_NS = 1e-3, 1_000_000
"""Share of the rows that may begin so long before their call: clocks of host and GPU may differ.
None begins before it at all, in the same traces."""


def lost_calls(case: Case) -> Iterator[HealthEntry]:
    """Rows without a call behind one of their stream that has one.

    What was launched before the capture began runs before all that was launched within it on its
    stream. Where calls were lost, lost rows cannot be noticed either.
    """
    if all((call >= 0).all() for _, _, call in _launched(case)):
        # As it should be: then millions of rows need no sorting.
        return
    parts = list(_launched(case))
    stream, start, call = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((call < 0, start, stream))
    stream, has = stream[order], call[order] >= 0
    # The number of rows with a call so far, less that of all streams before.
    so_far = np.cumsum(has)
    begins = np.searchsorted(stream, stream)
    behind = so_far > (so_far - has)[begins]
    n, total = int(np.count_nonzero(behind & ~has)), int(np.count_nonzero(behind))
    if n > MOST_WITHOUT * total:
        yield HealthEntry(
            "calls-lost",
            "error",
            f"{n:,} of {number_of(total, 'row')} of GPU work ({format_share(n / total)}) "
            f"{'has' if n == 1 else 'have'} no CUDA API call, so calls were lost, and lost rows "
            "cannot be noticed.",
            "Capture and export again with all CUDA API calls (`--trace=cuda`).",
            count=n,
        )


def rows_before_calls(case: Case) -> Iterator[HealthEntry]:
    """Rows that begin before they were launched."""
    n = total = longest = 0
    for _, start, call in _launched(case):
        known = call >= 0
        early = case.classified.trace.host.calls.start_ns[call[known]] - start[known]
        n += int(np.count_nonzero(early >= EARLY_NS))
        total += len(early)
        longest = max(longest, int(early.max(initial=0)))
    if n > MOST_EARLY * total:
        yield HealthEntry(
            "rows-before-calls",
            "error",
            f"{n:,} of {number_of(total, 'row')} of GPU work "
            f"{'begins' if n == 1 else 'begin'} up to {format_ns(longest)} before the call that "
            "launched it: the times are wrong.",
            "It is not as nsys writes it; export the report again, or capture again.",
            count=n,
        )


def _launched(case: Case) -> Iterator[tuple[CodeArray, Int64Array, Int64Array]]:
    """Stream, start and call, -1 for none, of the rows that a call must have launched; each (n,),
    in parts to save memory.
    """
    trace = case.classified.trace
    if not trace.host.has_calls:
        return
    for name, table in trace.tables.items():
        for begin in range(0, len(table), _ROWS_AT_ONCE):
            part = slice(begin, begin + _ROWS_AT_ONCE)
            stream, start = table.stream[part], table.start_ns[part]
            call = case.launches.of(table, part)
            if name == "memcpy":
                # The driver moves managed memory by itself.
                mine = ~np.isin(trace.copies.copy_kind[part], MIGRATIONS)
                stream, start, call = stream[mine], start[mine], call[mine]
            yield stream, start, call
