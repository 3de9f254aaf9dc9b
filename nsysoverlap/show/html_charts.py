"""Geometry of the page's bar charts, in the units of their view boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.formatting import clean_text, format_ns, number_of
from ..result.device_names import NAMES, device_names
from ..result.model import OverlapReport, TimeBudget, format_share, share

BAR_LEFT, BAR_WIDTH = 190.0, 640.0
ROW, BAR = 34.0, 20.0
MIN_LABELLED = 44.0
"""Segments narrower than this carry no text."""
MAX_ROWS = 16
BUDGET_TITLES = {
    "compute": "compute",
    "comm": "communication",
    "transfer": "exposed transfers",
    "other": "other GPU work",
    "opaque": "opaque CUDA graphs",
    "idle": "idle",
}
SPLIT_TITLES = {
    "compute": "behind compute",
    "comm": "behind communication only",
    "transfer": "exposed",
}


@dataclass(frozen=True)
class BarPart:
    """A part of a bar; `kind` is its class in the style sheet."""

    kind: str
    x: float
    width: float
    text: str
    title: str


@dataclass(frozen=True)
class Row:
    """One bar: what it is of, its parts, and their sum as text."""

    label: str
    y: float
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

    @property
    def height(self) -> float:
        """Height of the view box."""
        return ROW * len(self.rows) + 4


def split_chart(report: OverlapReport) -> BarChart | None:
    """Transfer time of each direction over all devices; None without any."""
    rows: list[Row] = []
    totals = {name: report.total(name) for name in ("h2d", "d2h", "both")}
    longest = max(part.wall_ns for part in totals.values())
    if not longest:
        return None
    for name, part in totals.items():
        times = {
            "compute": part.hidden_by_compute_ns,
            "comm": part.hidden_by_comm_ns,
            "transfer": part.exposed_ns,
        }
        rows.append(_row(NAMES[name], len(rows), times, SPLIT_TITLES, longest))
    both = totals["both"]
    return BarChart(
        "split",
        f"{format_ns(both.exposed_ns)} of {format_ns(both.wall_ns)} of transfer time is exposed",
        _described(rows),
        tuple(rows),
        _legend(rows, SPLIT_TITLES),
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
        _row(clean_text(name), i, _budget_times(budget), BUDGET_TITLES, longest)
        for i, (name, budget) in enumerate(shown)
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


def _budget_times(budget: TimeBudget) -> dict[str, int]:
    return {name: getattr(budget, f"{name}_ns") for name in BUDGET_TITLES}


def _row(
    label: str, place: int, times: dict[str, int], titles: dict[str, str], longest: int
) -> Row:
    total = sum(times.values())
    segments, x = [], BAR_LEFT
    for kind, ns in times.items():
        width = BAR_WIDTH * ns / longest
        percent = format_share(share(ns, total))
        if ns:
            text = percent if width >= MIN_LABELLED else ""
            title = f"{label}: {titles[kind]} {format_ns(ns)}, {percent}"
            segments.append(BarPart(kind, round(x, 2), round(width, 2), text, title))
        x += width
    return Row(label, ROW * place, tuple(segments), format_ns(total))


def _described(rows: Sequence[Row]) -> str:
    """The numbers in words, for those who do not see the bars."""
    return ". ".join(segment.title for row in rows for segment in row.segments)


def _legend(rows: Sequence[Row], titles: dict[str, str]) -> tuple[tuple[str, str], ...]:
    used = {segment.kind for row in rows for segment in row.segments}
    return tuple((kind, text) for kind, text in titles.items() if kind in used)
