"""Which health entries make a gate inconclusive: the one place that says so."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from difflib import get_close_matches

from ..core.errors import UsageError
from ..result.model import HealthEntry

BLOCKING = {
    "events-lost": "nsys says that it could not process events, or lost or dropped them, or there "
    "are launches and no GPU row at all",
    "no-gpu-activity": "nothing ran on a GPU",
    "graph-opaque": "CUDA graphs recorded as a whole take half of the busy time, or stand beside "
    "no recorded copy (else a warning)",
    "graph-launches-without-rows": "a launch of a CUDA graph left no row",
    "copies-lost": "a copy of 1 µs or more, asynchronous or not, between the first GPU row of its "
    "process and its last call with a row, has no row",
    "launches-lost": "more than 0.1 % of the kernel launches in that time have no row",
    "end-lost": "more than 5 % of all launches and copies follow the last one with a row",
    "process-lost": "a process launched work and has no row, beside others that have",
    "no-api-table": "without CUDA API calls that launched its rows lost ones cannot be noticed",
    "copies-without-time": "a copy moved bytes in no time, or faster than any link",
    "rows-without-device": "a row is on a device below 0, or of no process where others name one",
    "copies-too-fast": "a copy of 1 MB or more is faster than 1.25 times the peak of its host link",
    "copies-of-other-memory": "more than 0.1 % of the copies are of a kind that contradicts the "
    "memory they go from or to",
    "context-of-two-devices": "rows of one CUDA context are on several devices",
    "duplicate-rows": "a row stands in the export twice",
    "stream-overlap": "copies and memsets run at once with work of their own stream, or kernels "
    "with the second next of theirs, for more than 0.1 % of the time",
    "calls-lost": "more than 5 % of the rows that follow one with a CUDA API call on their stream "
    "have none",
    "rows-before-calls": "more than 0.1 % of the rows begin 1 ms or more before the call that "
    "launched them",
    "rows-beyond-capture": "a row begins before the capture or ends after it",
    "unknown-copy-kind": "a copy is of a kind unknown here",
    "rows-without-timestamp": "a copy has no times",
    "rows-ending-early": "a copy ends before it starts",
    "rows-unreadable": "a copy has values that are no numbers",
    "ranks-missing": "a rank of `--ranks` is not there (else a warning)",
    "ranks-identical": "`--ranks` or a baseline asks for ranks, and two traces are the same, byte "
    "for byte (else a warning)",
}
"""Code -> when it makes a gate inconclusive, as docs/gate.md says it."""
_OF_COPIES = ("rows-without-timestamp", "rows-ending-early", "rows-unreadable")
_ERRORS_ONLY = ("graph-opaque", "ranks-missing", "ranks-identical")


def blocks(entry: HealthEntry, compared: bool = False) -> bool:
    """Whether no gate may pass on a trace with this entry: what is left may look better than all
    of it would. `compared` says that another run asks for as many ranks.
    """
    if entry.accepted:
        return False
    if entry.severity == "error" or (compared and entry.code == "ranks-identical"):
        return True
    if entry.code in _OF_COPIES:
        return "MEMCPY" in entry.message
    return entry.code in BLOCKING and entry.code not in _ERRORS_ONLY


def check_accepted(codes: Iterable[str]) -> None:
    """Raise `UsageError` for a code that stops nothing: accepting it would look like it did."""
    for code in codes:
        if code not in BLOCKING:
            near = get_close_matches(code, BLOCKING, n=1)
            hint = f"Did you mean {near[0]}?" if near else "docs/gate.md lists the codes."
            raise UsageError(f"--accept: no health code {code!r} stops a gate.", hint)


def accept(entries: Iterable[HealthEntry], codes: Collection[str]) -> list[HealthEntry]:
    """The entries, those of accepted codes as warnings that say so."""
    return [
        replace(
            entry,
            severity="warning",
            accepted=True,
            message=f"ACCEPTED by --accept {entry.code}: {entry.message}",
        )
        if entry.code in codes and blocks(entry)
        else entry
        for entry in entries
    ]
