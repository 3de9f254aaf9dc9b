"""Every JSON output but the report as a dataclass, and all of them in one list.

Shares are floats 0..1, times ns but where a name says ms, sizes bytes, rates GB/s; null where
nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ..core.json_model import Count, Document, Span
from ..core.limits import Unit
from ..judge.baseline import BaselineFile
from ..judge.comparison import Comparison, KernelChange, OperationChange
from ..judge.history_store import Run, Trend
from ..judge.verdicts import Loss, Spread, Status, Verdict, Verdicts
from ..replay.answer import WhatIf
from ..result.metrics import Scope
from ..result.model import Gpu, HealthEntry, OverlapReport, Program
from ..run.transfer_table import TransferRow
from ..slim.copying import TableChange
from ..slim.identifying import Sensitive
from ..slim.making import Slimmed
from ..trace.contents import pid_of
from .say_comparison import headline as comparison_headline
from .say_verdicts import headline as verdict_headline

if TYPE_CHECKING:
    from ..roles.rules import CopyRule, Explanation, Rule, RuleSet, TopName
    from ..trace.contents import Trace

T = TypeVar("T")

_UNITS = {
    Unit.SHARE: "share",
    Unit.TIME: "ms",
    Unit.BYTES: "bytes",
    Unit.COUNT: "count",
    Unit.RATE: "GB/s",
}


def _like(cls: type[T], source: object, **known: Any) -> T:
    """An object of a dataclass with the attributes of another object, but for those given."""
    names = (f.name for f in fields(cls) if f.init and f.name not in known)  # type: ignore[arg-type]
    return cls(**{name: getattr(source, name) for name in names if hasattr(source, name)}, **known)


@dataclass(frozen=True)
class VerdictEntry:
    """One limit against one measurement in `unit`; `margin` is negative where the limit is broken.

    In format version 1 times were ns.
    """

    metric: str
    scope: Scope
    unit: str
    status: Status
    measured: Fraction | None
    op: str
    limit: Fraction | None
    margin: Fraction | None
    baseline: Fraction | None
    spread: Spread | None
    baseline_spread: Spread | None
    where: str
    reason: str
    source: str


@dataclass(frozen=True)
class VerdictFile(Document):
    """What a gate decided, and why."""

    json_format: ClassVar = ("nsysoverlap.verdict", 2)
    status: Status
    headline: str
    traces: tuple[str, ...]
    basis: str
    baseline: str | None
    blockers: tuple[str, ...]
    notes: tuple[str, ...]
    verdicts: tuple[VerdictEntry, ...]
    losses: tuple[Loss, ...]
    accepted: tuple[str, ...]


def verdict_file(result: Verdicts) -> VerdictFile:
    """The verdicts of a gate."""
    entries = tuple(map(_entry, result.verdicts))
    return _like(VerdictFile, result, headline=verdict_headline(result), verdicts=entries)


def _entry(verdict: Verdict) -> VerdictEntry:
    metric = verdict.metric
    return _like(VerdictEntry, verdict, metric=metric.name, unit=_UNITS[metric.unit])


@dataclass(frozen=True)
class MetricChange:
    """One metric in A and in B, in the unit of its name: ms (ns in format version 1), 0..1."""

    metric: str
    a: Fraction | None
    b: Fraction | None


@dataclass(frozen=True)
class FindingChange:
    """A finding that only one side has."""

    code: str
    severity: str
    title: str
    cost_ns: Count


@dataclass(frozen=True)
class ComparisonFile(Document):
    """What changed from run A to run B; with `per_step` amounts are medians over steps."""

    json_format: ClassVar = ("nsysoverlap.comparison", 2)
    a: str
    b: str
    headline: str
    cautions: tuple[str, ...]
    per_step: bool
    split: tuple[MetricChange, ...]
    budget: tuple[MetricChange, ...]
    operations: tuple[OperationChange, ...]
    kernels: tuple[KernelChange, ...]
    n_unlike_kernels: Count
    new_findings: tuple[FindingChange, ...]
    gone_findings: tuple[FindingChange, ...]
    accepted: tuple[str, ...]


def comparison_file(result: Comparison) -> ComparisonFile:
    """A comparison of two reports."""
    return _like(
        ComparisonFile,
        result,
        headline=comparison_headline(result),
        split=tuple(_like(MetricChange, change, metric=change.name) for change in result.split),
        budget=tuple(_like(MetricChange, change, metric=change.name) for change in result.budget),
        new_findings=tuple(_like(FindingChange, found) for found in result.new_findings),
        gone_findings=tuple(_like(FindingChange, found) for found in result.gone_findings),
    )


@dataclass(frozen=True)
class HistoryFile(Document):
    """Recorded runs, oldest first."""

    json_format: ClassVar = ("nsysoverlap.history", 2)
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class DeviceInfo:
    """A device of a trace; `proven` says that the trace shows which GPU it is."""

    device_id: int | None
    gpu_id: int | None
    pids: tuple[int, ...]
    proven: bool


@dataclass(frozen=True)
class InfoFile(Document):
    """What a trace holds: versions, GPUs, rows of each table, settings, health."""

    json_format: ClassVar = ("nsysoverlap.info", 1)
    path: str
    nsys_version: str | None
    schema_version: str | None
    extent_ns: Span | None
    gpus: tuple[Gpu, ...]
    devices: tuple[DeviceInfo, ...]
    tables: Mapping[str, Count]
    capture: Mapping[str, str]
    framework: Program | None
    components: tuple[Program, ...]
    health: tuple[HealthEntry, ...]


@dataclass(frozen=True)
class InfosFile(Document):
    """What each of several traces holds."""

    json_format: ClassVar = ("nsysoverlap.infos", 1)
    traces: tuple[InfoFile, ...]


def info_file(trace: Trace, report: OverlapReport, counts: Mapping[str, int]) -> InfoFile:
    """What `info` shows of a trace."""
    info = trace.info
    return InfoFile(
        path=info.file_name,
        nsys_version=info.product_version,
        schema_version=info.schema_version,
        extent_ns=trace.extent_ns,
        gpus=tuple(Gpu(gpu.id, gpu.name, gpu.uuid) for gpu in info.gpus),
        devices=tuple(
            DeviceInfo(d.device_id, d.gpu.id, tuple(map(pid_of, d.global_pids)), d.proven)
            for d in trace.devices
        ),
        tables=counts,
        capture=info.capture,
        framework=report.traces[0].framework,
        components=report.traces[0].components,
        health=report.health,
    )


@dataclass(frozen=True)
class KernelRule:
    """A rule for kernel names; with `needs_proof` size and rate must confirm it."""

    name: str
    category: str
    role: str
    pattern: str
    examples: tuple[str, ...]
    why: str
    needs_proof: bool


@dataclass(frozen=True)
class CopyRuleEntry:
    """A rule for copies of some CUPTI copy kinds."""

    name: str
    role: str
    copy_kinds: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class ExplainedName:
    """Which rule takes a kernel name, and why."""

    name: str
    rule: str
    role: str
    why: str


@dataclass(frozen=True)
class KernelName:
    """Launches of one kernel name in one role."""

    category: str
    role: str
    name: str
    n: Count
    total_ns: Count


@dataclass(frozen=True)
class RulesFile(Document):
    """The rules in the order they are tried; `names` are those of a trace that cost most."""

    json_format: ClassVar = ("nsysoverlap.rules", 1)
    kernel_rules: tuple[KernelRule, ...]
    copy_rules: tuple[CopyRuleEntry, ...]
    explanation: ExplainedName | None
    names: tuple[KernelName, ...] | None


def rules_file(
    rules: RuleSet, explained: Explanation | None, names: Sequence[TopName] | None
) -> RulesFile:
    """What `rules` shows."""
    from ..roles.rule_table import COPY_RULES

    return RulesFile(
        kernel_rules=tuple(_like(KernelRule, rule, role=_role(rule)) for rule in rules.rules),
        copy_rules=tuple(_like(CopyRuleEntry, rule, role=_role(rule)) for rule in COPY_RULES),
        explanation=None if explained is None else _explained(explained),
        names=None
        if names is None
        else tuple(_like(KernelName, row, role=_role(row)) for row in names),
    )


def _explained(found: Explanation) -> ExplainedName:
    return ExplainedName(found.name, found.rule.name, _role(found.rule), found.why)


def _role(owner: Rule | CopyRule | TopName) -> str:
    return owner.role.name.lower()


@dataclass(frozen=True)
class TransfersFile(Document):
    """Every transfer of a trace, in order of start."""

    json_format: ClassVar = ("nsysoverlap.transfers", 1)
    transfers: tuple[TransferRow, ...]


@dataclass(frozen=True)
class SlimFile(Document):
    """A copy without what could identify anyone, or with `--check` what in a trace could.

    `tables` says what the copy left out, `texts` which columns hold texts and which of these tell.
    """

    json_format: ClassVar = ("nsysoverlap.slim", 1)
    path: str
    n_bytes_before: Count | None
    n_bytes: Count | None
    marks_kept: bool
    tables: tuple[TableChange, ...]
    texts: tuple[Sensitive, ...]


def slim_file(name: str, made: Slimmed | None, texts: Sequence[Sensitive]) -> SlimFile:
    """A copy of that name and the texts in it; of a trace that is only checked its texts."""
    if made is None:
        return SlimFile(name, None, None, False, (), tuple(texts))
    sizes = made.n_bytes_before, made.n_bytes
    return SlimFile(name, *sizes, made.marks_kept, made.changes, tuple(texts))


def document_of(result: Verdicts | Comparison | Trend) -> Document:
    """What the JSON output of a result holds that is no document itself."""
    match result:
        case Verdicts():
            return verdict_file(result)
        case Comparison():
            return comparison_file(result)
        case Trend():
            return HistoryFile(result.runs)


DOCUMENTS: Mapping[str, type[Document]] = {
    cls.json_format[0].rpartition(".")[2]: cls
    for cls in (
        *(OverlapReport, BaselineFile, VerdictFile, ComparisonFile, HistoryFile),
        *(InfoFile, InfosFile, RulesFile, TransfersFile, SlimFile, WhatIf),
    )
}
"""Every JSON output by the last part of its format's name."""
