"""What a picture of a trace is of: the devices, the measured time, and how to call them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..core.errors import UsageError
from ..core.formatting import device_label
from ..core.records import dataclass
from ..core.window import Window
from ..measure.case import DeviceCase
from ..roles.rules import RuleSet
from ..run.analysis import Options, trace_cases
from ..steps.plan import StepPlan, StepSpec, plan_steps
from ..trace.contents import Device, Trace
from ..trace.load import read_trace
from .style import legible


@dataclass(frozen=True)
class Subject:
    """The devices of a trace with what is measured of them.

    `borders` are the steps to draw borders of, also where a window is measured and not steps.
    """

    trace: Trace
    cases: tuple[DeviceCase, ...]
    borders: StepPlan
    options: Options

    @property
    def n_steps(self) -> int:
        """Steps measured; 0 where the trace or a window is."""
        return max((len(case.steps) for case in self.cases), default=0)

    @property
    def span(self) -> str:
        """What is measured, in words."""
        window, steps = self.options.window, [s for case in self.cases for s in case.steps]
        if not self.options.whole:
            low = "start" if window.start_ns is None else format_ms(window.start_ns)
            high = "end" if window.end_ns is None else f"{format_ms(window.end_ns)} ms"
            return f"window {low} to {high}"
        if not steps:
            return "whole trace"
        first, last = min(s.index for s in steps), max(s.index for s in steps)
        return f"step {first}" if first == last else f"steps {first} to {last}"


def options_for(
    step: int | None, window: Window | None, steps: str, rules: RuleSet | None
) -> Options:
    """Options of the Python functions as those of the analysis."""
    spec = StepSpec(steps, 0, step, step)
    return Options(window or Window(), rules or RuleSet(), steps=spec)


def subject(trace: Trace | str | Path, options: Options) -> Subject:
    """Measure a trace, or the path of one, as `analyze` does.

    Raises `UsageError` for steps or a window that the trace does not have, or for both at once.
    """
    if not isinstance(trace, Trace):
        trace = read_trace(trace)
    if not options.whole and options.steps.first is not None:
        raise UsageError("a window and a step cannot be drawn together.", "Give one of them.")
    # Steps are no choice beside a window: of them only the borders are drawn.
    whole = options if options.whole else replace(options, steps=StepSpec("none"))
    found = trace_cases(trace, whole)
    borders = found.plan
    if not options.whole:
        borders = plan_steps(found.classified, options.steps, found.launches)
    return Subject(trace, found.cases, borders, options)


def device_name(device: Device) -> str:
    """A device as the report calls it, such as `H200 dev 0, pid 17025`."""
    return legible(device_label(device.gpu.name, device.device_id, device.pid))


def format_ms(ns: int) -> str:
    """Trace time in ms with as many digits as it needs."""
    whole, rest = divmod(abs(ns), 1_000_000)
    digits = f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
    return f"-{digits}" if ns < 0 else digits
