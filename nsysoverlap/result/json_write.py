"""The JSON report: every dataclass as plain dicts, lists, strings, numbers and None."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .model import (
    DIRECTIONS,
    FORMAT,
    FORMAT_VERSION,
    UNIFIED_DIRECTIONS,
    DeviceReport,
    Effective,
    Finding,
    OpaqueBounds,
    OperationReport,
    OverlapReport,
    Relief,
    StepReport,
    StreamReport,
)


def report_to_dict(report: OverlapReport) -> dict[str, Any]:
    """The JSON report as plain data, keys in the documented order."""
    all_directions = (*DIRECTIONS, *UNIFIED_DIRECTIONS)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "generator": report.generator,
        "basis": {**asdict(report.basis), "window_ns": _as_list(report.basis.window_ns)},
        "traces": [{**asdict(t), "capture": dict(t.capture)} for t in report.traces],
        "health": [asdict(entry) for entry in report.health],
        "devices": [_device(device) for device in report.devices],
        "totals": {
            **{name: report.total(name).to_dict() for name in all_directions},
            "time_budget": asdict(report.time_budget),
        },
        "operations": [_operation(operation) for operation in report.operations],
        "kernels": [asdict(kernel) for kernel in report.kernels],
        "attribution": None if report.attribution is None else asdict(report.attribution),
        "findings": [_finding(finding) for finding in report.findings],
    }


def _device(device: DeviceReport) -> dict[str, Any]:
    return {
        "trace": device.trace,
        "pid": device.pid,
        "device_id": device.device_id,
        "gpu": {"id": device.gpu_id, "name": device.gpu_name, "uuid": device.gpu_uuid},
        "window_ns": list(device.window_ns),
        **{name: getattr(device, name).to_dict() for name in (*DIRECTIONS, *UNIFIED_DIRECTIONS)},
        "time_budget": asdict(device.time_budget),
        "link": asdict(device.link),
        "opaque_bounds": _opaque_bounds(device.opaque_bounds),
        "outside_steps": _outside(device),
        "relief": None if device.relief is None else _relief(device.relief),
        "effective": None if device.effective is None else _effective(device.effective),
        "bounds": None if device.bounds is None else asdict(device.bounds),
        "streams": [_stream(stream) for stream in device.streams],
        "steps": [_step(step) for step in device.steps],
    }


def _outside(device: DeviceReport) -> dict[str, Any] | None:
    if device.outside_h2d is None or device.outside_d2h is None:
        return None
    return {"h2d": device.outside_h2d.to_dict(), "d2h": device.outside_d2h.to_dict()}


def _relief(relief: Relief) -> dict[str, Any]:
    return {**asdict(relief), "relief_share": relief.relief_share}


def _effective(effective: Effective) -> dict[str, Any]:
    values = asdict(effective)
    for role in ("compute", "comm"):
        values[role]["compared_share"] = getattr(effective, role).compared_share
    return values


def _stream(stream: StreamReport) -> dict[str, Any]:
    return {
        "pid": stream.pid,
        "context_id": stream.context_id,
        "stream_id": stream.stream_id,
        "role": stream.role,
        "busy_ns": dict(stream.busy_ns),
        "h2d": stream.h2d.to_dict(),
        "d2h": stream.d2h.to_dict(),
    }


def _step(step: StepReport) -> dict[str, Any]:
    return {
        "index": step.index,
        "label": step.label,
        "pid": step.pid,
        "start_ns": step.start_ns,
        "end_ns": step.end_ns,
        **{name: getattr(step, name).to_dict() for name in DIRECTIONS},
        "time_budget": asdict(step.time_budget),
        "relief": _relief(step.relief),
    }


def _operation(operation: OperationReport) -> dict[str, Any]:
    return {
        "op": operation.op,
        "label": operation.label,
        "direction": operation.direction,
        **operation.overlap.to_dict(),
        "exposed_per_step_ns": operation.exposed_per_step_ns,
        "followed_by": operation.followed_by,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "evidence": [asdict(row) for row in finding.evidence]}


def _opaque_bounds(bounds: OpaqueBounds | None) -> dict[str, Any] | None:
    if bounds is None:
        return None
    return {name: _as_list(getattr(bounds, name)) for name in DIRECTIONS}


def _as_list(pair: tuple[Any, Any] | None) -> list[Any] | None:
    return None if pair is None else list(pair)
