"""Reading back a JSON report: the root, traces, health and devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.errors import ConfigError
from .json_node import HINT, Node
from .json_numbers import COUNTS, read_budget, read_overlap, read_relief, read_span
from .json_parts import (
    read_attribution,
    read_bounds,
    read_effective,
    read_finding,
    read_kernel,
    read_operation,
)
from .model import (
    DIRECTIONS,
    FORMAT,
    FORMAT_VERSION,
    UNIFIED_DIRECTIONS,
    Basis,
    DeviceReport,
    HealthEntry,
    LinkReport,
    OpaqueBounds,
    OverlapReport,
    Program,
    StepReport,
    StreamReport,
    TraceReport,
)

SEVERITIES = ("error", "warning", "note")

_ALL_DIRECTIONS = (*DIRECTIONS, *UNIFIED_DIRECTIONS)


def report_from_dict(values: Mapping[str, Any]) -> OverlapReport:
    """Read back `report_to_dict`; unknown keys are ignored.

    Raises `ConfigError` for another format, a newer version, missing keys, wrong types, or
    integers that contradict each other.
    """
    root = Node(values, "report")
    if not isinstance(values, Mapping) or values.get("format") != FORMAT:
        raise ConfigError("This is not an nsysoverlap report.", HINT)
    version = root["format_version"].integer(1)
    if version > FORMAT_VERSION:
        raise ConfigError(
            f"The report has format version {version}; this nsysoverlap reads up to "
            f"{FORMAT_VERSION}.",
            "Update nsysoverlap, or write the report again with this version.",
        )
    report = OverlapReport(
        traces=root["traces"].each(_trace),
        health=root["health"].each(_health),
        devices=root["devices"].each(_device),
        basis=_basis(root["basis"]),
        operations=root["operations"].each(read_operation),
        kernels=root["kernels"].each(read_kernel),
        findings=root["findings"].each(read_finding),
        attribution=root["attribution"].optional(read_attribution),
        generator=root["generator"].text(),
    )
    _check_totals(report, root["totals"])
    return report


def _basis(node: Node) -> Basis:
    window = node["window_ns"].optional(lambda n: n.pair(Node.optional_integer))
    return Basis(
        kind=node["kind"].text(),
        window_ns=window,
        config=node["config"].optional_text(),
        transfer_kernels=node["transfer_kernels"].text(),
        steps=node["steps"].optional_text(),
        n_steps=node["n_steps"].count(),
        skipped=node["skipped"].count(),
    )


def _trace(node: Node) -> TraceReport:
    return TraceReport(
        path=node["path"].text(),
        rank=node["rank"].optional_integer(),
        nsys_version=node["nsys_version"].optional_text(),
        schema_version=node["schema_version"].optional_text(),
        capture=node["capture"].mapping(Node.text),
        framework=node.later("framework").optional(_program),
        components=node.later("components").optional(lambda n: n.each(_program)) or (),
    )


def _program(node: Node) -> Program:
    return Program(name=node["name"].text(), evidence=node["evidence"].text())


def _health(node: Node) -> HealthEntry:
    return HealthEntry(
        code=node["code"].text(),
        severity=node["severity"].choice(SEVERITIES),
        message=node["message"].text(),
        hint=node["hint"].text(),
        trace=node["trace"].text(),
        count=node["count"].count(),
    )


def _link(node: Node) -> LinkReport:
    return LinkReport(
        h2d_gbps=node["h2d_gbps"].optional_number(),
        d2h_gbps=node["d2h_gbps"].optional_number(),
        source=node["source"].text(),
        best_h2d_gbps=node["best_h2d_gbps"].optional_number(),
        best_d2h_gbps=node["best_d2h_gbps"].optional_number(),
    )


def _opaque_bounds(node: Node) -> OpaqueBounds:
    return OpaqueBounds(
        **{name: node[name].optional(lambda n: n.pair(Node.number)) for name in DIRECTIONS}
    )


def _stream(node: Node) -> StreamReport:
    return StreamReport(
        pid=node["pid"].integer(),
        context_id=node["context_id"].integer(),
        stream_id=node["stream_id"].integer(),
        role=node["role"].text(),
        busy_ns=node["busy_ns"].mapping(Node.count),
        h2d=read_overlap(node["h2d"]),
        d2h=read_overlap(node["d2h"]),
    )


def _step(node: Node) -> StepReport:
    start, end = read_span(node["start_ns"], node["end_ns"])
    return StepReport(
        index=node["index"].count(),
        label=node["label"].text(),
        pid=node["pid"].integer(),
        start_ns=start,
        end_ns=end,
        **{name: read_overlap(node[name]) for name in DIRECTIONS},
        time_budget=read_budget(node["time_budget"]),
        relief=read_relief(node["relief"]),
    )


def _device(node: Node) -> DeviceReport:
    gpu = node["gpu"]
    start, end = node["window_ns"].pair(Node.integer)
    if end < start:
        raise node["window_ns"].wrong("a start and a later end")
    outside = node["outside_steps"].optional(
        lambda n: (read_overlap(n["h2d"]), read_overlap(n["d2h"]))
    )
    return DeviceReport(
        trace=node["trace"].text(),
        pid=node["pid"].optional_integer(),
        device_id=node["device_id"].optional_integer(),
        gpu_id=gpu["id"].optional_integer(),
        gpu_name=gpu["name"].optional_text(),
        gpu_uuid=gpu["uuid"].optional_text(),
        window_ns=(start, end),
        **{name: read_overlap(node[name]) for name in _ALL_DIRECTIONS},
        time_budget=read_budget(node["time_budget"]),
        streams=node["streams"].each(_stream),
        link=_link(node["link"]),
        opaque_bounds=node["opaque_bounds"].optional(_opaque_bounds),
        steps=node["steps"].each(_step),
        outside_h2d=outside[0] if outside else None,
        outside_d2h=outside[1] if outside else None,
        relief=node["relief"].optional(read_relief),
        effective=node["effective"].optional(read_effective),
        bounds=node["bounds"].optional(read_bounds),
    )


def _check_totals(report: OverlapReport, totals: Node) -> None:
    """Totals follow from the devices; a file where they do not was changed by hand."""
    for name in _ALL_DIRECTIONS:
        stated, summed = read_overlap(totals[name]), report.total(name)
        if any(getattr(stated, count) != getattr(summed, count) for count in COUNTS):
            raise ConfigError(f"{totals.where}.{name} is not the sum of the devices.", HINT)
    if read_budget(totals["time_budget"]) != report.time_budget:
        raise ConfigError(f"{totals.where}.time_budget is not the sum of the devices.", HINT)
