"""Which device holds the others up: the one with the most exposed time."""

from __future__ import annotations

import statistics

from .model import DeviceReport, OverlapReport


def exposed_of(device: DeviceReport) -> int:
    """Exposed ns of the median step of a device, of its window where it has no steps."""
    if not device.steps:
        return device.both.exposed_ns
    return round(statistics.median(step.both.exposed_ns for step in device.steps))


def worst_device(report: OverlapReport) -> int:
    """Place in `OverlapReport.devices`, of equals the first; 0 without devices."""
    exposed = [exposed_of(device) for device in report.devices]
    return exposed.index(max(exposed)) if exposed else 0
