"""How fast copies run: the link, and many copies too small for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_bytes, format_ns, format_rate
from ..measure.case import DeviceCase
from ..result.model import LinkReport, format_share
from ..roles.links import C2C
from ..roles.rules import Role
from .context import NOTE, Context, Finder, Found, Rows
from .facts import SMALL_BYTES, a_step, copies, pageable, size_text

LARGE_BYTES = 64_000_000
"""Smaller copies say more about latency than about the link."""
FAR_BELOW = 0.6
"""Share of a peak below which a rate is far below it; healthy PCIe copies reach 0.75 to 0.88."""
FAR_BELOW_C2C = 1 / 3
"""The same of the data sheet's peak of NVLink-C2C, of which healthy copies reach 0.37 to 0.93."""
MANY_SMALL = 100
"""Small copies a step from which on they are many."""


def slow_link(ctx: Context) -> Iterator[Found]:
    """Large copies run far below what the link can do.

    Looks at pinned copies of at least 64 MB, one finding for each direction. Far below is under
    60 % of the peak of the GPU's link, under a third of the data sheet's figure for NVLink-C2C
    (healthy copies there were measured at 170 to 420 of 450 GB/s), or under 60 % of the fastest
    such copy of the same trace.

    **Cost**: by how much the exposed time of these copies would shrink if they only reached that
    limit: for each one its exposed time x (1 - rate / limit), rounded, summed, per step.

    **What helps**: bind each process and its memory to the CPU socket of its GPU (`nvidia-smi topo
    -m`, then `numactl --cpunodebind=N --membind=N`); on GB200 copies from the wrong socket were
    seen at a third of the rate. On PCIe check that the link runs at its full generation and width.

    **Silent** where less than a tenth of the bytes of the direction is that slow.
    """
    for role, direction in ((Role.H2D, "h2d"), (Role.D2H, "d2h")):
        yield from _slow_copies(ctx, role, direction)


def latency_bound_copies(ctx: Context) -> Iterator[Found]:
    """Many small copies: each takes a few microseconds whatever its size.

    Small is up to 64 KiB, many is 100 a step (in all without steps) on one device, both directions
    together.

    **Cost**: time per step during which one of these copies was exposed.

    **What helps**: pack them into one copy, or leave the data on the device: no `.item()`,
    `float(loss)` or `np.asarray` inside the step.

    **Silent** for fewer copies, and for less than 0.1 % of the time.
    """
    small = ctx.rows(lambda case: ~case.rows.by_kernel & (case.rows.n_bytes <= SMALL_BYTES))
    counts = [int(mask.sum()) for mask in small.masks]
    n_most = ctx.per_step(max(counts, default=0))
    cost = ctx.worth(small.exposed)
    if n_most < MANY_SMALL or cost is None:
        return
    i = counts.index(max(counts))
    rows = ctx.cases[i].rows.select(small.masks[i])
    ns = rows.end_ns - rows.start_ns
    yield cost.found(
        title=f"{copies(n_most)} {a_step(ctx)} of at most 64 KiB",
        detail=(
            f"Each takes {format_ns(int(np.median(ns)))} (median) for "
            f"{format_bytes(int(np.median(rows.n_bytes)))}, that is "
            f"{format_rate(int(rows.n_bytes.sum()) / max(1, int(ns.sum())))} GB/s: the start of a "
            "copy is what takes the time."
        ),
        remedy=ctx.remedy("latency-bound-copies"),
        evidence=small.by_length.examples(lambda i, row, _: _rate_text(ctx, i, row)),
        rows=small,
    )


FINDERS: tuple[Finder, ...] = (slow_link, latency_bound_copies)


def _slow_copies(ctx: Context, role: Role, direction: str) -> Iterator[Found]:
    """What `slow_link` finds in one direction."""
    limits = [
        least_rate(device.link, direction, _best(ctx, i, direction))
        for i, device in enumerate(ctx.devices)
    ]
    large = ctx.rows(lambda case: _large(case, role))
    slow = Rows(
        ctx,
        tuple(
            mask & (_rates(case) < limit)
            for case, mask, limit in zip(ctx.cases, large.masks, limits, strict=True)
        ),
    )
    if not slow.n_bytes or slow.n_bytes * 10 < large.n_bytes:
        return
    lost = [
        _lost_ns(case, mask, exposed, limit)
        for case, mask, exposed, limit in zip(
            ctx.cases, slow.masks, ctx.exposed_ns, limits, strict=True
        )
    ]
    cost = ctx.worth(lost, NOTE)
    if cost is None:
        return
    worst = slow.most_bytes
    link = ctx.devices[worst].link
    yield cost.found(
        title=(
            f"{copies(slow.n, role.name)} far below what the link can do: "
            f"{format_rate(slow.n_bytes / slow.busy_ns)} GB/s"
        ),
        detail=_link_detail(
            link, direction, _best(ctx, worst, direction), slow.n_bytes / large.n_bytes
        ),
        remedy=ctx.remedy("slow-link", c2c=link.source.startswith(C2C)),
        evidence=slow.by_length.examples(lambda i, row, _: _rate_text(ctx, i, row)),
        rows=slow,
        target=limits[worst],
    )


def _best(ctx: Context, i: int, direction: str) -> float | None:
    """GB/s of the fastest large copy of all GPUs of the model of device i."""
    alike = [d.link for d in ctx.devices if d.gpu_name == ctx.devices[i].gpu_name]
    rates: list[float] = [
        rate for link in alike if (rate := getattr(link, f"best_{direction}_gbps")) is not None
    ]
    return max(rates, default=None)


def least_rate(link: LinkReport, direction: str, best: float | None) -> float:
    """GB/s below which a large copy is slow; 0 where nothing is known to compare with."""
    peak: float | None = getattr(link, f"{direction}_gbps")
    far = FAR_BELOW_C2C if link.source.startswith(C2C) else FAR_BELOW
    return max(far * (peak or 0.0), FAR_BELOW * (best or 0.0))


def _lost_ns(case: DeviceCase, slow: BoolArray, exposed_ns: Int64Array, limit: float) -> int:
    """Exposed time that the slow rows would save at the limit."""
    return int(np.rint(exposed_ns[slow] * (1 - _rates(case)[slow] / limit)).sum()) if limit else 0


def _large(case: DeviceCase, role: Role) -> BoolArray:
    """Pinned copies of one direction that show the rate of the link."""
    rows = case.rows
    large = (rows.n_bytes >= LARGE_BYTES) & ~rows.by_kernel & ~pageable(case)
    result: BoolArray = large & (rows.role == role)
    return result


def _rates(case: DeviceCase) -> NDArray[np.float64]:
    """GB/s of each row."""
    rows = case.rows
    result: NDArray[np.float64] = rows.n_bytes / np.maximum(rows.end_ns - rows.start_ns, 1)
    return result


def _rate_text(ctx: Context, i: int, row: int) -> str:
    rate = float(_rates(ctx.cases[i])[row])
    return f"{size_text(ctx, i, row)} at {format_rate(rate)} GB/s"


def _link_detail(link: LinkReport, direction: str, best: float | None, share: float) -> str:
    peak: float | None = getattr(link, f"{direction}_gbps")
    known = []
    if peak is not None:
        known.append(f"the peak is {format_rate(peak)} GB/s ({link.source})")
    if best is not None:
        known.append(f"the fastest large copy of the trace reached {format_rate(best)} GB/s")
    return f"{format_share(share)} of the bytes in large pinned copies; {', '.join(known)}."
