"""The result model: integers that add, shares last.

Everything a reporter prints or a gate checks is in an `OverlapReport`. Nothing here measures.
Field names carry units: `_ns` nanoseconds, `bytes` bytes, `_share` a float 0..1 or None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..core.formatting import device_label, number_of
from .numbers import Overlap, Relief, TimeBudget, format_share, share
from .parts import (
    Attribution,
    Bounds,
    Effective,
    Evidence,
    Finding,
    KernelReport,
    OperationReport,
    Rate,
    Slowdown,
    StepReport,
    combine_kernels,
    combine_operations,
)

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "nsysoverlap.report"
FORMAT_VERSION = 1

DIRECTIONS = ("h2d", "d2h", "both")
UNIFIED_DIRECTIONS = ("unified_h2d", "unified_d2h")


__all__ = [
    "DIRECTIONS",
    "FORMAT",
    "FORMAT_VERSION",
    "UNIFIED_DIRECTIONS",
    "Attribution",
    "Basis",
    "Bounds",
    "DeviceReport",
    "Effective",
    "Evidence",
    "Finding",
    "HealthEntry",
    "KernelReport",
    "LinkReport",
    "OpaqueBounds",
    "OperationReport",
    "Overlap",
    "OverlapReport",
    "Rate",
    "Relief",
    "Slowdown",
    "StepReport",
    "StreamReport",
    "TimeBudget",
    "TraceReport",
    "format_share",
    "share",
]


@dataclass(frozen=True)
class HealthEntry:
    """Something to know before trusting a number. `severity`: error, warning or note."""

    code: str
    severity: str
    message: str
    hint: str = ""
    trace: str = ""
    count: int = 1


@dataclass(frozen=True)
class LinkReport:
    """Peak rates of the host link in GB/s, and where they come from.

    `h2d_gbps`, `d2h_gbps` are None for an unknown GPU; `best_*` is the fastest copy of at least
    64 MB in this trace.
    """

    h2d_gbps: float | None = None
    d2h_gbps: float | None = None
    source: str = "unknown"
    best_h2d_gbps: float | None = None
    best_d2h_gbps: float | None = None


@dataclass(frozen=True)
class OpaqueBounds:
    """Lowest and highest hidden share of the recorded transfers, as opaque graph time is
    counted as nothing or as all compute. None without transfers of that direction.
    """

    h2d: tuple[float, float] | None = None
    d2h: tuple[float, float] | None = None
    both: tuple[float, float] | None = None


@dataclass(frozen=True)
class StreamReport:
    """One stream. Streams run at the same time, so their numbers do not sum to the device's."""

    pid: int
    context_id: int
    stream_id: int
    role: str
    """compute, comm, h2d, d2h, other, opaque, or mixed."""
    busy_ns: Mapping[str, int]
    """Sum of durations by role."""
    h2d: Overlap
    d2h: Overlap


@dataclass(frozen=True)
class DeviceReport:
    """One device of one trace over one window."""

    trace: str
    pid: int | None
    device_id: int | None
    gpu_id: int | None
    gpu_name: str | None
    gpu_uuid: str | None
    window_ns: tuple[int, int]
    h2d: Overlap
    d2h: Overlap
    both: Overlap
    unified_h2d: Overlap
    unified_d2h: Overlap
    time_budget: TimeBudget
    streams: tuple[StreamReport, ...] = ()
    link: LinkReport = field(default_factory=LinkReport)
    opaque_bounds: OpaqueBounds | None = None
    steps: tuple[StepReport, ...] = ()
    outside_h2d: Overlap | None = None
    """H2D outside the kept steps; None without steps. The same for D2H."""
    outside_d2h: Overlap | None = None
    relief: Relief | None = None
    """Over the whole window; the median over steps where there are steps."""
    effective: Effective | None = None
    bounds: Bounds | None = None

    @property
    def n_outside_steps(self) -> int:
        """Transfers outside the kept steps; 0 without steps."""
        return sum(part.n for part in (self.outside_h2d, self.outside_d2h) if part is not None)

    @property
    def label(self) -> str:
        """Short name for tables, such as `H200 dev 0, pid 17025`."""
        return device_label(self.gpu_name, self.device_id, self.pid)


