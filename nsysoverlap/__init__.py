"""How much host transfer time an Nsight Systems trace hides behind compute.

    import nsysoverlap as no
    report = no.analyze("trace.sqlite")         # or a folder of ranks, a list, a pattern
    no.gate(report, min_hidden=90)

Names are resolved on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .core.late import find_late_with

if TYPE_CHECKING:
    from .core.errors import NsysOverlapError
    from .core.intervals import IntervalSet
    from .core.window import Window, parse_window
    from .draw.plot_bandwidth import plot_bandwidth
    from .draw.plot_history import draw_history
    from .draw.plot_ops import plot_ops
    from .draw.plot_steps import plot_steps
    from .draw.plot_timeline import plot_timeline
    from .judge.evaluate import check
    from .judge.toplevel import compare, gate, history, record
    from .judge.verdicts import Verdicts
    from .result.model import Overlap, OverlapReport
    from .roles.config import load_config
    from .roles.rules import Role, Rule, RuleSet, classify
    from .run.answers import whatif
    from .run.sources import Source, analyze
    from .trace.contents import Trace
    from .trace.load import read_trace

_HOMES = {
    "IntervalSet": "core.intervals",
    "NsysOverlapError": "core.errors",
    "Overlap": "result.model",
    "OverlapReport": "result.model",
    "Role": "roles.rules",
    "Rule": "roles.rules",
    "RuleSet": "roles.rules",
    "Trace": "trace.contents",
    "Window": "core.window",
    "Source": "run.sources",
    "Verdicts": "judge.verdicts",
    "analyze": "run.sources",
    "check": "judge.evaluate",
    "classify": "roles.rules",
    "compare": "judge.toplevel",
    "draw_history": "draw.plot_history",
    "gate": "judge.toplevel",
    "history": "judge.toplevel",
    "record": "judge.toplevel",
    "load_config": "roles.config",
    "parse_window": "core.window",
    "plot_bandwidth": "draw.plot_bandwidth",
    "plot_ops": "draw.plot_ops",
    "plot_steps": "draw.plot_steps",
    "plot_timeline": "draw.plot_timeline",
    "read_trace": "trace.load",
    "whatif": "run.answers",
}

_LATE_HOMES = {
    "activities_frame": "result.frames",
    "report_frame": "result.frames",
    "result_html": "show.notebook",
    "trace_html": "show.notebook",
    "transfers_frame": "run.transfer_table",
}
"""What methods ask `core.late` for."""

__all__ = [
    "IntervalSet",
    "NsysOverlapError",
    "Overlap",
    "OverlapReport",
    "Role",
    "Rule",
    "RuleSet",
    "Source",
    "Trace",
    "Verdicts",
    "Window",
    "__version__",
    "analyze",
    "check",
    "classify",
    "compare",
    "draw_history",
    "gate",
    "history",
    "load_config",
    "parse_window",
    "plot_bandwidth",
    "plot_ops",
    "plot_steps",
    "plot_timeline",
    "read_trace",
    "record",
    "whatif",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _imported(name, _HOMES)
    return value


def _imported(name: str, homes: dict[str, str]) -> Any:
    return getattr(import_module(f".{homes[name]}", __name__), name)


find_late_with(lambda name: _imported(name, _LATE_HOMES))


def __dir__() -> list[str]:
    return sorted(__all__)
