"""What to know before trusting a number: one function a question, most serious answers first.

An `error` means the numbers cannot be trusted or say nothing because of how the trace was
captured; a `warning` that some of them may be off; a `note` is worth knowing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.window import Window
from ..result.model import DeviceReport, HealthEntry
from ..roles.rules import Classified
from ..steps.launches import Launches
from . import capture, content, impossible, launched, losses, unseen
from .blocking import accept
from .subject import Case, Check

_SEVERITIES = ("error", "warning", "note")

CHECKS: tuple[Check, ...] = (
    capture.events_lost,
    capture.no_gpu_activity,
    capture.opaque_graphs,
    capture.graphs_without_rows,
    losses.lost_copies,
    losses.lost_launches,
    losses.lost_end,
    losses.lost_process,
    impossible.copies_without_time,
    impossible.rows_without_device,
    impossible.copies_beyond_the_link,
    impossible.copies_of_other_memory,
    impossible.contexts_of_two_devices,
    impossible.duplicate_rows,
    impossible.overlap_in_streams,
    impossible.kernels_in_streams,
    impossible.beyond_capture,
    launched.lost_calls,
    launched.rows_before_calls,
    losses.lost_head,
    content.dropped_rows,
    capture.missing_tables,
    content.unknown_copies,
    content.suspicious_names,
    content.unnamed_kernels,
    unseen.kernels_that_may_transfer,
    unseen.reads_without_copies,
    unseen.collectives_without_kernels,
    content.no_transfers,
    capture.launches_without_rows,
    capture.profiler_overhead,
    content.unproven_devices,
    content.manifest_unreadable,
    capture.derived,
    capture.diagnostics,
)


def judge(
    classified: Classified,
    launches: Launches,
    devices: Sequence[DeviceReport],
    window: Window,
    notes: Sequence[HealthEntry] = (),
    accepted: Sequence[str] = (),
) -> tuple[HealthEntry, ...]:
    """All health entries of one trace, errors first, each naming the trace.

    `window` is the time that was measured, `notes` are what earlier stages noticed, `accepted` are
    codes that shall stop nothing.
    """
    case = Case(classified, launches, devices, window)
    entries = accept([*notes, *(entry for check in CHECKS for entry in check(case))], accepted)
    entries.sort(key=lambda entry: _SEVERITIES.index(entry.severity))
    name = classified.trace.info.file_name
    return tuple(replace(entry, trace=name) for entry in entries)
