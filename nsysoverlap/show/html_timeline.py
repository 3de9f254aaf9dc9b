"""The timeline as JSON for the page: columns, times relative to one origin, starts as steps.

Steps from one start to the next are short numbers, which keeps the page small.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays import Int64Array
from ..draw.host_curve import Curve
from ..draw.timeline import DeviceTimeline, Lane, Stretches, Timeline
from ..draw.timeline_host import HostRow
from ..result.model import DeviceReport, OverlapReport
from ..result.numbers import Overlap
from ..result.parts import StepReport

DIRECTIONS = ("h2d", "d2h", "both")


def timeline_json(timeline: Timeline, report: OverlapReport, names: Sequence[str]) -> str:
    """The data of the drawing; safe inside a script element. `names` are those of the devices."""
    origin = min((device.start_ns for device in timeline.devices), default=0)
    threes = zip(timeline.devices, report.devices, names, strict=True)
    data = {
        "origin": origin,
        "names": timeline.names,
        "opened": timeline.opened,
        "devices": [_device(drawn, device, name, origin) for drawn, device, name in threes],
    }
    text = json.dumps(data, separators=(",", ":"))
    # Whatever the names hold, nothing in the data can end the element or open a comment.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _device(drawn: DeviceTimeline, device: DeviceReport, name: str, origin: int) -> dict[str, Any]:
    streams, place = _streams(drawn)
    link = device.link
    merged = any(lane.n_activities > len(lane) for lane in drawn.lanes)
    return {
        "name": name,
        "from": drawn.start_ns - origin,
        "to": drawn.end_ns - origin,
        "measured": [[start - origin, end - origin] for start, end in drawn.measured],
        "steps": [
            [s.start_ns - origin, s.end_ns - origin, drawn.step_name(s)] for s in drawn.steps
        ],
        # Blocks that stand for several activities cannot tell what steps come to.
        "sums": [_sums(step) for step in device.steps] if merged else None,
        "peak": {"h2d": link.h2d_gbps, "d2h": link.d2h_gbps},
        "streams": streams,
        "lanes": [_lane(lane, place, origin) for lane in drawn.lanes],
        "exposed": {key: _stretches(part, origin) for key, part in drawn.exposed.items()},
        "curve": drawn.curve and _curve(drawn.curve, origin),
        "host": [_host_row(row, origin) for row in drawn.host],
    }


def _streams(drawn: DeviceTimeline) -> tuple[list[int], Int64Array]:
    """Numbers of the streams that the device uses, and the place of each among them."""
    used = np.unique(np.concatenate([lane.stream for lane in drawn.lanes]))
    place = np.zeros(len(drawn.streams), np.int64)
    place[used] = np.arange(len(used))
    return drawn.streams[used].tolist(), place


def _sums(step: StepReport) -> dict[str, Any]:
    """What a step comes to, in the order of `SUMS` of the page."""
    parts: dict[str, Any] = {name: _split(getattr(step, name)) for name in DIRECTIONS}
    return {**parts, "compute": step.time_budget.compute_ns}


def _split(part: Overlap) -> list[int]:
    return [
        part.n,
        part.bytes,
        part.bytes_estimated,
        part.wall_ns,
        part.hidden_by_compute_ns,
        part.hidden_by_comm_ns,
        part.exposed_ns,
    ]


def _lane(lane: Lane, place: Int64Array, origin: int) -> dict[str, Any]:
    merged = lane.n_activities > len(lane)
    return {
        "kind": lane.kind,
        "activities": lane.n_activities,
        **_spans(lane.start_ns, lane.end_ns, origin),
        "name": lane.name.tolist(),
        "stream": place[lane.stream].tolist(),
        "n": lane.n.tolist() if merged else None,
        "busy": lane.busy_ns.tolist() if merged else None,
        "bytes": _unless_0(lane.n_bytes),
        "estimated": _unless_0(lane.estimated),
        "exposed": _unless_0(lane.exposed_ns),
    }


def _unless_0(column: Int64Array) -> list[int] | None:
    return column.tolist() if column.any() else None


def _stretches(part: Stretches, origin: int) -> dict[str, Any]:
    spans = _spans(part.start_ns, part.end_ns, origin)
    return {**spans, "all": part.n_all, "ns": part.all_ns}


def _curve(curve: Curve, origin: int) -> dict[str, Any]:
    return {
        "at": np.diff(curve.at_ns, prepend=origin).tolist(),
        "bytes": np.diff(curve.n_bytes, prepend=0).tolist(),
    }


def _host_row(row: HostRow, origin: int) -> dict[str, Any]:
    spans = _spans(row.start_ns, row.end_ns, origin)
    place = {"kind": row.kind, "thread": row.thread, "level": row.level}
    return {**place, **spans, "name": row.name.tolist()}


def _spans(start_ns: Int64Array, end_ns: Int64Array, origin: int) -> dict[str, Any]:
    return {
        "start": np.diff(start_ns, prepend=origin).tolist(),
        "length": (end_ns - start_ns).tolist(),
    }
