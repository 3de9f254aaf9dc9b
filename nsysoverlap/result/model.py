"""The result model: integers that add, shares last.

Everything a reporter prints or a gate checks is in an `OverlapReport`. Nothing here measures.
Field names carry units: `_ns` nanoseconds, `bytes` bytes, `_share` a float 0..1 or None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from ..core.formatting import device_label, number_of
from ..core.json_model import Count, Document, GbPerS, Later, OneOf, Share, Span, plain
from ..core.late import late
from .numbers import WAITS, Memory, Overlap, Relief, TimeBudget, format_share, share
from .parts import (
    Attribution,
    Bounds,
    Collective,
    Effective,
    Evidence,
    Finding,
    Gain,
    KernelReport,
    OperationReport,
    Rate,
    ReplayReport,
    Slowdown,
    StepReport,
    combine_collectives,
    combine_kernels,
    combine_operations,
)
from .provenance import GUESSED, Basis, HealthEntry, Program, TraceReport

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "nsysoverlap.report"
FORMAT_VERSION = 1

TableName = Literal[
    "devices", "steps", "streams", "operations", "kernels", "collectives", "findings", "health"
]
"""The tables of `OverlapReport.to_frame`."""
DIRECTIONS = ("h2d", "d2h", "both")
UNIFIED_DIRECTIONS = ("unified_h2d", "unified_d2h")


__all__ = [
    "DIRECTIONS",
    "FORMAT",
    "FORMAT_VERSION",
    "GUESSED",
    "UNIFIED_DIRECTIONS",
    "Attribution",
    "Basis",
    "Bounds",
    "Collective",
    "DeviceReport",
    "Effective",
    "Evidence",
    "Finding",
    "Gain",
    "Gpu",
    "HealthEntry",
    "KernelReport",
    "LinkReport",
    "Memory",
    "OpaqueBounds",
    "OperationReport",
    "OutsideSteps",
    "Overlap",
    "OverlapReport",
    "Program",
    "Rate",
    "Relief",
    "ReplayReport",
    "Slowdown",
    "StepReport",
    "StreamReport",
    "TimeBudget",
    "Totals",
    "TraceReport",
    "format_share",
    "share",
]


@dataclass(frozen=True)
class LinkReport:
    """Peak rates of the host link in GB/s, and where they come from.

    `h2d_gbps`, `d2h_gbps` are None for an unknown GPU; `best_*` is the fastest copy of at least
    64 MB in this trace.
    """

    h2d_gbps: GbPerS | None = None
    d2h_gbps: GbPerS | None = None
    source: str = "unknown"
    best_h2d_gbps: GbPerS | None = None
    best_d2h_gbps: GbPerS | None = None


@dataclass(frozen=True)
class OpaqueBounds:
    """Lowest and highest hidden share of the recorded transfers, as opaque graph time is
    counted as nothing or as all compute. None without transfers of that direction.
    """

    h2d: tuple[Share, Share] | None = None
    d2h: tuple[Share, Share] | None = None
    both: tuple[Share, Share] | None = None


@dataclass(frozen=True)
class StreamReport:
    """One stream. Streams run at the same time, so their numbers do not sum to the device's."""

    pid: int
    context_id: int
    stream_id: int
    role: Annotated[str, OneOf(("compute", "comm", "h2d", "d2h", "other", "opaque", "mixed"))]
    busy_ns: Mapping[str, Count]
    """Sum of durations by role."""
    h2d: Overlap
    d2h: Overlap


@dataclass(frozen=True)
class Gpu:
    """A physical GPU as the trace names it; None where it does not."""

    id: int | None = None
    name: str | None = None
    uuid: str | None = None


@dataclass(frozen=True)
class OutsideSteps:
    """Transfers outside the kept steps."""

    h2d: Overlap
    d2h: Overlap


