"""What the output of a gate says, in which order: verdicts to plain blocks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ..core.formatting import NONE, format_ns, number_of
from ..core.limits import Unit, as_base, digits_apart, format_difference, format_value
from ..judge.verdicts import Spread, Status, Verdict, Verdicts
from ..result.metrics import STEP_MEAN
from ..result.tables import change_columns, op_name
from .blocks import Block, Paragraph, Section, Table
from .cells import table_of

MAX_REASONS = 10
MAX_NAMED = 2
_TONES = {Status.PASSED: "headline", Status.FAILED: "alarm", Status.INCONCLUSIVE: "alarm"}


def verdict_sections(result: Verdicts) -> list[Section]:
    """Everything to print, in order."""
    said = [result.basis] if result.basis else []
    summary = [Paragraph(text) for text in (*said, *result.notes)]
    limits = [_table(result), *_reasons(result)] if result.verdicts else []
    return [
        Section(
            "summary", "Summary", (Paragraph(headline(result), _TONES[result.status]), *summary)
        ),
        Section("limits", "Limits", tuple(limits)),
        Section("losses", "What lost most", (_losses(result),) if result.losses else ()),
    ]


def headline(result: Verdicts) -> str:
    """The verdict in a sentence or two, with the reason where it did not pass."""
    n = len(result.verdicts)
    limits = number_of(n, "limit")
    if result.blockers:
        named = " ".join(_stopped(text) for text in result.blockers[: _named(result)])
        more = len(result.blockers) - _named(result)
        rest = f" And {number_of(more, 'more reason')}." if more else ""
        return f"Inconclusive: {named}{rest}"
    failed = [v for v in result.verdicts if v.status is Status.FAILED]
    unknown = [v for v in result.verdicts if v.status is Status.INCONCLUSIVE]
    if failed:
        return f"Failed: {verdict_sentence(failed[0])}{_others(failed, n)}"
    if unknown:
        return (
            f"Inconclusive: {unknown[0].name}: {_stopped(unknown[0].reason)}{_others(unknown, n)}"
        )
    return f"Passed: {'all ' if n > 1 else ''}{limits} met{_in_spite_of(result)}."


def _in_spite_of(result: Verdicts) -> str:
    return f", with {', '.join(result.accepted)} ACCEPTED" if result.accepted else ""


def _named(result: Verdicts) -> int:
    """How many of the reasons the headline names: all where they are few."""
    return len(result.blockers) if len(result.blockers) <= MAX_NAMED else 1


def _others(same: list[Verdict], n: int) -> str:
    return f" ({len(same)} of {n} limits.)" if n > 1 else ""


def verdict_sentence(verdict: Verdict) -> str:
    """`d2h.hidden is 59.5 %; the limit is >= 60.0 %.`, with what it was compared with."""
    where = f" ({verdict.where})" if verdict.where else ""
    measured, limit, _ = shown_values(verdict)
    then = f" against {shown_baseline(verdict)}" if verdict.baseline is not None else ""
    return f"{verdict.name} is {measured}{where}{then}; the limit is {verdict.op} {limit}."


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def shown_values(verdict: Verdict) -> tuple[str, str, str]:
    """Measured, limit and margin as text, with as many digits as tell them apart."""
    unit = verdict.metric.unit
    now, limit, margin = (
        as_base(value, unit) for value in (verdict.measured, verdict.limit, verdict.margin)
    )
    digits = digits_apart(now, limit, unit)
    return (
        f"{format_value(now, unit, digits)}{_spread(verdict.spread)}",
        format_value(limit, unit, digits),
        format_difference(margin, unit, digits),
    )


def shown_baseline(verdict: Verdict) -> str:
    """The value compared with as text, with its spread; a dash where there is none."""
    unit = verdict.metric.unit
    text = format_value(as_base(verdict.baseline, unit), unit)
    if verdict.baseline_spread is None:
        return text
    return f"{text}{_spread(verdict.baseline_spread, unit)}"


def _spread(spread: Spread | None, unit: Unit = Unit.SHARE) -> str:
    """` (91.7-92.4, n = 40)`."""
    if spread is None:
        return ""
    ends = [
        format_value(as_base(Fraction(end), unit), unit).rsplit(" ", 1)[0]
        for end in (spread.low, spread.high)
    ]
    width = "" if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}, "
    return f" ({width}n = {spread.n})"


def _table(result: Verdicts) -> Table:
    relative = any(v.baseline is not None for v in result.verdicts)
    rows = []
    for verdict in result.verdicts:
        measured, limit, margin = shown_values(verdict)
        then = verdict if verdict.spread else replace(verdict, baseline_spread=None)
        baseline = (shown_baseline(then),) if relative else ()
        shown_limit = f"{verdict.op} {limit}" if verdict.limit is not None else NONE
        rows.append((verdict.status.value, verdict.name, measured, shown_limit, *baseline, margin))
    columns = ("verdict", "metric", "measured", "limit", *(["baseline"] if relative else []))
    # Beside the other columns the spread of runs would not fit 80 columns.
    spreads = [
        f"{v.name} {shown_baseline(v)}"
        for v in result.verdicts
        if v.baseline_spread and not v.spread
    ]
    spread = f"; {', '.join(spreads)}" if spreads else ""
    note = f"Baseline: {result.baseline}{spread}." if result.baseline else ""
    return Table("Gate", (*columns, "margin"), tuple(rows), note, n_words=2)


def _reasons(result: Verdicts) -> list[Block]:
    """What the headline has not said: why verdicts are what they are, and of what values are."""
    if result.blockers:
        others = [Paragraph(_stopped(text)) for text in result.blockers[_named(result) :]]
        if len(others) > MAX_REASONS:
            left = number_of(len(others) - MAX_REASONS, "more reason")
            left += "; all are in the JSON output."
            others[MAX_REASONS:] = [Paragraph(left)]
        return [*others]
    said = headline(result)
    texts = [f"{v.name}: {_stopped(v.reason)}" for v in result.verdicts if v.reason]
    places = [
        f"{v.name} is that of {v.where}." for v in result.verdicts if v.where and not v.reason
    ]
    return [Paragraph(text) for text in dict.fromkeys((*texts, *places)) if text not in said]


def _losses(result: Verdicts) -> Table:
    per_step = f", {STEP_MEAN}" if any(loss.per_step for loss in result.losses) else ""
    columns = change_columns(("then", "then_ns"), ("now", "now_ns"))
    return table_of(f"What lost most{per_step}", columns, result.losses)


def loss_sentence(result: Verdicts) -> str:
    """What lost most without a table: `copy-start.1 D2H +7.5 ms in the mean step; ...`."""
    return "; ".join(
        f"{op_name(loss)} {loss.direction.upper()} +{format_ns(loss.now_ns - loss.then_ns)}"
        f"{f' in the {STEP_MEAN}' if loss.per_step else ''}"
        for loss in result.losses
    )
