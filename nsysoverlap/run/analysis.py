"""`analyze`: a trace in, an `OverlapReport` out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..core.errors import UsageError
from ..core.threads import each
from ..core.window import Window
from ..findings import find
from ..findings.context import Context, Found
from ..health import judge
from ..measure.case import DeviceCase, device_case
from ..measure.device_report import measure_device
from ..measure.kernels_beside import DeviceKernels, device_kernels, measure_kernels
from ..measure.operations import (
    DeviceOperations,
    TransferLabels,
    device_operations,
    measure_operations,
    transfer_labels,
)
from ..measure.waiting import Pieces
from ..replay.prepared import Model
from ..result.model import Basis, DeviceReport, HealthEntry, OverlapReport, TraceReport
from ..roles.clock import ClockLaw
from ..roles.frameworks import detect
from ..roles.links import LinkOverride
from ..roles.rules import Classified, RuleSet, classify
from ..steps.launches import Launches
from ..steps.plan import StepPlan, StepSpec, plan_steps, steps_in_window
from ..trace.contents import Trace
from ..trace.load import read_trace
from .replaying import model_of, replayed


@dataclass(frozen=True)
class Options:
    """What to measure and how; the defaults are those of `nsysoverlap report`."""

    window: Window = field(default_factory=Window)
    rules: RuleSet = field(default_factory=RuleSet)
    links: LinkOverride | None = None
    config_name: str | None = None
    steps: StepSpec = field(default_factory=StepSpec)
    accepted: tuple[str, ...] = ()
    clock: ClockLaw | None = None
    """The calibrated clock law of this machine."""

    @property
    def whole(self) -> bool:
        """Whether no window was asked for."""
        return self.window == Window()


def analyze(
    trace: Trace | str | Path,
    *,
    steps: str = "auto",
    skip_steps: int = 0,
    window: Window | tuple[int | None, int | None] | None = None,
    rules: RuleSet | None = None,
    links: LinkOverride | None = None,
) -> OverlapReport:
    """Measure one trace, as `nsysoverlap.analyze` does of what else it takes.

    `steps` is auto, none, guess or a regular expression for the NVTX text that marks a step; the
    first `skip_steps` are left out. `window`, `(start_ns, end_ns)` with None for an open side,
    measures a part of the trace's time instead. `rules` replace the built-in ones, `links` the
    table of link peaks. Raises `TraceFileError` for a file that cannot be read, `UsageError` for
    steps or a window that the trace does not have.
    """
    options = Options(
        as_window(window), rules or RuleSet(), links, steps=StepSpec(steps, skip_steps)
    )
    if not isinstance(trace, Trace):
        trace = read_trace(trace)
    return analyze_trace(trace, options)


@dataclass(frozen=True)
class TraceCases:
    """A classified trace, its steps, and one case for each of its devices: all set to measure."""

    classified: Classified
    plan: StepPlan
    launches: Launches
    cases: tuple[DeviceCase, ...]

    @cached_property
    def model(self) -> Model | str | None:
        """The replay of a report; why there is none, and None without steps or transfers."""
        return model_of(self.classified, self.launches, self.plan, self.cases)


def as_window(window: Window | tuple[int | None, int | None] | None) -> Window:
    """A window as Python users give it."""
    if window is None:
        return Window()
    return window if isinstance(window, Window) else Window(*window)


def analyze_trace(
    trace: Trace,
    options: Options,
    on_cases: Callable[[TraceCases], None] | None = None,
    threads: int = 1,
) -> OverlapReport:
    """As `analyze`, for a trace already read; `on_cases` sees what was measured, once it was."""
    found = trace_cases(trace, options)
    report = measure_cases(found, options, threads)
    if on_cases is not None:
        on_cases(found)
    return report


def trace_cases(trace: Trace, options: Options) -> TraceCases:
    """What is to be measured of a trace."""
    _check_window(trace, options)
    classified = classify(trace, options.rules)
    launches = Launches(trace)
    if options.whole:
        plan = plan_steps(classified, options.steps, launches)
    else:
        plan = steps_in_window(classified, options.steps, options.window, launches)
    cases = tuple(
        device_case(classified, launches, device, plan, options.window) for device in trace.devices
    )
    return TraceCases(classified, plan, launches, cases)


def measure_cases(found: TraceCases, options: Options, threads: int = 1) -> OverlapReport:
    """The report of what `trace_cases` found."""
    trace, plan, cases = found.classified.trace, found.plan, found.cases
    measured = _measure_devices(cases, options.links, threads)
    devices = tuple(own.report for own in measured)
    own_operations = [own.operations for own in measured]
    operations, attribution = measure_operations(cases, plan.n_steps or None, own_operations)
    framework, components = detect(trace)
    labels = [own.labels for own in own_operations]
    blamed = find(_context(found, devices, labels, framework.name), threads)
    moved = any(device.both.n for device in devices)
    replay, findings = replayed(found.model if moved else None, cases, blamed, options.clock)
    return OverlapReport(
        traces=(
            TraceReport(
                path=trace.info.file_name,
                nsys_version=trace.info.product_version,
                schema_version=trace.info.schema_version,
                capture=trace.info.capture,
                framework=framework,
                components=components,
                replay=replay,
            ),
        ),
        health=_health(found, devices, options),
        devices=devices,
        basis=_basis(plan, options),
        operations=operations,
        kernels=measure_kernels(cases, measured=[own.kernels for own in measured]),
        findings=findings,
        attribution=attribution,
    )


def judged(
    found: TraceCases, options: Options, wanted: bool
) -> tuple[tuple[HealthEntry, ...], tuple[Found, ...]]:
    """What is to be known of a trace, of which an error makes its numbers inconclusive; and, where
    wanted, what is found to be wrong.
    """
    devices = tuple(measure_device(case, options.links) for case in found.cases)
    health = _health(found, devices, options)
    if not wanted:
        return health, ()
    labels = [transfer_labels(case) for case in found.cases]
    name = detect(found.classified.trace)[0].name
    return health, find(_context(found, devices, labels, name))


def _context(
    found: TraceCases,
    devices: tuple[DeviceReport, ...],
    labels: Sequence[TransferLabels],
    framework: str,
) -> Context:
    return Context(
        found.cases,
        devices,
        found.plan.n_steps or None,
        found.classified.trace.info.capture,
        tuple(own.op.tolist() for own in labels),
        framework,
    )


def _health(
    found: TraceCases, devices: Sequence[DeviceReport], options: Options
) -> tuple[HealthEntry, ...]:
    span = _span(found.plan, options)
    return judge(
        found.classified, found.launches, devices, span, found.plan.notes, options.accepted
    )


@dataclass(frozen=True)
class _Measured:
    """What was measured of one device; its pieces take long to find and stay with its case."""

    report: DeviceReport
    pieces: Pieces
    operations: DeviceOperations
    kernels: DeviceKernels


def _measure_devices(
    cases: Sequence[DeviceCase], links: LinkOverride | None, threads: int
) -> list[_Measured]:
    """All of each device at a time, while what it needs is at hand."""

    def work(case: DeviceCase) -> _Measured:
        report = measure_device(case, links)
        return _Measured(report, case.pieces, device_operations(case), device_kernels(case))

    for case in cases if threads > 1 else ():
        # Now, or each process would find all of them, and hold them.
        _ = case.launches.stalls, case.lanes.active.length, case.lanes.compute.length
    measured = each(work, cases, threads)
    for case, own in zip(cases, measured, strict=True):
        case.keep(own.pieces)
    return measured


def _check_window(trace: Trace, options: Options) -> None:
    window, extent = options.window, trace.extent_ns
    steps = options.steps
    chosen = steps.mode not in ("auto", "none") or steps.skip or steps.first is not None
    if not options.whole and chosen:
        raise UsageError("a window and steps cannot be asked for together.", "Give one of them.")
    if extent is not None and (window.high <= extent[0] or window.low >= extent[1]):
        raise UsageError(
            f"{trace.info.file_name}: no GPU activity in window {window}.",
            f"The trace has GPU activity from {extent[0]}ns to {extent[1]}ns.",
        )


def _span(plan: StepPlan, options: Options) -> Window:
    """The time that was measured, from its first instant to its last on any device."""
    if not plan.windows:
        return options.window
    return Window(min(w.start_ns for w in plan.windows), max(w.end_ns for w in plan.windows))


def _basis(plan: StepPlan, options: Options) -> Basis:
    window = options.window
    kind = "steps" if plan.marker else "trace" if options.whole else "window"
    return Basis(
        kind=kind,
        window_ns=None if options.whole else (window.start_ns, window.end_ns),
        config=options.config_name,
        transfer_kernels="auto" if options.rules.transfer_kernels else "off",
        steps=plan.marker,
        n_steps=plan.n_steps,
        skipped=plan.skipped,
        steps_asked=options.steps.words if options.whole else "window",
        rules=options.rules.words,
        links="by GPU name" if options.links is None else options.links.words,
        accepted=options.accepted,
    )
