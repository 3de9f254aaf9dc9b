"""The verdict of a gate as JSON, for programs."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import Any

from .._version import __version__
from ..core.limits import Unit
from ..judge.verdicts import Verdict, Verdicts
from .interface import Layout
from .json import as_json
from .say_verdicts import headline

FORMAT = "nsysoverlap.verdict"
FORMAT_VERSION = 1

_UNITS = {
    Unit.SHARE: "share",
    Unit.TIME: "ns",
    Unit.BYTES: "bytes",
    Unit.COUNT: "count",
    Unit.RATE: "GB/s",
}


def render_verdict_json(result: Verdicts, layout: Layout) -> str:
    """Shares as floats 0..1, times in ns, sizes in bytes; null where nothing is known."""
    values = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "generator": f"nsysoverlap {__version__}",
        "status": result.status.value,
        "headline": headline(result),
        "traces": list(result.traces),
        "basis": result.basis,
        "baseline": result.baseline,
        "blockers": list(result.blockers),
        "notes": list(result.notes),
        "verdicts": [_verdict(verdict) for verdict in result.verdicts],
        "losses": [asdict(loss) for loss in result.losses],
    }
    return as_json(values)


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "metric": verdict.metric.name,
        "scope": verdict.scope.value,
        "unit": _UNITS[verdict.metric.unit],
        "status": verdict.status.value,
        "measured": _number(verdict.measured),
        "op": verdict.op,
        "limit": _number(verdict.limit),
        "margin": _number(verdict.margin),
        "baseline": _number(verdict.baseline),
        "spread": asdict(verdict.spread) if verdict.spread else None,
        "baseline_spread": asdict(verdict.baseline_spread) if verdict.baseline_spread else None,
        "where": verdict.where,
        "reason": verdict.reason,
        "source": verdict.source,
    }


def _number(value: Fraction | None) -> int | float | None:
    if value is None:
        return None
    return int(value) if value.denominator == 1 else float(value)
