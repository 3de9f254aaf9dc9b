"""The limit on what a step could still win: decided by a range, and never by a guess."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ..core.formatting import format_ns, format_range
from ..core.limits import Unit
from ..result.metrics import Metric, NoValueError, Part, Scope
from ..result.model import Finding, OverlapReport
from .verdicts import Status, Verdict


def _of_no_part(part: Part) -> Fraction:
    raise NoValueError(f"{part.name}: gains are those of findings")


GAIN = Metric(
    "gain", Unit.TIME, "what a step would win without the cause of a finding, replayed", _of_no_part
)


def judge_gain(report: OverlapReport, limit: Fraction, source: str) -> Verdict:
    """Failed where the low end of the largest gain is above the limit, passed where its high end
    is not, else inconclusive; never passed where a prediction is withheld or no gain is known.

    What findings without a tested scenario are worth is not known and not counted; that is said.
    It is at most what they expose, so that one that exposes more than the limit is never passed.
    """
    verdict = Verdict(GAIN, Scope.TOTAL, "<=", limit, None, Status.INCONCLUSIVE, source)
    reason, unpriced = _unknown(report), _say(_unpriced(report))
    known = [finding for finding in report.findings if finding.gain is not None]
    if not known:
        if reason or unpriced:
            return replace(verdict, reason=reason or unpriced)
        return replace(verdict, status=Status.PASSED, measured=Fraction(0))
    least = max(finding.gain.low_ns for finding in known if finding.gain)
    most = max(finding.gain.high_ns for finding in known if finding.gain)
    span = f"The largest replayed gain is {format_range(least, most)} a step. {unpriced}".strip()
    if least > limit:
        # Another prediction that is missing could only add to it.
        return replace(verdict, status=Status.FAILED, measured=Fraction(least), reason=span)
    if reason is not None:
        return replace(verdict, reason=reason)
    exposed = max((finding.cost_ns for finding in _unpriced(report)), default=0)
    if most <= limit < exposed:
        return replace(verdict, reason=f"{span} It may be up to {format_ns(exposed)}.")
    if most <= limit:
        return replace(verdict, status=Status.PASSED, measured=Fraction(most), reason=span)
    return replace(verdict, measured=Fraction(most), reason=f"The limit lies in the range. {span}")


def _unknown(report: OverlapReport) -> str | None:
    """Why nothing can be said of some trace."""
    if not any(device.both.n for device in report.devices):
        return "There are no host transfers."
    for trace in report.traces:
        if trace.replay is not None and trace.replay.withheld is not None:
            return f"{trace.path}: nothing is predicted: {trace.replay.withheld}."
        moved = any(d.both.n for d in report.devices if d.trace == trace.path)
        if trace.replay is None and moved:
            return f"{trace.path}: without steps nothing is replayed."
    return None


def _unpriced(report: OverlapReport) -> list[Finding]:
    """Warnings that may be worth more than what is known."""
    return [f for f in report.findings if f.severity == "warning" and f.gain is None and f.cost_ns]


def _say(unpriced: list[Finding]) -> str:
    if not unpriced:
        return ""
    codes = ", ".join(dict.fromkeys(finding.code for finding in unpriced))
    return f"The gain of {codes} is unknown: its kind of scenario was not tested."
