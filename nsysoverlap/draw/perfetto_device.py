"""One device: steps, exposed stretches, and the activities of each of its streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..core.arrays import Int64Array
from ..measure.case import DeviceCase
from ..measure.operations import TransferLabels, transfer_labels
from ..measure.waiting import launch_of_transfers
from ..result.device_names import NAMES
from .perfetto_events import arguments, quoted
from .perfetto_host import CallTracks
from .perfetto_tracks import Tracks, disjoint
from .timeline import DIRECTIONS, DeviceTimeline, Lane

FIRST_STREAM_PLACE = 10


@dataclass(frozen=True)
class _StreamRows:
    """All activities of one stream by start: lane, place in the lane, times; columns (n,)."""

    stream: int
    lane: Int64Array
    place: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array
    row: Int64Array


def step_events(device: DeviceTimeline, tracks: Tracks, pid: int) -> Iterator[str]:
    """The kept steps, each process's on a track of its own."""
    for owner in dict.fromkeys(step.global_pid for step in device.steps):
        mine = [step for step in device.steps if step.global_pid == owner]
        track = tracks.track(pid, f"steps, pid {mine[0].pid}", 0)
        for step in mine:
            args = arguments({"index": step.index, "label": step.label})
            name = quoted(f"step {step.index}")
            yield tracks.events.slice(track, name, "step", step.start_ns, step.end_ns, args)


def exposed_events(
    case: DeviceCase, device: DeviceTimeline, tracks: Tracks, pid: int
) -> Iterator[str]:
    """Exposed stretches of each direction within the measured time; they sum to the report's."""
    for place, direction in enumerate(DIRECTIONS, start=2):
        exposed = device.exposed[direction].spans.intersect(case.window)
        if not len(exposed):
            continue
        track = tracks.track(pid, f"{NAMES[direction]} exposed", place)
        name = quoted(f"{NAMES[direction]} exposed")
        for start, end in exposed.pieces():
            yield tracks.events.slice(track, name, f"exposed_{direction}", start, end)


def stream_events(
    case: DeviceCase,
    device: DeviceTimeline,
    tracks: Tracks,
    pid: int,
    calls: CallTracks,
) -> Iterator[str]:
    """A slice for every activity and an arrow to every transfer from the call that launched it."""
    streams = case.classified.trace.streams
    where = np.zeros(len(case.rows), np.int64)
    names = [_names(device, lane) for lane in device.lanes]
    labels = transfer_labels(case)
    args = [_arguments(case, labels, lane) for lane in device.lanes]
    for rows in _by_stream(device):
        stream = streams[rows.stream]
        track = disjoint(rows.start_ns, rows.end_ns)
        title = f"stream {stream.stream_id}"
        if len(case.device.global_pids) > 1:
            title += f", pid {stream.pid}"
        place = FIRST_STREAM_PLACE + rows.stream
        found = tracks.tracks(pid, title, place, int(track.max()) + 1)
        tid = np.array([one[1] for one in found], np.int64)[track]
        moved = rows.row >= 0
        where[rows.row[moved]] = tid[moved]
        columns = (rows.lane, rows.place, rows.start_ns, rows.end_ns, tid)
        for i, at, start, end, on in zip(*(c.tolist() for c in columns), strict=True):
            about = args[i][at] if args[i] else ""
            kind = device.lanes[i].kind
            yield tracks.events.slice((pid, on), names[i][at], kind, start, end, about)
    yield from _arrows(case, where, pid, calls, tracks)


def _by_stream(device: DeviceTimeline) -> Iterator[_StreamRows]:
    columns = zip(
        *(
            (lane.stream, np.full(len(lane), i), np.arange(len(lane)), lane.start_ns, lane.end_ns,
             lane.row)
            for i, lane in enumerate(device.lanes)
        ),
        strict=True,
    )  # fmt: skip
    stream, *others = (np.concatenate(column) for column in columns)
    _, _, start, end, _ = others
    order = np.lexsort((end, start, stream))
    borders = np.flatnonzero(np.diff(stream[order])) + 1
    for mine in np.split(order, borders):
        yield _StreamRows(int(stream[mine[0]]), *(column[mine] for column in others))


def _names(device: DeviceTimeline, lane: Lane) -> list[str]:
    """What each activity of a lane is called, as JSON; transfers say which way they go."""
    way = f"{NAMES[lane.kind]} " if lane.kind in DIRECTIONS else ""
    used = np.unique(lane.name).tolist()
    texts = {code: quoted(way + (device.texts[code] or "(no name)")) for code in used}
    return [texts[code] for code in lane.name.tolist()]


def _arguments(case: DeviceCase, labels: TransferLabels, lane: Lane) -> list[str]:
    """What is said of each transfer of a lane, as JSON; nothing for other lanes."""
    if lane.kind not in DIRECTIONS:
        return []
    rows = case.rows.select(lane.row)
    columns = (
        rows.by_kernel, rows.n_bytes, rows.bytes_estimated, lane.busy_ns, lane.exposed_ns,
        labels.code[lane.row],
    )  # fmt: skip
    found = []
    for by_kernel, n_bytes, estimated, ns, exposed_ns, code in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        op, label = labels.keys[code]
        found.append(
            arguments(
                {
                    "op": op,
                    "label": label or None,
                    "bytes": None if by_kernel else n_bytes,
                    "bytes_estimated": estimated if by_kernel else None,
                    "gb_per_s": round(n_bytes / ns, 3) if n_bytes and ns else None,
                    "exposed_ns": exposed_ns,
                }
            )
        )
    return found


def _arrows(
    case: DeviceCase,
    where: Int64Array,
    pid: int,
    calls: CallTracks,
    tracks: Tracks,
) -> Iterator[str]:
    rows = case.rows
    call = launch_of_transfers(case.classified, case.launches, rows)
    start_ns = case.classified.trace.host.calls.start_ns
    for i in np.flatnonzero(call >= 0).tolist():
        launch = int(call[i])
        source = int(calls.pid[launch]), int(calls.tid[launch])
        target = pid, int(where[i])
        yield tracks.events.flow(
            tracks.arrow(), source, int(start_ns[launch]), target, int(rows.start_ns[i])
        )
