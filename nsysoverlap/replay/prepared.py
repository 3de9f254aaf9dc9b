"""A trace made ready for what-if questions: its replay, and whether that can be trusted.

The unmodified replay is held against the trace, with the host model and the constant latencies
that every scenario uses. A low error is necessary for a prediction and no evidence for it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.formatting import number_of
from ..core.intervals import IntervalSet
from ..roles.rules import Classified, Role
from ..steps.launches import Launches
from ..steps.projection import StepWindow
from ..trace.schema import ASYNC_COPY_API, KERNEL_LAUNCH_API
from .calibrate import Calibrated, calibrate
from .engine import CycleError, Replayed
from .graph import build_graph
from .outcome import Borders, Outcome, Timed, find_borders, outcome
from .packing import packed_by
from .replayed import UNKNOWN, WORK, Operations, Segment, operations, segment

MOST_ERROR = 0.02
"""With a larger error of the unmodified replay nothing is predicted."""
MATRIX_KERNEL = re.compile(
    r"gemm|nvjet|cutlass|xmma|matmul|(^|_)dot|conv|sdpa|attention|flash|fmha|mma_", re.IGNORECASE
)
"""Names of kernels that arithmetic bounds; memory bounds all others."""
_MOST_UNKNOWN = 0.01
"""Share of operations without launch, launches without operation, or waits without record."""


@dataclass(frozen=True)
class Model:
    """The replayed steps of a trace; `now` is what the trace shows of them.

    `withheld` says why nothing may be predicted from it, None where it may.
    """

    calibrated: Calibrated
    segment: Segment
    borders: tuple[Borders, ...]
    now: Outcome
    replayed: Outcome | None
    withheld: str | None
    is_matrix_kernel: BoolArray
    """Which operations are matrix products and attention, bound by arithmetic; shape (n,)."""
    packs: Int64Array
    """For each operation the D2H that it only lays a tensor out for, -1 for none; shape (n,)."""
    held_ns: Int64Array
    """How long the call of an asynchronous copy took, 0 for other operations; shape (n,)."""

    @property
    def operations(self) -> Operations:
        """What is replayed."""
        return self.calibrated.operations

    @property
    def error(self) -> float | None:
        """Signed error of the unmodified replay, a share of the step; None without one."""
        if self.replayed is None:
            return None
        return self.replayed.step_ns / self.now.step_ns - 1

    @property
    def worst_step_error(self) -> float | None:
        """The largest error of a single step of any device, signed."""
        if self.replayed is None:
            return None
        pairs = zip(self.replayed.devices, self.now.devices, strict=True)
        errors = [
            replayed / traced - 1
            for one, other in pairs
            for replayed, traced in zip(one.steps_ns, other.steps_ns, strict=True)
        ]
        return max(errors, key=abs)

    def measure(self, run: Replayed, kept: BoolArray | None = None) -> Outcome:
        """What a replay comes to; `kept` is a mask of shape (n_operations,)."""
        start, end = times(run, len(self.operations))
        return outcome(Timed(self.operations, start, end, kept), self.borders)

    def idle(
        self, device: int, start_ns: Int64Array, end_ns: Int64Array, edges: Sequence[int]
    ) -> IntervalSet:
        """Instants within steps at which no operation (n,) hides a transfer of a device."""
        ops = self.operations
        work = (ops.device == device) & np.isin(ops.kind, WORK)
        window = IntervalSet.from_spans([edges[0]], [edges[-1]])
        return window.subtract(IntervalSet.from_spans(start_ns[work], end_ns[work]))


def times(run: Replayed, n: int) -> tuple[Int64Array, Int64Array]:
    """Start and end of the first n nodes, which are the operations; both of shape (n,)."""
    return np.array(run.start_ns[:n], np.int64), np.array(run.end_ns[:n], np.int64)


def build_model(
    classified: Classified,
    launches: Launches,
    windows: Sequence[StepWindow],
    most_steps: int | None = None,
    most_operations: int | None = None,
) -> Model | str:
    """The model of a trace's steady steps; why there is none, where there is not.

    `windows` are the steps that the report measures. At most `most_steps` steps are replayed, and
    none where these have more than `most_operations`.
    """
    chosen = segment(classified, launches, windows, most_steps)
    if chosen is None:
        n = len({window.index for window in windows})
        return f"{number_of(n, 'step')} cannot be replayed; it takes two that follow each other"
    ops = operations(classified, launches, chosen)
    if not len(ops):
        return "none of the GPU work of its steps was recorded in single operations"
    if most_operations is not None and len(ops) > most_operations:
        return f"{len(ops):,} operations are more than a report replays: nsysoverlap whatif does"
    graph = build_graph(classified.trace, launches, ops)
    calibrated = calibrate(graph)
    borders = find_borders(ops, chosen)
    now = outcome(Timed(ops, ops.start_ns, ops.end_ns), borders, traced=True)
    withheld = _missing(classified, launches, chosen, ops)
    replayed = None
    try:
        replayed = outcome(Timed(ops, *times(calibrated.run(), len(ops))), borders)
    except CycleError:
        withheld = withheld or "the order of work in the trace contradicts itself"
    matrix = _matrix_kernels(classified, ops)
    packs = packed_by(classified.trace, ops)
    held = _held_ns(classified, ops)
    model = Model(calibrated, chosen, borders, now, replayed, withheld, matrix, packs, held)
    error = model.error
    if withheld is None and error is not None and abs(error) > MOST_ERROR:
        reason = (
            f"the unmodified replay is off by {100 * error:+.1f} %, more than "
            f"{100 * MOST_ERROR:.0f} %"
        )
        return dataclasses.replace(model, withheld=reason)
    return model


def _missing(
    classified: Classified, launches: Launches, chosen: Segment, ops: Operations
) -> str | None:
    """What a replay needs and the trace lacks."""
    trace = classified.trace
    low = min(steps[0].start_ns for steps in chosen.windows.values())
    high = max(steps[-1].end_ns for steps in chosen.windows.values())
    if _inside(trace.graphs.start_ns, trace.graphs.end_ns, low, high):
        return "CUDA graphs were recorded as a whole, so the work inside is not known"
    unified = np.isin(classified.copy_role, (Role.UNIFIED_H2D, Role.UNIFIED_D2H))
    if _inside(trace.copies.start_ns[unified], trace.copies.end_ns[unified], low, high):
        return "unified-memory migrations are not modelled"
    n_unknown = int(np.count_nonzero(ops.call == UNKNOWN))
    if n_unknown > _MOST_UNKNOWN * len(ops):
        return f"{n_unknown:,} of {len(ops):,} operations have no launch in the trace"
    if trace.facts.launches.n_launches_without_row:
        lost, n = _lost(classified, launches, ops)
        if lost > _MOST_UNKNOWN * n:
            return f"{lost:,} of {n:,} launches have no operation in the trace"
    waits = trace.host.waits
    if waits is None:
        return "the export does not say which event a stream waits for"
    if waits.n_unresolved > _MOST_UNKNOWN * (len(waits) + waits.n_unresolved):
        return f"the records of {waits.n_unresolved:,} events that streams wait for are missing"
    return None


def _lost(classified: Classified, launches: Launches, ops: Operations) -> tuple[int, int]:
    """Launches of the replayed steps without an operation, and how many there are."""
    trace, calls = classified.trace, classified.trace.host.calls
    own = ops.issued_ns[~ops.fixed & (ops.call != UNKNOWN)]
    if not len(own):
        return 0, 0
    launch = [
        bool(KERNEL_LAUNCH_API.match(name) or ASYNC_COPY_API.match(name))
        for name in trace.host.api_names
    ]
    mine = (calls.start_ns >= own.min()) & (calls.start_ns <= own.max())
    asked = np.flatnonzero(mine & np.array(launch, np.bool_)[calls.name])
    used = np.concatenate([launches.of(table) for table in trace.tables.values()])
    return len(np.setdiff1d(asked, used)), len(asked)


def _matrix_kernels(classified: Classified, ops: Operations) -> BoolArray:
    named = [bool(MATRIX_KERNEL.search(name)) for name in classified.trace.names] + [False]
    result: BoolArray = np.array(named, np.bool_)[ops.name]
    return result


def _held_ns(classified: Classified, ops: Operations) -> Int64Array:
    host, known = classified.trace.host, ops.call >= 0
    copies = np.array([bool(ASYNC_COPY_API.match(name)) for name in host.api_names], np.bool_)
    held, call = np.zeros(len(ops), np.int64), ops.call[known]
    length = host.calls.end_ns[call] - host.calls.start_ns[call]
    held[known] = np.where(copies[host.calls.name[call]], length, 0)
    return held


def _inside(start: Int64Array, end: Int64Array, low: int, high: int) -> bool:
    return bool(np.any((start < high) & (end > low)))
