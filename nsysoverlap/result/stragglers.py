"""Ranks that come late: the others wait for them in their collectives."""

from __future__ import annotations

from collections.abc import Sequence

from .model import DeviceReport

_POINT_TO_POINT = "SendRecv"
NOTABLE = 0.01
"""Share of the time from which on waiting is spoken of."""


def collective_waits(ranks: Sequence[Sequence[DeviceReport]]) -> list[int] | None:
    """How long the devices of each rank waited in collectives for the last to come, at least; ns.

    The mean over devices and, where there are steps, a step. A collective ends on all ranks at
    once and gets going when the last one comes, so what a rank spends more in it than another is
    taken as waiting, also where compute runs meanwhile. Launches are not matched one by one but
    summed, which gives a lower bound. Only kernels that all ranks ran equally often count, and not
    those that send and receive: one end of a pipeline waits for the other, late or not. None
    without such kernels, or for a single rank.
    """
    spent = [_spent(devices) for devices in ranks]
    if len(spent) < 2:
        return None
    shared = [
        name
        for name, (n, _) in spent[0].items()
        if _POINT_TO_POINT not in name and all(one.get(name, (0, 0))[0] == n for one in spent)
    ]
    if not shared:
        return None
    least = {name: min(one[name][1] for one in spent) for name in shared}
    return [
        round(sum(one[name][1] - least[name] for name in shared) / _n_steps(devices))
        for one, devices in zip(spent, ranks, strict=True)
    ]


def straggler(ranks: Sequence[Sequence[DeviceReport]], waits: Sequence[int]) -> int | None:
    """Index of the rank that waited least, for which the others did; None where none mattered."""
    if not any(map(_matters, ranks, waits)):
        return None
    return min(range(len(waits)), key=waits.__getitem__)


def _matters(devices: Sequence[DeviceReport], wait_ns: int) -> bool:
    """Whether waiting, as far as no compute ran beside it, is a notable share of the time."""
    exposed = sum(device.time_budget.comm_ns for device in devices)
    total = sum(device.time_budget.total_ns for device in devices)
    return min(wait_ns * _n_steps(devices) * len(devices), exposed) >= NOTABLE * total > 0


def _spent(devices: Sequence[DeviceReport]) -> dict[str, tuple[float, float]]:
    """Launches and time of each communication kernel, a device."""
    names = {collective.name for device in devices for collective in device.collectives}
    rows = {
        name: [c for device in devices for c in device.collectives if c.name == name]
        for name in names
    }
    return {
        name: (sum(c.n for c in own) / len(devices), sum(c.busy_ns for c in own) / len(devices))
        for name, own in rows.items()
    }


def _n_steps(devices: Sequence[DeviceReport]) -> int:
    """Steps of a device; 1 where there are none, for the whole window."""
    return max(len(device.steps) for device in devices) or 1
