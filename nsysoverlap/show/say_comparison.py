"""What a comparison says: plain blocks, and plain data for JSON."""

from __future__ import annotations

from fractions import Fraction
from operator import attrgetter

from ..core.formatting import NONE, format_ns, number_of
from ..core.limits import Unit, as_base, digits_apart, format_difference, format_value
from ..judge.comparison import Change, Comparison, KernelChange
from ..result.columns import Column
from ..result.metrics import METRICS, STEP_MEAN
from ..result.model import Finding
from ..result.tables import change_columns
from .blocks import Block, Paragraph, Section, Table
from .cells import table_of

MAX_ROWS = 10
_EQUAL = Fraction(1, 100)
_EQUAL_SHARES = Fraction(1, 1000)
"""What moved by less than 1 % of itself, or a share by less than 0.1 points, is no better or worse.
"""


def comparison_sections(result: Comparison) -> list[Section]:
    """Everything to print, in order."""
    over = "Amounts are medians over steps." if result.per_step else "Amounts are over everything."
    budget = tuple(c for c in result.budget if c.a or c.b)
    summary = (
        Paragraph(headline(result), "headline"),
        Paragraph(f"A is {result.a}, B is {result.b}."),
        *(Paragraph(caution, "alarm") for caution in result.cautions),
    )
    changes = [_changes("Change from A to B", result.split, over)]
    changes += [_changes("Time budget, share of the window", budget, "")] if budget else []
    findings = _findings("Findings that came", result.new_findings)
    findings += _findings("Findings that went", result.gone_findings)
    return [
        Section("summary", "Summary", summary),
        Section("change", "Change", tuple(changes)),
        Section("operations", "Operations", tuple(_operations(result))),
        Section("kernels", "Kernels", tuple(_kernels(result))),
        Section("findings", "Findings", tuple(findings)),
    ]


def headline(result: Comparison) -> str:
    """The change that matters most, in a sentence or two."""
    hidden = next((c for c in result.split if c.name == "both.hidden"), None)
    step = result.step_time
    parts = []
    if hidden is not None and hidden.difference is not None:
        a, b = _shown(hidden)
        parts.append(f"Behind compute: {a} in A, {b} in B.")
    elif hidden is not None:
        side = "A" if hidden.b is None else "B"
        parts.append(f"Only {side} has host transfers.")
    else:
        parts.append("Neither side has host transfers.")
    if step is not None and step.a and step.b:
        percent = f"{float(abs(step.b / step.a - 1) * 100):.1f} %"
        word = "slower" if step.b > step.a else "faster"
        change = f"B is {percent} {word}" if step.a != step.b else "the same"
        times = (format_value(as_base(v, step.unit), step.unit) for v in (step.a, step.b))
        parts.append("Step time: {} in A, {} in B ({}).".format(*times, change))
    if result.accepted:
        parts.append(f"{', '.join(result.accepted)} ACCEPTED.")
    return " ".join(parts)


def _shown(change: Change) -> tuple[str, str]:
    """Both sides as text, with digits that tell them apart."""
    unit, digits = change.unit, _digits(change)
    a, b = (format_value(as_base(v, unit), unit, digits) for v in (change.a, change.b))
    return a, b


def _digits(change: Change) -> int | None:
    return digits_apart(as_base(change.a, change.unit), as_base(change.b, change.unit), change.unit)


def _changes(title: str, changes: tuple[Change, ...], note: str) -> Table:
    rows = []
    for change in changes:
        moved = as_base(change.difference, change.unit)
        difference = format_difference(moved, change.unit, _digits(change))
        rows.append((change.name, *_shown(change), difference, _judged(change)))
    return Table(title, ("metric", "A", "B", "change", ""), tuple(rows), note)


def _judged(change: Change) -> str:
    better = METRICS[change.name].more_is_better
    if better is None or change.a is None or not change.difference:
        return ""
    least = max(_EQUAL * abs(change.a), _EQUAL_SHARES if change.unit is Unit.SHARE else 0)
    if abs(change.difference) < least:
        return "about equal"
    return "better" if (change.difference > 0) is better else "worse"


def _operations(result: Comparison) -> list[Block]:
    changed = [c for c in result.operations if c.difference_ns]
    if not changed:
        return []
    per_step = f", {STEP_MEAN}" if result.per_step else ""
    note = _left_out(len(changed), "operation")
    columns = change_columns(("A", "a_ns"), ("B", "b_ns"))
    return [table_of(f"Operations, exposed time{per_step}", columns, changed[:MAX_ROWS], note)]


def _kernels(result: Comparison) -> list[Block]:
    unlike = _unlike(result.n_unlike_kernels)
    if not result.kernels:
        return [Paragraph(unlike)] if unlike else []
    cost = f"cost, {STEP_MEAN}" if result.per_step else "cost"
    columns: tuple[Column[KernelChange], ...] = (
        Column("name", Unit.NAME, "", attrgetter("name"), "kernel"),
        Column("role", Unit.NAME, "", attrgetter("role"), "role"),
        Column("a_mean_ns", Unit.TIME, "", attrgetter("a_mean_ns"), "mean A"),
        Column("b_mean_ns", Unit.TIME, "", attrgetter("b_mean_ns"), "mean B"),
        Column("cost_ns", Unit.TIME, "", attrgetter("cost_ns"), cost),
    )
    notes = (_left_out(len(result.kernels), "kernel"), unlike)
    note = " ".join(filter(None, notes))
    return [table_of("Kernels that slowed down", columns, result.kernels[:MAX_ROWS], note)]


def _unlike(n: int) -> str:
    if not n:
        return ""
    names = number_of(n, "kernel name is", "kernel names are")
    return f"{names} not compared: launched more often on one side, so perhaps other work."


def _left_out(n: int, what: str) -> str:
    if n <= MAX_ROWS:
        return ""
    return f"{number_of(n - MAX_ROWS, f'more {what} is', f'more {what}s are')} in the JSON output."


def _findings(title: str, findings: tuple[Finding, ...]) -> list[Block]:
    if not findings:
        return []
    rows = tuple((f.code, f.title, format_ns(f.cost_ns) if f.cost_ns else NONE) for f in findings)
    return [Table(title, ("code", "what", "cost"), rows, n_words=2)]
