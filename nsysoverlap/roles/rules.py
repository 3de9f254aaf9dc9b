"""Which role each activity plays: kernels by name, copies by their numbers.

A kernel's rule is looked up once per distinct name and then spread over the rows by indexing,
so classifying costs a few bytes and nanoseconds a row. Nothing here measures overlap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import BoolArray, Int32Array, Int64Array, UInt8Array
from ..core.errors import ConfigError
from ..core.patterns import bounded
from ..core.records import dataclass
from ..trace.contents import Copies, Trace, qualified_name
from ..trace.cupti import DEVICE_MEMORY
from .rule_table import COPY_RULES, KERNEL_RULES, CopyRule, Role, Rule

__all__ = [
    "Classified",
    "CopyRule",
    "Explanation",
    "Role",
    "Rule",
    "RuleSet",
    "TopName",
    "classify",
    "comm_like_compute",
    "top_names",
]

MIN_TRANSFER_KERNEL_NS = 20_000
BYTES_PER_THREAD_AT_MOST = 16
RATE_LIMIT = 500e9
"""Bytes/s; stands in for a quarter of the memory bandwidth where the trace does not state it."""

_PROOF = (
    f"A launch takes this role if it lasts at least {MIN_TRANSFER_KERNEL_NS // 1000} us and "
    f"threads x {BYTES_PER_THREAD_AT_MOST} bytes / duration stays below a quarter of the GPU's "
    f"memory bandwidth (below {RATE_LIMIT / 1e9:.0f} GB/s where the trace does not state it); "
    "other launches are compute."
)
_TURNED_OFF = "Transfer kernels are turned off, so every launch is compute."

_COLLECTIVE_WORD = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|send_?recv|nccl|rccl|msccl"
    r"|nvshmem|multimem|symm_?mem|collective",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Explanation:
    """Why a kernel name is taken as what it is; `why` is the rule's reason and any condition."""

    name: str
    rule: Rule
    why: str


@dataclass(frozen=True)
class RuleSet:
    """Ordered rules for kernel names: `user_rules`, then `kernel_rules`; the first match wins.

    The pattern of a user's rule is searched in the demangled name, all others in the qualified
    name. The last rule takes every name that no other rule takes. Without `transfer_kernels`
    the candidates for transfer kernels are compute.
    """

    kernel_rules: tuple[Rule, ...] = KERNEL_RULES
    user_rules: tuple[Rule, ...] = ()
    transfer_kernels: bool = True

    @property
    def words(self) -> str:
        """Which rules these are: the built-in ones, or how many others and a digest of them."""
        if not self.user_rules:
            return "built-in"
        from hashlib import sha256

        told = repr([(rule.regex.pattern, rule.role.name) for rule in self.user_rules])
        return f"{len(self.user_rules)} own ({sha256(told.encode()).hexdigest()[:8]})"

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """All rules in the order they are tried."""
        return self.user_rules + self.kernel_rules

    def indices_for(self, names: Sequence[str]) -> list[int]:
        """Index into `rules` of the rule that takes each of some demangled kernel names.

        Raises `ConfigError` for a user's pattern that takes too long to search for.
        """
        taken: dict[int, int] = {}
        for index, rule in enumerate(self.user_rules):
            too_long = ConfigError(
                f"The pattern of rule {rule.name!r} takes too long to search for in kernel names.",
                "Write it without repeats inside repeats.",
            )
            with bounded(too_long):
                found = [i for i, name in enumerate(names) if rule.regex.search(name)]
            taken = dict.fromkeys(found, index) | taken
        return [taken[i] if i in taken else self._built_in(name) for i, name in enumerate(names)]

    def index_for(self, name: str) -> int:
        """The same for one name."""
        return self.indices_for([name])[0]

    def _built_in(self, name: str) -> int:
        qualified = qualified_name(name)
        for index, rule in enumerate(self.kernel_rules, start=len(self.user_rules)):
            if rule.matches(name, qualified):
                return index
        return len(self.rules) - 1

    def rule_for(self, name: str) -> Rule:
        """The rule that takes the demangled kernel name."""
        return self.rules[self.index_for(name)]

    def explain(self, name: str) -> Explanation:
        """The winning rule for a kernel name, and why."""
        rule = self.rule_for(name)
        if not rule.needs_proof:
            return Explanation(name, rule, rule.why)
        condition = _PROOF if self.transfer_kernels else _TURNED_OFF
        return Explanation(name, rule, f"{rule.why} {condition}")

    def moves_host_data(self, rule: Rule) -> bool:
        """Whether launches that a rule takes can be transfers."""
        if rule.needs_proof and not self.transfer_kernels:
            return False
        return rule.role in (Role.H2D, Role.D2H)


