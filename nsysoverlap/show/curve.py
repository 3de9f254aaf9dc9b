"""The curve of step and exposed time against the link rate, as an inline SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from ..core.palette import COLORS, ON_DARK
from ..replay.answer import ENOUGH, SweepPoint

_WIDTHS = {"wide": 720.0, "narrow": 360.0}
"""By the class of the drawing; a page shows the one that fits, so that letters keep their size."""
_HEIGHT, _LETTER = 260.0, 6.2
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 60.0, 20.0, 40.0


def curve_svg(path: str, points: Sequence[SweepPoint], enough_link: float | None) -> str:
    """Step (a band from low to high) and exposed time over the link rate; '' without a sweep."""
    if len(points) < 2:
        return ""
    return "".join(_svg(path, points, enough_link, kind) for kind in _WIDTHS)


def _svg(path: str, points: Sequence[SweepPoint], enough_link: float | None, kind: str) -> str:
    width = _WIDTHS[kind]
    high = max(point.step_high_ns for point in points) or 1

    def x(times: float) -> float:
        first, last = math.log(points[0].times), math.log(points[-1].times)
        return _LEFT + (math.log(times) - first) / (last - first) * (width - _LEFT - _RIGHT)

    def y(ns: float) -> float:
        return _TOP + (1 - ns / high) * (_HEIGHT - _TOP - _BOTTOM)

    def line(values: Sequence[tuple[float, int]]) -> str:
        return " ".join(f"{x(times):.1f},{y(ns):.1f}" for times, ns in values)

    low = [(point.times, point.step_low_ns) for point in points]
    top = [(point.times, point.step_high_ns) for point in points]
    exposed = [(point.times, point.exposed_ns) for point in points]
    step, transfer = (f"light-dark({COLORS[k]}, {ON_DARK[k]})" for k in ("compute", "exposed"))
    marks = [_mark(x(1.0), "now")] if points[0].times <= 1 <= points[-1].times else []
    if enough_link is not None:
        label = f"{100 * ENOUGH:.0f} % exposed: {enough_link:.2g}x"
        outside = x(enough_link) + _LETTER * len(label) > width
        marks.append(_mark(x(enough_link), label, 14.0, outside))
    parts = [
        f'<polygon points="{line(low)} {line(top[::-1])}" style="fill:{step};opacity:.35"/>',
        f'<polyline points="{line(low)}" style="fill:none;stroke:{step};stroke-width:2"/>',
        f'<polyline points="{line(exposed)}" '
        f'style="fill:none;stroke:{transfer};stroke-width:2;stroke-dasharray:6 3"/>',
        *marks,
        *_axes(points, x, y, high),
        _label(width - _RIGHT + 6, y(low[-1][1]) + 4, "step"),
        _label(width - _RIGHT + 6, y(exposed[-1][1]) + 4, "exposed"),
    ]
    title = html.escape(f"Step and exposed time against the link rate, {path}")
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="{title}" style="max-width:{width:.0f}px;font:12px system-ui,sans-serif">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _axes(points: Sequence[SweepPoint], x, y, high: int) -> list[str]:  # type: ignore[no-untyped-def]
    ticks = [2.0**power for power in range(-10, 14)]
    inside = [tick for tick in ticks if points[0].times <= tick <= points[-1].times]
    labels = [
        _label(x(tick), _HEIGHT - _BOTTOM + 18, f"{tick:g}x", "middle")
        for tick in inside[:: max(1, len(inside) // 8)]
    ]
    right, rules = x(points[-1].times), []
    for tick in _round_ticks(high):
        at = y(tick)
        rules.append(
            f'<line x1="{_LEFT}" x2="{right:.1f}" y1="{at:.1f}" y2="{at:.1f}" '
            'style="stroke:currentColor;opacity:.2"/>'
        )
        rules.append(_label(_LEFT - 6, at + 4, _tick_text(tick), "end"))
    return [*rules, *labels]


def _round_ticks(high: int, most: int = 5) -> range:
    """Round times from 0 to at most `high`, in ns."""
    power = 10 ** max(0, len(str(high)) - 2)
    step = next(n * power for n in (1, 2, 5, 10, 20, 50) if n * power * most >= high)
    return range(0, high + 1, step)


def _tick_text(ns: int) -> str:
    unit, name = (10**6, "ms") if ns >= 10**6 or not ns else (10**3, "µs")
    return f"{ns / unit:g} {name}"


def _mark(at: float, text: str, lower: float = 0.0, left: bool = False) -> str:
    beside, anchor = (at - 4, "end") if left else (at + 4, "start")
    return (
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" '
        'style="stroke:currentColor;stroke-dasharray:2 3"/>'
        + _label(beside, _TOP + 10 + lower, text, anchor)
    )


def _label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="fill:currentColor">'
        f"{html.escape(text)}</text>"
    )
