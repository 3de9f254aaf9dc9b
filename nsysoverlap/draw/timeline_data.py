"""From the cases of devices to the timeline that a reporter draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.arrays import Int32Array, Int64Array
from ..core.formatting import short_kernel
from ..core.intervals import IntervalSet
from ..measure.case import DeviceCase
from ..measure.operations import transfer_labels
from ..roles.rules import Role
from .timeline_blocks import fair_shares, longest, merge_spans
from .timeline_model import DeviceTimeline, Lane, StepMark, Stretches, Timeline

MAX_BLOCKS = 32_000
"""Of all lanes of all devices; some 25 bytes each in a page."""
MAX_NAMES = 2_000
MAX_NAME = 120
RARE_NAME = "(one of many other names)"
"""Stands for the names beyond `MAX_NAMES`."""

_ROLES = {
    "compute": (Role.COMPUTE,),
    "comm": (Role.COMM,),
    "other": (Role.OTHER, Role.UNIFIED_H2D, Role.UNIFIED_D2H),
    "opaque": (Role.OPAQUE,),
}
_COPY_NAMES = {
    1: "peer copy staged through the host",
    2: "peer copy staged through the host",
    8: "on-device copy",
    10: "peer copy",
    11: "page migration to the device",
    12: "page migration to the host",
}
_OTHER_NAMES = {"memset": "memset", "graph": "CUDA graph recorded as a whole"}


@dataclass(frozen=True)
class _Spans:
    """All activities of one lane; `name` indexes `texts`."""

    kind: str
    start_ns: Int64Array
    end_ns: Int64Array
    name: Int64Array
    stream: Int64Array
    n_bytes: Int64Array
    texts: Sequence[str]


class TimelineBuilder:
    """Collects the devices of one trace after another, then makes the timeline of all."""

    def __init__(self) -> None:
        self._devices: list[DeviceTimeline] = []
        self._lanes: list[list[_Spans]] = []
        self._exposed: list[dict[str, IntervalSet]] = []

    def add(self, cases: Iterable[DeviceCase]) -> None:
        """Take in the devices of a trace; nothing of the trace itself is kept."""
        for case in cases:
            self._devices.append(_device(case))
            self._lanes.append(_lanes(case))
            self._exposed.append({name: case.split(name).exposed for name in ("h2d", "d2h")})

    def build(
        self, most: int = MAX_BLOCKS, closeups: Sequence[Sequence[tuple[int, int]]] = ()
    ) -> Timeline:
        """The timeline in about `most` blocks, shared out by what each lane needs.

        `closeups` are stretches of each device's time in which nothing is to be merged.
        """
        needs = [len(lane.start_ns) for lanes in self._lanes for lane in lanes]
        needs += [len(one) for exposed in self._exposed for one in exposed.values()]
        shares = iter(fair_shares(needs, most))
        names = _Names()
        near = [_around(one) for one in closeups] or [[] for _ in self._devices]
        lanes_of = [
            tuple(_lane(lane, exposed, next(shares), names, where) for lane in lanes)
            for lanes, exposed, where in zip(self._lanes, self._exposed, near, strict=True)
        ]
        stretches_of = [
            {name: _stretches(one, next(shares)) for name, one in exposed.items()}
            for exposed in self._exposed
        ]
        devices = tuple(
            replace(device, lanes=lanes, exposed=stretches)
            for device, lanes, stretches in zip(self._devices, lanes_of, stretches_of, strict=True)
        )
        return Timeline(tuple(names.codes), devices)


def _around(stretches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches with as much time on either side, so that what is beside them is seen too."""
    return [(start - (end - start), end + (end - start)) for start, end in stretches]


