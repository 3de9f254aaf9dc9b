"""Codes of CUPTI that rows of an export hold, each with the name it has in every output."""

from __future__ import annotations

from enum import IntEnum


class CopyKind(IntEnum):
    """ENUM_CUDA_MEMCPY_OPER: from where to where a copy goes."""

    UNKNOWN = 0
    HTOD = 1
    DTOH = 2
    HTOA = 3
    ATOH = 4
    ATOA = 5
    ATOD = 6
    DTOA = 7
    DTOD = 8
    HTOH = 9
    PTOP = 10
    UVM_HTOD = 11
    UVM_DTOH = 12
    UVM_DTOD = 13


class MemoryKind(IntEnum):
    """ENUM_CUDA_MEM_KIND of nsys exports; CUPTI's own numbers differ by one."""

    PAGEABLE = 0
    PINNED = 1
    DEVICE = 2
    ARRAY = 3
    MANAGED = 4
    DEVICE_STATIC = 5
    MANAGED_STATIC = 6
    UNKNOWN = 7


COPY_KINDS = (
    *("unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
    *("UVM HtoD", "UVM DtoH", "UVM DtoD"),
)
"""Names of `CopyKind` by value."""
MEMORY_KINDS = tuple(kind.name.lower() for kind in MemoryKind)
"""Names of `MemoryKind` by value."""

PREFETCH = 1
"""ENUM_CUDA_UNIF_MEM_MIGRATION: a migration that the program asked for."""
HOST_COPIES = (CopyKind.HTOD, CopyKind.DTOH, CopyKind.HTOA, CopyKind.ATOH)
"""Copies between host and device."""
MIGRATIONS = (CopyKind.UVM_HTOD, CopyKind.UVM_DTOH, CopyKind.UVM_DTOD)
"""Pages of unified memory that move."""
DEVICE_MEMORY = (MemoryKind.DEVICE, MemoryKind.ARRAY, MemoryKind.DEVICE_STATIC)
"""Memory on the GPU."""
