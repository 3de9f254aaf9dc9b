"""Whether offloading does what it is for: free device memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.formatting import format_bytes, format_ns, number_of
from ..measure.relief import Stays, relief_curve, stays
from ..result.model import Evidence, Memory, Relief, format_share
from ..result.numbers import OFFLOAD_BYTES
from ..steps.labels import parse_label
from .context import NOTE, WARNING, Context, Cost, Finder, Found, Rows
from .facts import MOST_ROWS, a_step, named, size_text, waits_on_host, xla_flag

LOW_RELIEF = 0.5
"""Share of the offloaded bytes that were ever away at once, below which offloading misses its aim.
"""
SHOWN_RELIEF = 0.1
"""Share of the relief that has to show in the peak of device memory."""
OFFLOAD_OPS = ("copy-start", "dynamic-update-slice-start")
"""HLO ops that XLA makes of offloading; on-device slices are other ops."""
OFFLOAD_FLAG = "xla_gpu_enable_pipelined_host_offloading"


def round_trip(ctx: Context) -> Iterator[Found]:
    """Tensors come back right after they left, so that offloading frees little device memory.

    Looks at the relief of each device: how many of the bytes offloaded in a step were on the host
    at one time. Transfers of sizes that move in one direction only do not count.

    **Cost**: time per step during which one of the transfers that came back, out or in, was
    exposed. Saving the same tensors on the device would save it.

    **What helps**: save the tensors on the device (`save_only_these_names` in place of
    `save_and_offload_only_these_names`) if they fit: it takes about the same memory and no
    transfers. If they do not fit, make them leave earlier: tie each D2H to the output of the next
    layer with `jax.lax.optimization_barrier`, or give XLA's scheduler a reason to free memory with
    a lower `--xla_gpu_memory_limit_slop_factor` (percent, 95 by default; 8 instead of 95 took 16.8
    to 13.2 GiB and 306 to 343 ms a step in one model; depends on the version).

    **Silent** where at least half of the offloaded bytes were away at once, without steps (many
    steps offload many times what is ever away), and where data comes in before it goes out, as
    optimizer state that is streamed through the device does.
    """
    low = {i: relief for i in range(len(ctx.cases)) if (relief := _low_relief(ctx, i)) is not None}
    if not low:
        return
    pairs = {i: _pairs(ctx, i) for i in low}
    masks = [np.zeros(len(case.rows), np.bool_) for case in ctx.cases]
    for i, pair in pairs.items():
        masks[i][pair.d2h] = masks[i][pair.h2d] = True
    moved = Rows(ctx, tuple(masks))
    lost = moved.exposed
    worst = max(low, key=lambda i: lost[i])
    relief = low[worst]
    yield Cost(ctx.cost(lost), WARNING).found(
        title=(
            f"Offloading frees little: {format_bytes(relief.relief_bytes)} of the "
            f"{format_bytes(relief.offloaded_bytes)} offloaded {a_step(ctx)} were ever on the host "
            f"at once ({format_share(relief.relief_share)})"
        ),
        detail=_stay_detail(ctx, worst, pairs[worst]),
        remedy=ctx.remedy("round-trip"),
        evidence=_examples(ctx, worst, pairs[worst]),
        rows=moved,
    )


def offload_missing(ctx: Context) -> Iterator[Found]:
    """The program asks for offloading, yet nothing was offloaded.

    Asking means an HLO op of an offload copy (`copy-start`, `dynamic-update-slice-start`) among
    the NVTX ranges, or `--xla_gpu_enable_pipelined_host_offloading=true` in the captured
    `XLA_FLAGS`. Nothing means no transfer of at least 1 MB in the measured time of any device.

    **Cost**: none can be told.

    **What helps**: name values that the backward pass needs: `checkpoint_name` on the input of a
    layer rather than on the output of a scan, which is silently not offloaded; and offload to
    `pinned_host`. `str(jax.jit(step).trace(...).jaxpr)` shows `<host>` for what is offloaded.

    **Silent** where CUDA graphs were traced as a whole or not at all: they may hold the transfers.
    A note where nothing but the flag asks, since it may be set for all programs alike.
    """
    if not ctx.cases or _graphs_unseen(ctx):
        return
    if ctx.rows(lambda case: case.rows.n_bytes + case.rows.bytes_estimated >= OFFLOAD_BYTES).n:
        return
    ops = _offload_ops(ctx)
    if not ops and xla_flag(ctx, OFFLOAD_FLAG) != "true":
        return
    asked = f"--{OFFLOAD_FLAG}=true is set"
    if ops:
        asked = f"The trace names offload copies ({named(ops)})"
    yield Cost(0, WARNING if ops else NOTE).found(
        title="Offloading is asked for, but nothing was offloaded",
        detail=f"{asked}, and no copy of 1 MB or more went to or came from the host "
        "in the measured time.",
        remedy=ctx.remedy("offload-missing"),
    )


def relief_is_not_memory(ctx: Context) -> Iterator[Found]:
    """Tensors are away at once, and the peak of device memory has not come down by them.

    Relief is the most that offloading can free. Told where the manifest beside the trace says both
    peaks, the program's and that of its control, which keeps the same tensors on the device; the
    title says the difference.

    **Cost**: none in time; what was to be won is missing.

    **What helps**: look at what else is on the device at the peak (the compiler's buffer
    assignment, `memory_analysis()` in JAX): optimizer state that is updated in one piece has its
    old and its new values there together, and tensors in flight count on both sides. Keep on the
    device what frees nothing.

    **Silent** without both peaks, where a tenth of the relief or more shows in the peak, and where
    less than half of what is offloaded was ever away at once (`round-trip` says that). A note
    where the peak is at least no higher.
    """
    missing = {i: lost for i in range(len(ctx.cases)) if (lost := _not_freed(ctx, i)) is not None}
    if not missing:
        return
    worst = max(missing, key=lambda i: missing[i])
    device, more = ctx.devices[worst], missing[worst]
    memory, relief = device.memory or Memory(), device.relief or Relief()
    differs = f"{format_bytes(abs(more))} {'higher' if more > 0 else 'lower'} than"
    same = "that of its control"
    yield Cost(0, WARNING if more > 0 else NOTE).found(
        title=(
            f"Relief is not memory: {format_bytes(relief.relief_bytes)} were on the host at once, "
            f"and the peak is {differs if more else 'equal to'} {same}"
        ),
        detail=(
            f"Peak of device memory: {format_bytes(memory.peak_bytes or 0)}; of "
            f"{memory.control or 'the control'}, which keeps the tensors: "
            f"{format_bytes(memory.control_peak_bytes or 0)}."
        ),
        remedy=ctx.remedy("relief-is-not-memory", on_host=waits_on_host(ctx, worst)),
    )


FINDERS: tuple[Finder, ...] = (round_trip, offload_missing, relief_is_not_memory)


def _not_freed(ctx: Context, i: int) -> int | None:
    """Bytes by which the peak of case i is above its control's where relief should show in it."""
    memory, relief = ctx.devices[i].memory, ctx.devices[i].relief
    if memory is None or relief is None or not ctx.cases[i].steps:
        return None
    if memory.peak_bytes is None or memory.control_peak_bytes is None:
        return None
    if not relief.offloaded_bytes or relief.relief_bytes < LOW_RELIEF * relief.offloaded_bytes:
        return None
    more = memory.peak_bytes - memory.control_peak_bytes
    return more if -more < SHOWN_RELIEF * relief.relief_bytes else None


