"""Rows that no GPU can have written: whoever made them, numbers from them are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.arrays import BoolArray
from ..core.formatting import format_ns, number_of
from ..core.intervals import merge_groups
from ..result.model import HealthEntry, format_share
from ..trace.cupti import HOST_COPIES, MIGRATIONS
from ..trace.model import Activities, Trace
from .subject import Case

FASTEST_GBPS = 2_000
"""Bytes per ns; twice the fastest host link announced."""
MOST_OVERLAP = 1e-3
"""Share of the busy time of streams in which two rows of one stream may run at once."""
_EXPORT = "It is not as nsys writes it; export the report again, or capture again."


def copies_without_time(case: Case) -> Iterator[HealthEntry]:
    """Copies that moved bytes in no time, or faster than any link."""
    copies = case.classified.trace.copies
    took = copies.end_ns - copies.start_ns
    instant = (took == 0) & (copies.n_bytes > 0)
    # Compared as a product of the small number, so that nothing overflows.
    fast = np.isin(copies.copy_kind, HOST_COPIES) & (copies.n_bytes // FASTEST_GBPS > took)
    n = int(np.count_nonzero(instant | fast))
    if n:
        copied = number_of(n, "copy", "copies")
        yield HealthEntry(
            "copies-without-time",
            "error",
            f"{copied} moved bytes in no time, or faster than any link: the times are wrong.",
            _EXPORT,
            count=n,
        )


def duplicate_rows(case: Case) -> Iterator[HealthEntry]:
    """Rows that stand in a table twice."""
    trace = case.classified.trace
    copies, kernels = trace.copies, trace.kernels
    n = sum(
        (
            _again(kernels, ~kernels.from_graph, (kernels.name, kernels.shape)),
            _again(
                copies,
                ~np.isin(copies.copy_kind, MIGRATIONS),
                (copies.n_bytes, copies.copy_kind, copies.graph_node_id),
            ),
            _again(trace.memsets, ~trace.memsets.from_graph, ()),
            _again(trace.graphs, np.ones(len(trace.graphs), np.bool_), ()),
        )
    )
    if n:
        yield HealthEntry(
            "duplicate-rows",
            "error",
            f"{number_of(n, 'row')} of GPU work {'stands' if n == 1 else 'stand'} in the export "
            "twice.",
            _EXPORT,
            count=n,
        )


def _again(rows: Activities, asked: BoolArray, more: Sequence[Any]) -> int:
    """How many of the asked rows equal an earlier one in time, stream, launch and `more`."""
    same = (rows.start_ns[1:] == rows.start_ns[:-1]) & (rows.end_ns[1:] == rows.end_ns[:-1])
    tied = (
        np.append(same, False) | np.append(False, same)
        if len(rows) > 1
        else np.zeros(len(rows), np.bool_)
    )
    at = np.flatnonzero(tied & asked)
    if len(at) < 2:
        return 0
    columns = (rows.start_ns, rows.end_ns, rows.stream, rows.correlation_id, *more)
    keys = np.stack([column[at].astype(np.int64) for column in columns], axis=1)
    return len(at) - len(np.unique(keys, axis=0))


def overlap_in_streams(case: Case) -> Iterator[HealthEntry]:
    """Copies and memsets that run at the same time as other work of their stream."""
    together, busy = stream_overlap(case.classified.trace)
    if together > MOST_OVERLAP * busy:
        yield HealthEntry(
            "stream-overlap",
            "error",
            f"Copies and memsets run for {format_ns(together)} "
            f"({format_share(together / busy)} of the time) at once with other work of their own "
            "stream, which a stream cannot do.",
            _EXPORT,
        )


def stream_overlap(trace: Trace) -> tuple[int, int]:
    """Time in which copies and memsets run at once with work of their stream, and busy time; ns.

    Kernels may overlap each other (programmatic launch); nodes of a graph all carry the stream it
    was launched on, and migrations none.
    """
    copies = trace.copies
    kernels = (trace.kernels, ~trace.kernels.from_graph)
    others = (
        (copies, ~copies.from_graph & ~np.isin(copies.copy_kind, MIGRATIONS)),
        (trace.memsets, ~trace.memsets.from_graph),
    )
    moved = sum(int((rows.end_ns - rows.start_ns)[kept].sum()) for rows, kept in others)
    if not moved:
        return 0, 0
    of_kernels, of_all = _busy_ns([kernels]), _busy_ns([kernels, *others])
    return moved - (of_all - of_kernels), of_all


def _busy_ns(tables: Sequence[tuple[Activities, BoolArray]]) -> int:
    """Time during which each stream ran anything, summed over streams."""
    stream = np.concatenate([rows.stream[kept].astype(np.int64) for rows, kept in tables])
    start = np.concatenate([rows.start_ns[kept] for rows, kept in tables])
    end = np.concatenate([rows.end_ns[kept] for rows, kept in tables])
    _, begin, until = merge_groups(stream, start, end)
    return int((until - begin).sum())


def beyond_capture(case: Case) -> Iterator[HealthEntry]:
    """Rows before the collection began or after it ended."""
    trace = case.classified.trace
    span, extent = trace.facts.capture_ns, trace.extent_ns
    if span is None or extent is None or (span[0] <= extent[0] and extent[1] <= span[1]):
        return
    tables = trace.tables.values()
    n = sum(
        int(np.count_nonzero((rows.start_ns < span[0]) | (rows.end_ns > span[1])))
        for rows in tables
    )
    yield HealthEntry(
        "rows-beyond-capture",
        "error",
        f"{number_of(n, 'row')} of GPU work {'lies' if n == 1 else 'lie'} outside the "
        f"{format_ns(span[1] - span[0])} of the capture: the times are wrong.",
        _EXPORT,
        count=n,
    )
