"""The page's bar charts: parts of bars in percent of the longest, which any width can draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.formatting import clean_text, format_ns, number_of
from ..result.device_names import device_names
from ..result.model import OverlapReport, TimeBudget, format_share, share
from ..result.quantities import BUDGET_TITLES

MAX_ROWS = 16
DIRECTIONS = {"h2d": "H2D", "d2h": "D2H"}


@dataclass(frozen=True)
class BarPart:
    """A part of a bar: `kind` its classes in the style sheet, `width` in percent."""

    kind: str
    width: float
    text: str
    title: str


@dataclass(frozen=True)
class Row:
    """One bar: what it is of, its parts, and their sum as text."""

    label: str
    segments: tuple[BarPart, ...]
    total: str


@dataclass(frozen=True)
class BarChart:
    """Horizontal stacked bars; `legend` has (kind, text) pairs."""

    name: str
    title: str
    description: str
    rows: tuple[Row, ...]
    legend: tuple[tuple[str, str], ...]
    note: str = ""


def split_chart(report: OverlapReport) -> BarChart | None:
    """Transfer time of each direction over all devices; None without any."""
    totals = {name: report.total(name) for name in DIRECTIONS}
    longest = max(part.wall_ns for part in totals.values())
    if not longest:
        return None
    rows: list[Row] = []
    titles: dict[str, str] = {}
    for name, part in totals.items():
        own = {
            name: f"{DIRECTIONS[name]} behind compute",
            f"{name} pale": "behind communication only",
            "transfer": "exposed",
        }
        hidden = (part.hidden_by_compute_ns, part.hidden_by_comm_ns, part.exposed_ns)
        rows.append(_row(DIRECTIONS[name], dict(zip(own, hidden, strict=True)), own, longest))
        titles |= own
    both = report.total("both")
    apart = sum(part.exposed_ns for part in totals.values()) - both.exposed_ns
    return BarChart(
        "split",
        f"{format_ns(both.exposed_ns)} of {format_ns(both.wall_ns)} of transfer time is exposed",
        _described(rows),
        tuple(rows),
        _legend(rows, titles),
        f"The bars hold {format_ns(apart)} more: while both directions ran, time counts once above."
        if apart
        else "",
    )


def budget_chart(report: OverlapReport) -> BarChart | None:
    """What each device did, most exposed time first where there are many; None without devices."""
    pairs = [
        (name, device.time_budget)
        for name, device in zip(device_names(report), report.devices, strict=True)
        if device.time_budget.total_ns
    ]
    if not pairs:
        return None
    shown = pairs
    if len(pairs) > MAX_ROWS:
        shown = sorted(pairs, key=lambda pair: -pair[1].transfer_ns)[:MAX_ROWS]
    longest = max(budget.total_ns for _, budget in shown)
    rows = tuple(
        _row(clean_text(name), budget_times(budget), BUDGET_TITLES, longest)
        for name, budget in shown
    )
    total = sum((budget for _, budget in pairs), TimeBudget())
    exposed = format_share(share(total.transfer_ns, total.total_ns))
    rest = len(pairs) - len(shown)
    return BarChart(
        "budget",
        f"Exposed transfers take {exposed} of the measured time",
        _described(rows),
        rows,
        _legend(rows, BUDGET_TITLES),
        f"The {len(shown)} devices with the most exposed time; "
        f"{number_of(rest, 'more is', 'more are')} in the JSON report."
        if rest
        else "",
    )


def budget_times(budget: TimeBudget) -> dict[str, int]:
    """The parts of a budget in the order in which they are drawn, in ns."""
    return {name: getattr(budget, f"{name}_ns") for name in BUDGET_TITLES}


def _row(label: str, times: dict[str, int], titles: dict[str, str], longest: int) -> Row:
    total = sum(times.values())
    segments = []
    for kind, ns in times.items():
        if ns:
            percent = format_share(share(ns, total))
            title = f"{label}: {titles[kind]} {format_ns(ns)}, {percent}"
            segments.append(BarPart(kind, round(100 * ns / longest, 3), percent, title))
    return Row(label, tuple(segments), format_ns(total))


def _described(rows: Sequence[Row]) -> str:
    """The numbers in words, for those who do not see the bars."""
    return ". ".join(segment.title for row in rows for segment in row.segments)


def _legend(rows: Sequence[Row], titles: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """One entry a text, in the order of `titles`, of what is drawn."""
    used = {segment.kind for row in rows for segment in row.segments}
    texts: dict[str, str] = {}
    for kind, text in titles.items():
        if kind in used:
            texts.setdefault(text, kind)
    return tuple((kind, text) for text, kind in texts.items())
