"""Rows that no GPU can have written: whoever made them, numbers from them are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_ns, number_of
from ..core.intervals import IntervalSet
from ..result.model import HealthEntry, format_share
from ..roles.links import link_for
from ..roles.rules import Role
from ..trace.contents import Activities, Trace
from ..trace.cupti import HOST_COPIES, MIGRATIONS, CopyKind, MemoryKind
from .subject import Case

FASTEST_GBPS = 2_000
"""Bytes per ns; twice the fastest host link announced."""
_LARGE, _ABOVE_PEAK = 1_000_000, 1.25
_HOST_MEMORY = (MemoryKind.PAGEABLE, MemoryKind.PINNED)
_ROOM = 1 << 61
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


def rows_without_device(case: Case) -> Iterator[HealthEntry]:
    """Rows on a device below 0, or of no process where others name one.

    They would count as a device of their own, and the worst device would look better without them.
    """
    trace = case.classified.trace
    named = any(stream.global_pid for stream in trace.streams)
    wrong = np.array(
        [s.device_id < 0 or (named and not s.global_pid) for s in trace.streams], np.bool_
    )
    n = sum(int(np.count_nonzero(wrong[rows.stream])) for rows in trace.tables.values())
    if n:
        yield HealthEntry(
            "rows-without-device",
            "error",
            f"{number_of(n, 'row')} of GPU work {'names' if n == 1 else 'name'} no device or no "
            "process that can be.",
            _EXPORT,
            count=n,
        )


def contexts_of_two_devices(case: Case) -> Iterator[HealthEntry]:
    """Rows of one context of a process on several devices: some hide what ran elsewhere."""
    trace = case.classified.trace
    devices: dict[tuple[int, int], set[int]] = {}
    for stream in trace.streams:
        if stream.context_id > 0:
            context = stream.global_pid, stream.context_id
            devices.setdefault(context, set()).add(stream.device_id)
    n = sum(len(ids) > 1 for ids in devices.values())
    if n:
        yield HealthEntry(
            "context-of-two-devices",
            "error",
            f"{number_of(n, 'CUDA context')} {'has' if n == 1 else 'have'} rows on several "
            "devices, but a context belongs to one.",
            _EXPORT,
            count=n,
        )


def copies_beyond_the_link(case: Case) -> Iterator[HealthEntry]:
    """Copies of 1 MB and more that were faster than the host link of their GPU can be."""
    trace = case.classified.trace
    copies, role, n, best = trace.copies, case.classified.copy_role, 0, 0.0
    took = np.maximum(copies.end_ns - copies.start_ns, 1)
    on_device = trace.stream_device[copies.stream]
    for device, report in zip(trace.devices, case.devices, strict=True):
        known, link = link_for(device.gpu.name), report.link
        if known is None:
            continue
        for direction, peak in (
            (Role.H2D, max(known.h2d_gbps, link.h2d_gbps or 0)),
            (Role.D2H, max(known.d2h_gbps, link.d2h_gbps or 0)),
        ):
            at = (on_device == device.index) & (role == direction) & (copies.n_bytes >= _LARGE)
            rate = copies.n_bytes[at] / took[at]
            n += int(np.count_nonzero(rate > _ABOVE_PEAK * peak))
            best = max(best, float(rate.max(initial=0)))
    if n:
        yield HealthEntry(
            "copies-too-fast",
            "error",
            f"{number_of(n, 'copy', 'copies')} {'was' if n == 1 else 'were'} faster than the "
            f"host link can be, up to {best:,.0f} GB/s: the times or sizes are wrong.",
            f"{_EXPORT} If the link is another, say so with [links] in a --config file.",
            count=n,
        )


def copies_of_other_memory(case: Case) -> Iterator[HealthEntry]:
    """Copies whose kind contradicts the memory they name: a reload taken for a copy on the GPU."""
    copies = case.classified.trace.copies
    from_host, to_host = (
        np.isin(kind, _HOST_MEMORY) for kind in (copies.src_kind, copies.dst_kind)
    )
    kind = copies.copy_kind
    # Both halves of a copy from GPU to GPU by way of the host name device memory at both ends.
    wrong = np.isin(kind, (CopyKind.HTOD, CopyKind.HTOA)) & to_host
    wrong |= np.isin(kind, (CopyKind.DTOH, CopyKind.ATOH)) & from_host
    wrong |= np.isin(kind, (CopyKind.DTOD, CopyKind.PTOP)) & (from_host | to_host)
    n = int(np.count_nonzero(wrong))
    if n > MOST_OVERLAP * len(copies):
        yield HealthEntry(
            "copies-of-other-memory",
            "error",
            f"{number_of(n, 'copy', 'copies')} {'is' if n == 1 else 'are'} of a kind that "
            "contradicts the memory they go from or to.",
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
    copies, kernels, memsets = trace.copies, trace.kernels, trace.memsets
    others = (
        (copies, ~copies.from_graph & ~np.isin(copies.copy_kind, MIGRATIONS)),
        (memsets, ~memsets.from_graph),
    )
    moved = sum(int((rows.end_ns - rows.start_ns)[kept].sum()) for rows, kept in others)
    streams = np.unique(np.concatenate([rows.stream[kept] for rows, kept in others]))
    if not moved or trace.extent_ns is None:
        return 0, 0
    low, width = trace.extent_ns[0], trace.extent_ns[1] - trace.extent_ns[0] + 1
    alone, n_at_once = 0, max(1, _ROOM // width)
    # Device by device to save memory, and as many streams as have room one behind the other.
    for device in trace.devices:
        work = _rows_of(trace, device.index, "kernel", ~kernels.from_graph)
        moves = [
            *_rows_of(trace, device.index, "memcpy", others[0][1]),
            *_rows_of(trace, device.index, "memset", others[1][1]),
        ]
        own = streams[trace.stream_device[streams] == device.index]
        for part in np.split(own, range(n_at_once, len(own), n_at_once)):
            place = np.full(len(trace.streams), -1, np.int64)
            place[part] = np.arange(len(part))
            line = _in_line(work, place, low, width)
            alone += _in_line(moves, place, low, width).subtract(line).length
    ran = int((kernels.end_ns - kernels.start_ns)[~kernels.from_graph].sum())
    return moved - alone, ran + moved


def kernels_in_streams(case: Case) -> Iterator[HealthEntry]:
    """Kernels that still run when the second next of their stream begins.

    The next one may begin early (programmatic launch), the one after that waits for both.
    """
    trace, n, together, busy = case.classified.trace, 0, 0, 0
    for device in trace.devices:
        ((kernels, at),) = _rows_of(trace, device.index, "kernel", ~trace.kernels.from_graph)
        at = at[np.argsort(kernels.stream[at], kind="stable")]
        stream, start, end = kernels.stream[at], kernels.start_ns[at], kernels.end_ns[at]
        beyond = np.where(stream[2:] == stream[:-2], end[:-2] - start[2:], 0)
        n += int(np.count_nonzero(beyond > 0))
        together += int(np.maximum(beyond, 0).sum())
        busy += int((end - start).sum())
    if together > MOST_OVERLAP * busy:
        yield HealthEntry(
            "stream-overlap",
            "error",
            f"{number_of(n, 'kernel')} {'runs' if n == 1 else 'run'} on for {format_ns(together)} "
            f"({format_share(together / busy)} of the time of kernels) after the second next of "
            f"{'its' if n == 1 else 'their'} stream began, which a stream cannot do.",
            _EXPORT,
            count=n,
        )


_Rows = Sequence[tuple[Activities, Int64Array]]
"""Tables, each with some of its rows."""


def _rows_of(trace: Trace, device: int, table: str, kept: BoolArray) -> _Rows:
    """The rows of a device that a mask over its whole table keeps."""
    rows = trace.rows_on(device, table)
    return [(trace.tables[table], rows[kept[rows]])]


def _in_line(tables: _Rows, place: Int64Array, low: int, width: int) -> IntervalSet:
    """What some streams ran, each in a stretch of its own: that of place 1 behind that of 0."""
    starts, ends = [], []
    for table, rows in tables:
        at = rows[place[table.stream[rows]] >= 0]
        # Rows are sorted by start, and small codes are sorted by counting.
        at = at[np.argsort(table.stream[at], kind="stable")]
        shift = place[table.stream[at]] * width - low
        starts.append(table.start_ns[at] + shift)
        ends.append(table.end_ns[at] + shift)
    return IntervalSet.from_spans(np.concatenate(starts), np.concatenate(ends))


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
