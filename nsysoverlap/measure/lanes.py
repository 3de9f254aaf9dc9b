"""What ran on one device, as interval sets by role.

The lanes of a device are merged over its streams and processes; transfers keep their rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from functools import cached_property

import numpy as np

from ..core.arrays import BoolArray, CodeArray, Int64Array, UInt8Array
from ..core.intervals import IntervalSet
from ..core.records import dataclass
from ..roles.rules import Classified, Role

TRANSFER_ROLES = {
    "h2d": (Role.H2D,),
    "d2h": (Role.D2H,),
    "both": (Role.H2D, Role.D2H),
    "unified_h2d": (Role.UNIFIED_H2D,),
    "unified_d2h": (Role.UNIFIED_D2H,),
}


@dataclass(frozen=True)
class Transfers:
    """Transfers of one or both directions, sorted by start; every column has shape (n,).

    `row` indexes the copies table, or the kernels table where `by_kernel`. `n_bytes` is 0 for
    transfer kernels, `bytes_estimated` 0 for copies.
    """

    start_ns: Int64Array
    end_ns: Int64Array
    n_bytes: Int64Array
    bytes_estimated: Int64Array
    by_kernel: BoolArray
    stream: CodeArray
    role: Int64Array
    row: Int64Array

    def __len__(self) -> int:
        return len(self.start_ns)

    def select(self, index: BoolArray | Int64Array) -> Transfers:
        """The transfers that a mask (n,) or an index (m,) picks."""
        return Transfers(*(getattr(self, field.name)[index] for field in fields(self)))

    @cached_property
    def union(self) -> IntervalSet:
        """Instants during which at least one of them ran."""
        return IntervalSet.from_spans(self.start_ns, self.end_ns)


@dataclass(frozen=True)
class Lanes:
    """Interval sets of one device by role; `transfers` holds all four transfer roles."""

    compute: IntervalSet
    comm: IntervalSet
    other: IntervalSet
    unified: IntervalSet
    opaque: IntervalSet
    transfers: Transfers
    extent_ns: tuple[int, int]
    """First start and last end of all rows of the device."""

    @cached_property
    def active(self) -> IntervalSet:
        """Instants during which something that can hide a transfer ran."""
        return self.compute.union(self.comm)

    def of(self, direction: str) -> Transfers:
        """Transfers of `h2d`, `d2h`, `both`, `unified_h2d` or `unified_d2h`."""
        return self._by_direction[direction]

    @cached_property
    def _by_direction(self) -> dict[str, Transfers]:
        found = {}
        for direction, roles in TRANSFER_ROLES.items():
            mask = _has_role(self.transfers.role, roles)
            found[direction] = self.transfers if mask.all() else self.transfers.select(mask)
        return found


def device_lanes(classified: Classified, device: int) -> Lanes:
    """The lanes of one device of a classified trace."""
    trace = classified.trace
    rows = {name: trace.rows_on(device, name) for name in trace.tables}
    role = {name: classified.roles[name][rows[name]] for name in trace.tables}
    start = {name: table.start_ns[rows[name]] for name, table in trace.tables.items()}
    end = {name: table.end_ns[rows[name]] for name, table in trace.tables.items()}

    def merged(*roles: Role) -> IntervalSet:
        result = IntervalSet.empty()
        for name in trace.tables:
            mask = _has_role(role[name], roles)
            result = result.union(IntervalSet.from_spans(start[name][mask], end[name][mask]))
        return result

    here = [name for name in trace.tables if len(rows[name])]
    moving = [role for group in TRANSFER_ROLES.values() for role in group]
    return Lanes(
        compute=merged(Role.COMPUTE),
        comm=merged(Role.COMM),
        other=merged(Role.OTHER),
        unified=merged(Role.UNIFIED_H2D, Role.UNIFIED_D2H),
        opaque=merged(Role.OPAQUE),
        transfers=_transfers(
            classified,
            rows["memcpy"][_has_role(role["memcpy"], moving)],
            rows["kernel"][_has_role(role["kernel"], moving)],
        ),
        extent_ns=(
            min(int(start[name][0]) for name in here),
            max(int(end[name].max()) for name in here),
        ),
    )


def _has_role(roles: UInt8Array | Int64Array, wanted: Collection[Role]) -> BoolArray:
    mask = np.zeros(len(roles), np.bool_)
    for role in wanted:
        mask |= roles == role
    return mask


def _transfers(classified: Classified, copies: Int64Array, kernels: Int64Array) -> Transfers:
    """Rows of the copies table and of the kernels table in one table."""
    trace = classified.trace
    estimated = np.zeros(len(kernels), np.int64)
    at = np.searchsorted(classified.estimated_row, kernels)
    known = at < len(classified.estimated_row)
    known[known] = classified.estimated_row[at[known]] == kernels[known]
    estimated[known] = classified.estimated_bytes[at[known]]
    no_copies, no_kernels = np.zeros(len(copies), np.int64), np.zeros(len(kernels), np.int64)
    columns = Transfers(
        start_ns=np.concatenate((trace.copies.start_ns[copies], trace.kernels.start_ns[kernels])),
        end_ns=np.concatenate((trace.copies.end_ns[copies], trace.kernels.end_ns[kernels])),
        n_bytes=np.concatenate((trace.copies.n_bytes[copies], no_kernels)),
        bytes_estimated=np.concatenate((no_copies, estimated)),
        by_kernel=np.arange(len(copies) + len(kernels)) >= len(copies),
        stream=np.concatenate((trace.copies.stream[copies], trace.kernels.stream[kernels])),
        role=np.concatenate((classified.copy_role[copies], classified.kernel_role[kernels])).astype(
            np.int64
        ),
        row=np.concatenate((copies, kernels)),
    )
    return columns.select(np.lexsort((columns.stream, columns.end_ns, columns.start_ns)))
