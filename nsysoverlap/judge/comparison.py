"""Two reports set side by side: what changed from A to B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..core.late import late
from ..core.limits import Unit, as_named
from ..result.metrics import METRICS, Scope
from ..result.model import DIRECTIONS, Finding, OperationReport, OverlapReport
from ..result.numbers import BUDGET_ROLES
from ..result.scopes import has_steps, measure

_SHARES = ("hidden", "covered")
_AMOUNTS = ("wall_ms", "exposed_ms", "bytes", "gb_per_s")
_SLOWER = 0.02
"""Kernels whose mean duration moved by less are called equal."""


@dataclass(frozen=True)
class Change:
    """A metric on both sides, in the unit of its name (ms, not ns); None where there is none."""

    name: str
    unit: Unit
    a: Fraction | None
    b: Fraction | None

    @property
    def difference(self) -> Fraction | None:
        """B less A."""
        return None if self.a is None or self.b is None else self.b - self.a


@dataclass(frozen=True)
class OperationChange:
    """Exposed time of one operation, ns (per step where both sides have steps); None: not there."""

    op: str
    label: str
    direction: str
    a_ns: int | None
    b_ns: int | None

    @property
    def difference_ns(self) -> int:
        """B less A; a side without the operation exposed nothing."""
        return (self.b_ns or 0) - (self.a_ns or 0)


@dataclass(frozen=True)
class KernelChange:
    """Mean duration of a kernel launched equally often in A and B, in ns, and what that adds.

    `cost_ns` is per step of a device where both sides have steps, over all launches otherwise.
    """

    name: str
    role: str
    a_mean_ns: float
    b_mean_ns: float
    cost_ns: int


@dataclass(frozen=True)
class Comparison:
    """What changed from A to B; the most important first. `cautions` say what is unlike.

    `accepted` are the health codes of either side that would have made it inconclusive.

    `per_step` says whether amounts are medians over steps. `n_unlike_kernels` counts the names
    launched more often on one side than on the other, whose durations say nothing.
    """

    a: str
    b: str
    cautions: tuple[str, ...]
    per_step: bool
    split: tuple[Change, ...]
    budget: tuple[Change, ...]
    operations: tuple[OperationChange, ...]
    kernels: tuple[KernelChange, ...]
    n_unlike_kernels: int
    new_findings: tuple[Finding, ...]
    gone_findings: tuple[Finding, ...]
    accepted: tuple[str, ...] = ()

    @property
    def step_time(self) -> Change | None:
        """Median step time; None without steps."""
        return next((change for change in self.split if change.name == "step_ms"), None)

    def _repr_html_(self) -> str:
        return str(late("result_html")(self))


def compare(a: OverlapReport, b: OverlapReport, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """Compare two reports; whatever is unlike between them is said, nothing is refused."""
    per_step = has_steps(a) and has_steps(b)
    kernels, n_unlike = _kernels(a, b, per_step)
    came, went = _findings(a, b)
    return Comparison(
        a=names[0],
        b=names[1],
        cautions=_cautions(a, b),
        per_step=per_step,
        split=tuple(_split(a, b, per_step)),
        budget=tuple(_change(a, b, f"budget.{role}", Scope.TOTAL) for role in BUDGET_ROLES),
        operations=_operations(a.operations, b.operations, per_step),
        kernels=kernels,
        n_unlike_kernels=n_unlike,
        new_findings=came,
        gone_findings=went,
        accepted=tuple(dict.fromkeys(e.code for r in (a, b) for e in r.health if e.accepted)),
    )


def _split(a: OverlapReport, b: OverlapReport, per_step: bool) -> list[Change]:
    amounts = Scope.STEP_MEDIAN if per_step else Scope.TOTAL
    changes = [_change(a, b, "step_ms", Scope.STEP_MEDIAN)] if per_step else []
    for direction in DIRECTIONS:
        changes += [_change(a, b, f"{direction}.{name}", Scope.TOTAL) for name in _SHARES]
        changes += [_change(a, b, f"{direction}.{name}", amounts) for name in _AMOUNTS]
    changes.append(_change(a, b, "relief", Scope.TOTAL))
    # Amounts of a direction that neither side uses are left out; a share of 0 is worth a line.
    return [c for c in changes if c.a or c.b or (c.unit is Unit.SHARE and {c.a, c.b} != {None})]


def _change(a: OverlapReport, b: OverlapReport, name: str, scope: Scope) -> Change:
    metric = METRICS[name]
    least = metric.more_is_better is not False
    values = [measure(report, metric, scope, least=least).value for report in (a, b)]
    return Change(name, metric.unit, *(as_named(v, metric.unit) for v in values))


def _cautions(a: OverlapReport, b: OverlapReport) -> tuple[str, ...]:
    pairs = [
        (
            "GPUs",
            *(", ".join(sorted({d.gpu_name or "unknown" for d in r.devices})) for r in (a, b)),
        ),
        ("number of devices", *(str(len(r.devices)) for r in (a, b))),
        ("number of traces", *(str(len(r.traces)) for r in (a, b))),
        ("number of steps", *(str(_n_steps(r)) for r in (a, b))),
        ("transfer kernels", *(r.basis.transfer_kernels for r in (a, b))),
        ("nsys versions", *(_versions(r) for r in (a, b))),
    ]
    unlike = [
        f"Unlike {what}: {one or 'none'} in A, {two or 'none'} in B."
        for what, one, two in pairs
        if one != two
    ]
    over_a, over_b = _over(a), _over(b)
    if over_a != over_b:
        unlike.append(f"A is measured over {over_a}, B over {over_b}.")
    broken = [
        f"{side} is inconclusive: {entry.message}"
        for side, report in (("A", a), ("B", b))
        for entry in report.health
        if entry.severity == "error"
    ]
    accepted = [
        f"{side}: {entry.message}"
        for side, report in (("A", a), ("B", b))
        for entry in report.health
        if entry.accepted
    ]
    if broken:
        broken.append("Findings are not compared: an inconclusive side cannot tell which it has.")
    return (*broken, *accepted, *unlike, *_unlike_models(a, b))


def _over(report: OverlapReport) -> str:
    if report.basis.kind == "window" and report.basis.window_ns is not None:
        return "window {}:{}".format(*report.basis.window_ns)
    return report.basis.steps or f"the {report.basis.kind}"


def _n_steps(report: OverlapReport) -> int:
    return max((len(device.steps) for device in report.devices), default=0)


def _versions(report: OverlapReport) -> str:
    return ", ".join(sorted({trace.nsys_version or "unknown" for trace in report.traces}))


def _unlike_models(a: OverlapReport, b: OverlapReport) -> list[str]:
    """Two programs rather than two runs of one: most of the kernel time has no counterpart."""
    known = {kernel.name for kernel in a.kernels}
    times = [(k.beside_ns + k.alone_ns, k.name in known) for k in b.kernels if k.role == "compute"]
    total = sum(ns for ns, _ in times)
    matched = sum(ns for ns, found in times if found)
    if not known or not total or matched * 2 >= total:
        return []
    percent = f"{100 * matched / total:.0f}"
    return [
        f"Unlike models or compilers: only {percent} % of B's compute time is in kernels that A "
        "has too."
    ]


def _operations(
    a: Sequence[OperationReport], b: Sequence[OperationReport], per_step: bool
) -> tuple[OperationChange, ...]:
    sides = [{o.key: o.exposed(per_step=per_step) for o in side} for side in (a, b)]
    keys = dict.fromkeys([*sides[0], *sides[1]])
    changes = [OperationChange(*key, *(side.get(key) for side in sides)) for key in keys]
    return tuple(sorted(changes, key=lambda change: -abs(change.difference_ns)))


def _kernels(
    a: OverlapReport, b: OverlapReport, per_step: bool
) -> tuple[tuple[KernelChange, ...], int]:
    """Kernels that slowed down by 2 % or more, the dearest first; names not launched equally often.

    Another number of launches under one name is other work, such as products of another shape.
    """
    steps_a, steps_b = (_device_steps(r) if per_step else 1 for r in (a, b))
    before = {(kernel.name, kernel.role): kernel for kernel in a.kernels}
    changes, n_unlike = [], 0
    for kernel in b.kernels:
        old = before.get((kernel.name, kernel.role))
        if old is None:
            continue
        if old.n * steps_b != kernel.n * steps_a:
            n_unlike += 1
        elif kernel.n:
            before_ns, now_ns = ((k.beside_ns + k.alone_ns) / k.n for k in (old, kernel))
            if now_ns >= before_ns * (1 + _SLOWER) and before_ns:
                cost = round((now_ns - before_ns) * kernel.n / steps_b)
                changes.append(KernelChange(kernel.name, kernel.role, before_ns, now_ns, cost))
    return tuple(sorted(changes, key=lambda change: -change.cost_ns)), n_unlike


def _device_steps(report: OverlapReport) -> int:
    return sum(len(device.steps) for device in report.devices)


def _findings(
    a: OverlapReport, b: OverlapReport
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Those that came and those that went; none where a side cannot tell which it has."""
    if not (a.conclusive and b.conclusive):
        return (), ()
    a_codes, b_codes = ({f.code for f in report.findings} for report in (a, b))
    return (
        tuple(f for f in b.findings if f.code not in a_codes),
        tuple(f for f in a.findings if f.code not in b_codes),
    )