@dataclass(frozen=True)
class Classified:
    """A trace with a role for every activity.

    `kernel_role` and `copy_role` have one `Role` a row. `name_rule` has shape (n_names,) and
    indexes `rules.rules`. `estimated_row` (m,), sorted, are the transfer kernels whose launch
    shape is known, `estimated_bytes` (m,) how much each moved, judged by its threads.
    """

    trace: Trace
    rules: RuleSet
    kernel_role: UInt8Array
    copy_role: UInt8Array
    name_rule: Int32Array
    estimated_row: Int64Array
    estimated_bytes: Int64Array

    @cached_property
    def roles(self) -> dict[str, UInt8Array]:
        """Roles (n,) by table, keyed as `Trace.tables`; memsets are OTHER, graphs OPAQUE."""
        return {
            "kernel": self.kernel_role,
            "memcpy": self.copy_role,
            "memset": np.full(len(self.trace.memsets), Role.OTHER, np.uint8),
            "graph": np.full(len(self.trace.graphs), Role.OPAQUE, np.uint8),
        }

    def kernel_rows(self, device: int, role: Role) -> Int64Array:
        """Rows (n,) of the kernels of one role on one device, rising."""
        key = (device, role)
        if key not in self._kernel_rows:
            rows = self.trace.rows_on(device, "kernel")
            self._kernel_rows[key] = rows[self.kernel_role[rows] == role].astype(np.int32)
        return self._kernel_rows[key].astype(np.int64)

    @cached_property
    def _kernel_rows(self) -> dict[tuple[int, Role], Int32Array]:
        return {}


