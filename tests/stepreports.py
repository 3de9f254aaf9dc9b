"""Hand-made reports with steps: no trace is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nsysoverlap.result.model import (
    Basis,
    DeviceReport,
    OperationReport,
    Overlap,
    OverlapReport,
    Relief,
    StepReport,
    TimeBudget,
    TraceReport,
)

from .sample_reports import device

STEP_NS = 1_000


def split(hidden: int, wall: int, comm: int = 0) -> Overlap:
    """One copy; ns."""
    return Overlap(
        n=1 if wall else 0,
        bytes=wall * 50,
        busy_ns=wall,
        wall_ns=wall,
        hidden_by_compute_ns=hidden,
        hidden_by_comm_ns=comm,
        exposed_ns=wall - hidden - comm,
        copy_ns=wall,
    )


def step(index: int, d2h: Overlap, duration: int = STEP_NS) -> StepReport:
    """A step of which D2H is all that moved."""
    start = index * STEP_NS
    budget = TimeBudget(compute_ns=duration)
    relief = Relief(d2h.bytes // 2, d2h.bytes)
    return StepReport(
        index, "step", 1000, start, start + duration, Overlap(), d2h, d2h, budget, relief
    )


def device_of_steps(
    pairs: Sequence[tuple[int, int]], trace: str = "train.sqlite", pid: int = 1000
) -> DeviceReport:
    """A device with one step per (hidden, wall) of its D2H."""
    steps = tuple(step(i, split(*pair)) for i, pair in enumerate(pairs))
    total = sum((s.d2h for s in steps), Overlap())
    return replace(
        device(pid, 0, trace),
        window_ns=(0, STEP_NS * len(pairs)),
        d2h=total,
        both=total,
        time_budget=TimeBudget(compute_ns=STEP_NS * len(pairs)),
        steps=steps,
        relief=Relief(total.bytes // 2, total.bytes),
    )


def report_of_steps(
    *devices: Sequence[tuple[int, int]], operations: tuple[OperationReport, ...] = ()
) -> OverlapReport:
    """A report of one trace with a device for each list of (hidden, wall) per step."""
    return OverlapReport(
        traces=(TraceReport("train.sqlite"),),
        health=(),
        devices=tuple(device_of_steps(pairs, pid=1000 + i) for i, pairs in enumerate(devices)),
        basis=Basis(
            "steps",
            steps="NVTX ranges 'step N'",
            n_steps=max(map(len, devices)),
            steps_asked="auto",
            rules="built-in",
            links="by GPU name",
        ),
        operations=operations,
    )


def report_of_ranks(*ranks: Sequence[tuple[int, int]]) -> OverlapReport:
    """A report of one trace a rank."""
    names = [f"rank{i}.sqlite" for i in range(len(ranks))]
    return replace(
        report_of_steps(*ranks),
        traces=tuple(TraceReport(name, i) for i, name in enumerate(names)),
        devices=tuple(device_of_steps(p, n) for p, n in zip(ranks, names, strict=True)),
    )


def operation(op: str, exposed: int, per_step: int | None = None) -> OperationReport:
    """A D2H operation of which all time is exposed."""
    return OperationReport(op, "", "d2h", split(0, exposed), per_step)
