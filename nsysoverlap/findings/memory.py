"""Findings about the memory that transfers start from or end in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ..core.arrays import BoolArray
from ..core.formatting import format_bytes, format_ns, format_rate
from ..measure.case import DeviceCase
from ..measure.lanes import Transfers
from ..result.model import Evidence, LinkReport
from ..roles.links import C2C, is_integrated
from ..roles.rules import Role
from ..trace.cupti import PREFETCH
from .context import N_EXAMPLES, NOTE, Context, Finder, Found, Rows
from .facts import SMALL_BYTES, copies, exposed_text, pageable, size_text, without_version
from .rates import least_rate

LEAST_BYTES = 1 << 20
"""A smaller copy says more about latency than about memory."""
NO_FASTER = 1.2
"""Pinned copies that are faster by less are no proof that pinning helps."""
_DIRECTIONS = ((Role.H2D, "h2d", "from"), (Role.D2H, "d2h", "into"))


def pageable_memory(ctx: Context) -> Iterator[Found]:
    """Copies from or to pageable host memory are slow and not really asynchronous.

    The driver moves such a copy through a small pinned buffer of its own, and the "async" call
    returns only when that is done. One finding for each direction, with the rate beside that of
    pinned copies of at least 1 MiB in the same trace, or beside the link's where there are none.
    Copies of up to 64 KiB are left out: they take as long from any memory.

    **Cost**: time per step during which one of these copies was exposed.

    **What helps**: pinned memory. In JAX `memory_kind="pinned_host"` for what is offloaded (NumPy
    arrays are pageable), in CUDA `cudaHostAlloc`.

    **Silent** where such copies take less than 0.1 % of the time; a note where they are hidden.
    """
    for role, direction, preposition in _DIRECTIONS:
        picked = ctx.rows(partial(_pageable, role=role))
        if ctx.worth(picked.wall) is None:
            continue
        cost = ctx.worth(picked.exposed, NOTE)
        if cost is None:
            continue
        rate, pinned = picked.n_bytes / picked.busy_ns, _pinned_rate(ctx, role)
        link = ctx.devices[picked.most_bytes].link
        could = pinned or least_rate(link, direction, None)
        yield cost.found(
            title=f"{copies(picked.n, role.name)} {preposition} pageable memory: "
            f"{format_rate(rate)} GB/s",
            detail=" ".join(
                [
                    f"{format_bytes(picked.n_bytes)} in all.",
                    _compared(link, direction, pinned),
                    _host_time(picked),
                ]
            ),
            remedy=ctx.remedy(
                "pageable-memory",
                pinned_no_faster=pinned is not None and pinned <= rate * NO_FASTER,
                c2c=link.source.startswith(C2C),
            ),
            evidence=picked.by_length.examples(
                lambda i, row, _: (
                    f"{size_text(ctx, i, row)}, {exposed_text(ctx, i, row)} of it exposed"
                )
            ),
            rows=picked,
            target=could if could > rate else None,
        )


def unified_memory(ctx: Context) -> Iterator[Found]:
    """Unified (managed) memory moves between host and device, most of it when it is touched.

    A migration on demand runs at the moment a kernel or the host needs the page, so whoever touched
    it waits: time beside a kernel is no gain either, and is not counted as hidden. What the program
    prefetched (`cudaMemPrefetchAsync`, told by migrationCause) is said to be that.

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
    (to_device, asked_in, n_in), (to_host, asked_out, n_out) = (
        _migrated(ctx, [pair[way] for pair in found]) for way in (0, 1)
    )
    asked, moved = asked_in + asked_out, to_device + to_host
    how = "migrates on demand" if not asked else "moves"
    if asked == moved:
        how, waits = "is prefetched", "All of it was prefetched, so that no kernel faults on it."
    else:
        some = f", {format_bytes(asked)} of it prefetched" if asked else ""
        beside = sum(walls) - sum(exposed)
        no_gain = (
            f", so the {format_ns(beside)} that ran beside kernels are no gain either"
            if beside
            else ""
        )
        waits = f"Migrations: {n_in + n_out:,}{some}. Whoever touches a page waits for it{no_gain}."
    yield cost.found(
        title=f"Unified memory {how}: {format_bytes(to_device)} to the device, "
        f"{format_bytes(to_host)} to the host",
        detail=waits,
        remedy=ctx.remedy("unified-memory", prefetched=2 * asked > moved),
        evidence=_longest_migrations(ctx, found),
    )


def integrated_gpu(ctx: Context) -> Iterator[Found]:
    """The GPU shares its memory with the CPU (Orin, Xavier, Thor, GB10), yet data is copied.

    **Cost**: time per step during which a copy was exposed.

    **What helps**: mapped memory, which both sides reach without a copy: `cudaHostAlloc` with
    `cudaHostAllocMapped`, or managed memory.

    **Silent** for less than 0.1 % of the time, and for other GPUs.
    """
    mine = ctx.rows().of(
        tuple(
            mask & is_integrated(case.device.gpu.name)
            for case, mask in zip(ctx.cases, ctx.measured, strict=True)
        )
    )
    cost = ctx.worth(mine.exposed)
    if cost is None:
        return
    name = next(c.device.gpu.name for c in ctx.cases if is_integrated(c.device.gpu.name))
    yield cost.found(
        title=f"{copies(mine.n)} within one memory: this GPU shares that of the CPU",
        detail=f"{name}: {format_bytes(mine.n_bytes)} copied that mapped memory would not copy.",
        remedy=ctx.remedy("integrated-gpu"),
        evidence=mine.examples(
            lambda i, row, ns: f"{size_text(ctx, i, row)}, {format_ns(ns)} exposed"
        ),
        rows=mine,
    )


FINDERS: tuple[Finder, ...] = (integrated_gpu, pageable_memory, unified_memory)


def _pageable(case: DeviceCase, role: Role) -> BoolArray:
    return pageable(case, role) & (case.rows.n_bytes > SMALL_BYTES)


def _migrated(ctx: Context, moved: Sequence[Transfers]) -> tuple[int, int, int]:
    """Bytes that moved one way in the measured time, those of prefetches, and the number."""
    n_bytes = asked = n = 0
    for case, rows in zip(ctx.cases, moved, strict=True):
        mine = rows.select(case.counted.contains(rows.start_ns))
        cause = case.classified.trace.copies.migration_cause[mine.row]
        n_bytes += int(mine.n_bytes.sum())
        asked += int(mine.n_bytes[cause == PREFETCH].sum())
        n += len(mine)
    return n_bytes, asked, n


def _pinned_rate(ctx: Context, role: Role) -> float | None:
    """GB/s of pinned copies of the direction that are large enough to have a rate; None without."""
    pinned = ctx.rows(
        lambda case: (case.rows.role == role) & (case.rows.n_bytes >= LEAST_BYTES) & ~pageable(case)
    )
    return pinned.n_bytes / pinned.busy_ns if pinned.n_bytes and pinned.busy_ns else None


def _compared(link: LinkReport, direction: str, pinned: float | None) -> str:
    """What pinned copies of the direction reach here, else what the link can do."""
    if pinned is not None:
        return f"Pinned copies of this trace reach {format_rate(pinned)} GB/s."
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
        names |= {without_version(trace.host.api_names[i]) for i in trace.host.calls.name[calls]}
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
