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
from ..roles.rules import Role
from .perfetto_events import arguments, flow_events, quoted, slice_event
from .perfetto_host import CallTracks
from .perfetto_tracks import Tracks, disjoint

_DIRECTION = {Role.H2D: "h2d", Role.D2H: "d2h"}
_COPY_NAMES = {8: "on-device copy", 11: "page migration HtoD", 12: "page migration DtoH"}
FIRST_STREAM_PLACE = 10


@dataclass(frozen=True)
class _StreamRows:
    """All activities of one stream by start; `table` is the place in `Trace.tables`."""

    stream: int
    table: Int64Array
    row: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array


def step_events(case: DeviceCase, tracks: Tracks, pid: int) -> Iterator[str]:
    """The kept steps, each process's on a track of its own."""
    for owner in dict.fromkeys(step.global_pid for step in case.steps):
        mine = [step for step in case.steps if step.global_pid == owner]
        track = tracks.track(pid, f"steps, pid {mine[0].pid}", 0)
        for step in mine:
            args = arguments({"index": step.index, "label": step.label})
            name = quoted(f"step {step.index}")
            yield slice_event(track, name, "step", step.start_ns, step.end_ns, args)


def exposed_events(case: DeviceCase, tracks: Tracks, pid: int) -> Iterator[str]:
    """Exposed stretches of each direction within the measured time; they sum to the report's."""
    for place, direction in enumerate(_DIRECTION.values(), start=2):
        exposed = case.split(direction).exposed.intersect(case.window)
        if not len(exposed):
            continue
        track = tracks.track(pid, f"{NAMES[direction]} exposed", place)
        name = quoted(f"{NAMES[direction]} exposed")
        for start, end in exposed.pieces():
            yield slice_event(track, name, f"exposed_{direction}", start, end)


def stream_events(
    case: DeviceCase, tracks: Tracks, pid: int, calls: CallTracks, first_flow: int
) -> Iterator[str]:
    """A slice for every activity and an arrow to every transfer from the call that launched it.

    Arrows are numbered from `first_flow` on, by row of `DeviceCase.rows`.
    """
    trace = case.classified.trace
    where = {name: np.zeros(len(table), np.int64) for name, table in trace.tables.items()}
    labels = transfer_labels(case)
    texts = _SliceTexts(case, labels)
    for rows in _by_stream(case):
        stream = trace.streams[rows.stream]
        lane = disjoint(rows.start_ns, rows.end_ns)
        name = f"stream {stream.stream_id}"
        if len(case.device.global_pids) > 1:
            name += f", pid {stream.pid}"
        place = FIRST_STREAM_PLACE + rows.stream
        found = tracks.tracks(pid, name, place, int(lane.max()) + 1)
        tid = np.array([one[1] for one in found], np.int64)[lane]
        for i, table in enumerate(where):
            mine = rows.table == i
            where[table][rows.row[mine]] = tid[mine]
        columns = (rows.table, rows.row, rows.start_ns, rows.end_ns, tid)
        for table_place, row, start, end, on in zip(*(c.tolist() for c in columns), strict=True):
            name, category, args = texts.of(table_place, row)
            yield slice_event((pid, on), name, category, start, end, args)
    yield from _arrows(case, where, pid, calls, first_flow)


def _by_stream(case: DeviceCase) -> Iterator[_StreamRows]:
    trace = case.classified.trace
    parts: list[tuple[Int64Array, ...]] = []
    for i, table in enumerate(trace.tables.values()):
        row = np.flatnonzero(trace.stream_device[table.stream] == case.device.index)
        stream = table.stream[row].astype(np.int64)
        parts.append((np.full(len(row), i), row, table.start_ns[row], table.end_ns[row], stream))
    table_of, row, start, end, stream = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    order = np.lexsort((end, start, stream))
    borders = np.flatnonzero(np.diff(stream[order])) + 1
    for mine in np.split(order, borders):
        yield _StreamRows(int(stream[mine[0]]), table_of[mine], row[mine], start[mine], end[mine])


class _SliceTexts:
    """Name, category and arguments of each activity as JSON."""

    def __init__(self, case: DeviceCase, labels: TransferLabels) -> None:
        trace = case.classified.trace
        self._names = [quoted(name or "(no name)") for name in trace.names]
        self._name_of = trace.kernels.name
        self._kinds = trace.copies.copy_kind
        self._roles = list(case.classified.roles.values())
        self._transfers = self._described(case, labels)

    @staticmethod
    def _described(case: DeviceCase, labels: TransferLabels) -> dict[tuple[int, int], _Text]:
        """The transfers by (table, row)."""
        rows = case.rows
        duration = rows.end_ns - rows.start_ns
        exposed = duration - case.lanes.active.covered(rows.start_ns, rows.end_ns)
        columns = (
            rows.by_kernel, rows.row, rows.role, rows.n_bytes, rows.bytes_estimated, duration,
            exposed, labels.code,
        )  # fmt: skip
        found = {}
        for by_kernel, row, role, n_bytes, estimated, ns, exposed_ns, code in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            op, label = labels.keys[code]
            direction = _DIRECTION[Role(role)]
            args = arguments(
                {
                    "op": op,
                    "label": label or None,
                    "bytes": None if by_kernel else n_bytes,
                    "bytes_estimated": estimated if by_kernel else None,
                    "gb_per_s": round(n_bytes / ns, 3) if n_bytes and ns else None,
                    "exposed_ns": exposed_ns,
                }
            )
            name = quoted(f"{NAMES[direction]} {op}")
            found[0 if by_kernel else 1, row] = name, direction, args
        return found

    def of(self, table: int, row: int) -> _Text:
        """The texts of one row."""
        if (table, row) in self._transfers:
            return self._transfers[table, row]
        category = Role(self._roles[table][row]).name.lower()
        if table == 0:
            return self._names[self._name_of[row]], category, ""
        if table == 1:
            return quoted(_COPY_NAMES.get(int(self._kinds[row]), "peer copy")), category, ""
        return ('"memset"' if table == 2 else '"CUDA graph"'), category, ""


_Text = tuple[str, str, str]


def _arrows(
    case: DeviceCase,
    where: dict[str, Int64Array],
    pid: int,
    calls: CallTracks,
    first_flow: int,
) -> Iterator[str]:
    rows = case.rows
    call = launch_of_transfers(case.classified, case.launches, rows)
    start_ns = case.classified.trace.host.calls.start_ns
    for i in np.flatnonzero(call >= 0).tolist():
        launch = int(call[i])
        source = int(calls.pid[launch]), int(calls.tid[launch])
        table = where["kernel" if rows.by_kernel[i] else "memcpy"]
        target = pid, int(table[rows.row[i]])
        yield flow_events(
            first_flow + i, source, int(start_ns[launch]), target, int(rows.start_ns[i])
        )
