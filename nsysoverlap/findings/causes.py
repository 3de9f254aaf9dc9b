"""Which of several findings about the same transfers is the cause, and which says it once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from .context import NOTE, Context, Found

ALIKE = 0.9
"""Share of the exposed time of a finding that another one must blame too, to stand for it."""

BEHIND: Mapping[str, tuple[str, ...]] = {
    "same-stream-as-compute": ("pageable-memory",),
    "late-h2d": ("same-stream-as-compute", "nothing-beside", "link-bound", "head-of-line"),
    "d2h-awaited": (
        *("same-stream-as-compute", "nothing-beside", "link-bound", "offloaded-again"),
    ),
    "nothing-beside": ("same-stream-as-compute", "link-bound", "pageable-memory"),
    "same-direction-queue": ("link-bound", "late-h2d", "d2h-awaited"),
    "not-enough-compute": ("link-bound", "offloaded-again"),
    "no-duplex": ("same-stream-as-compute",),
    "host-waits": ("pageable-memory", "d2h-tail"),
    "d2h-tail": ("pageable-memory", "same-direction-queue"),
    "latency-bound-copies": ("pageable-memory",),
}
"""For each code those that are the reason behind it, where they blame the same rows."""

ONCE_TOO = frozenset({"one-time-transfers", "integrated-gpu", "slow-link"})
"""What is worth a word of transfers that happen once; to pin, pack or move what is copied a single
time wins nothing.
"""


def settled(context: Context, found: Sequence[Found]) -> list[Found]:
    """The findings without those that only say what another one, the reason behind them, says.

    A reason must blame nearly all of the same exposed time and cost no less. Of transfers that
    load data once nothing else is said but what holds for any copy, as a note.
    """
    by_code: dict[str, list[Found]] = {}
    for one in found:
        by_code.setdefault(one.finding.code, []).append(one)
    kept = [
        one
        for one in found
        if not any(
            _stand_for(context, by_code.get(code, []), one)
            for code in BEHIND.get(one.finding.code, ())
        )
    ]
    if "one-time-transfers" not in by_code:
        return kept
    return [
        replace(one, finding=replace(one.finding, severity=NOTE)) if one.rows else one
        for one in kept
        if not one.rows or one.finding.code in ONCE_TOO
    ]


def _stand_for(context: Context, reasons: Sequence[Found], other: Found) -> bool:
    """Whether the findings of one code, both directions of it say, stand for another finding."""
    reasons = [reason for reason in reasons if reason.rows]
    cost = sum(reason.finding.cost_ns for reason in reasons)
    if not reasons or not other.rows or cost < ALIKE * other.finding.cost_ns:
        return False
    whole = shared = 0
    for i, (mask, exposed) in enumerate(zip(other.rows, context.exposed_ns, strict=True)):
        whole += int(exposed[mask].sum())
        blamed = mask & np.logical_or.reduce([reason.rows[i] for reason in reasons])
        shared += int(exposed[blamed].sum())
    return shared >= ALIKE * whole
