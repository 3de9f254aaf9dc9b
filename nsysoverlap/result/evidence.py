"""Which device of a report a finding's evidence is about."""

from __future__ import annotations

from .model import Evidence, OverlapReport


def evidence_device(report: OverlapReport, row: Evidence) -> int | None:
    """Place in `OverlapReport.devices`; None where evidence names no device, or two alike."""
    found = [
        i
        for i, device in enumerate(report.devices)
        if device.label == row.device and row.trace in (None, device.trace)
    ]
    alike = row.trace is not None and len(found) > 1
    return found[0] if found and not alike else None


def evidence_stretches(report: OverlapReport) -> list[list[tuple[int, int]]]:
    """For each device the stretches of time that findings point at, as half-open ns."""
    found: list[list[tuple[int, int]]] = [[] for _ in report.devices]
    for finding in report.findings:
        for row in finding.evidence:
            device = evidence_device(report, row)
            if device is not None:
                found[device].append((row.start_ns, row.end_ns))
    return found
