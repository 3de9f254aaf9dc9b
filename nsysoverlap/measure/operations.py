"""Operations: which label issued which transfers, what they cost, and what came after them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import BoolArray, Int32Array, Int64Array
from ..result.model import Attribution, OperationReport, Overlap
from ..roles.rules import Role
from ..steps.labels import Label, parse_label, without_counters
from ..steps.markers import kind_of
from ..trace.contents import short_name
from .case import DeviceCase
from .groups import measure_groups
from .tensors import tensors
from .waiting import in_graph, launch_of_transfers

_Key = tuple[str, str, str]
"""Op, label and direction."""

GRAPH_LABEL = "graph"
UNKNOWN = "unknown"

_VERSION = re.compile(r"_v\d+$")


@dataclass(frozen=True)
class TransferLabels:
    """What issued each row of `DeviceCase.rows`.

    `code` (n,) indexes `keys`, the distinct (op, label) pairs. `attributed` (n,) is true where an
    NVTX label was found; other rows are named after the API call, or `unknown` without one.
    """

    keys: tuple[tuple[str, str], ...]
    code: Int64Array
    attributed: BoolArray

    @cached_property
    def op(self) -> NDArray[np.object_]:
        """Operation of each row, as text; shape (n,)."""
        return self._texts(0)

    @cached_property
    def label(self) -> NDArray[np.object_]:
        """Scope of each row (n,), `graph` for nodes of a CUDA graph, '' where there is none."""
        return self._texts(1)

    def _texts(self, part: int) -> NDArray[np.object_]:
        return np.array([key[part] for key in self.keys], dtype=object)[self.code]


def transfer_labels(case: DeviceCase) -> TransferLabels:
    """The innermost NVTX label around the launch of each of the device's transfers.

    Where that says no more than which step it is, what is known of the tensor (see `tensors`).
    Copies inside a CUDA graph carry what stands around the launch of the graph.
    """
    host, rows = case.classified.trace.host, case.rows
    call = launch_of_transfers(case.classified, case.launches, rows)
    text = _look_up(host.ranges.text, case.launches.nests.innermost(call))
    # A range without text says no more than no range.
    text[text == _code_of("", host.texts)] = -1
    api = np.where(text < 0, _look_up(host.calls.name, call), -1)
    # What is named is the few distinct combinations, never the rows.
    n_api = len(host.api_names) + 1
    source = ((text + 1) * n_api + api + 1) * 2 + in_graph(case.classified, rows)
    found, row = np.unique(source, return_inverse=True)
    codes: dict[tuple[str, str], int] = {}
    of_found = []
    for one in found.tolist():
        text_code, api_code = one // 2 // n_api - 1, one // 2 % n_api - 1
        if text_code >= 0:
            label = parse_label(host.texts[text_code])
            label = replace(label, op=without_counters(label.op))
        else:
            label = Label(api_name(host.api_names[api_code]) if api_code >= 0 else UNKNOWN)
        key = (label.op, GRAPH_LABEL if one % 2 else label.name)
        of_found.append(codes.setdefault(key, len(codes)))
    code = np.array(of_found, np.int64)[row.reshape(-1)]
    used, place = np.unique(text, return_inverse=True)
    says_step = [one < 0 or _says_step(host.texts[one]) for one in used.tolist()]
    unnamed = np.array(says_step, np.bool_)[place.reshape(-1)] & ~in_graph(case.classified, rows)
    names, tensor = tensors(case, unnamed, call)
    found_codes = [codes.setdefault((name, ""), len(codes)) for name in names]
    if names:
        code = np.where(tensor >= 0, np.array(found_codes, np.int64)[tensor], code)
    return TransferLabels(tuple(codes), code, text >= 0)


def api_name(name: str) -> str:
    """A CUDA API call without the version that nsys appends, as in `cudaMemcpyAsync_v3020`."""
    return _VERSION.sub("", name)


def _says_step(text: str) -> bool:
    """Whether a text says which step it is, and no more."""
    return kind_of(text) is not None and not parse_label(text).keys


def _look_up(values: Int32Array, index: Int64Array) -> Int64Array:
    """`values[index]`, and -1 where the index is below 0."""
    result = np.full(len(index), -1, np.int64)
    result[index >= 0] = values[index[index >= 0]]
    return result


def _code_of(text: str, texts: Sequence[str]) -> int:
    return texts.index(text) if text in texts else -2


@dataclass(frozen=True)
class DeviceOperations:
    """The transfers of one device by operation.

    `group` (n,) indexes `keys`, (op, label, direction), and `overlaps`, those of each of them.
    """

    labels: TransferLabels
    keys: tuple[_Key, ...]
    group: Int64Array
    overlaps: tuple[Overlap, ...]


def device_operations(case: DeviceCase) -> DeviceOperations:
    """The operations of one device."""
    labels = transfer_labels(case)
    both = labels.code * 2 + (case.rows.role == Role.D2H)
    found, group = np.unique(both, return_inverse=True)
    keys = tuple((*labels.keys[i // 2], "d2h" if i % 2 else "h2d") for i in found.tolist())
    group = group.reshape(-1)
    return DeviceOperations(labels, keys, group, tuple(measure_groups(case, group, len(keys))))


def measure_operations(
    cases: Sequence[DeviceCase],
    n_steps: int | None,
    measured: Sequence[DeviceOperations] | None = None,
) -> tuple[tuple[OperationReport, ...], Attribution]:
    """Every operation with its transfers of one direction, over all devices of one trace.

    Most exposed first. n, bytes and busy time sum to those of the devices. Wall, hidden, exposed
    and blocking time need not: where copies of two operations run at the same time, each of the
    two counts the instant. Devices run side by side, so exposed time per step is the mean over
    those that have the operation. Operations without a transfer in the measured time are left out.
    `measured` are the `device_operations` of the cases, where at hand.
    """
    if measured is None:
        measured = [device_operations(case) for case in cases]
    totals: dict[_Key, Overlap] = {}
    n_devices: Counter[_Key] = Counter()
    for own in measured:
        for key, overlap in zip(own.keys, own.overlaps, strict=True):
            totals[key] = totals.get(key, Overlap()) + overlap
            n_devices[key] += bool(overlap.n or overlap.busy_ns)
    labels = [own.labels for own in measured]
    known = sum(map(_attribution, cases, labels), Attribution())
    places = {key: place for place, key in enumerate(totals)}
    global_groups = [
        np.array([places[key] for key in own.keys], np.int64)[own.group] for own in measured
    ]
    followed_by = _followed_by(cases, global_groups, len(totals))
    reports = [
        OperationReport(
            *key,
            overlap=overlap,
            exposed_per_step_ns=(
                round(overlap.exposed_ns / (n_steps * n_devices[key])) if n_steps else None
            ),
            followed_by=kernel,
        )
        for (key, overlap), kernel in zip(totals.items(), followed_by, strict=True)
        if overlap.n or overlap.busy_ns
    ]
    reports.sort(key=lambda r: (-r.overlap.exposed_ns, r.op, r.label, r.direction))
    return tuple(reports), known


def _followed_by(
    cases: Sequence[DeviceCase], groups: Sequence[Int64Array], n_groups: int
) -> list[str | None]:
    """What most of each group's exposed time was followed by; None for nothing.

    `groups` gives the group of each transfer of each case.
    """
    result: list[str | None] = [None] * n_groups
    if not cases:
        return result
    names = cases[0].classified.trace.names
    parts = [_exposed_by_name(case, group) for case, group in zip(cases, groups, strict=True)]
    of_group, name, ns = (np.concatenate(column) for column in zip(*parts, strict=True))
    # Names that differ in template arguments only count as one.
    used = np.unique(name[name >= 0])
    of_used = [short_name(names[i]) for i in used.tolist()]
    short = sorted(set(of_used))
    place = {text: i for i, text in enumerate(short)}
    of_name = np.array([place[text] for text in of_used], np.int64)
    name[name >= 0] = of_name[np.searchsorted(used, name[name >= 0])]
    n_short = len(short) + 1
    pair, total = _summed(of_group * n_short + name + 1, ns)
    # The longest of each group comes first, and of equals the first by name.
    order = np.lexsort((pair, -total, pair // n_short))
    _, first = np.unique(pair[order] // n_short, return_index=True)
    for longest in pair[order[first]].tolist():
        group, code = divmod(longest, n_short)
        result[group] = short[code - 1] if code else None
    return result


def _exposed_by_name(
    case: DeviceCase, group: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Group, name of the next kernel (-1 for none) and exposed ns, for each such pair."""
    trace, pieces = case.classified.trace, case.pieces
    ns = case.window.covered(pieces.start_ns, pieces.end_ns)
    here = np.flatnonzero(ns > 0)
    name = _look_up(trace.kernels.name, pieces.next_kernel[here])
    n_names = len(trace.names) + 1
    pair, total = _summed(group[pieces.transfer[here]] * n_names + name + 1, ns[here])
    return pair // n_names, pair % n_names - 1, total


def _summed(key: Int64Array, values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The distinct keys, rising, and the sum of the values of each."""
    found, at = np.unique(key, return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, at.reshape(-1), values)
    return found, total


def _attribution(case: DeviceCase, labels: TransferLabels) -> Attribution:
    rows, pieces = case.rows, case.pieces
    n_bytes = np.where(case.counted.contains(rows.start_ns), rows.n_bytes + rows.bytes_estimated, 0)
    exposed_ns = case.window.covered(pieces.start_ns, pieces.end_ns)
    doubtful_ns = case.window.covered(pieces.doubtful_ns, pieces.held_ns)
    return Attribution(
        attributed_bytes=int(n_bytes[labels.attributed].sum()),
        total_bytes=int(n_bytes.sum()),
        resolved_ns=int((exposed_ns - doubtful_ns).sum()),
        exposed_ns=int(exposed_ns.sum()),
    )