class _Names:
    """Gives each text a code; of too many the later ones share one."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self._known: dict[str, int] = {}

    def code(self, text: str) -> int:
        """The code of a name, shortened so that both ends are seen."""
        if text not in self._known:
            short = short_kernel(text, MAX_NAME) or "(no name)"
            if len(self.codes) >= MAX_NAMES and short not in self.codes:
                short = RARE_NAME
            self._known[text] = self.codes.setdefault(short, len(self.codes))
        return self._known[text]


def _device(case: DeviceCase) -> DeviceTimeline:
    trace = case.classified.trace
    start, end = case.lanes.extent_ns
    several = len({step.global_pid for step in case.steps}) > 1
    steps = tuple(
        StepMark(
            step.start_ns,
            step.end_ns,
            f"step {step.index}" + (f", pid {step.pid}" if several else ""),
        )
        for step in case.steps
    )
    return DeviceTimeline(
        trace=trace.info.file_name,
        start_ns=start,
        end_ns=max(end, start + 1),
        measured=tuple(case.window.pieces()),
        steps=steps,
        lanes=(),
        exposed={},
    )


def _lanes(case: DeviceCase) -> list[_Spans]:
    """The lanes that have any activity, and those of both directions always."""
    lanes = [
        _role_spans(case, "compute"),
        _role_spans(case, "comm"),
        *_transfer_spans(case),
        _role_spans(case, "other"),
        _role_spans(case, "opaque"),
    ]
    always = {"compute", "d2h", "h2d"}
    return [lane for lane in lanes if len(lane.start_ns) or lane.kind in always]


def _role_spans(case: DeviceCase, kind: str) -> _Spans:
    classified = case.classified
    trace = classified.trace
    texts = [*trace.names, *_COPY_NAMES.values(), *_OTHER_NAMES.values(), "copy"]
    code_of_kind = np.full(256, len(texts) - 1, np.int64)
    for i, number in enumerate(_COPY_NAMES):
        code_of_kind[number] = len(trace.names) + i
    columns: list[tuple[Int64Array, Int64Array, Int64Array, Int64Array]] = []
    for name, table in trace.tables.items():
        here = trace.stream_device[table.stream] == case.device.index
        row = np.flatnonzero(here & np.isin(classified.roles[name], _ROLES[kind]))
        if name == "kernel":
            codes = trace.kernels.name[row].astype(np.int64)
        elif name == "memcpy":
            codes = code_of_kind[trace.copies.copy_kind[row]]
        else:
            codes = np.full(len(row), texts.index(_OTHER_NAMES[name]), np.int64)
        stream_ids = _ids(case, table.stream[row])
        columns.append((table.start_ns[row], table.end_ns[row], codes, stream_ids))
    start, end, codes, stream = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(start, kind="stable")
    nothing = np.zeros(len(order), np.int64)
    return _Spans(kind, start[order], end[order], codes[order], stream[order], nothing, texts)


def _transfer_spans(case: DeviceCase) -> list[_Spans]:
    """D2H and H2D, named after the operations that issued them."""
    labels = transfer_labels(case)
    texts = [f"{op} ({label})" if label else op for op, label in labels.keys]
    lanes = []
    for kind, role in (("d2h", Role.D2H), ("h2d", Role.H2D)):
        mine = np.flatnonzero(case.rows.role == role)
        rows = case.rows.select(mine)
        lanes.append(
            _Spans(
                kind,
                rows.start_ns,
                rows.end_ns,
                labels.code[mine],
                _ids(case, rows.stream),
                rows.n_bytes + rows.bytes_estimated,
                texts,
            )
        )
    return lanes


def _ids(case: DeviceCase, stream: Int32Array) -> Int64Array:
    """CUDA's number of each stream."""
    ids = np.array([s.stream_id for s in case.classified.trace.streams], dtype=np.int64)
    result: Int64Array = ids[stream]
    return result


def _lane(
    spans: _Spans,
    exposed: dict[str, IntervalSet],
    most: int,
    names: _Names,
    closeups: Sequence[tuple[int, int]],
) -> Lane:
    blocks = merge_spans(spans.start_ns, spans.end_ns, most, closeups)
    name = spans.name[blocks.longest]
    used, place = np.unique(name, return_inverse=True)
    codes = np.array([names.code(spans.texts[i]) for i in used.tolist()], np.int64)
    own = exposed.get(spans.kind)
    return Lane(
        kind=spans.kind,
        start_ns=blocks.start_ns,
        end_ns=blocks.end_ns,
        name=codes[place.reshape(-1)],
        stream=spans.stream[blocks.longest],
        n=blocks.n,
        busy_ns=blocks.busy_ns,
        n_bytes=blocks.summed(spans.n_bytes),
        exposed_ns=np.zeros(len(name), np.int64)
        if own is None
        else own.covered(blocks.start_ns, blocks.end_ns),
        n_activities=len(spans.start_ns),
    )


def _stretches(exposed: IntervalSet, most: int) -> Stretches:
    kept = longest(exposed.starts, exposed.ends, most)
    return Stretches(exposed.starts[kept], exposed.ends[kept], len(exposed), exposed.length)
