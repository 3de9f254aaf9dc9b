"""Findings in plain words: what is wrong, what it costs, why, and what to do about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ..core.formatting import format_at, format_ns, format_range, number_of
from ..result.device_names import rank_name
from ..result.evidence import evidence_device
from ..result.model import Evidence, Finding, OverlapReport
from .blocks import Block, Entries, Entry, Paragraph
from .view import View

N_TOP = 5
COSTS_NO_EXPOSURE = ("hiding-costs-", "gpu-idle-beside-offload", "unified-memory")
"""Codes that begin so cost slower kernels, not exposed time."""
N_EXAMPLES = 3
_NUMBERS = re.compile(r"[\d.,]+")


def findings_section(report: OverlapReport, view: View) -> list[Block]:
    """The findings that the view asks for: warnings before notes, see `Finding.urgency`."""
    ordered = sorted(report.findings, key=Finding.urgency)
    if view.findings == "none":
        return []
    if view.findings not in {"top", "all"}:
        ordered = [finding for finding in ordered if finding.code == view.findings]
        if not ordered:
            return [Paragraph(f"There is no finding {view.findings!r} in this report.")]
    if not ordered:
        return []
    top = view.findings == "top"
    # Ranks have the same findings, which would leave no room for any other.
    groups = alike(ordered) if top or view.folded else [[finding] for finding in ordered]
    shown = groups[:N_TOP] if top else groups
    # One example each keeps the report on a screen; who asks for more gets all.
    n_examples = 1 if top else N_EXAMPLES
    entries = tuple(
        # A page names the others itself, each to be gone to.
        _entry(report, group[:1] if view.folded else group, n_examples)
        for group in shown
    )
    notes = (_costs([group[0] for group in shown]), _rest(sum(map(len, groups[len(shown) :]))))
    return [Entries("Findings", entries, " ".join(note for note in notes if note))]


def alike(ordered: Sequence[Finding]) -> list[list[Finding]]:
    """Findings of different traces that differ only in numbers; those of one trace stay apart."""
    groups: dict[tuple[str, str, str, int], list[Finding]] = {}
    seen: Counter[tuple[str, str, str, str | None]] = Counter()
    for finding in ordered:
        kind = (finding.code, _NUMBERS.sub("", finding.title), finding.remedy)
        own = (*kind, _trace(finding))
        groups.setdefault((*kind, seen[own]), []).append(finding)
        seen[own] += 1
    return list(groups.values())


def _trace(finding: Finding) -> str | None:
    return finding.evidence[0].trace if finding.evidence else None


def _entry(report: OverlapReport, group: Sequence[Finding], n_examples: int) -> Entry:
    finding, *others = group
    named = f"{finding.code}{_ranks(report, group)}"
    title = f"{_price(report, finding)}{finding.title.rstrip('.')} ({named})"
    text = tuple(part for part in (finding.detail, _fix(finding), _elsewhere(others)) if part)
    examples = tuple(_example(report, row) for row in finding.evidence[:n_examples])
    return Entry(title, text, examples)


def _ranks(report: OverlapReport, group: Sequence[Finding]) -> str:
    """Of several traces the rank, its GPU where the trace proves one, and how many have it too."""
    traces = {trace.path: trace for trace in report.traces}
    if len(traces) < 2 or not group[0].evidence or _trace(group[0]) not in traces:
        return ""
    first = group[0].evidence[0]
    name = rank_name(traces[first.trace or ""])
    device = evidence_device(report, first)
    gpu = None if device is None else report.devices[device].gpu_id
    where = name if gpu is None else f"{name}, GPU {gpu}"
    others = {_trace(finding) for finding in group[1:]} - {first.trace}
    more = f" and {number_of(len(others), 'more rank')}" if others else ""
    return f"; {where}{more}"


def _price(report: OverlapReport, finding: Finding) -> str:
    """What it costs and, where that was replayed, what a step wins without it."""
    per_step = " a step" if report.basis.n_steps else ""
    cost = f"{format_ns(finding.cost_ns)}{per_step}"
    # Costs are over all steps, divided by their number.
    mean = "mean " if report.basis.n_steps else ""
    if finding.gain is not None:
        alone = ", this rank alone" if len(report.traces) > 1 else ""
        gain = format_range(finding.gain.low_ns, finding.gain.high_ns)
        return f"gain {gain}{per_step}{alone} ({mean}{format_ns(finding.cost_ns)} exposed): "
    if not finding.cost_ns:
        return ""
    unknown = not finding.code.startswith(COSTS_NO_EXPOSURE)
    return f"{mean}{cost} exposed, gain unknown: " if unknown else f"{cost}: "


def _fix(finding: Finding) -> str:
    return f"Fix: {finding.remedy}" if finding.remedy else ""


def _elsewhere(others: Sequence[Finding]) -> str:
    if not others:
        return ""
    more = number_of(len(others), "more trace")
    return f"The same on {more}, such as {_trace(others[0])}: --findings all."


def _example(report: OverlapReport, row: Evidence) -> str:
    """When, where if there is a choice, which operation unless the text names it, and what."""
    owners = []
    if len(report.traces) > 1 and row.trace:
        owners.append(row.trace)
    if len(report.devices) > 1 and row.device:
        owners.append(row.device)
    if row.op and row.op not in row.text:
        owners.append(row.op)
    return ", ".join([format_at(row.start_ns, row.end_ns), *owners]) + f": {row.text}"


def _costs(shown: Sequence[Finding]) -> str:
    """A warning where costs could be summed."""
    if sum(finding.cost_ns > 0 for finding in shown) < 2:
        return ""
    return "Costs may be for the same time, so they do not add up."


def _rest(n_more: int) -> str:
    return f"{n_more} more: --findings all." if n_more else ""
