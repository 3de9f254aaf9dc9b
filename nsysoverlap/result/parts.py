"""Parts of the result model beyond the split: steps, operations, kernels, effects, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from ..core.json_model import Count, End, GbPerS, Inline, Later, OneOf, Share
from .numbers import Overlap, Relief, TimeBudget, share


@dataclass(frozen=True)
class StepReport:
    """One step of one process on one device, on the GPU timeline.

    `index` counts all steps of the trace from 0, skipped ones too. `pid` is the plain process id.
    """

    index: Count
    label: str
    pid: int
    start_ns: int
    end_ns: End
    h2d: Overlap
    d2h: Overlap
    both: Overlap
    time_budget: TimeBudget
    relief: Relief

    @property
    def duration_ns(self) -> int:
        """Step time."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class OperationReport:
    """All transfers of one direction that one operation issued, over devices and steps.

    `op` is the HLO op or NVTX label at the launch, `label` what else the label says (`graph` for
    copies inside a command buffer). `exposed_per_step_ns` is the mean over devices, None without
    steps. `followed_by` is the kernel that most of the exposed time was followed by, None where
    nothing was.
    """

    op: str
    label: str
    direction: Annotated[str, OneOf(("h2d", "d2h", "unified_h2d", "unified_d2h"))]
    overlap: Inline[Overlap]
    exposed_per_step_ns: Count | None = None
    followed_by: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others, in any report."""
        return self.op, self.label, self.direction

    def exposed(self, *, per_step: bool) -> int:
        """Exposed time in ns, of the mean step where that is asked for and known."""
        if per_step and self.exposed_per_step_ns is not None:
            return self.exposed_per_step_ns
        return self.overlap.exposed_ns


@dataclass(frozen=True)
class KernelReport:
    """All launches of one kernel name: `beside_ns` beside transfers, `alone_ns` with nothing
    of that kind beside it.
    """

    name: str
    role: str
    n: Count
    beside_ns: Count
    alone_ns: Count


@dataclass(frozen=True)
class Collective:
    """All launches of one communication kernel name on a device, or on several.

    Times are summed over launches: all of them, and the part with no compute beside it.
    """

    name: str
    n: Count
    busy_ns: Count
    exposed_ns: Count

    def urgency(self) -> tuple[int, int, str]:
        """Sort key: the most exposed first."""
        return -self.exposed_ns, -self.busy_ns, self.name


@dataclass(frozen=True)
class Rate:
    """GB/s (10^9) of n copies: overall, and the 10th and 90th percentile of single copies."""

    n: Count = 0
    gb_per_s: GbPerS | None = None
    p10: GbPerS | None = None
    p90: GbPerS | None = None


MAX_SPREAD = 1.15
"""Largest ratio of durations at which launches of one name and shape may be the same work."""


@dataclass(frozen=True)
class Slowdown:
    """What running beside transfers did to the launches of one role (compute or comm).

    `n_beside` launches that ran mostly under a transfer were compared with `n_alone` of the same
    name and shape that ran under none. `cost_ns` is by how much the former took longer than the
    median of the latter, summed; `ratio` their total duration over what that median predicts.
    `beside_ns` is the time of all launches
    mostly under a transfer, `compared_ns` the part of it that was comparable. `p10_ratio` and
    `p90_ratio` are the spread of single launches against the median of those alone.
    """

    n_beside: Count = 0
    n_alone: Count = 0
    beside_ns: Count = 0
    compared_ns: Count = 0
    cost_ns: int = 0
    ratio: float | None = None
    p10_ratio: float | None = None
    p90_ratio: float | None = None
    json_last: ClassVar = ("compared_share",)

    @classmethod
    def restored(cls, known: Mapping[str, Any]) -> Slowdown:
        """From the values of a file; raises `ValueError` where they contradict each other."""
        if known["compared_ns"] > known["beside_ns"]:
            raise ValueError("compared_ns is more than beside_ns")
        return cls(**{name: known[name] for name in known if name not in cls.json_last})

    @property
    def is_other_work(self) -> bool:
        """Whether launches beside transfers seem so much faster that they did something else."""
        return self.ratio is not None and self.ratio * MAX_SPREAD < 1

    @property
    def compared_share(self) -> Share | None:
        """Share of the time beside transfers that could be compared."""
        return share(self.compared_ns, self.beside_ns)


@dataclass(frozen=True)
class Effective:
    """What hiding cost: rates of copies mostly hidden and mostly exposed, and slowdowns."""

    h2d_hidden: Rate = field(default_factory=Rate)
    h2d_exposed: Rate = field(default_factory=Rate)
    d2h_hidden: Rate = field(default_factory=Rate)
    d2h_exposed: Rate = field(default_factory=Rate)
    compute: Slowdown = field(default_factory=Slowdown)
    comm: Slowdown = field(default_factory=Slowdown)


@dataclass(frozen=True)
class Bounds:
    """What could be won at most; bounds, not promises.

    `best_hidden_share`: no schedule can hide more, given the compute time there is and the
    transfers at the rate they had. `window_ns_without_exposed`: window (median step where there
    are steps) less its exposed time.
    """

    best_hidden_share: Share | None = None
    window_ns_without_exposed: Count | None = None


@dataclass(frozen=True)
class Attribution:
    """How much could be told: bytes with an operation of all bytes, and exposed time for which
    it is known whether compute waited, of all exposed time.
    """

    attributed_bytes: Count = 0
    total_bytes: Count = 0
    resolved_ns: Count = 0
    exposed_ns: Count = 0

    def __add__(self, other: Attribution) -> Attribution:
        return Attribution(
            self.attributed_bytes + other.attributed_bytes,
            self.total_bytes + other.total_bytes,
            self.resolved_ns + other.resolved_ns,
            self.exposed_ns + other.exposed_ns,
        )


@dataclass(frozen=True)
class Evidence:
    """One example row behind a finding: when, on which device, which operation, and what of it."""

    start_ns: int
    end_ns: End
    text: str
    op: str | None = None
    device: str | None = None
    trace: str | None = None


@dataclass(frozen=True)
class Gain:
    """What a step wins when the cause of a finding is gone, replayed: a range, in ns.

    `scenario` says what was replayed.
    """

    low_ns: int
    high_ns: int
    scenario: str


@dataclass(frozen=True)
class ReplayReport:
    """What replaying two steady steps of a trace says; see `nsysoverlap whatif`.

    `error` is that of the unmodified replay, signed, a share of the step `step_ns`. `withheld`
    says why nothing rests on it, None where something may. No order of the same copies makes a
    step shorter than `bound_step_ns`; the exposed times are those of that order, `kept_bytes` the
    offloaded bytes then still on the device. `bound_withheld` says why there is no bound.
    """

    step_ns: Count | None = None
    replay_step_ns: Count | None = None
    error: float | None = None
    withheld: str | None = None
    bound_step_ns: Count | None = None
    bound_exposed_h2d_ns: Count | None = None
    bound_exposed_d2h_ns: Count | None = None
    kept_bytes: int | None = None
    bound_withheld: str | None = None


@dataclass(frozen=True)
class Finding:
    """Something wrong or worth knowing: what, why, what it costs a step, and what to do.

    `severity` is warning or note. `cost_ns` is per step where there are steps, else over the
    whole window; 0 where it has no price of its own. It is no bound of what there is to win:
    `gain` is that, where a scenario of a tested kind could be replayed.
    """

    code: str
    severity: Annotated[str, OneOf(("warning", "note"))]
    title: str
    detail: str
    remedy: str
    cost_ns: Count = 0
    evidence: tuple[Evidence, ...] = ()
    gain: Later[Gain | None] = None

    def urgency(self) -> tuple[bool, bool, int, int, str]:
        """Sort key: warnings before notes, then the low end of the gain, then what costs more.

        What has no known gain comes after what has one.
        """
        low = 0 if self.gain is None else self.gain.low_ns
        return self.severity != "warning", self.gain is None, -low, -self.cost_ns, self.code


def combine_operations(parts: Sequence[OperationReport]) -> tuple[OperationReport, ...]:
    """Operations of several traces: those with equal op, label and direction become one.

    Ranks run side by side, so exposed time per step is the mean over them; what followed is what
    followed where most was exposed.
    """
    groups: dict[tuple[str, str, str], list[OperationReport]] = {}
    for part in parts:
        groups.setdefault((part.op, part.label, part.direction), []).append(part)
    combined = []
    for group in groups.values():
        worst = max(group, key=lambda part: part.overlap.exposed_ns)
        steps = [p.exposed_per_step_ns for p in group if p.exposed_per_step_ns is not None]
        combined.append(
            replace(
                worst,
                overlap=sum((part.overlap for part in group), Overlap()),
                exposed_per_step_ns=round(sum(steps) / len(steps)) if steps else None,
            )
        )
    combined.sort(key=lambda p: (-p.overlap.exposed_ns, p.op, p.label, p.direction))
    return tuple(combined)


def combine_collectives(parts: Sequence[Collective]) -> tuple[Collective, ...]:
    """Communication kernels of several devices by name, most exposed first."""
    groups: dict[str, Collective] = {}
    for part in parts:
        known = groups.get(part.name, Collective(part.name, 0, 0, 0))
        groups[part.name] = Collective(
            part.name,
            known.n + part.n,
            known.busy_ns + part.busy_ns,
            known.exposed_ns + part.exposed_ns,
        )
    return tuple(sorted(groups.values(), key=Collective.urgency))


def combine_kernels(parts: Sequence[KernelReport]) -> tuple[KernelReport, ...]:
    """Kernels of several traces by name and role, most time first."""
    groups: dict[tuple[str, str], KernelReport] = {}
    for part in parts:
        key = (part.name, part.role)
        known = groups.get(key, KernelReport(*key, 0, 0, 0))
        groups[key] = KernelReport(
            *key,
            known.n + part.n,
            known.beside_ns + part.beside_ns,
            known.alone_ns + part.alone_ns,
        )
    return tuple(
        sorted(groups.values(), key=lambda k: (-(k.beside_ns + k.alone_ns), k.name, k.role))
    )