def classify(trace: Trace, rules: RuleSet | None = None) -> Classified:
    """Give every activity of the trace its role."""
    rules = rules or RuleSet()
    name_rule = np.array(rules.indices_for(trace.names), dtype=np.int32)
    unproven = [Role.COMPUTE if rule.needs_proof else rule.role for rule in rules.rules]
    kernel_role = np.array(unproven, np.uint8)[name_rule][trace.kernels.name]

    role_of_rule = np.array([rule.role for rule in rules.rules], np.uint8)
    moves_host_data = np.array([rules.moves_host_data(rule) for rule in rules.rules], np.bool_)
    row = np.flatnonzero(moves_host_data[name_rule][trace.kernels.name])
    rule = name_rule[trace.kernels.name[row]]
    threads = trace.kernels.shapes.threads[trace.kernels.shape[row]]
    needs_proof = np.array([rule.needs_proof for rule in rules.rules], np.bool_)[rule]
    is_transfer = ~needs_proof | _slow_as_a_host_link(trace, row, threads)
    row, threads = row[is_transfer], threads[is_transfer]
    each = np.array([rule.bytes_per_thread for rule in rules.rules], np.int64)
    kernel_role[row] = role_of_rule[rule[is_transfer]]
    return Classified(
        trace=trace,
        rules=rules,
        kernel_role=kernel_role,
        copy_role=_copy_roles(trace.copies),
        name_rule=name_rule,
        estimated_row=row,
        # Nonsense for a shape must not add up beyond int64.
        estimated_bytes=np.minimum(threads, 2**58 // max(1, len(row))) * each[rule[is_transfer]],
    )


def _slow_as_a_host_link(trace: Trace, row: Int64Array, threads: Int64Array) -> BoolArray:
    """Whether each of some kernels is too long and slow for on-device memory."""
    kernels = trace.kernels
    limits = np.array(
        [
            device.gpu.memory_bandwidth / 4 if device.gpu.memory_bandwidth else RATE_LIMIT
            for device in trace.devices
        ]
    )
    duration = kernels.end_ns[row] - kernels.start_ns[row]
    limit = limits[trace.stream_device[kernels.stream[row]]]
    # Bytes/s times ns passes 2^63, hence floats.
    below = threads.astype(float) * BYTES_PER_THREAD_AT_MOST * 1e9 < limit * duration
    # No threads means that the export does not tell the launch shape.
    result: BoolArray = (threads > 0) & (duration >= MIN_TRANSFER_KERNEL_NS) & below
    return result


def _copy_roles(copies: Copies) -> UInt8Array:
    role = np.full(len(copies), Role.OTHER, np.uint8)
    on_device = np.zeros(256, bool)
    on_device[list(DEVICE_MEMORY)] = True
    # Last rule first, so that the first rule that matches has the last word.
    for rule in reversed(COPY_RULES):
        taken = np.isin(copies.copy_kind, rule.copy_kinds)
        if rule.both_on_device:
            taken &= on_device[copies.src_kind] & on_device[copies.dst_kind]
        if rule.between_devices:
            taken &= (copies.src_device >= 0) & (copies.dst_device >= 0)
            taken &= copies.src_device != copies.dst_device
        role[taken] = rule.role
    return role


def comm_like_compute(classified: Classified) -> list[tuple[str, int, int]]:
    """Names taken as compute for want of a rule although they sound like communication.

    (demangled name, total_ns, number of launches), most expensive first. XLA fusions are left
    out: they are named after what they feed.
    """
    catch_all = len(classified.rules.rules) - 1
    names = classified.trace.names
    suspects = [
        index
        for index in np.flatnonzero(classified.name_rule == catch_all)
        if _sounds_like_comm(names[index])
    ]
    if not suspects:
        return []
    total_ns, n = _totals(classified.trace, classified.trace.kernels.name, len(names))
    found = [(names[i], int(total_ns[i]), int(n[i])) for i in suspects if n[i]]
    return sorted(found, key=lambda row: (-row[1], row[0]))


def _sounds_like_comm(name: str) -> bool:
    if not _COLLECTIVE_WORD.search(name):
        return False
    # Template arguments say what a kernel is given, not what it does.
    qualified = qualified_name(name)
    return "fusion" not in qualified.lower() and bool(_COLLECTIVE_WORD.search(qualified))


class TopName(NamedTuple):
    """One kernel name with the role its launches took; `total_ns` is their summed duration."""

    category: str
    role: Role
    name: str
    n: int
    total_ns: int


def top_names(classified: Classified, per_category: int = 5) -> list[TopName]:
    """The most expensive kernel names of each category, categories by total time.

    A name whose launches took two roles (transfer kernels) gives one row for each.
    """
    trace, n_roles = classified.trace, len(Role)
    key = trace.kernels.name.astype(np.int64) * n_roles + classified.kernel_role
    total_ns, n = _totals(trace, key, len(trace.names) * n_roles)
    by_category: dict[str, list[TopName]] = {}
    for at in np.flatnonzero(n):
        name, role = divmod(int(at), n_roles)
        category = classified.rules.rules[classified.name_rule[name]].category
        row = TopName(category, Role(role), trace.names[name], int(n[at]), int(total_ns[at]))
        by_category.setdefault(category, []).append(row)
    groups = sorted(
        by_category.values(), key=lambda g: (-sum(r.total_ns for r in g), g[0].category)
    )
    return [
        row
        for group in groups
        for row in sorted(group, key=lambda r: (-r.total_ns, r.name, r.role))[:per_category]
    ]


def _totals(trace: Trace, key: NDArray[np.integer], size: int) -> tuple[Int64Array, Int64Array]:
    """Summed duration and number of kernels for each key below `size`."""
    total_ns = np.zeros(size, np.int64)
    # Not bincount with weights: its float sums lose nanoseconds.
    np.add.at(total_ns, key, trace.kernels.end_ns - trace.kernels.start_ns)
    return total_ns, np.bincount(key, minlength=size)