def _low_relief(ctx: Context, i: int) -> Relief | None:
    """Relief of case i in its median step if that is low; None where it is not."""
    case, relief = ctx.cases[i], ctx.devices[i].relief
    if not case.steps or relief is None or not relief.offloaded_bytes:
        return None
    if relief.relief_bytes >= LOW_RELIEF * relief.offloaded_bytes:
        return None
    step = next((step for step in ctx.devices[i].steps if step.relief == relief), None)
    if step is None:
        return None
    level = relief_curve(case.rows, (step.start_ns, step.end_ns))[1]
    return relief if level.max() > -level.min() else None


def _pairs(ctx: Context, i: int) -> Stays:
    """What left and came back within the measured time of case i."""
    case = ctx.cases[i]
    whole = (int(case.window.starts[0]), int(case.window.ends[-1])) if len(case.window) else (0, 0)
    found = stays(case.rows, whole)
    inside = ctx.measured[i][found.d2h] & ctx.measured[i][found.h2d]
    return Stays(found.ns[inside], found.d2h[inside], found.h2d[inside])


def _stay_detail(ctx: Context, i: int, pairs: Stays) -> str:
    """How long tensors stayed away, and which operations moved them."""
    if not len(pairs.ns):
        return ""
    stay = format_ns(int(np.median(pairs.ns)))
    where = f"On {ctx.devices[i].label} " if len(ctx.devices) > 1 else ""
    whose = "its" if len(pairs.ns) == 1 else "their"
    text = (
        f"{where}{number_of(len(pairs.ns), 'tensor')} stayed {stay} (median) on the host between "
        f"the end of {whose} D2H and the start of {whose} reload."
    )
    first = np.stack([pairs.d2h, pairs.h2d], axis=1)[:MOST_ROWS].reshape(-1)
    ops = [op for row in first.tolist() if (op := ctx.op(i, row)) is not None]
    return f"{text}{f' Operations: {named(ops, 6)}.' if ops else ''}"


def _examples(ctx: Context, i: int, pairs: Stays) -> tuple[Evidence, ...]:
    """The shortest stays, as D2H rows."""
    order = np.lexsort((pairs.d2h, pairs.ns))[:3]
    return tuple(
        ctx.example(
            i,
            int(pairs.d2h[k]),
            f"{size_text(ctx, i, int(pairs.d2h[k]))}, back {format_ns(int(pairs.ns[k]))} later",
        )
        for k in order.tolist()
    )


def _graphs_unseen(ctx: Context) -> bool:
    """Whether CUDA graphs ran of which the trace does not say what they held."""
    launches = ctx.cases[0].classified.trace.facts.launches
    return any(case.lanes.opaque for case in ctx.cases) or bool(
        launches.n_graph_launches_without_row
    )


def _offload_ops(ctx: Context) -> list[str]:
    """HLO ops of offload copies among the NVTX ranges."""
    texts = ctx.cases[0].classified.trace.host.texts
    ops = [parse_label(text).op for text in texts if any(op in text for op in OFFLOAD_OPS)]
    return [op for op in ops if op.startswith(OFFLOAD_OPS)]
