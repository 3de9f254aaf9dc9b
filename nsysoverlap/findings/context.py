"""What the findings look at, and what they share: costs per step, example rows, exposed time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..result.model import DeviceReport, Evidence, Finding
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
        """For each case which of its rows count: those that start in the measured time."""
        return tuple(case.counted.contains(case.rows.start_ns) for case in self.cases)

    @property
    def idle(self) -> Iterator[IntervalSet]:
        """For each case the measured instants at which nothing ran that hides a transfer.

        Made anew each time, for these sets are as large as the trace.
        """
        return (case.window.subtract(case.lanes.active) for case in self.cases)

    @cached_property
    def exposed_ns(self) -> tuple[Int64Array, ...]:
        """For each case the exposed time of each of its rows, within the measured time."""
        return tuple(
            idle.covered(case.rows.start_ns, case.rows.end_ns)
            for case, idle in zip(self.cases, self.idle, strict=True)
        )

    def exposed(self, i: int, mask: BoolArray) -> IntervalSet:
        """Measured instants at which one of the picked rows of case i was exposed."""
        case = self.cases[i]
        return case.rows.select(mask).union.subtract(case.lanes.active).intersect(case.window)

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

    def op(self, i: int, row: int) -> str | None:
        """Operation that issued a row of case i, None where unknown."""
        return self.transfer_ops[i][row] if self.transfer_ops else None

    def worst(self, weights: Sequence[Int64Array], n: int = N_EXAMPLES) -> list[tuple[int, int]]:
        """(case, row) of the rows with the greatest positive weights, greatest first.

        `weights[i]` has one value for each row of `cases[i].rows`. Of equals the earlier comes
        first.
        """
        found: list[tuple[int, int, int]] = []
        for i, weight in enumerate(weights):
            top = np.argsort(-weight, kind="stable")[:n]
            found += [(-int(weight[row]), i, int(row)) for row in top if weight[row] > 0]
        return [(i, row) for _, i, row in sorted(found)[:n]]

    def example(self, i: int, row: int, text: str) -> Evidence:
        """A row of case i as evidence."""
        rows = self.cases[i].rows
        start, end = int(rows.start_ns[row]), int(rows.end_ns[row])
        return self.evidence(i, start, end, text, self.op(i, row))

    def evidence(self, i: int, start: int, end: int, text: str, op: str | None = None) -> Evidence:
        """Any stretch of time of case i as evidence."""
        device = self.devices[i]
        return Evidence(start, end, text, op, device.label, device.trace)

    def examples(
        self, weights: Sequence[Int64Array], text: Callable[[int, int], str]
    ) -> tuple[Evidence, ...]:
        """Evidence for the rows with the greatest weights; `text(case, row)` says what of them."""
        return tuple(self.example(i, row, text(i, row)) for i, row in self.worst(weights))


Finder = Callable[[Context], Iterator[Finding]]
"""Yields at most a few findings of one code: the function's name with `-` for `_`."""
