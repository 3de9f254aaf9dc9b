"""Replay every trace unmodified and print how far off that is, worst first, in Markdown.

    python -m benchmarks.replay_accuracy TRACE_OR_FOLDER... [--steps REGEX]

The latencies are constant and those of a step come from the other steps, as in every scenario. A
low error is necessary for a prediction and no evidence for it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nsysoverlap.core.errors import NsysOverlapError
from nsysoverlap.core.garbage import collector_paused
from nsysoverlap.replay.prepared import Model, build_model
from nsysoverlap.run.analysis import Options, trace_cases
from nsysoverlap.steps.plan import StepSpec
from nsysoverlap.trace.load import read_trace


@dataclass(frozen=True)
class Row:
    """One trace: its model, or why there is none; CPU ms a replay took per 1,000 operations."""

    name: str
    found: Model | str
    cost_ms: float = 0.0

    @property
    def rank(self) -> tuple[int, float, str]:
        """Worst first, then what is withheld, then what has no steps."""
        if isinstance(self.found, str):
            return 2, 0.0, self.name
        return int(self.found.withheld is not None), -abs(self.found.error or 0.0), self.name

    @property
    def cells(self) -> list[str]:
        """What the table shows of it."""
        model = self.found
        if isinstance(model, str) or model.replayed is None or model.error is None:
            reason = model if isinstance(model, str) else model.withheld
            return [self.name, "", "", "", "", "", "", f"withheld: {reason}"]
        now, then = model.now, model.replayed
        if not then.step_ns:
            # Of graphs that were recorded as a whole there is nothing to replay.
            return [self.name, f"{now.step_ns / 1e6:.3f}", *[""] * 5, f"withheld: {model.withheld}"]
        shares = []
        for direction in ("h2d", "d2h"):
            traced, replayed = (x.overlap(direction).hidden_share for x in (now, then))
            known = traced is not None and replayed is not None
            shares.append(f"{100 * (replayed - traced):+.2f}" if known else "-")  # type: ignore[operator]
        worst = model.worst_step_error or 0.0
        note = f"withheld: {model.withheld}" if model.withheld else ""
        return [
            self.name,
            f"{now.step_ns / 1e6:.3f}",
            f"{then.step_ns / 1e6:.3f}",
            f"{100 * model.error:+.3f}",
            f"{100 * worst:+.2f}",
            *shares,
            note,
        ]


HEADINGS = (
    *("trace", "step ms", "replayed ms", "error %", "worst step %"),
    *("H2D hidden, points", "D2H hidden, points", ""),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--steps", default="auto")
    options = parser.parse_args()
    rows = [measure(path, options.steps) for path in _files(options.traces)]
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + " --- |" * len(HEADINGS))
    for row in sorted(rows, key=lambda row: row.rank):
        print("| " + " | ".join(row.cells) + " |")
    costs = [row.cost_ms for row in rows if row.cost_ms]
    if costs:
        print(f"\nCPU of one replay: up to {max(costs):.2f} ms per 1,000 operations.")


def _files(paths: list[Path]) -> Iterator[Path]:
    """Every trace once, by name: a file that is in two folders is the same trace."""
    seen = set()
    for path in paths:
        for file in sorted(path.glob("*.sqlite")) if path.is_dir() else [path]:
            if file.stem not in seen:
                seen.add(file.stem)
                yield file


def measure(path: Path, steps: str) -> Row:
    """Replay one trace; without marks its steps are guessed."""
    try:
        trace = read_trace(path)
        cases = trace_cases(trace, Options(steps=StepSpec(steps)))
        if cases.plan.marker is None:
            cases = trace_cases(trace, Options(steps=StepSpec("guess")))
    except NsysOverlapError as error:
        return Row(path.stem, error.message)
    model = build_model(cases.classified, cases.launches, cases.plan.windows)
    if isinstance(model, str) or model.replayed is None:
        return Row(path.stem, model)
    spent = min(cpu_s(model) for _ in range(9))
    n = len(model.operations)
    return Row(path.stem, model, 1e6 * spent / n if n > 1_000 else 0.0)


def cpu_s(model: Model) -> float:
    """CPU seconds of one replay; the best of some is that of a machine with nothing else to do."""
    with collector_paused():
        before = time.process_time()
        model.calibrated.run()
        return time.process_time() - before


if __name__ == "__main__":
    main()
