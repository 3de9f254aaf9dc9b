"""What issued each transfer of a device, how long it queued, and what waited for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import Int64Array
from ..core.intervals import IntervalSet
from ..trace.contents import short_name
from .case import DeviceCase
from .lanes import TRANSFER_ROLES
from .operations import api_name, transfer_labels
from .waiting import launch_of_transfers, wait_counts

HOST_PAUSE = "the host, between calls"
"""What waited where a thread went on only after the transfer and no call held it."""


def issued(case: DeviceCase, picked: Int64Array) -> dict[str, list[Any]]:
    """Columns of shape (n,) of some transfers, given as places (n,) in `Lanes.transfers`.

    step, operation, scope, queued_ns, blocking_ns, host_blocking_ns and waiter, None where it is
    not known; of unified memory the step alone.
    """
    rows, both = case.lanes.transfers, TRANSFER_ROLES["both"]
    of_both = np.flatnonzero(np.isin(rows.role, both))
    labels = transfer_labels(case)
    columns: dict[str, Any] = {
        "operation": labels.op.tolist(),
        "scope": [text or None for text in labels.label.tolist()],
        "queued_ns": _queued(case),
        **_waited(case),
    }
    # Unified memory is not launched: it has a place among the transfers, and none of these.
    place = np.full(len(rows), -1, np.int64)
    place[of_both] = np.arange(len(of_both))
    found = {
        name: [None if at < 0 else values[at] for at in place[picked].tolist()]
        for name, values in columns.items()
    }
    return {"step": _steps(case, rows.start_ns[picked]), **found}


def _steps(case: DeviceCase, start_ns: Int64Array) -> list[int | None]:
    """Index of the step that holds each start; None outside the steps."""
    steps = sorted(case.steps, key=lambda step: step.start_ns)
    begins = np.array([step.start_ns for step in steps], np.int64)
    at = np.searchsorted(begins, start_ns, side="right") - 1
    return [
        steps[i].index if i >= 0 and start < steps[i].end_ns else None
        for i, start in zip(at.tolist(), start_ns.tolist(), strict=True)
    ]


def _queued(case: DeviceCase) -> list[int | None]:
    """How long the direction was busy from a transfer's launch to its start; None: no launch."""
    rows = case.rows
    call = launch_of_transfers(case.classified, case.launches, rows)
    calls = case.classified.trace.host.calls.start_ns
    sent = np.where(call >= 0, calls[np.maximum(call, 0)] if len(calls) else 0, rows.start_ns)
    sent = np.minimum(sent, rows.start_ns)
    busy = np.zeros(len(rows), np.int64)
    for role in np.unique(rows.role).tolist():
        mine = rows.role == role
        union = IntervalSet.from_spans(rows.start_ns[mine], rows.end_ns[mine])
        busy[mine] = union.covered(sent[mine], rows.start_ns[mine])
    return [ns if known else None for ns, known in zip(busy.tolist(), call >= 0, strict=True)]


def _waited(case: DeviceCase) -> dict[str, list[Any]]:
    rows, pieces, host = case.rows, case.pieces, case.classified.trace.host
    names = case.classified.trace.names

    def summed(ns: Int64Array) -> Int64Array:
        total = np.zeros(len(rows), np.int64)
        np.add.at(total, pieces.transfer, ns)
        return total

    compute_ns = pieces.end_ns - pieces.blocked_ns
    host_ns = pieces.blocked_ns - pieces.held_ns
    counts = wait_counts(
        summed(pieces.end_ns - pieces.start_ns),
        summed(compute_ns),
        summed(pieces.end_ns - pieces.held_ns),
        summed(pieces.end_ns - pieces.doubtful_ns),
    )
    waiter: list[str | None] = [None] * len(rows)
    # The longest wait comes last and stays; a kernel is said before a call of the host.
    for ns, who in ((host_ns, pieces.holder), (compute_ns, pieces.next_kernel)):
        order = np.argsort(ns, kind="stable")
        order = order[ns[order] > 0]
        for transfer, at in zip(pieces.transfer[order].tolist(), who[order].tolist(), strict=True):
            if who is pieces.next_kernel:
                kernel = case.classified.trace.kernels.name[at]
                waiter[transfer] = short_name(names[kernel])
            else:
                held = host.api_names[host.calls.name[at]] if at >= 0 else HOST_PAUSE
                waiter[transfer] = api_name(held)
    kept = ("blocking_ns", "host_blocking_ns")
    return {**{name: counts[name] for name in kept}, "waiter": waiter}
