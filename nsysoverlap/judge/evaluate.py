"""The gate: thresholds and a report in, verdicts out. Never green on what cannot be known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from textwrap import shorten
from typing import Protocol

from ..core.formatting import number_of
from ..core.limits import Unit, format_value
from ..health.blocking import blocks
from ..result.metrics import METRICS, Metric, Scope
from ..result.model import DIRECTIONS, HealthEntry, OperationReport, OverlapReport
from ..result.scopes import Measured, has_steps, measure
from ..result.sentences import basis_line
from .baseline import DEFAULT_MAX_DROP
from .bootstrap import MIN_STEPS, Drop, Sample, measure_drop, steps_sample
from .gain_limit import judge_gain
from .thresholds import OPERATORS, Requirement, Thresholds, parse_requirement
from .verdicts import NOTE, WARNING, Loss, Spread, Status, Verdict, Verdicts

MAX_LOSSES = 3
MAX_NOTES = 5
_NOTE_LENGTH = 240


class Reference(Protocol):
    """What relative limits compare with: a baseline file, or earlier runs."""

    @property
    def name(self) -> str:
        """For the verdict."""

    @property
    def operations(self) -> Sequence[OperationReport]:
        """Operations of the run compared with."""

    def measure(self, metric: Metric, scope: Scope) -> Measured:
        """The value to compare with."""

    def spread(self, metric: Metric, scope: Scope) -> Spread | None:
        """Spread of the value over earlier runs; None for a single run."""

    def allowance(self, metric: Metric) -> Fraction | None:
        """Drop allowed where the user gives none; None where too few runs show their spread."""

    def sample(self, direction: str) -> Sample | float | None:
        """Observations behind the hidden share of a direction, or the share itself."""

    def mismatches(self, report: OverlapReport) -> list[str]:
        """Why it must not be compared with a report."""

    def untold(self) -> list[str]:
        """What it does not say of how it was measured, so that a mismatch cannot be seen."""


def check(report: OverlapReport, requirements: Sequence[str | Requirement]) -> Verdicts:
    """Judge a report by requirements such as `h2d.hidden@worst-rank >= 60%`.

    Raises `UsageError` for one that cannot be understood.
    """
    parsed = tuple(
        parse_requirement(r, "requirement") if isinstance(r, str) else r for r in requirements
    )
    return judge(report, Thresholds(parsed))


def judge(
    report: OverlapReport,
    thresholds: Thresholds,
    reference: Reference | None = None,
    unreadable: Sequence[str] = (),
) -> Verdicts:
    """All verdicts. `unreadable` says of each trace that could not be read why not."""
    blockers = _blockers(report, unreadable, reference is not None)
    verdicts = [_absolute(report, requirement) for requirement in thresholds.requirements]
    if thresholds.max_gain is not None:
        verdicts.append(judge_gain(report, *thresholds.max_gain))
    if reference is not None:
        verdicts += _relative(report, thresholds, reference)
    verdicts = [verdict.in_unit() for verdict in verdicts]
    if blockers:
        verdicts = [replace(v, status=Status.INCONCLUSIVE) for v in verdicts]
    elif not verdicts:
        blockers = ("There was nothing to compare.",)
    result = Verdicts(
        verdicts=tuple(verdicts),
        traces=tuple(trace.path for trace in report.traces),
        basis=basis_line(report) if report.traces else "",
        baseline=reference.name if reference else None,
        blockers=blockers,
        notes=(*_untold(reference), *_notes(report)),
        accepted=tuple(dict.fromkeys(e.code for e in report.health if e.accepted)),
    )
    if reference is None or result.status is not Status.FAILED:
        return result
    return replace(result, losses=biggest_losses(report.operations, reference.operations))


def judge_nothing(thresholds: Thresholds, reason: str) -> Verdicts:
    """Every limit inconclusive, where no trace could be measured for this reason."""
    result = judge(OverlapReport.merge([]), thresholds, unreadable=[reason])
    return replace(result, verdicts=tuple(replace(v, reason=reason) for v in result.verdicts))


def _blockers(report: OverlapReport, unreadable: Sequence[str], compared: bool) -> tuple[str, ...]:
    errors = [entry for entry in report.health if blocks(entry, compared)]
    several = len(report.traces) > 1
    reasons = [
        (f"{e.trace}: " if several and e.trace else "")
        + (f"{e.message.rstrip('.')}. {e.hint}" if e.hint else e.message)
        for e in errors
    ]
    if not report.devices and not (reasons or unreadable):
        reasons = ["No GPU activity was recorded."]
    return (*unreadable, *reasons)


def _untold(reference: Reference | None) -> list[str]:
    missing = reference.untold() if reference is not None else []
    if reference is None or not missing:
        return []
    return [
        f"{WARNING}{reference.name} does not tell its {', '.join(missing)}: renew it, so that a "
        "run measured otherwise is not compared with it."
    ]


def _notes(report: OverlapReport) -> tuple[str, ...]:
    """Warnings and notes that stop no gate, a line for each kind: what is worth knowing."""
    kinds: dict[str, list[HealthEntry]] = {}
    for entry in report.health:
        if not blocks(entry):
            kinds.setdefault(entry.code, []).append(entry)
    # What was accepted comes first, and is never left out.
    groups = sorted(kinds.values(), key=lambda e: (not e[0].accepted, e[0].severity == "note"))
    lines = [_note(entries, len(report.traces) > 1) for entries in groups]
    if len(lines) > MAX_NOTES:
        left = groups[MAX_NOTES:]
        word = NOTE if all(entries[0].severity == "note" for entries in left) else WARNING
        rest = f"{word}{len(left)} more kinds of entry under Health; `nsysoverlap report`"
        lines[MAX_NOTES:] = [f"{rest} shows them all."]
    return tuple(lines)


def _note(entries: Sequence[HealthEntry], several: bool) -> str:
    first = entries[0]
    where = f"{first.trace}: " if several and first.trace else ""
    more = f" And {len(entries) - 1:,} more like this one." if len(entries) > 1 else ""
    note = first.severity == "note"
    text = f"{first.message} {first.hint}".rstrip() if note else first.message
    message = shorten(text, _NOTE_LENGTH, placeholder=" …")
    return f"{NOTE if note else WARNING}{where}{message}{more}"


def _absolute(report: OverlapReport, requirement: Requirement) -> Verdict:
    metric, op = requirement.metric, requirement.op
    scope = requirement.scope
    if scope is None:
        unknown = not report.devices
        scope = Scope.STEP_MEDIAN if has_steps(report) or unknown else Scope.WORST_DEVICE
    found = measure(report, metric, scope, least=op.startswith(">"))
    verdict = Verdict(
        metric, scope, op, requirement.limit, found.value, Status.INCONCLUSIVE,
        requirement.source, found.where, found.reason,
    )  # fmt: skip
    if found.value is None:
        return verdict
    return replace(verdict, status=_status(OPERATORS[op](found.value, requirement.limit)))


def _status(met: bool) -> Status:
    return Status.PASSED if met else Status.FAILED


def _relative(report: OverlapReport, thresholds: Thresholds, reference: Reference) -> list[Verdict]:
    """Drops of the hidden share, for each direction that the reference has, and growth."""
    verdicts = []
    if thresholds.max_drop is not None or not thresholds.relative:
        verdicts += [_drop(report, direction, thresholds, reference) for direction in DIRECTIONS]
    if thresholds.max_exposed_growth is not None:
        verdicts.append(_growth(report, thresholds.max_exposed_growth, reference))
    reasons = reference.mismatches(report)
    if reasons:
        why = f"{reference.name} cannot be compared: {'; '.join(reasons)}."
        verdicts = [replace(v, status=Status.INCONCLUSIVE, reason=why) for v in verdicts]
    # A direction that was never there cannot have dropped; one that is gone is inconclusive.
    there = [v for v in verdicts if v.baseline is not None]
    kept = [v for v in there if not _had_nothing_to_lose(v, thresholds, reference)]
    if there and not kept:
        why = f"{reference.name}: no direction hid more than a point, which leaves nothing to lose."
        return [replace(v, reason=f"{why} Give a limit such as --min-hidden.") for v in there]
    # Both directions together lack a value for whatever reason either does.
    both = [v for v in verdicts if v.metric.name.startswith("both.")]
    return kept or [replace(v, reason=v.reason or "No baseline value.") for v in both[:1]]


def _had_nothing_to_lose(verdict: Verdict, thresholds: Thresholds, reference: Reference) -> bool:
    """Whether a drop was asked about where hardly anything was hidden, and nothing is missing."""
    if verdict.op != ">=" or verdict.limit is not None or verdict.measured is None:
        return False
    given = thresholds.max_drop
    allowed = reference.allowance(verdict.metric) if given is None else None
    small = given is not None or (allowed is not None and allowed <= DEFAULT_MAX_DROP)
    return small and verdict.baseline is not None and verdict.baseline <= DEFAULT_MAX_DROP


def _drop(
    report: OverlapReport, direction: str, thresholds: Thresholds, reference: Reference
) -> Verdict:
    metric = METRICS[f"{direction}.hidden"]
    then = reference.measure(metric, Scope.TOTAL)
    now = measure(report, metric, Scope.TOTAL, least=True)
    given = thresholds.max_drop
    allowed = reference.allowance(metric) if given is None else given
    points = format_value(allowed, Unit.SHARE).removesuffix(" %")
    source = f"a drop of {points} points, by default" if given is None else f"--max-drop {points}"
    verdict = Verdict(
        metric, Scope.TOTAL, ">=", None, now.value, Status.INCONCLUSIVE, source,
        now.where, _reason(now, then, reference), then.value,
        baseline_spread=reference.spread(metric, Scope.TOTAL), compared=True,
    )  # fmt: skip
    if then.value is None:
        return verdict
    if allowed is None:
        n = verdict.baseline_spread.n if verdict.baseline_spread else 0
        return replace(
            verdict,
            reason=f"{number_of(n, 'matching run does', 'matching runs do')} not show a spread: "
            f"record {MIN_STEPS}, or give "
            "--max-drop.",
        )
    if now.value is None:
        return verdict
    if then.value <= allowed:
        return replace(verdict, reason=_meets_anything(then.value, given, verdict.baseline_spread))
    verdict = replace(verdict, limit=then.value - allowed)
    if thresholds.confidence is None:
        return replace(verdict, status=_status(then.value - now.value <= allowed))
    sample = steps_sample(report, direction)
    return _by_spread(verdict, sample, reference.sample(direction), allowed, thresholds.confidence)


def _meets_anything(then: Fraction, given: Fraction | None, spread: Spread | None) -> str:
    """A share cannot fall below the limit: no run would fail, so that none may pass either."""
    if given is None and spread is not None:
        return (
            f"The {spread.n} runs differ too much to tell: any share would pass. Choose like runs "
            "with --label, or give --max-drop POINTS."
        )
    shown = format_value(then, Unit.SHARE)
    return f"With such a drop from {shown} any share would pass: give a smaller --max-drop."


def _reason(now: Measured, then: Measured, reference: Reference) -> str:
    return f"{reference.name}: {then.reason}" if then.reason else now.reason


def _by_spread(
    verdict: Verdict,
    now: Sample | None,
    then: Sample | float | None,
    allowed: Fraction,
    level: Fraction,
) -> Verdict:
    """The verdict by whether the drop is larger, for sure, than the one allowed."""
    percent = f"{float(level * 100):g} %"
    if now is None or then is None:
        return replace(verdict, reason="The trace has no steps, so that no spread is known.")
    samples = [now] if isinstance(then, float) else [now, then]
    for sample in samples:
        if sample.n < MIN_STEPS:
            get = "capture" if sample is now else "record"
            few = number_of(sample.n, f"{sample.what} does", f"{sample.what}s do")
            few += f" not show a spread: {get} at least {MIN_STEPS}."
            return replace(verdict, reason=few)
    drop = measure_drop(now, then, float(allowed), float(level))
    verdict = replace(
        verdict,
        spread=Spread(drop.now.low, drop.now.high, drop.now.n),
        baseline_spread=Spread(drop.then.low, drop.then.high, drop.then.n) if drop.then.n else None,
    )
    exceeds = drop.exceeds(float(allowed))
    if exceeds is not None:
        return replace(verdict, status=_status(not exceeds))
    return replace(verdict, reason=_cannot_tell(drop, percent))


def _cannot_tell(drop: Drop, percent: str) -> str:
    low, high = (f"{bound * 100:.2f}" for bound in (drop.low, drop.high))
    text = f"The drop lies between {low} and {high} points at {percent} confidence; "
    if drop.n_needed is None:
        return f"{text}no number of steps would tell, the baseline itself is too uncertain."
    return f"{text}about {drop.n_needed} steps would tell."


def _growth(report: OverlapReport, allowed: Fraction, reference: Reference) -> Verdict:
    metric = METRICS["both.exposed_ms"]
    scope = Scope.STEP_MEDIAN if has_steps(report) else Scope.WORST_DEVICE
    now = measure(report, metric, scope, least=False)
    then = reference.measure(metric, scope)
    source = f"--max-exposed-growth {format_value(allowed, Unit.SHARE)}"
    limit = None if then.value is None else then.value * (1 + allowed)
    verdict = Verdict(
        metric, scope, "<=", limit, now.value, Status.INCONCLUSIVE, source,
        now.where, _reason(now, then, reference), then.value,
        baseline_spread=reference.spread(metric, scope), compared=True,
    )  # fmt: skip
    if now.value is None or limit is None:
        return verdict
    return replace(verdict, status=_status(now.value <= limit))


def biggest_losses(
    now: Sequence[OperationReport], then: Sequence[OperationReport]
) -> tuple[Loss, ...]:
    """The operations whose exposed time grew most, three at most; new ones grew from nothing."""
    before = {operation.key: operation for operation in then}
    losses = []
    for operation in now:
        sides = [before.get(operation.key), operation]
        known = [one for one in sides if one is not None]
        per_step = all(one.exposed_per_step_ns is not None for one in known)
        was, is_now = (0 if one is None else one.exposed(per_step=per_step) for one in sides)
        losses.append(Loss(*operation.key, was, is_now, per_step))
    grown = [loss for loss in losses if loss.now_ns > loss.then_ns]
    return tuple(sorted(grown, key=lambda loss: loss.then_ns - loss.now_ns)[:MAX_LOSSES])
