"""What the trace holds: rows, kinds and names that are not what they should be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.formatting import format_ns, number_of
from ..result.model import HealthEntry
from ..roles.rules import comm_like_compute
from ..trace.contents import short_name
from ..trace.cupti import COPY_KINDS, CopyKind
from .subject import Case

_SHOWN_NAMES = 3


def _count(n: int) -> str:
    """The verb of so many."""
    return "counts" if n == 1 else "count"


def dropped_rows(case: Case) -> Iterator[HealthEntry]:
    """Rows that could not be used."""
    reasons = {
        "no_timestamp": ("rows-without-timestamp", "without timestamps (start = end = 0)"),
        "negative_duration": ("rows-ending-early", "with an end before the start"),
        "unreadable": ("rows-unreadable", "with values that are no usable numbers"),
    }
    for dropped in case.classified.trace.facts.dropped:
        for field, (code, reason) in reasons.items():
            n = getattr(dropped, field)
            if n:
                yield HealthEntry(
                    code,
                    "warning",
                    f"{number_of(n, 'row')} of {dropped.table} {reason} "
                    f"{'was' if n == 1 else 'were'} left out.",
                    "Numbers may be too low; capture again if they matter.",
                    count=n,
                )


def no_transfers(case: Case) -> Iterator[HealthEntry]:
    """Nothing that could be hidden."""
    if not case.has_rows or case.has_transfers:
        return
    what, hint = "were recorded", "If this run should offload, check that it does."
    outside = sum(device.n_outside_steps for device in case.devices)
    if outside:
        what = f"lie in the measured steps, but {outside:,} outside them"
        hint = "If those matter, choose other steps, or measure all with `--steps none`."
    yield HealthEntry("no-transfers", "note", f"No host transfers {what}.", hint)


def manifest_unreadable(case: Case) -> Iterator[HealthEntry]:
    """A manifest beside the trace that cannot be understood."""
    manifest = case.classified.trace.info.manifest
    if manifest is not None and manifest.problem:
        yield HealthEntry(
            "manifest-unreadable",
            "warning",
            f"{manifest.name} beside the trace {manifest.problem}, so peak memory is not known.",
            "docs/record.md shows what a manifest holds; or remove it.",
        )


def unknown_copies(case: Case) -> Iterator[HealthEntry]:
    """Copies of a kind unknown here."""
    kinds = case.classified.trace.copies.copy_kind
    unknown = (kinds == CopyKind.UNKNOWN) | (kinds >= len(COPY_KINDS))
    if unknown.any():
        shown = ", ".join(str(kind) for kind in np.unique(kinds[unknown]))
        n = int(unknown.sum())
        yield HealthEntry(
            "unknown-copy-kind",
            "warning",
            f"{number_of(n, 'copy is', 'copies are')} of an unknown kind ({shown}) and {_count(n)} "
            "as other work.",
            "Update nsysoverlap if this nsys is newer than it.",
            count=n,
        )


def suspicious_names(case: Case) -> Iterator[HealthEntry]:
    """Names that may be communication and count as compute."""
    found = comm_like_compute(case.classified)
    if found:
        names = ", ".join(short_name(name) for name, _, _ in found[:_SHOWN_NAMES])
        total = format_ns(sum(ns for _, ns, _ in found))
        yield HealthEntry(
            "comm-like-compute",
            "warning",
            f"{number_of(len(found), 'kernel name sounds', 'kernel names sound')} like "
            f"communication but {_count(len(found))} as compute ({total}): {names}.",
            "See `nsysoverlap rules --explain NAME`; a rule in `--config FILE` can say otherwise.",
            count=len(found),
        )


def unnamed_kernels(case: Case) -> Iterator[HealthEntry]:
    """Kernels that no rule can know."""
    trace = case.classified.trace
    n = int((trace.kernels.name == trace.names.index("")).sum()) if "" in trace.names else 0
    if n:
        yield HealthEntry(
            "kernels-without-names",
            "warning",
            f"{number_of(n, 'kernel has', 'kernels have')} no name in the export and {_count(n)} "
            "as compute.",
            "Collectives among them would be counted wrongly; export the report again.",
            count=n,
        )


def unproven_devices(case: Case) -> Iterator[HealthEntry]:
    """Rows of several processes that may share a GPU, or not; ordinals of one process do not."""
    unproven = [device for device in case.classified.trace.devices if not device.proven]
    processes = {pid for device in unproven for pid in device.global_pids}
    if len(processes) > 1:
        yield HealthEntry(
            "gpu-not-proven",
            "note",
            f"{len(unproven)} devices of {len(processes)} processes cannot be matched to physical "
            "GPUs, so each counts as a GPU of its own.",
            "If they share a GPU, work of one may hide transfers of another unseen.",
            count=len(unproven),
        )
