"""Roles of activities, what a rule is, and the rules for copies."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cached_property

from ..core.records import dataclass
from ..trace.cupti import CopyKind


class Role(IntEnum):
    """What an activity counts as in the metric; fits in uint8."""

    COMPUTE = 0
    COMM = 1
    H2D = 2
    D2H = 3
    OTHER = 4
    UNIFIED_H2D = 5
    UNIFIED_D2H = 6
    OPAQUE = 7


@dataclass(frozen=True)
class Rule:
    """One kernel family: names that `pattern` is found in take `role`.

    The patterns of this file are searched in the qualified name (no return type, template
    arguments or parameters), and `arguments`, where given, in the whole demangled name. With
    `needs_proof` a launch takes `role` only if it is as slow as a host link, and is compute
    otherwise. A launch moves `bytes_per_thread`, 0 where its threads do not tell.
    """

    name: str
    category: str
    role: Role
    pattern: str
    examples: tuple[str, ...] = ()
    why: str = ""
    needs_proof: bool = False
    arguments: str = ""
    bytes_per_thread: int = 8
    """What a thread of XLA's bf16 host copy kernels was seen to move."""

    def matches(self, demangled: str, qualified: str) -> bool:
        """Whether the rule takes a kernel of this name."""
        found = self.regex.search(qualified) is not None
        return found and (not self.arguments or re.search(self.arguments, demangled) is not None)

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """`pattern`, compiled."""
        return re.compile(self.pattern)


@dataclass(frozen=True)
class CopyRule:
    """Copies of one of `copy_kinds` that meet the conditions set here."""

    name: str
    role: Role
    copy_kinds: tuple[CopyKind, ...]
    why: str
    both_on_device: bool = False
    """Source and destination memory must both be device memory."""
    between_devices: bool = False
    """Source and destination device must be known and differ."""


COPY_RULES: tuple[CopyRule, ...] = (
    CopyRule(
        "unified-h2d", Role.UNIFIED_H2D, (CopyKind.UVM_HTOD,), "Unified memory moved to the GPU."
    ),
    CopyRule(
        "unified-d2h", Role.UNIFIED_D2H, (CopyKind.UVM_DTOH,), "Unified memory moved to the host."
    ),
    CopyRule(
        "staged-peer-copy",
        Role.COMM,
        (CopyKind.HTOD, CopyKind.DTOH),
        "One half of a GPU-to-GPU copy that goes through the host.",
        both_on_device=True,
    ),
    CopyRule("h2d", Role.H2D, (CopyKind.HTOD, CopyKind.HTOA), "Host memory to the GPU."),
    CopyRule("d2h", Role.D2H, (CopyKind.DTOH, CopyKind.ATOH), "GPU memory to the host."),
    CopyRule("peer-copy", Role.COMM, (CopyKind.PTOP,), "GPU to GPU."),
    CopyRule(
        "peer-copy-by-device",
        Role.COMM,
        (CopyKind.DTOD,),
        "Device-to-device copy between two GPUs.",
        between_devices=True,
    ),
)
"""Copies that none of these takes are `Role.OTHER`."""
