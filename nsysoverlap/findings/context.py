"""What the findings look at, and what they share: rows, costs per step, example rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..result.model import DeviceReport, Evidence, Finding
from ..roles.rules import Role
from .queues import QueuedSince, queued_since
from .remedies import remedy

WARNING = "warning"
NOTE = "note"
WARNING_SHARE = 100
"""A cost of at least one part in so many of the measured time is a warning."""
SILENT_SHARE = 1000
"""What is less than one part in so many of the measured time is not worth a line."""
N_EXAMPLES = 3


@dataclass(frozen=True)
class Context:
    """One analysed trace: `cases[i]` and `devices[i]` are the same device, before and after.

    `n_steps` is how many steps were kept, None without steps. `capture` are the environment values
    that the trace holds, `framework` is the name of the program's. `transfer_ops[i][j]` names the
    operation that issued row j of `cases[i].rows`, None where unknown; the whole tuple may be
    empty.
    """

    cases: tuple[DeviceCase, ...]
    devices: tuple[DeviceReport, ...]
    n_steps: int | None = None
    capture: Mapping[str, str] = field(default_factory=dict)
    transfer_ops: tuple[Sequence[str | None], ...] = ()
    framework: str = "unknown"

    @cached_property
    def measured(self) -> tuple[BoolArray, ...]:
        """For each case which of its rows (n,) count: those that start in the measured time."""
        return tuple(case.counted.contains(case.rows.start_ns) for case in self.cases)

    @property
    def idle(self) -> Iterator[IntervalSet]:
        """For each case the measured instants at which nothing ran that hides a transfer.

        Made anew each time, for these sets are as large as the trace.
        """
        return (case.window.subtract(case.lanes.active) for case in self.cases)

    @cached_property
    def exposed_ns(self) -> tuple[Int64Array, ...]:
        """For each case the exposed time of each of its rows (n,), within the measured time."""
        return tuple(
            idle.covered(case.rows.start_ns, case.rows.end_ns)
            for case, idle in zip(self.cases, self.idle, strict=True)
        )

    @cached_property
    def queued(self) -> tuple[dict[Role, QueuedSince], ...]:
        """For each case and direction the rows that queued behind one of another stream."""
        pairs = zip(self.cases, self.measured, strict=True)
        return tuple(queued_since(case, measured) for case, measured in pairs)

    def exposed(self, i: int, mask: BoolArray) -> IntervalSet:
        """Measured instants at which a row of case i that `mask` (n,) picks was exposed."""
        case = self.cases[i]
        return case.rows.select(mask).union.subtract(case.lanes.active).intersect(case.window)

    def rows(
        self, pick: Callable[[DeviceCase], BoolArray] | None = None, *, everywhere: bool = False
    ) -> Rows:
        """The rows that the mask (n,) of `pick` picks of each case, all by default, if they count.

        `everywhere` takes rows that start outside of the measured time too.
        """
        masks = [
            np.ones(len(case.rows), np.bool_) if pick is None else pick(case) for case in self.cases
        ]
        if not everywhere:
            masks = [mask & counted for mask, counted in zip(masks, self.measured, strict=True)]
        return Rows(self, tuple(masks))

    def weighted(self, weights: Sequence[Int64Array]) -> Rows:
        """The rows with a weight, a time that they are to blame for; (n,) for each case."""
        return Rows(self, tuple(weight > 0 for weight in weights), tuple(weights))

    def per_step(self, ns: int) -> int:
        """A total as a mean per step, rounded down; the total itself without steps."""
        return ns // self.n_steps if self.n_steps else ns

    def cost(self, ns: Sequence[int]) -> int:
        """Cost per step of the device where it is highest; `ns` are totals, one for each case.

        Devices work side by side, so what the steps lose is not the sum over devices.
        """
        return self.per_step(max(ns, default=0))

    @cached_property
    def measured_ns(self) -> int:
        """Measured time of the device that has most, per step."""
        return self.cost([case.window.length for case in self.cases])

    def severity(self, cost: int) -> str | None:
        """Severity of something that costs so much per step; None where it is too little."""
        if cost * SILENT_SHARE < self.measured_ns or not cost:
            return None
        return WARNING if cost * WARNING_SHARE >= self.measured_ns else NOTE

    def remedy(self, code: str, **facts: bool) -> str:
        """What helps against a finding, in the words of the program's framework.

        `facts` say what is so beside the captured environment; see `remedy_table`.
        """
        known = frozenset(name.replace("_", "-") for name, holds in facts.items() if holds)
        return remedy(code, self.framework, self.capture, known)

    def worth(self, lost: Sequence[int], least: str | None = None) -> Cost | None:
        """What totals, one for each case, cost; None where that is not worth a line.

        Of what costs too little `least` is the severity all the same.
        """
        cost = self.cost(lost)
        severity = self.severity(cost) or least
        return None if severity is None else Cost(cost, severity)

    def op(self, i: int, row: int) -> str | None:
        """Operation that issued a row of case i, None where unknown."""
        return self.transfer_ops[i][row] if self.transfer_ops else None

    def example(self, i: int, row: int, text: str) -> Evidence:
        """A row of case i as evidence."""
        rows = self.cases[i].rows
        start, end = int(rows.start_ns[row]), int(rows.end_ns[row])
        return self.evidence(i, start, end, text, self.op(i, row))

    def evidence(self, i: int, start: int, end: int, text: str, op: str | None = None) -> Evidence:
        """Any stretch of time of case i as evidence."""
        device = self.devices[i]
        return Evidence(start, end, text, op, device.label, device.trace)

    def longest(self, stretches: Sequence[tuple[int, int, int, str]]) -> tuple[Evidence, ...]:
        """Evidence for the longest of some stretches, each (case, start, end, text)."""
        ordered = sorted(stretches, key=lambda s: (s[1] - s[2], *s))
        return tuple(self.evidence(*stretch) for stretch in ordered[:N_EXAMPLES])


@dataclass(frozen=True)
class Rows:
    """Some transfers of each case: `masks[i]` picks of `cases[i].rows`.

    `weights` are what decides which of them are examples, their exposed time by default.
    """

    context: Context
    masks: tuple[BoolArray, ...]
    weights: tuple[Int64Array, ...] | None = None

    @cached_property
    def n(self) -> int:
        """How many there are."""
        return sum(int(mask.sum()) for mask in self.masks)

    @cached_property
    def n_bytes(self) -> int:
        """Bytes that copies moved; transfer kernels have none."""
        return self._sum(lambda case: case.rows.n_bytes)

    @property
    def most_bytes(self) -> int:
        """The case whose copies moved most."""
        moved = [
            int(case.rows.n_bytes[mask].sum())
            for case, mask in zip(self.context.cases, self.masks, strict=True)
        ]
        return moved.index(max(moved))

    @cached_property
    def busy_ns(self) -> int:
        """Their durations, summed."""
        return self._sum(lambda case: case.rows.end_ns - case.rows.start_ns)

    @property
    def exposed(self) -> list[int]:
        """For each case the measured time during which one of them was exposed."""
        return [self.context.exposed(i, mask).length for i, mask in enumerate(self.masks)]

    @property
    def wall(self) -> list[int]:
        """For each case the measured time during which one of them ran."""
        return [
            case.rows.select(mask).union.intersect(case.window).length
            for case, mask in zip(self.context.cases, self.masks, strict=True)
        ]

    @property
    def blamed(self) -> list[int]:
        """For each case the sum of the weights, at most the time one of the rows was exposed."""
        return [
            min(int(weight.sum()), exposed)
            for weight, exposed in zip(self.weights or (), self.exposed, strict=True)
        ]

    def of(self, masks: tuple[BoolArray, ...]) -> Rows:
        """Other rows of the same cases, a mask (n,) for each."""
        return Rows(self.context, masks)

    def by(self, weight: Callable[[DeviceCase], Int64Array]) -> Rows:
        """The same rows with other weights, (n,) for each case."""
        pairs = zip(self.context.cases, self.masks, strict=True)
        return replace(self, weights=tuple(np.where(mask, weight(case), 0) for case, mask in pairs))

    @property
    def by_length(self) -> Rows:
        """The same rows, the longest first."""
        return self.by(lambda case: case.rows.end_ns - case.rows.start_ns)

    def worst(self, n: int = N_EXAMPLES) -> list[tuple[int, int, int]]:
        """(case, row, weight) of the rows with the greatest positive weights, greatest first.

        Of equals the earlier comes first.
        """
        found: list[tuple[int, int, int]] = []
        for i, mask in enumerate(self.masks):
            weight = self.context.exposed_ns[i] if self.weights is None else self.weights[i]
            weight = np.where(mask, weight, 0)
            top = np.argsort(-weight, kind="stable")[:n]
            found += [(-int(weight[row]), i, int(row)) for row in top if weight[row] > 0]
        return [(i, row, -weight) for weight, i, row in sorted(found)[:n]]

    def examples(self, text: Callable[[int, int, int], str]) -> tuple[Evidence, ...]:
        """Evidence for the worst; `text(case, row, weight)` says what of them."""
        return tuple(self.context.example(i, row, text(i, row, ns)) for i, row, ns in self.worst())

    def _sum(self, column: Callable[[DeviceCase], Int64Array]) -> int:
        pairs = zip(self.context.cases, self.masks, strict=True)
        return sum(int(column(case)[mask].sum()) for case, mask in pairs)


@dataclass(frozen=True)
class Cost:
    """What something costs per step, and how severe that is."""

    ns: int
    severity: str

    def found(
        self,
        title: str,
        remedy: str,
        detail: str = "",
        evidence: tuple[Evidence, ...] = (),
        rows: Rows | None = None,
        target: float | None = None,
    ) -> Found:
        """A finding of this cost, which blames `rows`; its code is yet to come."""
        finding = Finding("", self.severity, title, detail, remedy, self.ns, evidence)
        return Found(finding, () if rows is None else rows.masks, target)


@dataclass(frozen=True)
class Found:
    """A finding, and for each case which of its rows it blames; no masks where it blames none.

    `target` is what its remedy would reach: GB/s of these copies, or the share of their bytes.
    """

    finding: Finding
    rows: tuple[BoolArray, ...] = ()
    target: float | None = None

    def named(self, code: str) -> Found:
        """The same with its code."""
        return replace(self, finding=replace(self.finding, code=code))


Finder = Callable[[Context], Iterator[Found]]
"""Yields at most a few findings of one code: the function's name with `-` for `_`."""
