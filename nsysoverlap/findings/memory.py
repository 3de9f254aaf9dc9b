"""Findings about the memory that transfers start from or end in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ..core.formatting import format_bytes, format_ns, format_rate
from ..measure.lanes import Transfers
from ..result.model import Evidence
from ..roles.rules import Role
from .context import N_EXAMPLES, NOTE, Context, Finder, Found, Rows
from .facts import copies, exposed_text, pageable, size_text

_DIRECTIONS = ((Role.H2D, "h2d", "from"), (Role.D2H, "d2h", "into"))


def pageable_memory(ctx: Context) -> Iterator[Found]:
    """Copies from or to pageable host memory are slow and not really asynchronous.

    The driver moves such a copy through a small pinned buffer of its own, and the "async" call
    returns only when that is done. One finding for each direction, with the rate beside that of
    pinned copies in the same trace, or beside the link's where there are none.

    **Cost**: time per step during which one of these copies was exposed.

    **What helps**: pinned memory. In JAX `memory_kind="pinned_host"` for what is offloaded (NumPy
    arrays are pageable), in CUDA `cudaHostAlloc`.

    **Silent** where such copies take less than 0.1 % of the time; a note where they are hidden.
    """
    for role, direction, preposition in _DIRECTIONS:
        picked = ctx.rows(partial(pageable, role=role))
        if ctx.worth(picked.wall) is None:
            continue
        cost = ctx.worth(picked.exposed, NOTE)
        if cost is None:
            continue
        yield cost.found(
            title=f"{copies(picked.n, role.name)} {preposition} pageable memory: "
            f"{format_rate(picked.n_bytes / picked.busy_ns)} GB/s",
            detail=" ".join(
                [
                    f"{format_bytes(picked.n_bytes)} in all.",
                    _pinned_rate(ctx, role, direction),
                    _host_time(picked),
                ]
            ),
            remedy=ctx.remedy("pageable-memory"),
            evidence=picked.by_length.examples(
                lambda i, row, _: (
                    f"{size_text(ctx, i, row)}, {exposed_text(ctx, i, row)} of it exposed"
                )
            ),
            rows=picked,
        )


def unified_memory(ctx: Context) -> Iterator[Found]:
    """Unified (managed) memory moves between host and device page by page, when it is touched.

    A migration runs at the moment a kernel or the host needs the page, so whoever touched it
    waits: time beside a kernel is no gain either, and is not counted as hidden.

    **Cost**: time per step during which memory migrated and neither compute nor communication ran.

    **What helps**: memory that stays where it is and explicit copies: `cudaHostAlloc` with
    `cudaMemcpyAsync`, in JAX `memory_kind="pinned_host"`; or `cudaMemPrefetchAsync` ahead of the
    kernels that touch the data.

    **Silent** where migrations take less than 0.1 % of the time.
    """
    found = [(case.lanes.of("unified_h2d"), case.lanes.of("unified_d2h")) for case in ctx.cases]
    both = [h2d.union.union(d2h.union) for h2d, d2h in found]
    walls = [wall.intersect(case.window).length for wall, case in zip(both, ctx.cases, strict=True)]
    level = ctx.worth(walls)
    exposed = [wall.intersect(idle).length for wall, idle in zip(both, ctx.idle, strict=True)]
    cost = level and ctx.worth(exposed, level.severity)
    if cost is None:
        return
    n, (to_device, to_host) = 0, (0, 0)
    for case, (h2d, d2h) in zip(ctx.cases, found, strict=True):
        counted = [case.counted.contains(rows.start_ns) for rows in (h2d, d2h)]
        n += sum(int(mask.sum()) for mask in counted)
        to_device += int(h2d.n_bytes[counted[0]].sum())
        to_host += int(d2h.n_bytes[counted[1]].sum())
    yield cost.found(
        title=f"Unified memory migrates on demand: {format_bytes(to_device)} to the device, "
        f"{format_bytes(to_host)} to the host",
        detail=f"Migrations: {n:,}. Whoever touches a page waits for it, so the "
        f"{format_ns(sum(walls) - sum(exposed))} that ran beside kernels are no gain either.",
        remedy=ctx.remedy("unified-memory"),
        evidence=_longest_migrations(ctx, found),
    )


FINDERS: tuple[Finder, ...] = (pageable_memory, unified_memory)


def _pinned_rate(ctx: Context, role: Role, direction: str) -> str:
    """What pinned copies of the direction reach here, else what the link can do."""
    pinned = ctx.rows(
        lambda case: (case.rows.role == role) & (case.rows.n_bytes > 0) & ~pageable(case)
    )
    if pinned.n_bytes and pinned.busy_ns:
        rate = format_rate(pinned.n_bytes / pinned.busy_ns)
        return f"Pinned copies of this trace reach {rate} GB/s."
    link = ctx.devices[0].link
    peak = link.h2d_gbps if direction == "h2d" else link.d2h_gbps
    return f"The link can do {format_rate(peak)} GB/s ({link.source})." if peak else ""


def _host_time(picked: Rows) -> str:
    """How long the calls held their thread, against the time the copies took on the GPU."""
    held_ns, names = 0, set()
    for case, mask in zip(picked.context.cases, picked.masks, strict=True):
        trace = case.classified.trace
        calls = np.unique(case.launches.of(trace.copies, case.rows.row[mask]))
        calls = calls[calls >= 0]
        held_ns += int((trace.host.calls.end_ns - trace.host.calls.start_ns)[calls].sum())
        names |= {trace.host.api_names[i] for i in trace.host.calls.name[calls]}
    if not names:
        return ""
    return (
        f"The calls ({', '.join(sorted(names))}) held their thread for {format_ns(held_ns)}; the "
        f"copies took {format_ns(picked.busy_ns)} on the GPU."
    )


def _longest_migrations(
    ctx: Context, found: Sequence[tuple[Transfers, Transfers]]
) -> tuple[Evidence, ...]:
    rows: list[tuple[int, int, int, str]] = []
    for i, (case, pair) in enumerate(zip(ctx.cases, found, strict=True)):
        for way, moved in zip(("to the device", "to the host"), pair, strict=True):
            length = case.window.covered(moved.start_ns, moved.end_ns)
            for at in np.argsort(-length, kind="stable")[:N_EXAMPLES].tolist():
                text = f"{format_bytes(int(moved.n_bytes[at]))} {way}"
                if length[at] > 0:
                    rows.append((i, int(moved.start_ns[at]), int(moved.end_ns[at]), text))
    return ctx.longest(rows)
