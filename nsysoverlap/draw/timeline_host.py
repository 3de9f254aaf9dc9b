"""Rows of the host threads that launched a device's work: NVTX ranges by depth, and CUDA calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.arrays import Int64Array
from ..measure.case import DeviceCase

MAX_THREADS = 2
"""Of the threads that launched most of a device's work."""
MAX_LEVELS = 6
"""Depth of NVTX ranges; what lies deeper is left out."""


@dataclass(frozen=True)
class HostRow:
    """Spans of one thread that do not overlap unless the trace is odd, by start; columns (n,).

    `kind` is nvtx or calls, `level` the depth of the ranges from 0. `name` indexes `texts`.
    """

    kind: str
    thread: int
    level: int
    start_ns: Int64Array
    end_ns: Int64Array
    name: Int64Array
    texts: tuple[str, ...]


def host_rows(case: DeviceCase) -> tuple[HostRow, ...]:
    """Those of the threads that launched most of the device's work, within its time."""
    trace = case.classified.trace
    host = trace.host
    launched = np.zeros(len(host.threads), np.int64)
    for name, table in trace.tables.items():
        call = case.launches.of(table, trace.rows_on(case.device.index, name))
        found = host.calls.thread[call[call >= 0]]
        launched += np.bincount(found, minlength=len(host.threads))
    busiest = np.argsort(-launched, kind="stable")[:MAX_THREADS]
    rows: list[HostRow] = []
    for thread in busiest[launched[busiest] > 0].tolist():
        rows += _ranges(case, thread)
        rows += _calls(case, thread)
    return tuple(rows)


def _calls(case: DeviceCase, thread: int) -> list[HostRow]:
    host, calls = case.classified.trace.host, case.classified.trace.host.calls
    mine = np.flatnonzero(calls.thread == thread)
    mine = mine[_inside(case, calls.start_ns[mine], calls.end_ns[mine])]
    start, end, name = calls.start_ns[mine], calls.end_ns[mine], calls.name[mine]
    number = host.threads[thread] & 0xFFFFFF
    return [HostRow("calls", number, 0, start, end, name.astype(np.int64), host.api_names)]


def _ranges(case: DeviceCase, thread: int) -> list[HostRow]:
    host, ranges = case.classified.trace.host, case.classified.trace.host.ranges
    mine = np.flatnonzero(ranges.thread == thread)
    start, end = ranges.start_ns[mine], ranges.end_ns[mine]
    # A range is as deep as there are others still open at its start.
    depth = np.arange(len(mine)) - np.searchsorted(np.sort(end), start, side="right")
    inside = _inside(case, start, end)
    number = host.threads[thread] & 0xFFFFFF
    rows = []
    for level in range(MAX_LEVELS):
        kept = inside & (np.maximum(depth, 0) == level)
        if kept.any():
            name = ranges.text[mine][kept].astype(np.int64)
            row = HostRow("nvtx", number, level, start[kept], end[kept], name, host.texts)
            rows.append(row)
    return rows


def _inside(case: DeviceCase, start: Int64Array, end: Int64Array) -> np.ndarray:
    first, last = case.lanes.extent_ns
    result: np.ndarray = (end > first) & (start < last)
    return result
