"""Per-stream numbers. Streams of a device run at the same time: these do not add up to it."""

from __future__ import annotations

import numpy as np

from ..result.model import StreamReport
from ..roles.rules import Role
from .case import DeviceCase
from .groups import measure_groups

_ROLE_NAMES = {
    Role.COMPUTE: "compute",
    Role.COMM: "comm",
    Role.H2D: "h2d",
    Role.D2H: "d2h",
    Role.OTHER: "other",
    Role.OPAQUE: "opaque",
}


def measure_streams(case: DeviceCase) -> tuple[StreamReport, ...]:
    """One row for each stream of a device that ran something in the measured time, in id order.

    Unified-memory migrations carry stream 0 but run on no stream; they are left out.
    """
    classified = case.classified
    trace = classified.trace
    total = np.zeros(len(trace.streams) * len(Role), np.int64)
    for name, table in trace.tables.items():
        rows = trace.rows_on(case.device.index, name)
        inside_ns = case.window.covered(table.start_ns[rows], table.end_ns[rows])
        place = table.stream[rows].astype(np.int64) * len(Role) + classified.roles[name][rows]
        # Not bincount with weights: its float sums lose nanoseconds.
        np.add.at(total, place, inside_ns)
    busy = total.reshape(len(trace.streams), len(Role))
    group = case.rows.stream.astype(np.int64) * 2 + (case.rows.role == Role.D2H)
    overlaps = measure_groups(case, group, 2 * len(trace.streams))
    reports = []
    for stream in trace.streams:
        by_role = {name: int(busy[stream.index, role]) for role, name in _ROLE_NAMES.items()}
        by_role = {name: ns for name, ns in by_role.items() if ns}
        if stream.device == case.device.index and by_role:
            reports.append(
                StreamReport(
                    pid=stream.pid,
                    context_id=stream.context_id,
                    stream_id=stream.stream_id,
                    role=_stream_role(set(by_role)),
                    busy_ns=by_role,
                    h2d=overlaps[2 * stream.index],
                    d2h=overlaps[2 * stream.index + 1],
                )
            )
    return tuple(reports)


def _stream_role(roles: set[str]) -> str:
    """The role a stream serves; memsets and on-device copies beside it do not make it mixed."""
    main = roles - {"other"} or roles
    return main.pop() if len(main) == 1 else "mixed"
