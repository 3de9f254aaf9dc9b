"""Whether there is enough compute to hide behind, and what hiding takes from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.arrays import BoolArray
from ..core.formatting import format_bytes, format_ns
from ..measure.case import DeviceCase
from ..result.model import Effective, Slowdown, format_share
from ..roles.rules import Role
from .context import NOTE, Context, Cost, Finder, Found, Rows
from .facts import a_step, hiding, pageable, size_text, spans, waits_on_host

LEAST_RATIO = 1.01
"""Durations alone and beside transfers differ by less than this without any reason."""
POOR_BARGAIN = 0.5
"""Share of the time hidden from which on what hiding costs is a warning."""


def not_enough_compute(ctx: Context) -> Iterator[Found]:
    """There is more to transfer than there is compute and communication to hide it behind.

    Compares, step by step, the time in which anything could hide a transfer with the wall time of
    the busier direction; the two directions can run at once. Copies of pageable memory are left
    out, since pinned memory would make them far shorter. What it says is a bound that ignores the
    order of work: dependences between a copy and the compute around it can only make it worse. The
    *bound* of the report, where there is one, counts them.

    **Cost**: by how much the busier direction exceeds that time, per step. No schedule can hide it.

    **What helps**: move fewer bytes. Offload tensors that take much compute to make for their size
    (layer inputs, attention outputs) and recompute or keep the rest: fewer names in
    `jax.checkpoint_policies.save_and_offload_only_these_names`. Of optimizer state or parameters
    leave a part on the device.

    **Silent** for less than 0.1 % of the time.
    """
    sides = [_Sides.of(case) for case in ctx.cases]
    cost = ctx.worth([side.excess_ns for side in sides])
    if cost is None:
        return
    worst = max(range(len(sides)), key=lambda i: sides[i].excess_ns)
    side, case = sides[worst], ctx.cases[worst]
    rows = case.rows.select(ctx.measured[worst] & _movable(case, side.role))
    n_bytes = ctx.per_step(int((rows.n_bytes + rows.bytes_estimated).sum()))
    moved = Rows(ctx, tuple(_movable(c, s.role) for c, s in zip(ctx.cases, sides, strict=True)))
    yield cost.found(
        title=(
            f"Too little compute to hide the transfers: at most "
            f"{format_share(1 - side.excess_ns / side.needed_ns)} can be hidden"
        ),
        detail=(
            f"{format_bytes(n_bytes)} {side.role.name} take {_per_step(ctx, side.needed_ns)}, and "
            f"compute and communication together last {_per_step(ctx, side.active_ns)}. That "
            "ignores the order of work; the bound under Gain and cost, if there is one, does not."
        ),
        remedy=ctx.remedy("not-enough-compute", on_host=waits_on_host(ctx, worst)),
        evidence=moved.examples(
            lambda i, row, ns: f"{size_text(ctx, i, row)}, {format_ns(ns)} exposed"
        ),
        rows=moved,
        target=1 - side.excess_ns / side.needed_ns,
    )


def hiding_costs_compute(ctx: Context) -> Iterator[Found]:
    """Compute kernels take longer while transfers run beside them.

    Compares launches that ran mostly under a transfer with launches of the same name and shape
    that ran under none; see *Effective overlap* in [metric.md](metric.md) for what is compared.

    **Cost**: by how much longer the former took than the median of the latter, summed, per step.
    This is not exposed time; it adds to it.

    **What helps**: put transfers beside kernels that are bound by arithmetic, not by memory
    bandwidth, or move fewer bytes. Where the sum of exposed time and this cost exceeds what
    recomputing the tensors takes, do not offload them.

    **Silent** for less than 0.1 % of the time, or less than 1 % longer. A warning only where it
    costs at least half of the time that was hidden behind compute.
    """
    slowdowns = [(device.effective or Effective()).compute for device in ctx.devices]
    hidden = [device.both.hidden_by_compute_ns for device in ctx.devices]
    yield from _hiding_costs(ctx, "compute", slowdowns, hidden)


def hiding_costs_comm(ctx: Context) -> Iterator[Found]:
    """Collectives take longer while transfers run beside them.

    As `hiding-costs-compute`, for communication kernels. A collective also waits for the other
    ranks; what varies for that reason is left out of the comparison by its spread.

    **Cost**: by how much longer collectives took beside transfers than the median of those of the
    same name and shape alone, summed, per step. This is not exposed time; it adds to it.

    **What helps**: move host copies away from the collectives, above all those that use PCIe or the
    network through the same switch; hide them behind compute.

    **Silent** for less than 0.1 % of the time, or less than 1 % longer. A warning only where it
    costs at least half of the time that was hidden behind communication.
    """
    slowdowns = [(device.effective or Effective()).comm for device in ctx.devices]
    hidden = [device.both.hidden_by_comm_ns for device in ctx.devices]
    yield from _hiding_costs(ctx, "comm", slowdowns, hidden)


FINDERS: tuple[Finder, ...] = (not_enough_compute, hiding_costs_compute, hiding_costs_comm)


@dataclass(frozen=True)
class _Sides:
    """What must be hidden on a device and what there is to hide it, over the measured time.

    `needed_ns` is the wall time of the direction `role`, the busier one; `excess_ns` by how much
    it exceeds `active_ns` step by step.
    """

    role: Role
    needed_ns: int
    active_ns: int
    excess_ns: int

    @classmethod
    def of(cls, case: DeviceCase) -> _Sides:
        start, end = spans(case)
        active = hiding(case).covered(start, end)
        sides = []
        for role in (Role.H2D, Role.D2H):
            rows = case.rows.select(_movable(case, role))
            needed = rows.union.covered(start, end)
            # Without any kernel there is no work that could be too little.
            excess = int(np.maximum(needed - active, 0)[active > 0].sum())
            sides.append(cls(role, int(needed.sum()), int(active.sum()), excess))
        return max(sides, key=lambda side: side.excess_ns)


def _movable(case: DeviceCase, role: Role) -> BoolArray:
    result: BoolArray = (case.rows.role == role) & ~pageable(case)
    return result


def _hiding_costs(
    ctx: Context,
    what: str,
    slowdowns: Sequence[Slowdown],
    hidden_ns: Sequence[int],
) -> Iterator[Found]:
    lost = [slowdown.cost_ns for slowdown in slowdowns]
    cost = ctx.worth(lost)
    if cost is None:
        return
    i = lost.index(max(lost))
    slowdown = slowdowns[i]
    if slowdown.ratio is None or slowdown.ratio < LEAST_RATIO:
        return
    words = {"compute": "compute", "comm": "communication"}[what]
    beside = ctx.rows().by(
        lambda case: getattr(case.lanes, what).covered(case.rows.start_ns, case.rows.end_ns)
    )
    severity = cost.severity if lost[i] >= POOR_BARGAIN * hidden_ns[i] else NOTE
    yield Cost(cost.ns, severity).found(
        title=(
            f"{words.capitalize()} takes {format_share(slowdown.ratio - 1)} longer beside transfers"
        ),
        detail=(
            f"{slowdown.n_beside:,} launches beside transfers against {slowdown.n_alone:,} of the "
            f"same name and shape alone; {format_share(slowdown.compared_share)} of the time "
            f"beside transfers could be compared. {_per_step(ctx, hidden_ns[i])} of transfers "
            f"were hidden behind {words}."
        ),
        remedy=ctx.remedy(f"hiding-costs-{what}"),
        evidence=beside.examples(
            lambda i, row, ns: f"{size_text(ctx, i, row)}, {format_ns(ns)} beside {words}"
        ),
        rows=beside,
    )


def _per_step(ctx: Context, ns: int) -> str:
    return f"{format_ns(ctx.per_step(ns))} {a_step(ctx)}"
