"""What ran on one device, as interval sets by role.

The lanes of a device are merged over its streams and processes; transfers keep their rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from .arrays import BoolArray, Int32Array, Int64Array, UInt8Array
from .intervals import IntervalSet
from .rules import Classified, Role

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
    stream: Int32Array
    role: Int64Array
    row: Int64Array

    def __len__(self) -> int:
        return len(self.start_ns)

    def select(self, index: BoolArray | Int64Array) -> Transfers:
        """The transfers that a mask or an index picks."""
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
        return self.transfers.select(np.isin(self.transfers.role, TRANSFER_ROLES[direction]))


def device_lanes(classified: Classified, device: int) -> Lanes:
    """The lanes of one device of a classified trace."""
    trace = classified.trace
    on_device = {
        name: trace.stream_device[table.stream] == device for name, table in trace.tables.items()
    }

    def merged(*roles: Role) -> IntervalSet:
        result = IntervalSet.empty()
        for name, table in trace.tables.items():
            mask = on_device[name] & _has_role(classified.roles[name], roles)
            result = result.union(IntervalSet.from_spans(table.start_ns[mask], table.end_ns[mask]))
        return result

    starts, ends = [], []
    for name, table in trace.tables.items():
        if on_device[name].any():
            starts.append(int(table.start_ns[np.argmax(on_device[name])]))
            ends.append(int(table.end_ns[on_device[name]].max()))
    return Lanes(
        compute=merged(Role.COMPUTE),
        comm=merged(Role.COMM),
        other=merged(Role.OTHER),
        unified=merged(Role.UNIFIED_H2D, Role.UNIFIED_D2H),
        opaque=merged(Role.OPAQUE),
        transfers=_transfers(classified, on_device["memcpy"], on_device["kernel"]),
        extent_ns=(min(starts), max(ends)),
    )


def _has_role(roles: UInt8Array, wanted: Collection[Role]) -> BoolArray:
    mask = np.zeros(len(roles), np.bool_)
    for role in wanted:
        mask |= roles == role
    return mask


def _transfers(
    classified: Classified, copies_here: BoolArray, kernels_here: BoolArray
) -> Transfers:
    """Copies and transfer kernels of one device in one table."""
    trace = classified.trace
    roles = [role for group in TRANSFER_ROLES.values() for role in group]
    copies = np.flatnonzero(copies_here & _has_role(classified.copy_role, roles))
    kernels = np.flatnonzero(kernels_here & _has_role(classified.kernel_role, roles))
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
