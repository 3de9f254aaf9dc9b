"""Dropped copies against the measured step, with clock laws fitted on pairs of other programs.

    python -m benchmarks.clock_pairs

In Markdown. A law is never fitted on the trace or the control that it is held against.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nsysoverlap.core.errors import NsysOverlapError, UsageError
from nsysoverlap.roles.clock import ClockPair
from nsysoverlap.run.analysis import analyze
from nsysoverlap.run.answers import whatif
from nsysoverlap.run.clock_fit import law_of
from nsysoverlap.trace.load import read_trace

FIXTURES = Path("tests/fixtures")
HEADINGS = (
    *("dropped copies of", "measured ms", "law fitted on", "exponent", "predicted ms", "width", ""),
)


@dataclass(frozen=True)
class Case:
    """A trace whose copies are dropped, and the one of the same program without them."""

    trace: str
    control: str


CASES = (
    Case("jax_unroll_nolhs", "jax_unroll_save"),
    Case("jax_unroll_lhs", "jax_unroll_save"),
    Case("pytorch/save_on_cpu", "pytorch/save"),
    Case("pytorch/offload_stream", "pytorch/save"),
)
PAIRS = (
    ("jax_scan_lhs", "jax_unroll_lhs"),
    ("jax_unroll_nolhs", "jax_unroll_save"),
    ("pytorch/save_on_cpu", "pytorch/save"),
    ("pytorch/offload_stream", "pytorch/save"),
    ("micro_pageable", "micro_duplex"),
    ("jax_capture_optimizer", "jax_capture_published"),
)


def main() -> None:
    """Print the table."""
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + " --- |" * len(HEADINGS))
    for case in CASES:
        measured = step_ns(case.control)
        for pair in PAIRS:
            if not {case.trace, case.control} & set(pair):
                print("| " + " | ".join(cells(case, measured, pair)) + " |")


def step_ns(name: str) -> float:
    """Mean step without the first."""
    for steps in ("auto", "guess"):
        try:
            report = analyze(path_of(name), steps=steps, skip_steps=1)
        except UsageError:
            continue
        lengths = [step.duration_ns for step in report.devices[0].steps]
        if lengths:
            return sum(lengths) / len(lengths)
    raise SystemExit(f"{name}: no steps")


def cells(case: Case, measured: float, pair: tuple[str, str]) -> list[str]:
    """One prediction."""
    trace = read_trace(path_of(case.trace))
    law = law_of(ClockPair(*map(path_of, pair)))
    steps = "guess" if case.trace.endswith("save_on_cpu") else "auto"
    (one,) = whatif(trace, drop=".", steps=steps, clock=law).scenarios
    inside = one.step_low_ns <= measured <= one.step_high_ns
    off = one.step_ns / measured - 1
    return [
        short(case.trace),
        f"{measured / 1e6:.1f}",
        " and ".join(map(short, pair)),
        f"{law.exponent:.3f}" if law else "",
        f"{one.step_low_ns / 1e6:.1f} to {one.step_high_ns / 1e6:.1f}",
        f"{100 * (one.step_high_ns - one.step_low_ns) / measured:.1f} %",
        "inside" if inside else f"outside, off by {100 * off:+.1f} %",
    ]


def path_of(name: str) -> Path:
    """A fixture."""
    return FIXTURES / f"{name}.sqlite"


def short(name: str) -> str:
    """Without its folder."""
    return name.split("/")[-1]


if __name__ == "__main__":
    try:
        main()
    except NsysOverlapError as error:
        raise SystemExit(error.message) from error
