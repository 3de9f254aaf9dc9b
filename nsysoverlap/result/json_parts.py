"""Reading back what lies beside the split: operations, kernels, effects, bounds, findings."""

from __future__ import annotations

from dataclasses import fields

from .json_node import Node
from .json_numbers import read_overlap, read_span
from .model import (
    Attribution,
    Bounds,
    Effective,
    Evidence,
    Finding,
    KernelReport,
    OperationReport,
    Rate,
    Slowdown,
)

OPERATION_DIRECTIONS = ("h2d", "d2h", "unified_h2d", "unified_d2h")
FINDING_SEVERITIES = ("warning", "note")


def read_operation(node: Node) -> OperationReport:
    """One operation and direction."""
    return OperationReport(
        op=node["op"].text(),
        label=node["label"].text(),
        direction=node["direction"].choice(OPERATION_DIRECTIONS),
        overlap=read_overlap(node),
        exposed_per_step_ns=node["exposed_per_step_ns"].optional(Node.count),
        followed_by=node["followed_by"].optional_text(),
    )


def read_kernel(node: Node) -> KernelReport:
    """One kernel name."""
    return KernelReport(
        name=node["name"].text(),
        role=node["role"].text(),
        n=node["n"].count(),
        beside_ns=node["beside_ns"].count(),
        alone_ns=node["alone_ns"].count(),
    )


def read_attribution(node: Node) -> Attribution:
    """How much could be told."""
    return Attribution(**{f.name: node[f.name].count() for f in fields(Attribution)})


def read_finding(node: Node) -> Finding:
    """One finding with its evidence."""
    return Finding(
        code=node["code"].text(),
        severity=node["severity"].choice(FINDING_SEVERITIES),
        title=node["title"].text(),
        detail=node["detail"].text(),
        remedy=node["remedy"].text(),
        cost_ns=node["cost_ns"].count(),
        evidence=node["evidence"].each(_evidence),
    )


def _evidence(node: Node) -> Evidence:
    start, end = read_span(node["start_ns"], node["end_ns"])
    return Evidence(
        start_ns=start,
        end_ns=end,
        text=node["text"].text(),
        op=node["op"].optional_text(),
        device=node["device"].optional_text(),
        trace=node["trace"].optional_text(),
    )


def read_effective(node: Node) -> Effective:
    """Rates and slowdowns."""
    rates = ("h2d_hidden", "h2d_exposed", "d2h_hidden", "d2h_exposed")
    return Effective(
        **{name: _rate(node[name]) for name in rates},
        compute=_slowdown(node["compute"]),
        comm=_slowdown(node["comm"]),
    )


def _rate(node: Node) -> Rate:
    return Rate(
        n=node["n"].count(),
        gb_per_s=node["gb_per_s"].optional_number(),
        p10=node["p10"].optional_number(),
        p90=node["p90"].optional_number(),
    )


def _slowdown(node: Node) -> Slowdown:
    return Slowdown(
        n_beside=node["n_beside"].count(),
        n_alone=node["n_alone"].count(),
        beside_ns=node["beside_ns"].count(),
        compared_ns=node["compared_ns"].count(),
        # Negative where launches beside transfers happened to be faster.
        cost_ns=node["cost_ns"].integer(),
        ratio=node["ratio"].optional_number(),
        p10_ratio=node["p10_ratio"].optional_number(),
        p90_ratio=node["p90_ratio"].optional_number(),
    )


def read_bounds(node: Node) -> Bounds:
    """What could be won at most."""
    return Bounds(
        best_hidden_share=node["best_hidden_share"].optional_number(),
        window_ns_without_exposed=node["window_ns_without_exposed"].optional(Node.count),
    )
