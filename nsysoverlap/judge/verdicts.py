"""The result model of a gate: one verdict a limit, and what they add up to."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from fractions import Fraction

from ..core.formatting import number_of
from ..core.late import late
from ..core.limits import Unit, as_named
from ..core.records import dataclass
from ..result.metrics import Metric, Scope

WARNING, NOTE = "Warning: ", "Note: "
"""What the notes of a gate begin with."""


class Status(StrEnum):
    """Of a limit, or of the whole gate."""

    PASSED = "pass"
    FAILED = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Spread:
    """An interval of a value, in the metric's unit (a share 0..1), from n steps or runs."""

    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Verdict:
    """One limit against one measurement, in the unit of the metric: shares 0..1, ms, bytes, GB/s.

    `source` is how the user asked for it, `where` the part the value is of, `reason` why the
    verdict is what it is where numbers alone do not say so. `baseline` is what a relative limit
    was derived from, `compared` whether the limit is such a one.
    """

    metric: Metric
    scope: Scope
    op: str
    limit: Fraction | None
    measured: Fraction | None
    status: Status
    source: str
    where: str = ""
    reason: str = ""
    baseline: Fraction | None = None
    spread: Spread | None = None
    baseline_spread: Spread | None = None
    compared: bool = False

    @property
    def name(self) -> str:
        """The metric, with its scope where that is not the usual one, as `--require` takes it."""
        if self.scope is self.metric.default_scope:
            return self.metric.name
        return f"{self.metric.name}@{self.scope.value}"

    @property
    def margin(self) -> Fraction | None:
        """Room left before the limit; negative where it is broken."""
        if self.measured is None or self.limit is None:
            return None
        room = self.measured - self.limit
        return room if self.op.startswith(">") else -room

    def in_unit(self) -> Verdict:
        """A verdict found in base units (ns) in the unit that the metric's name says (ms)."""
        unit = self.metric.unit
        if unit is not Unit.TIME:
            return self
        ends = self.baseline_spread
        if ends is not None:
            low, high = (as_named(Fraction(end), unit) or 0 for end in (ends.low, ends.high))
            ends = Spread(float(low), float(high), ends.n)
        return replace(
            self,
            limit=as_named(self.limit, unit),
            measured=as_named(self.measured, unit),
            baseline=as_named(self.baseline, unit),
            baseline_spread=ends,
        )


@dataclass(frozen=True)
class Loss:
    """An operation whose exposed time grew against the baseline; ns per step with steps."""

    op: str
    label: str
    direction: str
    then_ns: int
    now_ns: int
    per_step: bool


@dataclass(frozen=True, repr=False)
class Verdicts:
    """All verdicts of a gate.

    `blockers` are reasons why nothing may pass, such as an unreadable rank; `notes` are worth
    knowing and change nothing. `baseline` names what was compared with, `losses` are the
    operations that lost most against it, `accepted` the health codes that would have stopped it.
    """

    verdicts: tuple[Verdict, ...]
    traces: tuple[str, ...] = ()
    basis: str = ""
    baseline: str | None = None
    blockers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    accepted: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Verdicts of {number_of(len(self.verdicts), 'limit')}: {self.status.value}>"

    @property
    def status(self) -> Status:
        """Inconclusive where anything blocks, else failed before inconclusive before passed."""
        statuses = {verdict.status for verdict in self.verdicts}
        if self.blockers:
            return Status.INCONCLUSIVE
        if Status.FAILED in statuses:
            return Status.FAILED
        return Status.PASSED if statuses == {Status.PASSED} else Status.INCONCLUSIVE

    @property
    def passed(self) -> bool:
        """Whether every limit is met for sure."""
        return self.status is Status.PASSED

    def _repr_html_(self) -> str:
        return str(late("result_html")(self))
