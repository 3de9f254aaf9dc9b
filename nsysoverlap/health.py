"""What to know before trusting a number: one function a question, most serious answers first.

An `error` means the numbers cannot be trusted or say nothing because of how the trace was
captured; a `warning` that some of them may be off; a `note` is worth knowing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .arrays import BoolArray, Int64Array
from .intervals import IntervalSet
from .report import DeviceReport, HealthEntry, format_share
from .rules import Classified, Role, comm_like_compute
from .trace import Activities, short_name
from .units import format_ns
from .window import Window

_SEVERITIES = ("error", "warning", "note")
_LOST = "Error when processing events"
_MAYBE_LOST = "Not all CUDA events"
_RECAPTURE_NODES = "Capture again with `nsys profile --cuda-graph-trace=node`."
_MOSTLY_OPAQUE = 0.5
_SHOWN_NAMES = 3
_LAST_COPY_KIND = 13


@dataclass(frozen=True)
class Case:
    """What the checks look at: the classified trace and what was measured of it."""

    classified: Classified
    devices: Sequence[DeviceReport]
    window: Window

    @cached_property
    def copies_by_device(self) -> Int64Array:
        """Host copies with a MEMCPY row that touch the window; shape (n_devices,)."""
        trace = self.classified.trace
        host = np.isin(self.classified.copy_role, (Role.H2D, Role.D2H))
        touching = host & _touches(trace.copies, self.window)
        on_device = trace.stream_device[trace.copies.stream[touching]]
        return np.bincount(on_device, minlength=len(trace.devices))

    @property
    def has_transfers(self) -> bool:
        """Whether any transfer, by copy or by kernel, reaches into the window."""
        return any(device.both.n or device.both.wall_ns for device in self.devices)

    @property
    def has_rows(self) -> bool:
        """Whether the trace holds any GPU activity."""
        return any(len(table) for table in self.classified.trace.tables.values())


Check = Callable[[Case], Iterator[HealthEntry]]


def _touches(rows: Activities, window: Window) -> BoolArray:
    """Rows that start in the window or reach into it."""
    return (rows.start_ns < window.high) & (
        (rows.end_ns > window.low) | (rows.start_ns >= window.low)
    )


def judge(
    classified: Classified,
    devices: Sequence[DeviceReport],
    window: Window,
    notes: Sequence[HealthEntry] = (),
) -> tuple[HealthEntry, ...]:
    """All health entries of one trace, errors first, each naming the trace.

    `window` is the time that was measured, `notes` are what earlier stages noticed.
    """
    case = Case(classified, devices, window)
    entries = [*notes, *(entry for check in CHECKS for entry in check(case))]
    entries.sort(key=lambda entry: _SEVERITIES.index(entry.severity))
    name = classified.trace.info.file_name
    return tuple(replace(entry, trace=name) for entry in entries)


def _events_lost(case: Case) -> Iterator[HealthEntry]:
    facts = case.classified.trace.facts
    n_errors = sum(_LOST in text for _, text in facts.diagnostics)
    hint = (
        "Capture again; a shorter window (cudaProfilerStart/Stop) or an nsys as new as the "
        "driver helps."
    )
    if n_errors:
        yield HealthEntry(
            "events-lost",
            "error",
            f"nsys could not process events ({n_errors:,} x), so GPU work is missing.",
            hint,
            count=n_errors,
        )
        return
    n_calls = facts.launches.n_launches or 0
    n_thunks = facts.launches.n_thunk_ranges or 0
    if not case.has_rows and (n_calls or n_thunks):
        what = f"{n_calls:,} launches" if n_calls else f"{n_thunks:,} XLA thunk ranges"
        yield HealthEntry(
            "events-lost",
            "error",
            f"The trace holds {what} but not one GPU activity: their events were lost.",
            hint,
            count=n_calls or n_thunks,
        )


def _no_gpu_activity(case: Case) -> Iterator[HealthEntry]:
    if not case.has_rows:
        yield HealthEntry(
            "no-gpu-activity",
            "error",
            "The trace holds no GPU activity.",
            "Capture with `nsys profile --trace=cuda,nvtx` around code that uses the GPU.",
        )


def _opaque_graphs(case: Case) -> Iterator[HealthEntry]:
    trace, window = case.classified.trace, case.window
    inside = _touches(trace.graphs, window) & (trace.graphs.end_ns > trace.graphs.start_ns)
    on_device = trace.stream_device[trace.graphs.stream]
    opaque_ns, alone_ns, busy_ns, unusable = 0, 0, 0, False
    for device, copies in zip(trace.devices, case.copies_by_device.tolist(), strict=True):
        mine = inside & (on_device == device.index)
        if not mine.any():
            continue
        # Graph launches beside recorded work count too; the budget knows only those alone.
        spans = IntervalSet.from_spans(trace.graphs.start_ns[mine], trace.graphs.end_ns[mine])
        opaque_ns += spans.clip(window.low, window.high).length
        budget = case.devices[device.index].time_budget
        busy = budget.total_ns - budget.idle_ns
        alone_ns, busy_ns = alone_ns + budget.opaque_ns, busy_ns + busy
        # One device that cannot be judged spoils the totals, as one rank among several does.
        unusable |= not copies or budget.opaque_ns >= _MOSTLY_OPAQUE * busy
    if not opaque_ns:
        return
    n = int(inside.sum())
    tail = "copies in them cannot be seen" if unusable else "see the bounds of the hidden share"
    yield HealthEntry(
        "graph-opaque",
        "error" if unusable else "warning",
        f"{n:,} CUDA graph launches were traced as a whole ({format_ns(opaque_ns)}, "
        f"{format_share(alone_ns / busy_ns)} of busy GPU time lies in them alone); {tail}.",
        _RECAPTURE_NODES,
        count=n,
    )


def _graphs_without_rows(case: Case) -> Iterator[HealthEntry]:
    missing = case.classified.trace.facts.launches.n_graph_launches_without_row or 0
    if missing:
        total = case.classified.trace.facts.launches.n_graph_launches
        yield HealthEntry(
            "graph-launches-without-rows",
            "warning" if case.copies_by_device.any() else "error",
            f"{missing:,} of {total:,} CUDA graph launches have no GPU row: what ran inside "
            "them is invisible (nsys before 2024.6 records nothing for a graph traced as a whole).",
            _RECAPTURE_NODES,
            count=missing,
        )


def _dropped_rows(case: Case) -> Iterator[HealthEntry]:
    reasons = {
        "no_timestamp": ("rows-without-timestamp", "have no timestamps (start = end = 0)"),
        "negative_duration": ("rows-ending-early", "end before they start"),
        "unreadable": ("rows-unreadable", "hold values that are no usable numbers"),
    }
    for dropped in case.classified.trace.facts.dropped:
        for field, (code, reason) in reasons.items():
            n = getattr(dropped, field)
            if n:
                yield HealthEntry(
                    code,
                    "warning",
                    f"{n:,} rows of {dropped.table} {reason} and were left out.",
                    "Numbers may be too low; capture again if they matter.",
                    count=n,
                )


def _missing_tables(case: Case) -> Iterator[HealthEntry]:
    trace = case.classified.trace
    if case.has_rows and not len(trace.kernels) and not len(trace.graphs):
        yield HealthEntry(
            "no-kernels",
            "warning",
            "The trace holds no kernels, so nothing in it could hide a copy.",
            "Check that the capture window covers the computation.",
        )
    if case.has_rows and trace.facts.launches.n_launches is None:
        yield HealthEntry(
            "no-api-table",
            "note",
            "The export has no CUDA API calls, so lost launches cannot be noticed.",
            "Export all tables: `nsys export --type sqlite` without `--tables`.",
        )


def _no_transfers(case: Case) -> Iterator[HealthEntry]:
    if case.has_rows and not case.has_transfers:
        yield HealthEntry(
            "no-transfers",
            "note",
            "No host transfers were recorded.",
            "If this run should offload, check that it does.",
        )


def _launches_without_rows(case: Case) -> Iterator[HealthEntry]:
    launches = case.classified.trace.facts.launches
    missing, total = launches.n_launches_without_row or 0, launches.n_launches or 0
    if case.has_rows and missing:
        yield HealthEntry(
            "launches-without-rows",
            "note",
            f"{missing:,} of {total:,} kernel launches and async copies "
            f"({format_share(missing / total)}) have no GPU row.",
            "Normal where they were captured into a CUDA graph or lie at the edge of the trace.",
            count=missing,
        )


def _diagnostics(case: Case) -> Iterator[HealthEntry]:
    messages = Counter(
        (level, " ".join(text.split()))
        for level, text in case.classified.trace.facts.diagnostics
        if _LOST not in text
    )
    for (level, text), n in sorted(messages.items(), key=lambda item: (-item[0][0], item[0][1])):
        yield HealthEntry(
            "diagnostic",
            "warning" if level > 2 else "note",
            f"nsys says: {text}",
            _launches_with_rows(case) if _MAYBE_LOST in text else "",
            count=n,
        )


def _launches_with_rows(case: Case) -> str:
    """What to hold against a message that nearly every healthy trace carries."""
    launches = case.classified.trace.facts.launches
    total = launches.n_launches or 0
    if not total:
        return ""
    found = total - (launches.n_launches_without_row or 0)
    return f"{format_share(found / total)} of {total:,} launches and async copies have a GPU row."


def _profiler_overhead(case: Case) -> Iterator[HealthEntry]:
    facts = case.classified.trace.facts
    spans = IntervalSet.from_spans(facts.overhead_start_ns, facts.overhead_end_ns)
    windows = [device.window_ns for device in case.devices]
    measured = IntervalSet.from_spans([w[0] for w in windows], [w[1] for w in windows])
    inside = spans.intersect(measured).length
    if inside:
        yield HealthEntry(
            "profiler-overhead",
            "note",
            f"The profiler itself kept host threads busy for {format_ns(inside)} inside the "
            "measured window.",
            "Launches may be late there; step times without nsys are shorter.",
        )


def _unknown_copies(case: Case) -> Iterator[HealthEntry]:
    kinds = case.classified.trace.copies.copy_kind
    unknown = (kinds == 0) | (kinds > _LAST_COPY_KIND)
    if unknown.any():
        shown = ", ".join(str(kind) for kind in np.unique(kinds[unknown]))
        n = int(unknown.sum())
        yield HealthEntry(
            "unknown-copy-kind",
            "warning",
            f"{n:,} copies are of an unknown kind ({shown}) and count as other work.",
            "Update nsysoverlap if this nsys is newer than it.",
            count=n,
        )


def _suspicious_names(case: Case) -> Iterator[HealthEntry]:
    found = comm_like_compute(case.classified)
    if found:
        names = ", ".join(short_name(name) for name, _, _ in found[:_SHOWN_NAMES])
        yield HealthEntry(
            "comm-like-compute",
            "warning",
            f"{len(found):,} kernel names sound like communication but count as compute "
            f"({format_ns(sum(total for _, total, _ in found))}): {names}.",
            "See `nsysoverlap rules --explain NAME`; a rule in `--config FILE` can say otherwise.",
            count=len(found),
        )


def _unnamed_kernels(case: Case) -> Iterator[HealthEntry]:
    trace = case.classified.trace
    n = int((trace.kernels.name == trace.names.index("")).sum()) if "" in trace.names else 0
    if n:
        yield HealthEntry(
            "kernels-without-names",
            "warning",
            f"{n:,} kernels have no name in the export and count as compute.",
            "Collectives among them would be counted wrongly; export the report again.",
            count=n,
        )


def _unproven_devices(case: Case) -> Iterator[HealthEntry]:
    unproven = [device for device in case.classified.trace.devices if not device.proven]
    if len(unproven) > 1:
        yield HealthEntry(
            "gpu-not-proven",
            "note",
            f"{len(unproven)} processes and ordinals cannot be matched to physical GPUs, so each "
            "counts as a device of its own.",
            "If they share a GPU, work of one may hide transfers of another unseen.",
            count=len(unproven),
        )


def _derived(case: Case) -> Iterator[HealthEntry]:
    if case.classified.trace.info.derived_by_third_party:
        yield HealthEntry(
            "derived-trace",
            "note",
            "The export was cut or rewritten by another tool after nsys wrote it.",
        )


CHECKS: tuple[Check, ...] = (
    _events_lost,
    _no_gpu_activity,
    _opaque_graphs,
    _graphs_without_rows,
    _dropped_rows,
    _missing_tables,
    _unknown_copies,
    _suspicious_names,
    _unnamed_kernels,
    _no_transfers,
    _launches_without_rows,
    _profiler_overhead,
    _unproven_devices,
    _derived,
    _diagnostics,
)
