"""Numbers that add: integers in, shares computed last.

Field names carry units: `_ns` nanoseconds, `bytes` bytes, `_share` a float 0..1 or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, ClassVar

from ..core.formatting import format_share
from ..core.json_model import Count, GbPerS, Later, Limits, Share, Unseen, plain
from ..core.records import dataclass

__all__ = [
    "BUDGET_ROLES",
    "OFFLOAD_BYTES",
    "WAITS",
    "Memory",
    "Overlap",
    "Relief",
    "TimeBudget",
    "format_share",
    "share",
]


WAITS = ("blocking_ns", "host_blocking_ns", "unawaited_ns")
"""The fields of an `Overlap` that say who waited."""


OFFLOAD_BYTES = 1_000_000
"""A transfer of at least this size can be offloaded data; a loss or a counter is smaller."""


def share(part: int, whole: int) -> float | None:
    """`part / whole`, or None where there is nothing to take a share of."""
    return part / whole if whole else None


@dataclass(frozen=True)
class Overlap:
    """How the transfers of one direction split over one device, stream, step or operation.

    `wall_ns == hidden_by_compute_ns + hidden_by_comm_ns + exposed_ns`, always. Instances of
    different devices, ranks or steps add; streams of one device overlap and do not.
    Of the exposed time compute waited for `blocking_ns`, else the host for `host_blocking_ns`, and
    nothing for `unawaited_ns`; the rest, `unresolved_ns`, the trace cannot tell. The three are None
    where it can tell of none.
    """

    n: Count = 0
    n_by_kernel: Count = 0
    bytes: Count = 0
    bytes_estimated: Count = 0
    busy_ns: Count = 0
    wall_ns: Count = 0
    hidden_by_compute_ns: Count = 0
    hidden_by_comm_ns: Count = 0
    exposed_ns: Count = 0
    exposed_under_other_ns: Count = 0
    blocking_ns: Count | None = None
    host_blocking_ns: Later[Count | None] = None
    unawaited_ns: Later[Count | None] = None
    copy_ns: Unseen[int] = 0
    """Unclipped duration of the copies that moved `bytes`: the denominator of `gb_per_s`."""
    json_last: ClassVar = ("hidden_share", "covered_share", "unresolved_ns", "gb_per_s")

    def __post_init__(self) -> None:
        parts = self.hidden_by_compute_ns + self.hidden_by_comm_ns + self.exposed_ns
        if parts != self.wall_ns or not 0 <= self.exposed_under_other_ns <= self.exposed_ns:
            raise AssertionError(f"transfer time does not add up: {self}")
        if not 0 <= self.unresolved_ns <= self.exposed_ns:
            raise AssertionError(f"waits do not add up: {self}")

    def __add__(self, other: Overlap) -> Overlap:
        one, two = self.__dict__, other.__dict__
        summed: dict[str, Any] = {name: _add(one[name], two[name]) for name in one}
        return Overlap(**summed)

    @property
    def hidden_share(self) -> Share | None:
        """Share of the wall time behind compute; the headline."""
        return share(self.hidden_by_compute_ns, self.wall_ns)

    @property
    def covered_share(self) -> Share | None:
        """Share of the wall time behind compute or communication."""
        return share(self.hidden_by_compute_ns + self.hidden_by_comm_ns, self.wall_ns)

    @property
    def unresolved_ns(self) -> Later[Count]:
        """Exposed time of which the trace cannot tell whether anything waited for it."""
        return self.exposed_ns - sum(getattr(self, name) or 0 for name in WAITS)

    @property
    def gb_per_s(self) -> GbPerS | None:
        """Bytes per nanosecond (GB/s, 10^9) over whole copies; transfer kernels left out."""
        return self.bytes / self.copy_ns if self.bytes and self.copy_ns else None

    def to_dict(self) -> dict[str, Any]:
        """The OVERLAP object of the JSON report."""
        return dict(plain(self))

    @classmethod
    def restored(cls, known: Mapping[str, Any]) -> Overlap:
        """From `to_dict`; shares are computed anew, `copy_ns` is recovered from the rate."""
        own = {name: value for name, value in known.items() if name not in cls.json_last}
        rate = known["gb_per_s"]
        return cls(**own, copy_ns=round(known["bytes"] / rate) if rate else 0)


def _add(one: int | None, two: int | None) -> int | None:
    return two if one is None else one if two is None else one + two


@dataclass(frozen=True)
class TimeBudget:
    """A partition of a window: each instant goes to the first role that applies, in this order."""

    compute_ns: Count = 0
    comm_ns: Count = 0
    transfer_ns: Count = 0
    other_ns: Count = 0
    opaque_ns: Count = 0
    idle_ns: Count = 0

    @property
    def total_ns(self) -> int:
        """Length of the window."""
        return sum(asdict(self).values())

    def __add__(self, other: TimeBudget) -> TimeBudget:
        return TimeBudget(**{k: v + getattr(other, k) for k, v in asdict(self).items()})


BUDGET_ROLES = tuple(field.name.removesuffix("_ns") for field in fields(TimeBudget))
"""The parts of a time budget, in the order in which they take an instant."""


@dataclass(frozen=True)
class Relief:
    """Device memory that offloading freed at one time, over a window of one device.

    `relief_bytes` is how far the bytes offloaded and not yet reloaded rose, `offloaded_bytes` the
    D2H bytes counted, `excluded_bytes` the bytes left out because their size moves in one
    direction only.
    """

    relief_bytes: Count = 0
    offloaded_bytes: Count = 0
    excluded_bytes: Count = 0
    json_last: ClassVar = ("relief_share",)

    @property
    def relief_share(self) -> Annotated[float, Limits(ge=0)] | None:
        """How much of what was offloaded was ever away at once; None where nothing was."""
        return share(self.relief_bytes, self.offloaded_bytes)


@dataclass(frozen=True)
class Memory:
    """Memory of one device as the manifest beside its trace says it; None where it does not.

    `allocated_peak_bytes` is the most the allocator had in use, `planned_bytes` what the compiler
    asks for, `host_bytes` pinned memory of the host. `control_peak_bytes` is the peak of `control`,
    the run that keeps the same tensors on the device.
    """

    allocated_peak_bytes: Count | None = None
    planned_bytes: Count | None = None
    host_bytes: Count | None = None
    control: str | None = None
    control_peak_bytes: Count | None = None
    json_last: ClassVar = ("peak_bytes",)

    @classmethod
    def restored(cls, known: Mapping[str, Any]) -> Memory:
        """From the values of a file, of which the peak follows from others."""
        return cls(**{name: known[name] for name in known if name not in cls.json_last})

    @property
    def peak_bytes(self) -> Count | None:
        """Most device memory in use; where no allocator says, what the compiler asks for."""
        return (
            self.planned_bytes if self.allocated_peak_bytes is None else self.allocated_peak_bytes
        )
