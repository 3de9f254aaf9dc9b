"""Which health entries make a gate inconclusive: the one place that says so."""

from __future__ import annotations

from ..result.model import HealthEntry

BLOCKING = {
    "events-lost": "nsys says that it could not process events, or lost or dropped them, or there "
    "are launches and no GPU row at all",
    "no-gpu-activity": "nothing ran on a GPU",
    "graph-opaque": "CUDA graphs recorded as a whole take half of the busy time, or stand beside "
    "no recorded copy (else a warning)",
    "graph-launches-without-rows": "a launch of a CUDA graph left no row",
    "copies-lost": "an asynchronous copy of 1 µs or more, between the first GPU row of its process "
    "and its last call with a row, has no row",
    "launches-lost": "more than 0.1 % of the kernel launches in that time have no row",
    "end-lost": "more than 5 % of all launches and copies follow the last one with a row",
    "process-lost": "a process launched work and has no row, beside others that have",
    "no-api-table": "without CUDA API calls lost rows cannot be noticed",
    "copies-without-time": "a copy moved bytes in no time, or faster than any link",
    "duplicate-rows": "a row stands in the export twice",
    "stream-overlap": "copies and memsets run at once with work of their own stream for more than "
    "0.1 % of the time",
    "rows-beyond-capture": "a row begins before the capture or ends after it",
    "unknown-copy-kind": "a copy is of a kind unknown here",
    "rows-without-timestamp": "a copy has no times",
    "rows-ending-early": "a copy ends before it starts",
    "rows-unreadable": "a copy has values that are no numbers",
}
"""Code -> when it makes a gate inconclusive, as docs/gate.md says it."""
_OF_COPIES = ("rows-without-timestamp", "rows-ending-early", "rows-unreadable")
_ERRORS_ONLY = ("graph-opaque",)


def blocks(entry: HealthEntry) -> bool:
    """Whether no gate may pass on a trace with this entry: what is left may look better than all
    of it would.
    """
    if entry.severity == "error":
        return True
    if entry.code in _OF_COPIES:
        return "MEMCPY" in entry.message
    return entry.code in BLOCKING and entry.code not in _ERRORS_ONLY
