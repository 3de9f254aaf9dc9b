"""The overlap metric as it reads, one instant at a time, in sets of integers.

Slow and obvious on purpose: property tests hold the package against it. Roles are the words
of `ROLES`; an activity is `(role, start, end)` with small integers, `[start, end)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[str, int, int]
Window = tuple[int, int]

ROLES = ("compute", "comm", "h2d", "d2h", "other", "unified_h2d", "unified_d2h", "opaque")

DIRECTIONS = {
    "h2d": ("h2d",),
    "d2h": ("d2h",),
    "both": ("h2d", "d2h"),
    "unified_h2d": ("unified_h2d",),
    "unified_d2h": ("unified_d2h",),
}


def instants(spans: Iterable[Span], roles: Sequence[str], window: Window) -> set[int]:
    """Every instant of the window at which an activity of one of the roles ran."""
    low, high = window
    return {
        instant
        for role, start, end in spans
        if role in roles
        for instant in range(start, end)
        if low <= instant < high
    }


def extent(spans: Sequence[Span]) -> Window:
    """First start and last end: the window of a device without steps."""
    return min(start for _, start, _ in spans), max(end for _, _, end in spans)


def overlap(spans: Sequence[Span], direction: str, window: Window) -> dict[str, int]:
    """Split of one direction's transfers, under the names of `report.Overlap`.

    A unified-memory migration is not "under other work" because of migrations, itself included.
    """
    roles = DIRECTIONS[direction]
    transfer = instants(spans, roles, window)
    compute = instants(spans, ["compute"], window)
    comm = instants(spans, ["comm"], window)
    exposed = transfer - compute - comm
    migrations = [] if direction.startswith("unified") else ["unified_h2d", "unified_d2h"]
    other = instants(spans, ["other", *migrations], window)
    mine = [span for span in spans if span[0] in roles]
    return {
        "n": sum(window[0] <= start < window[1] for _, start, _ in mine),
        "busy_ns": sum(len(instants([span], roles, window)) for span in mine),
        "wall_ns": len(transfer),
        "hidden_by_compute_ns": len(transfer & compute),
        "hidden_by_comm_ns": len((transfer & comm) - compute),
        "exposed_ns": len(exposed),
        "exposed_under_other_ns": len(exposed & other),
    }


def time_budget(spans: Sequence[Span], window: Window) -> dict[str, int]:
    """Each instant of the window to the first role that applies, under `TimeBudget`'s names."""
    order = {
        "compute_ns": ["compute"],
        "comm_ns": ["comm"],
        "transfer_ns": ["h2d", "d2h"],
        "other_ns": ["other", "unified_h2d", "unified_d2h"],
        "opaque_ns": ["opaque"],
    }
    left = set(range(*window))
    budget = {}
    for name, roles in order.items():
        taken = left & instants(spans, roles, window)
        budget[name] = len(taken)
        left -= taken
    budget["idle_ns"] = len(left)
    return budget
