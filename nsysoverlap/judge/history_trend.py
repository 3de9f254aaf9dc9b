"""Earlier runs as the thing to compare with: their median and their spread."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from ..core.formatting import number_of
from ..core.records import dataclass
from ..result.metrics import Metric, Scope
from ..result.model import OperationReport, OverlapReport
from ..result.scopes import Measured
from .bootstrap import RunSample, Sample
from .history_database import Told, say_nothing
from .history_store import Run, read_operations, read_runs
from .history_tables import RUN_VALUES, gpu_names, how_measured
from .verdicts import Spread

MIN_RUNS = 5
"""Fewer say nothing about their own spread."""
LEAST_ALLOWANCE = Fraction(1, 100)
_SIGMAS = 3
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class RunHistory:
    """The runs of a database that match a report, oldest first.

    `wanted` says what a run must be to match, `operations` are those of the latest.
    """

    name: str
    runs: tuple[Run, ...]
    operations: Sequence[OperationReport]
    wanted: str

    def measure(self, metric: Metric, scope: Scope) -> Measured:
        """The median over runs."""
        values = self._values(metric, scope)
        if not values:
            return Measured(None, reason=f"No earlier run matches ({self.wanted}).")
        return Measured(statistics.median(values), number_of(len(values), "run"))

    def spread(self, metric: Metric, scope: Scope) -> Spread | None:
        """The 10th and 90th percentile over runs."""
        values = [float(value) for value in self._values(metric, scope)]
        if not values:
            return None
        low, high = np.quantile(values, [0.1, 0.9])
        return Spread(float(low), float(high), len(values))

    def allowance(self, metric: Metric) -> Fraction | None:
        """Three robust standard deviations of the runs, at least a point; None for few runs."""
        values = self._values(metric, Scope.TOTAL)
        if len(values) < MIN_RUNS:
            return None
        median = statistics.median(values)
        deviation = statistics.median(abs(value - median) for value in values)
        return max(LEAST_ALLOWANCE, _SIGMAS * Fraction(_MAD_TO_SIGMA) * deviation)

    def sample(self, direction: str) -> Sample | float | None:
        """The hidden shares of the runs."""
        shares = [run.values[f"{direction}_hidden_share"] for run in self.runs]
        known = np.array([share for share in shares if share is not None], dtype=np.float64)
        return RunSample(known) if len(known) else None

    def mismatches(self, report: OverlapReport) -> list[str]:
        """Nothing: runs that do not match are left out."""
        return []

    def untold(self) -> list[str]:
        """How the runs were measured, where an older program stored them."""
        old = sum(run.measured is None for run in self.runs)
        return [f"settings of {number_of(old, 'run')}"] if old else []

    def _values(self, metric: Metric, scope: Scope) -> list[Fraction]:
        column = next(c for c, wanted in RUN_VALUES.items() if wanted == (metric.name, scope))
        values = [run.values[column] for run in self.runs]
        return [Fraction(value) for value in values if value is not None]


def matching_runs(
    path: Path,
    report: OverlapReport,
    *,
    labels: Mapping[str, str],
    last: int,
    content: str,
    told: Told = say_nothing,
) -> RunHistory:
    """The last runs with these labels on as many GPUs of the same model, measured alike.

    The run of the same content hash is left out: nothing is compared with itself.
    """
    gpus, measured = gpu_names(report), how_measured(report)
    alike = [
        run
        for run in read_runs(path, labels, told=told)
        if run.content_hash != content
        and (run.gpus, run.n_devices) == (gpus, len(report.devices))
        and (run.basis, run.transfer_kernels) == (report.basis.kind, report.basis.transfer_kernels)
        and run.measured in (None, measured)
    ]
    runs = tuple(alike[-last:])
    shown = "".join(f", {key}={value}" for key, value in labels.items())
    return RunHistory(
        name=f"{number_of(len(runs), 'run')} of {path.name}",
        runs=runs,
        operations=read_operations(path, runs[-1].run_id, told) if runs else (),
        wanted=f"{len(report.devices)} x {gpus}, over the {report.basis.kind}{shown}",
    )
