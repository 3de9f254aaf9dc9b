"""The schedule that XLA compiled, replayed with durations from recordings of other programs.

A compiled program lists its operations in the order in which they are issued, with the start and
the end of each asynchronous copy. With what equal operations took elsewhere on this machine, and
the rate of the link, that gives the step before it has ever run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from .errors import RefusedError

HOST_SPACE = "S(5)"
HBM_GBPS = 3500.0
"""What kernels bound by memory reach on an H200; used for operations never seen."""
BYTES = {"pred": 1, "s8": 1, "u8": 1, "f8e4m3fn": 1, "f8e5m2": 1, "bf16": 2, "f16": 2, "s16": 2}
FREE = frozenset(
    ["parameter", "get-tuple-element", "bitcast", "tuple", "constant", "after-all", "partition-id"]
)
_LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_SHAPE = re.compile(r"(\w+)\[([\d,]*)\](\{[^}]*\})?")
_SCOPE = re.compile(r'op_name="([^"]*)"')
_NUMBER = re.compile(r"(\.\d+)+$")


@dataclass(frozen=True)
class Op:
    """One operation of the entry computation, in the order of issue.

    `kind`: work, start or end of a copy. A copy has its `direction` (d2h, h2d or none, between
    places of one memory) and bytes; its end names the start by `of`.
    """

    name: str
    kind: str
    signature: str = ""
    n_bytes: int = 0
    direction: str = ""
    of: str = ""
    scope: str = ""
    """The path of named scopes that it comes from."""


@dataclass(frozen=True)
class Replayed:
    """A step as the schedule and the durations say it. Times in ms; `known_share` of the work has
    a duration from a recording. `windows` gives for each copy of a direction the work done
    before its start and before its end, and what the copy takes, all in ms.
    """

    step_ms: float
    exposed_ms: float
    work_ms: float
    known_share: float
    windows: Mapping[str, tuple[tuple[float, float, float], ...]]


def read_schedule(text: str) -> list[Op]:
    """The entry computation of a compiled program's text. Raises `RefusedError` for loops."""
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith("ENTRY ")), None)
    if first is None or "is_scheduled=true" not in lines[0]:
        raise RefusedError("The text is no scheduled program of XLA.", "Give compiled.as_text().")
    return list(_operations(lines[first + 1 :]))


def _operations(lines: list[str]) -> Iterator[Op]:
    shapes: dict[str, str] = {}
    for line in lines:
        if line.startswith("}"):
            return
        found = _LINE.match(line)
        if found is None:
            continue
        name, shape, opcode, rest = found.groups()
        shapes[name] = shape
        operands = re.findall(r"%([\w.\-]+)", rest.split("), ")[0])
        if opcode in FREE:
            continue
        if opcode == "while":
            raise RefusedError(f"{name}: a loop cannot be replayed.", "Use an unrolled arm.")
        if opcode == "copy-start":
            yield _copy(name, shape)
        elif opcode == "copy-done":
            yield Op(name, "end", of=operands[0])
        elif opcode not in ("async-done", "fusion-done"):
            scope = _SCOPE.search(rest)
            key = signature(name, shape, [shapes.get(o, "") for o in operands])
            yield Op(name, "work", key, scope=scope[1] if scope else "")


def _copy(name: str, shape: str) -> Op:
    """The start of a copy, whose shape is (target, source, context)."""
    target, source = list(_SHAPE.finditer(shape))[:2]
    to, came = HOST_SPACE in (target[3] or ""), HOST_SPACE in (source[3] or "")
    direction = "" if to == came else "d2h" if to else "h2d"
    return Op(name, "start", n_bytes=_size(target), direction=direction)


def signature(name: str, shape: str, operands: list[str]) -> str:
    """What operations of equal work have in common: kind, and shapes without layouts."""
    plain = [
        "+".join(f"{m[1]}[{m[2]}]" for m in _SHAPE.finditer(text) if m[1] not in ("s8", "u8"))
        for text in (shape, *operands)
    ]
    return f"{_NUMBER.sub('', name)}:{plain[0]}<{','.join(plain[1:])}"


def _size(match: re.Match[str]) -> int:
    count = math.prod(int(n) for n in match[2].split(",") if n)
    return count * BYTES.get(match[1], 8 if match[1].endswith("64") else 4)


def costs_by_signature(ops: list[Op], op_us: Mapping[str, float]) -> dict[str, float]:
    """Microseconds by signature, from those of a recording's operations by name.

    What the recording does not show took no time on the GPU.
    """
    seen: dict[str, list[float]] = {}
    for op in ops:
        if op.kind == "work":
            seen.setdefault(op.signature, []).append(op_us.get(op.name, 0.0))
    return {key: median(values) for key, values in seen.items()}


def replay(ops: list[Op], costs: Mapping[str, float], gbps: Mapping[str, float]) -> Replayed:
    """The step of a schedule; `gbps` has the rates of `d2h` and `h2d`.

    Work runs in order. A copy starts when it is issued and the one before it in its direction
    is over; work waits where the schedule has the end of a copy.
    """
    now = work = known = 0.0
    free = {"d2h": 0.0, "h2d": 0.0, "": 0.0}
    over: dict[str, float] = {}
    opened: dict[str, tuple[Op, float, float]] = {}
    windows: dict[str, list[tuple[float, float, float]]] = {"d2h": [], "h2d": []}
    for op in ops:
        if op.kind == "work":
            ms = costs.get(op.signature, -1.0) / 1e3
            known += max(ms, 0.0)
            ms = ms if ms >= 0 else _guess_ms(op.signature)
            now, work = now + ms, work + ms
        elif op.kind == "start":
            rate = gbps.get(op.direction, HBM_GBPS / 2)
            ms = op.n_bytes / rate / 1e6
            free[op.direction] = over[op.name] = max(now, free[op.direction]) + ms
            opened[op.name] = (op, work, ms)
        elif op.of in opened:
            start, before, ms = opened.pop(op.of)
            if start.direction:
                windows[start.direction].append((before, work, ms))
            now = max(now, over[op.of])
    now = max(now, *free.values())
    share = known / work if work else 0.0
    return Replayed(now, now - work, work, share, {k: tuple(v) for k, v in windows.items()})


def short_windows(replayed: Replayed) -> int:
    """Copies that take longer than the work between their start and their end."""
    return sum(end - start < ms for found in replayed.windows.values() for start, end, ms in found)


def outside(replayed: Replayed, base: Replayed) -> float:
    """Share of the windows of a schedule, 0..1, that lie outside of those of another one.

    Both directions at once; 0 without windows.
    """
    mine, others = _union(replayed), _union(base)
    total = sum(end - start for start, end in mine)
    shared = sum(
        max(0.0, min(end, until) - max(start, since))
        for start, end in mine
        for since, until in others
    )
    return 1 - shared / total if total else 0.0


def _union(replayed: Replayed) -> list[tuple[float, float]]:
    spans = sorted((a, b) for found in replayed.windows.values() for a, b, _ in found)
    merged: list[tuple[float, float]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _guess_ms(signature: str) -> float:
    """Operands and results once through device memory."""
    sizes = (_size(match) for match in _SHAPE.finditer(signature))
    return sum(sizes) / HBM_GBPS / 1e6
