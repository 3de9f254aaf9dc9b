"""The baseline file: the report that later runs are measured against."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from ..core.errors import ConfigError, NsysOverlapError
from ..core.formatting import number_of
from ..core.json_model import Document, plain
from ..core.output import write_atomically
from ..core.records import dataclass
from ..result.metrics import METRICS, Metric, Scope
from ..result.model import DIRECTIONS, OperationReport, OverlapReport
from ..result.model import FORMAT as REPORT_FORMAT
from ..result.scopes import Measured, measure
from .bootstrap import Sample, steps_sample

FORMAT = "nsysoverlap.baseline"
FORMAT_VERSION = 1
_HINT = "Write one with `nsysoverlap gate TRACE --write-baseline FILE`."


_ASKED = {"rules": "kernel rules", "steps_asked": "steps as asked for", "links": "link rates"}
"""Fields of a basis that a comparison needs to be equal, and that older files lack."""

DEFAULT_MAX_DROP = Fraction(1, 100)
"""Drop of the hidden share that a baseline allows when no limit is given."""


@dataclass(frozen=True)
class BaselineFile(Document):
    """A report, without streams and examples, that later runs are measured against."""

    json_format: ClassVar = (FORMAT, FORMAT_VERSION)
    report: OverlapReport


@dataclass(frozen=True)
class Baseline:
    """A report to compare with, and the base name of its file."""

    name: str
    report: OverlapReport

    @property
    def operations(self) -> Sequence[OperationReport]:
        """Operations of the run."""
        return self.report.operations

    def measure(self, metric: Metric, scope: Scope) -> Measured:
        """The metric of the run; its worst part is the one that was furthest from good."""
        return measure(self.report, metric, scope, least=metric.more_is_better is not False)

    def spread(self, metric: Metric, scope: Scope) -> None:
        """A single run has none."""

    def allowance(self, metric: Metric) -> Fraction:
        """One point: a single run says nothing about its own spread."""
        return DEFAULT_MAX_DROP

    def sample(self, direction: str) -> Sample | float | None:
        """The steps of the run; without them its hidden share as a number known exactly."""
        steps = steps_sample(self.report, direction)
        return steps if steps is not None else self.report.total(direction).hidden_share

    def mismatches(self, report: OverlapReport) -> list[str]:
        """Why the baseline must not be compared with a report."""
        return mismatches(report, self.report)

    def untold(self) -> list[str]:
        """What an older file does not say of how it was measured."""
        basis = self.report.basis
        return [what for name, what in _ASKED.items() if getattr(basis, name) is None]


def unfit_reason(report: OverlapReport) -> str | None:
    """Why a report is no baseline; None where the hidden share of a direction is known."""
    found = [measure(report, METRICS[f"{d}.hidden"], Scope.TOTAL, least=True) for d in DIRECTIONS]
    return found[-1].reason if all(one.value is None for one in found) else None


def write_baseline(path: Path, report: OverlapReport) -> None:
    """Write a report as a baseline: without streams and examples, which no gate looks at."""
    small = replace(
        report,
        devices=tuple(replace(device, streams=()) for device in report.devices),
        findings=tuple(replace(finding, evidence=()) for finding in report.findings),
    )
    write_atomically(path, json.dumps(plain(BaselineFile(small)), indent=1, allow_nan=False) + "\n")


def read_baseline(path: Path) -> Baseline:
    """A file of `write_baseline`, or a JSON report. Raises `ConfigError` for anything else."""
    values = read_json(path, "baseline", _HINT)
    if values.get("format") == REPORT_FORMAT:
        return Baseline(path.name, _report(path, values))
    if values.get("format") != FORMAT:
        raise ConfigError(f"{path.name}: is not a baseline of nsysoverlap.", _HINT)
    version = values.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ConfigError(f"{path.name}: the baseline's format version is damaged.", _HINT)
    if version > FORMAT_VERSION:
        raise ConfigError(
            f"{path.name}: the baseline has format version {version}; this nsysoverlap reads up "
            f"to {FORMAT_VERSION}.",
            "Update nsysoverlap, or write the baseline again with this version.",
        )
    report = values.get("report")
    if not isinstance(report, Mapping):
        raise ConfigError(f"{path.name}: the baseline holds no report.", _HINT)
    return Baseline(path.name, _report(path, report))


def read_json(path: Path, what: str, hint: str) -> Mapping[str, Any]:
    """A JSON object from a file. Raises `ConfigError` naming the file."""
    try:
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{path.name or path}: the {what} cannot be read ({error.strerror}).", hint
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path.name}: is not JSON ({error}).", hint) from error
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path.name}: is not a {what} of nsysoverlap.", hint)
    return values


def _report(path: Path, values: Mapping[str, Any]) -> OverlapReport:
    try:
        return OverlapReport.from_dict(values)
    except NsysOverlapError as error:
        raise ConfigError(f"{path.name}: {error.message}", error.hint) from error


def mismatches(now: OverlapReport, then: OverlapReport) -> list[str]:
    """Why numbers of two reports must not be compared; empty where they may."""
    found = [
        f"it is itself inconclusive ({entry.message.rstrip('.')})"
        for entry in then.health
        if entry.severity == "error"
    ][:1]
    if now.basis.kind != then.basis.kind:
        found.append(f"its numbers are over the {then.basis.kind}, these over the {now.basis.kind}")
    if now.basis.window_ns != then.basis.window_ns:
        found.append("its window is another")
    if now.basis.transfer_kernels != then.basis.transfer_kernels:
        found.append(
            f"it took transfer kernels as {then.basis.transfer_kernels}, "
            f"this run as {now.basis.transfer_kernels}"
        )
    for name, what in _ASKED.items():
        before, this = getattr(then.basis, name), getattr(now.basis, name)
        if before is not None and this is not None and before != this:
            found.append(f"its {what} are {before}, here {this}")
    if None not in (then.basis.steps_asked, now.basis.steps_asked) and (
        then.basis.steps != now.basis.steps
    ):
        found.append(f"its steps are {then.basis.steps}, here {now.basis.steps}")
    gpus = [sorted({d.gpu_name or "unknown GPU" for d in report.devices}) for report in (then, now)]
    if gpus[0] != gpus[1]:
        found.append(f"it ran on {', '.join(gpus[0])}, this run on {', '.join(gpus[1])}")
    ranks_then, ranks_now = ({t.rank for t in r.traces} - {None} for r in (then, now))
    gone = sorted(rank for rank in ranks_then - ranks_now if rank is not None)
    if gone and len(ranks_now) == len(now.traces):
        ranks = "rank" if len(gone) == 1 else "ranks"
        found.append(f"its {ranks} {', '.join(map(str, gone))} did not come")
    n_then, n_now = len(then.devices), len(now.devices)
    if n_then != n_now:
        found.append(f"it has {number_of(n_then, 'device')}, this run {n_now:,}")
    return found
