"""Short names of devices and directions for titles and rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from .model import OverlapReport, TraceReport

FEW_DEVICES = 3
"""Up to here each device gets tables of its own; more share one table."""
NAMES = {"h2d": "H2D", "d2h": "D2H", "both": "both", "unified_h2d": "H2D", "unified_d2h": "D2H"}


def rank_name(trace: TraceReport) -> str:
    """What a trace is called among others: `rank 3`, or its file where it has no rank."""
    return trace.path if trace.rank is None else f"rank {trace.rank}"


def device_names(report: OverlapReport) -> list[str]:
    """One name per device: `H200 dev 0, pid 17025`, or `rank 3: H200 dev 0` if traces differ."""
    return _numbered(_names(report))


def _numbered(names: list[str]) -> list[str]:
    """Names that repeat, as of equal pids in two virtual machines, with a number each."""
    n, seen = Counter(names), Counter[str]()
    found = []
    for name in names:
        seen[name] += 1
        found.append(f"{name} ({seen[name]} of {n[name]})" if n[name] > 1 else name)
    return found


def _names(report: OverlapReport) -> list[str]:
    devices = report.devices
    if len(report.traces) < 2:
        return [device.label for device in devices]
    names = {trace.path: rank_name(trace) for trace in report.traces}
    owners = [names.get(device.trace, device.trace) for device in devices]
    short = [f"{o}: {replace(d, pid=None).label}" for o, d in zip(owners, devices, strict=True)]
    if len(set(short)) == len(short):
        return short
    return [f"{owner}: {device.label}" for owner, device in zip(owners, devices, strict=True)]