@dataclass(frozen=True)
class Program:
    """A framework or library that ran, and what in the trace proves it."""

    name: str
    evidence: str


@dataclass(frozen=True)
class TraceReport:
    """One input file as the report names it.

    `framework` is None where it was not looked for, and named "unknown" where nothing proves one.
    """

    path: str
    rank: int | None = None
    nsys_version: str | None = None
    schema_version: str | None = None
    capture: Mapping[str, str] = field(default_factory=dict)
    framework: Program | None = None
    components: tuple[Program, ...] = ()


@dataclass(frozen=True)
class Basis:
    """What the numbers are over. `kind`: trace, window or steps; `window_ns` as asked, None = open.

    `steps` says in words what marks a step, `n_steps` how many were kept (the most of any
    device), `skipped` how many were left out.
    """

    kind: str = "trace"
    window_ns: tuple[int | None, int | None] | None = None
    config: str | None = None
    transfer_kernels: str = "auto"
    steps: str | None = None
    n_steps: int = 0
    skipped: int = 0


@dataclass(frozen=True, repr=False)
class OverlapReport:
    """The answer for one or several traces; devices in order of trace, then device."""

    traces: tuple[TraceReport, ...]
    health: tuple[HealthEntry, ...]
    devices: tuple[DeviceReport, ...]
    basis: Basis = field(default_factory=Basis)
    operations: tuple[OperationReport, ...] = ()
    kernels: tuple[KernelReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    attribution: Attribution | None = None
    generator: str = f"nsysoverlap {__version__}"

    def __repr__(self) -> str:
        """In one line: the numbers are many."""
        names = ", ".join(trace.path for trace in self.traces)
        both = self.total("both")
        return (
            f"<OverlapReport {names}: {number_of(len(self.devices), 'device')}, {both.exposed_ns} "
            f"of {both.wall_ns} ns exposed, {number_of(len(self.findings), 'finding')}>"
        )

    def total(self, direction: str) -> Overlap:
        """Sum of `h2d`, `d2h`, `both`, `unified_h2d` or `unified_d2h` over devices."""
        return sum((getattr(d, direction) for d in self.devices), Overlap())

    @property
    def time_budget(self) -> TimeBudget:
        """Sum of the devices' time budgets."""
        return sum((d.time_budget for d in self.devices), TimeBudget())

    @property
    def conclusive(self) -> bool:
        """False where an error in `health` says the numbers cannot be trusted or say nothing."""
        return not any(entry.severity == "error" for entry in self.health)

    @classmethod
    def merge(cls, reports: Iterable[OverlapReport]) -> OverlapReport:
        """One report of several traces: lists concatenate, totals follow from them."""
        parts = list(reports)
        if not parts:
            return cls((), (), ())
        return replace(
            parts[0],
            traces=tuple(t for p in parts for t in p.traces),
            health=tuple(h for p in parts for h in p.health),
            devices=tuple(d for p in parts for d in p.devices),
            operations=combine_operations([o for p in parts for o in p.operations]),
            kernels=combine_kernels([k for p in parts for k in p.kernels]),
            findings=tuple(sorted((f for p in parts for f in p.findings), key=Finding.urgency)),
            attribution=sum(
                (p.attribution for p in parts if p.attribution is not None), Attribution()
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON report as plain data; `nsysoverlap/result/report.schema.json` describes it."""
        from .codec import report_to_dict

        return report_to_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> OverlapReport:
        """Read back `to_dict`. Raises `ConfigError` for another format or a newer version."""
        from .codec import report_from_dict

        return report_from_dict(values)

    def to_frame(self, table: str = "devices") -> pd.DataFrame:
        """One of the tables of docs/dataframes.md as a DataFrame, which lists their columns."""
        from .frames import report_frame

        return report_frame(self, table)

    def _repr_html_(self) -> str:
        from ..show.notebook import report_html

        return report_html(self)
