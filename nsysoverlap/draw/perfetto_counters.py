"""Counters of a device: exposed time so far, and GB/s of the running copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..measure.case import DeviceCase
from ..result.device_names import NAMES
from ..roles.rules import Role
from .perfetto_events import Events, quoted

_ROLES = {"h2d": Role.H2D, "d2h": Role.D2H}


def exposed_counter(case: DeviceCase, pid: int, direction: str, events: Events) -> Iterator[str]:
    """Exposed time of a direction up to now in ms; its last value is that of the report."""
    exposed = case.split(direction).exposed.intersect(case.window)
    name = quoted(f"{NAMES[direction]} exposed so far")
    total = 0
    for start, end in exposed.pieces():
        yield events.counter(pid, name, start, "ms", _milli(total))
        total += end - start
        yield events.counter(pid, name, end, "ms", _milli(total))


def _milli(ns: int) -> str:
    return f"{ns // 1_000_000}.{ns % 1_000_000:06d}"


def rate_counter(case: DeviceCase, pid: int, direction: str, events: Events) -> Iterator[str]:
    """GB/s of the copies of a direction that run at a time; transfer kernels are left out."""
    rows = case.rows
    timed = (rows.n_bytes > 0) & (rows.end_ns > rows.start_ns)
    rows = rows.select((rows.role == _ROLES[direction]) & timed)
    duration = rows.end_ns - rows.start_ns
    rate = rows.n_bytes / duration
    times = np.concatenate((rows.start_ns, rows.start_ns + duration))
    order = np.argsort(times, kind="stable")
    value = np.cumsum(np.concatenate((rate, -rate))[order])
    running = np.cumsum(np.repeat([1, -1], len(rows))[order])
    times = times[order]
    # Of several changes at one time only the last is a value that lasted.
    last = np.append(times[1:] != times[:-1], True)[: len(times)]
    name = quoted(f"{NAMES[direction]} GB/s")
    for at, now, n in zip(
        times[last].tolist(), value[last].tolist(), running[last].tolist(), strict=True
    ):
        yield events.counter(pid, name, at, "GB/s", f"{now:.6f}" if n else "0")