@dataclass(frozen=True)
class DeviceReport:
    """One device of one trace over one window.

    `pid` is None where processes share the GPU. `outside_steps` is None without steps. `relief` is
    over the whole window, or the median over steps where there are steps. `memory` is that of the
    whole run.
    """

    trace: str
    pid: int | None
    device_id: int | None
    gpu: Gpu
    window_ns: Span
    h2d: Overlap
    d2h: Overlap
    both: Overlap
    unified_h2d: Overlap
    unified_d2h: Overlap
    time_budget: TimeBudget
    link: LinkReport = field(default_factory=LinkReport)
    opaque_bounds: OpaqueBounds | None = None
    outside_steps: OutsideSteps | None = None
    relief: Relief | None = None
    memory: Later[Memory | None] = None
    effective: Effective | None = None
    bounds: Bounds | None = None
    collectives: Later[tuple[Collective, ...]] = ()
    streams: tuple[StreamReport, ...] = ()
    steps: tuple[StepReport, ...] = ()

    @property
    def gpu_id(self) -> int | None:
        """Number of the GPU on its host."""
        return self.gpu.id

    @property
    def gpu_name(self) -> str | None:
        """Product name of the GPU."""
        return self.gpu.name

    @property
    def gpu_uuid(self) -> str | None:
        """UUID of the GPU."""
        return self.gpu.uuid

    @property
    def n_outside_steps(self) -> int:
        """Transfers outside the kept steps; 0 without steps."""
        outside = self.outside_steps
        return 0 if outside is None else outside.h2d.n + outside.d2h.n

    @property
    def label(self) -> str:
        """Short name for tables, such as `H200 dev 0, pid 17025`."""
        return device_label(self.gpu.name, self.device_id, self.pid)


@dataclass(frozen=True)
class Totals:
    """Sums over devices."""

    h2d: Overlap
    d2h: Overlap
    both: Overlap
    unified_h2d: Overlap
    unified_d2h: Overlap
    time_budget: TimeBudget

    def unlike(self, stated: Totals) -> str | None:
        """The first part whose integers differ in what a file states; rates are no sums."""
        for part in fields(self):
            own, other = getattr(self, part.name), getattr(stated, part.name)
            names = {f.name for f in fields(own)} - {"copy_ns", *WAITS}
            if any(getattr(own, name) != getattr(other, name) for name in names):
                return part.name
        return None


@dataclass(frozen=True, repr=False)
class OverlapReport(Document):
    """The answer for one or several traces; devices in order of trace, then device.

    Fields ending in _ns are nanoseconds, bytes are bytes, shares lie between 0 and 1. Integers add
    over devices; shares do not.
    """

    json_format: ClassVar = (FORMAT, FORMAT_VERSION)
    json_last: ClassVar = ("totals", "operations", "kernels", "attribution", "findings")
    basis: Basis = field(default_factory=Basis, kw_only=True)
    traces: tuple[TraceReport, ...]
    health: tuple[HealthEntry, ...]
    devices: tuple[DeviceReport, ...]
    operations: tuple[OperationReport, ...] = ()
    kernels: tuple[KernelReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    attribution: Attribution | None = None

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
    def totals(self) -> Totals:
        """All sums over devices."""
        directions = (*DIRECTIONS, *UNIFIED_DIRECTIONS)
        sums = {name: self.total(name) for name in directions}
        return Totals(**sums, time_budget=self.time_budget)

    @property
    def time_budget(self) -> TimeBudget:
        """Sum of the devices' time budgets."""
        return sum((d.time_budget for d in self.devices), TimeBudget())

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """Communication kernels of all devices by name, most exposed first."""
        return combine_collectives([c for device in self.devices for c in device.collectives])

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
        """The JSON report as plain data; `report.schema.json` describes it."""
        return dict(plain(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> OverlapReport:
        """Read back `to_dict`; unknown keys are ignored.

        Raises `ConfigError` for another format, a newer version, missing keys, wrong types, or
        integers that contradict each other.
        """
        from ..core.json_codec import read

        return read(values, cls, "Give a file written by `nsysoverlap report --format json`.")

    @classmethod
    def restored(cls, known: Mapping[str, Any]) -> OverlapReport:
        """From the values of a file; raises `ValueError` where its totals are no sum of devices."""
        report = cls(**{name: value for name, value in known.items() if name != "totals"})
        wrong = report.totals.unlike(known["totals"])
        if wrong is not None:
            raise ValueError(f"totals.{wrong} is not the sum of the devices")
        return report

    def to_frame(self, table: TableName = "devices") -> pd.DataFrame:
        """One of the tables of docs/dataframes.md as a DataFrame, which lists their columns."""
        frame: pd.DataFrame = late("report_frame")(self, table)
        return frame

    def _repr_html_(self) -> str:
        return str(late("result_html")(self))
