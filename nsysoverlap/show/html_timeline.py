"""The timeline as JSON for the page: columns, times relative to one origin, starts as steps.

Steps from one start to the next are short numbers, which keeps the page small.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays import Int64Array
from ..draw.timeline import DeviceTimeline, Lane, Stretches, Timeline


def timeline_json(timeline: Timeline, names: Sequence[str]) -> str:
    """The data of the drawing; safe inside a script element. `names` are those of the devices."""
    origin = min((device.start_ns for device in timeline.devices), default=0)
    pairs = zip(timeline.devices, names, strict=True)
    data = {
        "origin": origin,
        "names": timeline.names,
        "devices": [_device(device, name, origin) for device, name in pairs],
    }
    text = json.dumps(data, separators=(",", ":"))
    # Whatever the names hold, nothing in the data can end the element or open a comment.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _device(device: DeviceTimeline, name: str, origin: int) -> dict[str, Any]:
    return {
        "name": name,
        "from": device.start_ns - origin,
        "to": device.end_ns - origin,
        "measured": [[start - origin, end - origin] for start, end in device.measured],
        "steps": [
            [s.start_ns - origin, s.end_ns - origin, device.step_name(s)] for s in device.steps
        ],
        "lanes": [_lane(lane, device.streams, origin) for lane in device.lanes],
        "exposed": {key: _stretches(part, origin) for key, part in device.exposed.items()},
    }


def _lane(lane: Lane, streams: Int64Array, origin: int) -> dict[str, Any]:
    merged = lane.n_activities > len(lane)
    return {
        "kind": lane.kind,
        "activities": lane.n_activities,
        **_spans(lane.start_ns, lane.end_ns, origin),
        "name": lane.name.tolist(),
        "stream": streams[lane.stream].tolist(),
        "n": lane.n.tolist() if merged else None,
        "busy": lane.busy_ns.tolist() if merged else None,
        "bytes": lane.n_bytes.tolist() if lane.n_bytes.any() else None,
        "exposed": lane.exposed_ns.tolist() if lane.exposed_ns.any() else None,
    }


def _stretches(part: Stretches, origin: int) -> dict[str, Any]:
    spans = _spans(part.start_ns, part.end_ns, origin)
    return {**spans, "all": part.n_all, "ns": part.all_ns}


def _spans(start_ns: Int64Array, end_ns: Int64Array, origin: int) -> dict[str, Any]:
    return {
        "start": np.diff(start_ns, prepend=origin).tolist(),
        "length": (end_ns - start_ns).tolist(),
    }
