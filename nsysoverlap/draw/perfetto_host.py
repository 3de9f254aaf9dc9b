"""Host threads: CUDA API calls and NVTX ranges as slices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.arrays import Int64Array
from ..trace.contents import pid_of
from ..trace.host import HostSide
from .perfetto_events import Events, quoted
from .perfetto_tracks import FIRST_HOST, Tracks, nested

_VERSION = re.compile(r"_v\d+$")


@dataclass(frozen=True)
class CallTracks:
    """Where each API call was drawn: `pid` and `tid` of shape (n_calls,)."""

    pid: Int64Array
    tid: Int64Array


def place_calls(host: HostSide, tracks: Tracks) -> tuple[CallTracks, list[int]]:
    """Tracks for all API calls, and the process id of each thread's tracks."""
    processes: dict[int, int] = {}
    for owner in host.thread_pid.tolist():
        if owner not in processes:
            name = f"host, pid {pid_of(owner)}"
            processes[owner] = tracks.process(pid_of(owner), name, FIRST_HOST)
    pids = [processes[owner] for owner in host.thread_pid.tolist()]
    calls = host.calls
    pid, tid = np.zeros(len(calls), np.int64), np.zeros(len(calls), np.int64)
    for thread, full in enumerate(host.threads):
        mine = _by_start(calls.start_ns, calls.end_ns, np.flatnonzero(calls.thread == thread))
        lane = nested(calls.start_ns[mine], calls.end_ns[mine])
        if len(mine):
            name = f"thread {full & 0xFFFFFF} CUDA API"
            found = tracks.tracks(pids[thread], name, 2 * thread + 1, int(lane.max()) + 1)
            pid[mine] = pids[thread]
            tid[mine] = np.array([one[1] for one in found], np.int64)[lane]
    return CallTracks(pid, tid), pids


def _by_start(start_ns: Int64Array, end_ns: Int64Array, rows: Int64Array) -> Int64Array:
    """The rows by start, then longest first, as nesting needs them."""
    result: Int64Array = rows[np.lexsort((-end_ns[rows], start_ns[rows]))]
    return result


def call_events(host: HostSide, where: CallTracks, events: Events) -> Iterator[str]:
    """A slice for every API call."""
    calls = host.calls
    names = [quoted(_VERSION.sub("", name) or "(no name)") for name in host.api_names]
    columns = (calls.start_ns, calls.end_ns, calls.name, calls.correlation_id, where.pid, where.tid)
    for start, end, name, correlation, pid, tid in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        args = f'{{"correlation":{correlation}}}'
        yield events.slice((pid, tid), names[name], "cuda_api", start, end, args)


def range_events(host: HostSide, tracks: Tracks, pids: Sequence[int]) -> Iterator[str]:
    """A slice for every NVTX range, on tracks of its thread."""
    ranges = host.ranges
    names: dict[int, str] = {}
    for thread, full in enumerate(host.threads):
        mine = _by_start(ranges.start_ns, ranges.end_ns, np.flatnonzero(ranges.thread == thread))
        if not len(mine):
            continue
        lane = nested(ranges.start_ns[mine], ranges.end_ns[mine])
        name = f"thread {full & 0xFFFFFF} NVTX"
        found = tracks.tracks(pids[thread], name, 2 * thread, int(lane.max()) + 1)
        columns = (ranges.start_ns[mine], ranges.end_ns[mine], ranges.text[mine], lane)
        for start, end, text, place in zip(*(c.tolist() for c in columns), strict=True):
            if text not in names:
                names[text] = quoted(host.texts[text] or "(no text)")
            yield tracks.events.slice(found[place], names[text], "nvtx", start, end)
