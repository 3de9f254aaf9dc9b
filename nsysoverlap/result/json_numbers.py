"""Reading back the numbers that devices, steps and operations share."""

from __future__ import annotations

from dataclasses import fields

from ..core.errors import ConfigError
from .json_node import HINT, Node
from .model import Overlap, Relief, TimeBudget

WAITS = ("blocking_ns", "host_blocking_ns", "unawaited_ns")
COUNTS = tuple(f.name for f in fields(Overlap) if f.name not in {"copy_ns", *WAITS})


def read_overlap(node: Node) -> Overlap:
    """An OVERLAP object whose parts add up; shares are computed again."""
    counts = {name: node[name].count() for name in COUNTS}
    # Reports of nsysoverlap 0.1 know of compute only.
    known = [name for name in WAITS if name == WAITS[0] or name in node.value]
    waits = {name: node[name].optional(Node.count) for name in known}
    rate = node["gb_per_s"].optional_number()
    if rate is not None and rate <= 0:
        raise node["gb_per_s"].wrong("a positive number")
    try:
        return Overlap.from_dict({**counts, **waits, "gb_per_s": rate})
    except (AssertionError, OverflowError):
        raise ConfigError(f"The numbers of {node.where} do not add up.", HINT) from None


def read_budget(node: Node) -> TimeBudget:
    """The parts of a time budget."""
    return TimeBudget(**{f.name: node[f.name].count() for f in fields(TimeBudget)})


def read_relief(node: Node) -> Relief:
    """The bytes of a relief; its share is computed again."""
    return Relief(**{f.name: node[f.name].count() for f in fields(Relief)})


def read_span(start: Node, end: Node) -> tuple[int, int]:
    """A start and an end that is not before it."""
    pair = start.integer(), end.integer()
    if pair[1] < pair[0]:
        raise end.wrong("no earlier than the start")
    return pair
