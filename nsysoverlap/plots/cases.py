"""What a picture of a trace is of: the devices, the measured time, and how to call them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..analysis import Options
from ..case import DeviceCase, device_case
from ..errors import UsageError
from ..launches import Launches
from ..measures import Overlap
from ..overlap import split
from ..reader import read_trace
from ..rules import RuleSet, classify
from ..steps import StepPlan, StepSpec, plan_steps
from ..trace import Device, Trace
from ..window import Window
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
    extent, window = trace.extent_ns, options.window
    if extent is not None and (window.high <= extent[0] or window.low >= extent[1]):
        raise UsageError(
            f"{trace.info.file_name}: no GPU activity in window {window}.",
            f"The trace has GPU activity from {extent[0]}ns to {extent[1]}ns.",
        )
    classified = classify(trace, options.rules)
    launches = Launches(trace)
    borders = plan_steps(classified, options.steps, launches)
    plan = borders if options.whole else StepPlan()
    cases = tuple(
        device_case(classified, launches, device, plan, options.window) for device in trace.devices
    )
    return Subject(trace, cases, borders, options)


def measure(case: DeviceCase, direction: str) -> Overlap:
    """As `DeviceCase.measure`, without whether compute waited: that takes long and is not drawn."""
    counted = case.counted.pieces()
    windows = case.window.pieces() or [(0, 0)] * len(counted)
    parts = split(case.lanes.of(direction), case.lanes).measure(windows, counted)
    return sum(parts, Overlap())


def device_name(device: Device) -> str:
    """A device as the report calls it, such as `H200 dev 0, pid 17025`."""
    name = (device.gpu.name or "GPU").removeprefix("NVIDIA ")
    number = "" if device.device_id is None else f" dev {device.device_id}"
    owner = "" if device.pid is None else f", pid {device.pid}"
    return legible(f"{name}{number}{owner}")


def format_ms(ns: int) -> str:
    """Trace time in ms with as many digits as it needs."""
    whole, rest = divmod(abs(ns), 1_000_000)
    digits = f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
    return f"-{digits}" if ns < 0 else digits
