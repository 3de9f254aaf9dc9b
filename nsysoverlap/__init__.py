"""How much host transfer time an Nsight Systems trace hides behind compute.

    import nsysoverlap as no
    trace = no.read_trace("trace.sqlite")
    report = no.analyze(trace)

Names are resolved on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .analysis import analyze
    from .config import load_config
    from .errors import NsysOverlapError
    from .gate.evaluate import check
    from .intervals import IntervalSet
    from .plots import plot_bandwidth, plot_ops, plot_steps, plot_timeline
    from .reader import read_trace
    from .report import Overlap, OverlapReport
    from .rules import Role, Rule, RuleSet, classify
    from .trace import Trace
    from .window import Window, parse_window

_HOMES = {
    "IntervalSet": "intervals",
    "NsysOverlapError": "errors",
    "Overlap": "report",
    "OverlapReport": "report",
    "Role": "rules",
    "Rule": "rules",
    "RuleSet": "rules",
    "Trace": "trace",
    "Window": "window",
    "analyze": "analysis",
    "check": "gate.evaluate",
    "classify": "rules",
    "load_config": "config",
    "parse_window": "window",
    "plot_bandwidth": "plots",
    "plot_ops": "plots",
    "plot_steps": "plots",
    "plot_timeline": "plots",
    "read_trace": "reader",
}

__all__ = [
    "IntervalSet",
    "NsysOverlapError",
    "Overlap",
    "OverlapReport",
    "Role",
    "Rule",
    "RuleSet",
    "Trace",
    "Window",
    "__version__",
    "analyze",
    "check",
    "classify",
    "load_config",
    "parse_window",
    "plot_bandwidth",
    "plot_ops",
    "plot_steps",
    "plot_timeline",
    "read_trace",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
