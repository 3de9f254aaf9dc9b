"""Findings about what queues on the stream of a transfer: compute itself, or what it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_at, format_ms, format_ns, short_kernel
from ..core.intervals import IntervalSet, merge_groups
from ..measure.case import DeviceCase
from ..measure.waiting import in_graph
from ..roles.rules import Role
from ..trace.host import NEVER
from .context import Context, Finder, Found, Rows
from .facts import copies, only_infers, size_text, waits_on_host
from .queues import SOON_NS, Queue, latest_record, queue_of, rows_sent_ns, sent_ns, waits_between


def same_stream_as_compute(ctx: Context) -> Iterator[Found]:
    """Copies and compute kernels are issued on one stream, so they run one after the other.

    Nodes of CUDA graphs are left out; they all carry the stream of their launch.

    **Cost**: for each such stream the exposed time per step of its copies, less what one direction
    of them would be exposed for in any case: beyond the time that the stream's kernels run with no
    copy of the device beside them. With streams of their own compute and both directions run at
    once.

    **What helps**: a stream for the copies alone (`cudaMemcpyAsync` on it, `cudaStreamWaitEvent`
    where data is handed over). Copies that JAX issues inside `jit` have streams of their own.

    **Silent** for less than 0.1 % of the time.
    """
    lost, weights, n = [], [], 0
    for i, (case, mask, idle) in enumerate(zip(ctx.cases, ctx.measured, ctx.idle, strict=True)):
        rows, kernels = _shared(case, mask)
        total = int(_saved(case, rows, kernels, idle).sum())
        weight = np.zeros(len(case.rows), np.int64)
        weight[rows] = ctx.exposed_ns[i][rows]
        n += len(rows)
        # Copies of two streams may be exposed at the same time.
        lost.append(min(total, ctx.exposed(i, weight > 0).length))
        weights.append(weight)
    cost = ctx.worth(lost)
    if cost is None:
        return
    blamed = ctx.weighted(weights)
    yield cost.found(
        title=f"{copies(n)} issued on a stream that also computes",
        detail="Work on one stream runs in order: these copies never run beside the kernels of "
        f"their own stream, {_stream_names(blamed)}.",
        remedy=ctx.remedy(
            "same-stream-as-compute", infers=any(only_infers(case) for case in ctx.cases)
        ),
        evidence=blamed.examples(
            lambda i, row, ns: (
                f"{size_text(ctx, i, row)} on stream {_stream_id(ctx.cases[i], row)}, "
                f"{format_ns(ns)} exposed"
            )
        ),
        rows=blamed,
    )


def head_of_line(ctx: Context) -> Iterator[Found]:
    """Work that compute waits for is queued behind a long transfer on the same stream.

    Compute does not need the transfer itself, but something launched after it on its stream, such
    as the on-device slice of a weight or a reload. The wait is proven by events where the trace
    joins waits to records; the kernel starts within 20 µs of that work's end, and nothing told it
    to wait for the transfer alone. Where the export cannot tell, the queued work must be no
    transfer.

    **Cost**: exposed time per step of the transfer, from when the work behind it and the kernel
    had been launched.

    **What helps**: let the transfer queue behind that work. In JAX pass the offloaded tensor and
    the weights that the layer still needs through one `jax.lax.optimization_barrier` before
    `checkpoint_name` (XLA issues asynchronous copies on four streams in turn; this depends on the
    version, and `xla_gpu_executable_num_compute_streams` does not change it). Elsewhere give long
    transfers streams of their own.

    **Silent** for less than 0.1 % of the time, and for nodes of CUDA graphs.
    """
    blocks = [blocks_of(case) for case in ctx.cases]
    cost = ctx.worth(
        [b.union.intersect(idle).length for b, idle in zip(blocks, ctx.idle, strict=True)]
    )
    if cost is None:
        return
    blamed = ctx.weighted(
        [
            block.by_row(len(case.rows), idle)
            for block, case, idle in zip(blocks, ctx.cases, ctx.idle, strict=True)
        ]
    )
    totals = [int(weight.sum()) for weight in blamed.weights or ()]
    yield cost.found(
        title=f"Work that compute waits for is queued behind {blamed.n:,} long "
        f"{'transfer' if blamed.n == 1 else 'transfers'}",
        detail=f"{format_ns(sum(totals) // blamed.n)} each on average: {_behind(ctx, blocks)} "
        "stood behind a transfer on its stream, and the next kernel waited for it.",
        remedy=ctx.remedy("head-of-line", on_host=waits_on_host(ctx, totals.index(max(totals)))),
        evidence=blamed.examples(lambda i, row, _: _block_text(ctx, blocks[i], i, row)),
        rows=blamed,
    )


FINDERS: tuple[Finder, ...] = (same_stream_as_compute, head_of_line)


def _shared(case: DeviceCase, measured: BoolArray) -> tuple[Int64Array, Int64Array]:
    """Transfers and compute kernels of the streams that have both, as indices of their rows."""
    kernels, rows = case.classified.trace.kernels, case.rows
    compute = case.classified.kernel_rows(case.device.index, Role.COMPUTE)
    compute = compute[~kernels.from_graph[compute]]
    copied = np.flatnonzero(measured & ~in_graph(case.classified, rows))
    n_streams = len(case.classified.trace.streams)
    both = np.bincount(rows.stream[copied], minlength=n_streams) > 0
    both &= np.bincount(kernels.stream[compute], minlength=n_streams) > 0
    return copied[both[rows.stream[copied]]], compute[both[kernels.stream[compute]]]


def _saved(
    case: DeviceCase, copied: Int64Array, compute: Int64Array, idle: IntervalSet
) -> Int64Array:
    """Of the exposed time of each stream's copies what goes if both directions and compute run at
    once: all but what one direction is exposed for beyond the kernels with no copy beside them.

    Beside a stream that holds little of the compute only its own kernels count: it is not what
    keeps the directions apart. Shape (n_streams,).
    """
    kernels, role = case.classified.trace.kernels, case.rows.role[copied]
    stream = kernels.stream[compute].astype(np.int64)
    spans = merge_groups(stream, kernels.start_ns[compute], kernels.end_ns[compute])
    free = case.window.subtract(case.rows.union)
    alone = _by_stream(case, spans[0], free.covered(*spans[1:]))
    held = _by_stream(case, spans[0], spans[2] - spans[1])
    exposed = _exposed(case, copied, idle)
    longer = np.maximum(
        *(_exposed(case, copied[role == one], idle) for one in (Role.H2D, Role.D2H))
    )
    little = 2 * held < case.lanes.compute.length
    both = exposed - np.maximum(longer - alone, 0)
    saved: Int64Array = np.where(little, np.minimum(exposed, alone), both)
    return saved


def _exposed(case: DeviceCase, at: Int64Array, idle: IntervalSet) -> Int64Array:
    """For each stream of the trace how long its transfers `at` were exposed."""
    rows = case.rows
    stream = rows.stream[at].astype(np.int64)
    spans = merge_groups(stream, rows.start_ns[at], rows.end_ns[at])
    return _by_stream(case, spans[0], idle.covered(*spans[1:]))


def _by_stream(case: DeviceCase, stream: Int64Array, ns: Int64Array) -> Int64Array:
    total = np.zeros(len(case.classified.trace.streams), np.int64)
    np.add.at(total, stream, ns)
    return total


@dataclass(frozen=True)
class Blocks:
    """Transfers in front of work that compute waited for; columns of shape (n,).

    `transfer` indexes the rows of the case, `queued` is the work behind it (index into `queue`),
    `kernel` the kernel that waited from `start_ns` on, until the transfer's end `end_ns` at least.
    """

    queue: Queue
    transfer: Int64Array
    queued: Int64Array
    kernel: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array

    @property
    def union(self) -> IntervalSet:
        """Instants at which a transfer held up other work."""
        return IntervalSet.from_spans(self.start_ns, self.end_ns)

    def by_row(self, n_rows: int, where: IntervalSet) -> Int64Array:
        """Time inside `where` for which each row held up other work; shape (n_rows,)."""
        result = np.zeros(n_rows, np.int64)
        order = np.argsort(self.start_ns, kind="stable")
        np.add.at(
            result, self.transfer[order], where.covered(self.start_ns[order], self.end_ns[order])
        )
        return result


def blocks_of(case: DeviceCase) -> Blocks:
    """Transfers behind which work was queued that the next compute kernel waited for."""
    # On a stream, in order of launch: transfer T, then Q, and a kernel K elsewhere waits for Q. T
    # holds up K although K does not need it. `queued` is the Q of each piece: the last work of T's
    # stream that was launched before the event which K's stream was told to wait for was recorded.
    # T is to blame if Q is behind it, began only after it, and K started right after Q; and if no
    # wait asked for an event between T and what follows it (`span`), for then K needed T itself.
    # Without rows of waits in the export, Q is the last work that ended before K started.
    trace, rows, pieces = case.classified.trace, case.rows, case.pieces
    queue = queue_of(case)
    place = queue.places(len(rows))
    # Only a piece at the transfer's end can have made compute wait for what came after.
    at = np.flatnonzero(
        (pieces.end_ns == rows.end_ns[pieces.transfer])
        & (pieces.next_kernel >= 0)
        & (place[pieces.transfer] >= 0)
    )
    transfer, kernel = pieces.transfer[at], pieces.next_kernel[at]
    own = rows.stream[transfer].astype(np.int64)
    waiting = trace.kernels.stream[kernel].astype(np.int64)
    sent, launched = sent_ns(case, queue), rows_sent_ns(case, trace.kernels, kernel)
    first = np.minimum(place[transfer] + 1, len(queue) - 1)
    if trace.host.waits is None:
        # The last work to be done before the kernel starts, unless the kernel stands behind it.
        queued = queue.last_before(queue.end_ns, own, trace.kernels.start_ns[kernel] + 1)
        waits = (queue.transfer[queued] < 0) & (waiting != own)
        waits &= (sent[queued] > NEVER) & (sent[queued] < launched)
    else:
        told = latest_record(case, waiting, own, launched)
        queued = queue.last_before(sent, own, told)
        span = sent[place[transfer]], sent[first]
        waits = ~waits_between(case, waiting, own, span, launched) & (np.minimum(*span) > NEVER)
    start = np.maximum(pieces.start_ns[at], launched)
    gap = trace.kernels.start_ns[kernel] - queue.end_ns[queued]
    waits &= (queued > place[transfer]) & (gap >= 0) & (gap <= SOON_NS)
    waits &= queue.start_ns[queued] >= rows.end_ns[transfer]
    waits &= ~trace.kernels.from_graph[kernel] & (start < pieces.end_ns[at])
    return Blocks(
        queue=queue,
        transfer=transfer[waits],
        queued=queued[waits],
        kernel=kernel[waits],
        start_ns=start[waits],
        end_ns=pieces.end_ns[at][waits],
    )


def _behind(ctx: Context, blocks: list[Blocks]) -> str:
    """What was queued behind the transfers, most frequent first: `an on-device copy`, ..."""
    names: dict[str, int] = {}
    for case, block in zip(ctx.cases, blocks, strict=True):
        kinds, counts = np.unique(_kind(case, block.queue, block.queued), return_counts=True)
        for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            names[_KINDS[kind]] = names.get(_KINDS[kind], 0) + count
    return " or ".join(sorted(names, key=lambda name: (-names[name], name)))


_KINDS = ("a kernel", "an on-device copy", "a memset", "an H2D copy", "a D2H copy")


def _kind(case: DeviceCase, queue: Queue, at: Int64Array) -> Int64Array:
    """Index into `_KINDS` of some rows of the queue; graphs have no place in a queue."""
    transfer = queue.transfer[at]
    role = case.rows.role[np.maximum(transfer, 0)]
    moved = np.where(role == Role.H2D, 3, 4)
    result: Int64Array = np.where(transfer >= 0, moved, np.minimum(queue.table[at], 2))
    return result


def _block_text(ctx: Context, block: Blocks, i: int, row: int) -> str:
    case = ctx.cases[i]
    trace, queue = case.classified.trace, block.queue
    at = int(np.flatnonzero(block.transfer == row)[0])
    queued, kernel = int(block.queued[at]), int(block.kernel[at])
    kind = _KINDS[int(_kind(case, queue, block.queued[at : at + 1])[0])]
    when = format_at(int(queue.start_ns[queued]), int(queue.end_ns[queued]))
    name = short_kernel(trace.names[trace.kernels.name[kernel]])
    return (
        f"{size_text(ctx, i, row)} on stream {_stream_id(case, row)}, behind it "
        f"{kind} ({when}) that {name} waits for; "
        f"compute stands still from {format_ms(int(block.start_ns[at]))} ms"
    )


def _stream_id(case: DeviceCase, row: int) -> int:
    return case.classified.trace.streams[int(case.rows.stream[row])].stream_id


def _stream_names(rows: Rows) -> str:
    """The streams of some rows: `stream 7` or `streams 7, 13`."""
    ids = sorted(
        {
            case.classified.trace.streams[stream].stream_id
            for case, mask in zip(rows.context.cases, rows.masks, strict=True)
            for stream in np.unique(case.rows.stream[mask]).tolist()
        }
    )
    return f"stream{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
