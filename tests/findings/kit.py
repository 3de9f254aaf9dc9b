"""From a drawing or a real trace to a `Context`, and from there to the findings of one code."""

from __future__ import annotations

from pathlib import Path

from nsysoverlap.findings import FINDERS, Context, code_of
from nsysoverlap.measure.case import device_case
from nsysoverlap.measure.operations import transfer_labels
from nsysoverlap.result.model import Finding
from nsysoverlap.roles.frameworks import detect
from nsysoverlap.roles.rules import classify
from nsysoverlap.run.analysis import Options, analyze_trace
from nsysoverlap.steps.launches import Launches
from nsysoverlap.steps.plan import StepSpec, plan_steps
from nsysoverlap.trace.load import read_trace

from ..tracebuilder import TraceBuilder, draw

MS = 1_000_000


def context_of(path: Path, *, steps: str = "auto") -> Context:
    """All that the findings of a trace look at."""
    trace = read_trace(path)
    options = Options(steps=StepSpec(steps))
    classified, launches = classify(trace, options.rules), Launches(trace)
    plan = plan_steps(classified, options.steps)
    cases = tuple(
        device_case(classified, launches, device, plan, options.window) for device in trace.devices
    )
    return Context(
        cases=cases,
        devices=analyze_trace(trace, options).devices,
        n_steps=plan.n_steps or None,
        capture=trace.info.capture,
        transfer_ops=tuple(transfer_labels(case).op.tolist() for case in cases),
        framework=detect(trace)[0].name,
    )


def drawn(
    tmp_path: Path, drawing: str | TraceBuilder, *, steps: str = "auto", unit_ns: int = MS
) -> Context:
    """The context of a drawing; one character is 1 ms unless said otherwise."""
    builder = draw(drawing, unit_ns=unit_ns) if isinstance(drawing, str) else drawing
    return context_of(builder.write(tmp_path / "t.sqlite"), steps=steps)


def fired(context: Context, code: str) -> list[Finding]:
    """What the function of one code finds."""
    (finder,) = [finder for finder in FINDERS if code_of(finder) == code]
    return [found.named(code).finding for found in finder(context)]


def only(context: Context, code: str) -> Finding:
    """The one finding of a code."""
    (finding,) = fired(context, code)
    return finding
