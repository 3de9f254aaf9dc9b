"""How the trace was captured: what was lost, hidden, or left out by the profiler."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ..core.formatting import format_ns, number_of
from ..core.intervals import IntervalSet
from ..result.model import HealthEntry, format_share
from ..trace.capture_facts import FAILED, speaks_of_loss
from .losses import any_lost
from .subject import Case, touches

_MAYBE_LOST = "Not all CUDA events"
_NOT_STARTED = re.compile("No CUDA events collected|CUDA profiling might have not been started")
_BESIDE = re.compile(
    "OpenGL|Vulkan|OS runtime libraries|MMAP events|Scheduling information is absent"
    "|CPU .*(?:sampl|backtrace)",
    re.IGNORECASE,
)
"""Of what nsys can record besides, none of which is measured here."""
_RECAPTURE_NODES = "Capture again with `nsys profile --cuda-graph-trace=node`."
_MOSTLY_OPAQUE = 0.5


def events_lost(case: Case) -> Iterator[HealthEntry]:
    """Work that was launched and not recorded."""
    facts = case.classified.trace.facts
    said = [text for level, text in facts.diagnostics if speaks_of_loss(level, text)]
    hint = (
        "Capture again; a shorter window (cudaProfilerStart/Stop) or an nsys as new as the "
        "driver helps."
    )
    if said:
        failed = sum(bool(FAILED.search(text)) for text in said)
        what = f"could not process events ({failed:,} x)"
        if not failed:
            what = f"says: {' '.join(said[0].split()).rstrip('.')}"
        yield HealthEntry(
            "events-lost",
            "error",
            f"nsys {what}, so GPU work is missing.",
            hint,
            count=len(said),
        )
        return
    n_calls = facts.launches.n_launches or 0
    n_thunks = facts.launches.n_thunk_ranges or 0
    if not case.has_rows and (n_calls or n_thunks):
        launches = number_of(n_calls, "launch", "launches")
        what = launches if n_calls else number_of(n_thunks, "XLA thunk range")
        yield HealthEntry(
            "events-lost",
            "error",
            f"The trace holds {what} but not one GPU activity: events were lost.",
            hint,
            count=n_calls or n_thunks,
        )


def no_gpu_activity(case: Case) -> Iterator[HealthEntry]:
    """Nothing ran on a GPU."""
    if not case.has_rows:
        yield HealthEntry(
            "no-gpu-activity",
            "error",
            "The trace holds no GPU activity.",
            "Capture with `nsys profile --trace=cuda,nvtx` around code that uses the GPU.",
        )


def opaque_graphs(case: Case) -> Iterator[HealthEntry]:
    """CUDA graphs traced as a whole, of which the inside cannot be seen."""
    trace, window = case.classified.trace, case.window
    inside = touches(trace.graphs, window) & (trace.graphs.end_ns > trace.graphs.start_ns)
    on_device = trace.stream_device[trace.graphs.stream]
    n, opaque_ns, alone_ns, busy_ns, unusable = 0, 0, 0, 0, False
    for device, copies in zip(trace.devices, case.copies_by_device.tolist(), strict=True):
        mine = inside & (on_device == device.index)
        budget = case.devices[device.index].time_budget
        busy = budget.total_ns - budget.idle_ns
        # Where nothing ran in the steps of a device, its launches lie beside them.
        if not (busy and mine.any()):
            continue
        n += int(mine.sum())
        # Graph launches beside recorded work count too; the budget knows only those alone.
        spans = IntervalSet.from_spans(trace.graphs.start_ns[mine], trace.graphs.end_ns[mine])
        opaque_ns += spans.clip(window.low, window.high).length
        alone_ns, busy_ns = alone_ns + budget.opaque_ns, busy_ns + busy
        # One device that cannot be judged spoils the totals, as one rank among several does.
        unusable |= not copies or budget.opaque_ns >= _MOSTLY_OPAQUE * busy
    if not opaque_ns:
        return
    them = "it" if n == 1 else "them"
    tail = f"copies in {them} cannot be seen" if unusable else "see the bounds of the hidden share"
    yield HealthEntry(
        "graph-opaque",
        "error" if unusable else "warning",
        f"{number_of(n, 'CUDA graph launch was', 'CUDA graph launches were')} traced as a whole "
        f"({format_ns(opaque_ns)}, {format_share(alone_ns / busy_ns)} of busy GPU time lies in "
        f"{them} alone); {tail}.",
        _RECAPTURE_NODES,
        count=n,
    )


def graphs_without_rows(case: Case) -> Iterator[HealthEntry]:
    """CUDA graph launches that left no row at all."""
    missing = case.classified.trace.facts.launches.n_graph_launches_without_row or 0
    if missing:
        n_all = case.classified.trace.facts.launches.n_graph_launches or 0
        total = number_of(n_all, "CUDA graph launch", "CUDA graph launches")
        yield HealthEntry(
            "graph-launches-without-rows",
            "warning" if case.copies_by_device.any() else "error",
            f"{missing:,} of {total} {'has' if missing == 1 else 'have'} no GPU row: what ran "
            "inside is unseen (nsys before 2024.6 records nothing for a graph traced as a whole).",
            _RECAPTURE_NODES,
            count=missing,
        )


def missing_tables(case: Case) -> Iterator[HealthEntry]:
    """Kinds of rows that the export lacks."""
    trace = case.classified.trace
    if case.has_rows and not len(trace.kernels) and not len(trace.graphs):
        yield HealthEntry(
            "no-kernels",
            "warning",
            "The trace holds no kernels, so nothing in it could hide a copy.",
            "Check that the capture window covers the computation.",
        )
    launches = trace.facts.launches
    if case.has_rows and not (launches.n_launches or launches.n_graph_launches):
        what = "calls" if launches.n_launches is None else "call that launched any of its rows"
        yield HealthEntry(
            "no-api-table",
            "note",
            f"The export has no CUDA API {what}, so lost launches cannot be noticed.",
            "Export all tables: `nsys export --type sqlite` without `--tables`.",
        )


def launches_without_rows(case: Case) -> Iterator[HealthEntry]:
    """Launches without a GPU row."""
    launches = case.classified.trace.facts.launches
    missing, total = launches.n_launches_without_row or 0, launches.n_launches or 0
    # Where that is a loss, it has been said, and is nothing normal.
    if case.has_rows and missing and not any_lost(case):
        yield HealthEntry(
            "launches-without-rows",
            "note",
            f"{missing:,} of {total:,} kernel launches and async copies "
            f"({format_share(missing / total)}) {'has' if missing == 1 else 'have'} no GPU row.",
            "Normal where they were captured into a CUDA graph or lie at the edge of the trace.",
            count=missing,
        )


def profiler_overhead(case: Case) -> Iterator[HealthEntry]:
    """Time that the profiler itself took from the host."""
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


def diagnostics(case: Case) -> Iterator[HealthEntry]:
    """What nsys says of the capture, but for what it says of tables that nothing here reads."""
    messages = Counter(
        (level, " ".join(text.split()))
        for level, text in case.classified.trace.facts.diagnostics
        if not speaks_of_loss(level, text) and not _BESIDE.search(text)
    )
    # Of several notes the first is shown: the one that can be held against the rows.
    ordered = sorted(messages, key=lambda said: (-said[0], _MAYBE_LOST not in said[1], said[1]))
    for level, text in ordered:
        yield HealthEntry(
            "diagnostic",
            "warning" if level > 2 else "note",
            f"nsys says: {text}",
            _held_against(case, text),
            count=messages[level, text],
        )


def _held_against(case: Case, text: str) -> str:
    """What the rows of the trace say to a message that healthy traces carry; '' for nothing."""
    if _MAYBE_LOST in text:
        return _launches_with_rows(case)
    if not (_NOT_STARTED.search(text) and case.has_rows):
        return ""
    n = len({pid for device in case.classified.trace.devices for pid in device.global_pids})
    processes = number_of(n, "process", "processes")
    return f"GPU work of {processes} is recorded, so this is of another one, such as a launcher."


def _launches_with_rows(case: Case) -> str:
    """What to hold against a message that nearly every healthy trace carries."""
    launches = case.classified.trace.facts.launches
    total = launches.n_launches or 0
    if not total:
        return ""
    found = total - (launches.n_launches_without_row or 0)
    return f"{format_share(found / total)} of {total:,} launches and async copies have a GPU row."


def derived(case: Case) -> Iterator[HealthEntry]:
    """An export that another tool has changed."""
    if case.classified.trace.info.derived_by_third_party:
        yield HealthEntry(
            "derived-trace",
            "note",
            "The export was cut or rewritten by another tool after nsys wrote it.",
        )
