"""Findings about CUDA graphs: what they run in turn, and what they keep from being seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import format_ns
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..measure.waiting import in_graph
from ..result.model import Evidence
from ..result.numbers import format_share
from ..roles.rules import Role
from ..trace.contents import Activities
from .context import N_EXAMPLES, Context, Finder, Found, Rows
from .facts import copies, size_text

HIDDEN_AT_MOST = 20
"""A launch runs its copies in turn if less than one part in so many of them is hidden."""


def graph_serialises(ctx: Context) -> Iterator[Found]:
    """A CUDA graph (in XLA: a command buffer) runs its copies and kernels one after the other.

    Told from time alone, since all nodes of a graph carry the stream of its launch: of the copies
    of one launch less than 5 % ran beside compute, although the same launch has kernels.

    **Cost**: exposed time per step of these copies, but no more than the kernels of the same
    launches ran with no copy beside them: more they could not have hidden.

    **What helps**: for XLA `--xla_gpu_enable_command_buffer=` in `XLA_FLAGS`; the empty list turns
    command buffers off (what they take in by default depends on the version). Elsewhere fork the
    stream while capturing (`cudaEventRecord`, `cudaStreamWaitEvent`), so that the copies become a
    branch of the graph beside the kernels.

    **Silent** for less than 0.1 % of the time, and where the graph cannot be looked into
    (`graph-opaque`).
    """
    serial = [_serial(case, mask) for case, mask in zip(ctx.cases, ctx.measured, strict=True)]
    inside = Rows(ctx, tuple(rows for rows, _ in serial))
    exposed = inside.exposed
    alone = [
        kernels.subtract(case.rows.union).intersect(case.window).length
        for case, (_, kernels) in zip(ctx.cases, serial, strict=True)
    ]
    cost = ctx.worth([min(pair) for pair in zip(exposed, alone, strict=True)])
    if cost is None:
        return
    yield cost.found(
        title="CUDA graphs run their copies and kernels one after the other",
        detail=f"{copies(inside.n)} inside graphs: {format_ns(sum(exposed))} exposed, while "
        f"kernels of the same launches ran for {format_ns(sum(alone))} with no copy beside them.",
        remedy=ctx.remedy("graph-serialises"),
        evidence=inside.examples(
            lambda i, row, ns: f"{size_text(ctx, i, row)} inside a graph, {format_ns(ns)} exposed"
        ),
        rows=inside,
    )


def graph_opaque(ctx: Context) -> Iterator[Found]:
    """CUDA graphs were recorded as a whole, so what ran inside cannot be known.

    nsys does so by default: a launch is one row, without kernels or copies. Copies inside are not
    counted at all, and whether work inside hides copies outside is unknown, so the numbers of the
    report are bounds.

    **Cost**: none, for nothing is known.

    **What helps**: capture with `--cuda-graph-trace=node` (adds some overhead), or for XLA turn
    command buffers off for the capture: `--xla_gpu_enable_command_buffer=` in `XLA_FLAGS`.

    **Silent** where such graphs take less than 0.1 % of the time; a note below 1 %.
    """
    opaque = [case.lanes.opaque.intersect(case.window).length for case in ctx.cases]
    cost = ctx.worth(opaque)
    if cost is None:
        return
    graphs = [_opaque_rows(case) for case in ctx.cases]
    n = sum(len(rows) for rows in graphs)
    window = sum(case.window.length for case in ctx.cases)
    yield replace(cost, ns=0).found(
        title=f"{n:,} CUDA graph {'launch' if n == 1 else 'launches'} recorded as a whole: nothing "
        "inside can be seen",
        detail=f"They ran for {format_ns(sum(opaque))}, "
        f"{format_share(sum(opaque) / window)} of the measured time. Copies inside are not "
        "counted, and work inside may hide copies outside.",
        remedy=ctx.remedy("graph-opaque"),
        evidence=_longest_graphs(ctx, graphs),
    )


FINDERS: tuple[Finder, ...] = (graph_serialises, graph_opaque)


def _serial(case: DeviceCase, measured: BoolArray) -> tuple[BoolArray, IntervalSet]:
    """Rows of the graph launches that run copies and kernels in turn, and those launches' compute.

    A launch is a (process, correlation id).
    """
    trace, rows = case.classified.trace, case.rows
    mine = measured & in_graph(case.classified, rows)
    nodes = case.classified.kernel_rows(case.device.index, Role.COMPUTE)
    nodes = nodes[trace.kernels.from_graph[nodes]]
    if not mine.any() or not len(nodes):
        return np.zeros(len(rows), np.bool_), IntervalSet.empty()
    of_rows = np.zeros(len(rows), np.int64)
    for table, mask in ((trace.copies, ~rows.by_kernel), (trace.kernels, rows.by_kernel)):
        of_rows[mask] = _launch(case, table, rows.row[mask])
    keys, launch = np.unique(
        np.concatenate((of_rows[mine], _launch(case, trace.kernels, nodes))), return_inverse=True
    )
    of_copies, of_kernels = np.split(launch, [int(mine.sum())])
    start, end = rows.start_ns[mine], rows.end_ns[mine]
    busy, hidden = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    np.add.at(busy, of_copies, end - start)
    np.add.at(hidden, of_copies, case.lanes.compute.covered(start, end))
    computes = np.zeros(len(keys), np.bool_)
    computes[of_kernels] = True
    serial = computes & (hidden * HIDDEN_AT_MOST < busy)
    picked = np.zeros(len(rows), np.bool_)
    picked[mine] = serial[of_copies]
    own = nodes[(serial & (busy > 0))[of_kernels]]
    return picked, IntervalSet.from_spans(trace.kernels.start_ns[own], trace.kernels.end_ns[own])


def _launch(case: DeviceCase, table: Activities, rows: Int64Array) -> Int64Array:
    """A number for the (process, correlation id) of each of some rows of a table."""
    pids = np.array([stream.global_pid for stream in case.classified.trace.streams], np.int64)
    _, process = np.unique(pids, return_inverse=True)
    return (process[table.stream[rows]] << 40) + table.correlation_id[rows]


def _opaque_rows(case: DeviceCase) -> Int64Array:
    """Graph launches of a device that ran in the measured time."""
    graphs, trace = case.classified.trace.graphs, case.classified.trace
    here = trace.stream_device[graphs.stream] == case.device.index
    return np.flatnonzero(here & (case.window.covered(graphs.start_ns, graphs.end_ns) > 0))


def _longest_graphs(ctx: Context, graphs: Sequence[Int64Array]) -> tuple[Evidence, ...]:
    found: list[tuple[int, int, int, str]] = []
    for i, (case, rows) in enumerate(zip(ctx.cases, graphs, strict=True)):
        table = case.classified.trace.graphs
        length = table.end_ns[rows] - table.start_ns[rows]
        for row in rows[np.argsort(-length, kind="stable")[:N_EXAMPLES]].tolist():
            start, end = int(table.start_ns[row]), int(table.end_ns[row])
            found.append((i, start, end, f"a graph launch of {format_ns(end - start)}"))
    return ctx.longest(found)
