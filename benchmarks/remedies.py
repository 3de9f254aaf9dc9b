"""Scenarios of findings held against programs that were changed so.

    python -m benchmarks.remedies

The changed program is another one: a compiler planned anew, other bytes moved, other kernels ran.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nsysoverlap.findings.gains import operations_of
from nsysoverlap.findings.scenarios import SCENARIOS, WORDS
from nsysoverlap.replay.blamed import changed_by
from nsysoverlap.replay.predict import of_changed
from nsysoverlap.replay.prepared import Model, build_model
from nsysoverlap.replay.scenario import Scenario
from nsysoverlap.run.analysis import Options, TraceCases, judged, trace_cases
from nsysoverlap.steps.plan import StepSpec
from nsysoverlap.trace.load import read_trace

HEADINGS = (
    *("trace", "findings", "replayed", "step ms", "predicted ms", "measured ms"),
    "changed program",
)
FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
PAIRS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("jax_unroll_lhs", ("round-trip",), "jax_unroll_save", "saved on the device"),
    ("jax_unroll_nolhs", ("nothing-beside",), "jax_unroll_lhs", "scheduler on"),
    (
        "jax_capture_barrier_scan",
        ("late-h2d",),
        "jax_capture_prefetch_scan",
        "reloads in the scan",
    ),
    ("jax_capture_published", ("late-h2d",), "jax_capture_prefetch", "reloads by hand"),
    (
        *("maxtext/maxtext_off_nolhs", ("late-h2d", "d2h-awaited")),
        *("maxtext/maxtext_off_lhs", "scheduler on"),
    ),
    (
        *("pytorch/save_on_cpu", ("same-stream-as-compute",)),
        *("pytorch/offload_stream", "a stream each way, 11 % fewer bytes"),
    ),
    ("micro_pageable", ("pageable-memory",), "micro_duplex", "pinned, a stream each way"),
)
"""(trace, codes of findings, trace of the changed program, what was changed)"""


def main() -> None:
    """Print the table."""
    print(
        "| trace | findings | replayed | step ms | predicted ms | measured ms | changed program |"
    )
    print("|" + " --- |" * 7)
    for name, codes, other, words in PAIRS:
        cases, model = _model(name)
        _, twin = _model(other)
        kind, low, high = _predicted(cases, model, codes)
        measured = twin.now.step_ns
        off = "" if low <= measured <= high else f" ({_off(low, high, measured):+.1f} %)"
        cells = (
            *(name.split("/")[-1], ", ".join(codes), kind, f"{model.now.step_ns / 1e6:.1f}"),
            f"{low / 1e6:.1f} to {high / 1e6:.1f}{off}",
            *(f"{measured / 1e6:.1f}", f"{other.split('/')[-1]}: {words}"),
        )
        print(f"| {' | '.join(cells)} |")


def _off(low: int, high: int, measured: int) -> float:
    """By how many percent the nearer end misses what was measured."""
    return 100 * ((low if measured < low else high) / measured - 1)


def _model(name: str) -> tuple[TraceCases, Model]:
    trace = read_trace(FIXTURES / f"{name}.sqlite")
    cases = trace_cases(trace, Options())
    if cases.plan.marker is None:
        cases = trace_cases(trace, Options(steps=StepSpec("guess")))
    model = build_model(cases.classified, cases.launches, cases.plan.windows)
    assert isinstance(model, Model), model
    return cases, model


def _predicted(cases: TraceCases, model: Model, codes: tuple[str, ...]) -> tuple[str, int, int]:
    """The kind of the first code, made of the rows of all of them, and the range of the step."""
    _, found = judged(cases, Options(), True)
    mine = [one for one in found if one.finding.code in codes]
    kind = SCENARIOS[codes[0]].kind
    blamed = np.logical_or.reduce([operations_of(model, cases.cases, one.rows) for one in mine])
    changed = changed_by(model, kind, blamed, mine[0].target)
    result = of_changed(model, Scenario(kind), changed)
    return WORDS[kind].format(mine[0].target), result.step_low_ns, result.step_high_ns


if __name__ == "__main__":
    main()
