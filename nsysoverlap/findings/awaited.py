"""Who waits for transfers beside late reloads: the host, and compute for what leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..core.arrays import BoolArray
from ..core.formatting import format_ns, short_kernel
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..result.numbers import OFFLOAD_BYTES
from ..roles.rules import Role
from .context import Context, Finder, Found
from .facts import (
    copies,
    named,
    ops_detail,
    pinned_outside_graphs,
    size_text,
    without_version,
)
from .queues import SOON_NS
from .streams import blocks_of
from .waits import Waits, host_waits_of, kernel_text, waited_rows, waits_of


def host_waits(ctx: Context) -> Iterator[Found]:
    """The host waits for a copy before it launches more work, so the GPU has nothing else to run.

    A thread stands in a synchronisation of the copy's stream, event or device, in a copy that
    returns when it is done (`cudaMemcpy`, any copy of pageable memory), in a call that frees
    memory, or, as under XLA, makes no call until the GPU is done; and the next compute kernel was
    launched only after that. See *blocking* in [metric.md](metric.md).

    **Cost**: time per step during which one of these copies was exposed and the host waited for it.

    **What helps**: do not wait for each copy: pinned memory and `cudaMemcpyAsync`, order by
    `cudaStreamWaitEvent` on the GPU in place of a synchronisation on the host, and values such as
    the loss fetched every few steps (`.item()`, `float(loss)`, `print(loss)`).

    **Silent** for less than 0.1 % of the time, and without kernels; where the copies are pageable
    or all lie behind the last work of a step those findings say it.
    """
    # Without kernels there is no work that the host could have launched.
    waits = [
        wait if len(case.lanes.compute) else wait.pick(np.zeros(len(case.rows), np.bool_))
        for case, wait in zip(ctx.cases, map(host_waits_of, ctx.cases), strict=True)
    ]
    cost = ctx.worth([wait.total_ns for wait in waits])
    if cost is None:
        return
    held = waited_rows(ctx, waits)
    yield cost.found(
        title=f"The host waits for {copies(held.n)} before it launches more work",
        detail=" ".join(filter(None, (_held_by(ctx, waits), ops_detail(held)))),
        remedy=ctx.remedy("host-waits", large=held.n_bytes >= OFFLOAD_BYTES * held.n),
        evidence=held.examples(
            lambda i, row, ns: (
                f"{size_text(ctx, i, row)}, "
                f"{_holder(ctx.cases[i], waits[i], row)} held the host {format_ns(ns)} for it"
            )
        ),
        rows=held,
    )


def d2h_awaited(ctx: Context) -> Iterator[Found]:
    """Compute waits for data that goes to the host: its copy holds up what comes after it.

    Looks at D2H copies of pinned memory outside CUDA graphs; waits are told as for `late-h2d`. A
    copy that holds the engine while the one that compute waits for is ready counts too. Copies
    behind which other work is queued that compute needs are left to `head-of-line`.

    **Cost**: time per step during which nothing hid such a copy and the next kernel waited for it,
    or for one that stood behind it.

    **What helps**: wait for a copy only before its source is written or freed: a second buffer,
    more copies under way at once, `record_stream` in PyTorch; in JAX a
    `jax.lax.optimization_barrier` between the copy and what waits for it; or offload less.

    **Silent** for less than 0.1 % of the time.
    """
    waits = []
    for i, case in enumerate(ctx.cases):
        mine = (case.rows.role == Role.D2H) & pinned_outside_graphs(case)
        held = waits_of(case).pick(mine)
        behind = blocks_of(case).by_row(len(case.rows), case.window.subtract(case.lanes.active))
        direct = held.pick(2 * behind < held.by_row(len(case.rows)))
        waits.append(direct.joined(_engine_held(ctx, i, direct, mine)))
    cost = ctx.worth([wait.total_ns for wait in waits])
    if cost is None:
        return
    awaited = waited_rows(ctx, waits)
    n_all = ctx.rows(lambda case: case.rows.role == Role.D2H).n
    yield cost.found(
        title=f"Compute waits for {awaited.n:,} of {copies(n_all, 'D2H')}",
        detail=" ".join(filter(None, (_waiting(ctx, waits), ops_detail(awaited)))),
        remedy=ctx.remedy("d2h-awaited"),
        evidence=awaited.examples(kernel_text(ctx, waits)),
        rows=awaited,
    )


FINDERS: tuple[Finder, ...] = (d2h_awaited, host_waits)


def _engine_held(ctx: Context, i: int, waits: Waits, mine: BoolArray) -> Waits:
    """Exposed pieces of D2H copies that held the engine before others that were ready and that
    compute waits for, `waits`: it waits for those in front of them as well.
    """
    case = ctx.cases[i]
    behind, since = ctx.queued[i][Role.D2H]
    awaited = np.isin(behind, waits.transfer)
    behind, since = behind[awaited], since[awaited]
    start, pieces = case.rows.start_ns[behind], case.pieces
    # The part that compute waits for directly ends a piece, and is counted already.
    at = np.flatnonzero(mine[pieces.transfer] & (pieces.blocked_ns - pieces.start_ns > SOON_NS))
    place = np.searchsorted(start, pieces.end_ns[at], side="left")
    at, place = at[place < len(behind)], place[place < len(behind)]
    kernel = waits.kernel[np.searchsorted(waits.transfer, behind[place])]
    held = Waits(pieces.transfer[at], pieces.start_ns[at], pieces.blocked_ns[at], kernel)
    queued = IntervalSet.from_spans(since, np.maximum(start, since))
    return held.within(queued.intersect(case.window).subtract(case.lanes.opaque))


def _by_name(names: Sequence[str], ns: Sequence[int]) -> str:
    """Names by the time they stand for, such as `cudaMemcpy (12.0 ms), a pause (1.0 ms)`."""
    total: dict[str, int] = {}
    for name, one in zip(names, ns, strict=True):
        total[name] = total.get(name, 0) + one
    ordered = sorted(total, key=lambda name: (-total[name], name))
    return named([f"{name} ({format_ns(total[name])})" for name in ordered])


def _held_by(ctx: Context, waits: list[Waits]) -> str:
    """In which calls the host was held, and for how long."""
    names: list[str] = []
    ns: list[int] = []
    for case, wait in zip(ctx.cases, waits, strict=True):
        host = case.classified.trace.host
        code = np.where(wait.kernel >= 0, host.calls.name[wait.kernel], -1)
        for one in np.unique(code).tolist():
            names.append(_call_name(host.api_names, one))
            ns.append(int((wait.end_ns - wait.start_ns)[code == one].sum()))
    return f"Held by {_by_name(names, ns)}."


def _call_name(api_names: Sequence[str], code: int) -> str:
    return without_version(api_names[code]) if code >= 0 else "a wait without a call"


def _holder(case: DeviceCase, waits: Waits, row: int) -> str:
    host = case.classified.trace.host
    call = int(waits.kernel[np.flatnonzero(waits.transfer == row)[0]])
    return _call_name(host.api_names, int(host.calls.name[call]) if call >= 0 else -1)


def _waiting(ctx: Context, waits: list[Waits]) -> str:
    """Which kernels waited, and for how long."""
    names: list[str] = []
    ns: list[int] = []
    for case, wait in zip(ctx.cases, waits, strict=True):
        trace = case.classified.trace
        code = trace.kernels.name[wait.kernel]
        for one in np.unique(code).tolist():
            names.append(short_kernel(trace.names[one]))
            ns.append(int((wait.end_ns - wait.start_ns)[code == one].sum()))
    return f"What waited: {_by_name(names, ns)}."
