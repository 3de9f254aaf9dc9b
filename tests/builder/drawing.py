"""Reads drawings: one line a lane, one character a unit of time.

    dev0 s7  compute: .####....##.
    dev0 s20 h2d:     ...####.....     # a comment

Before the colon: where (`dev0`, `s7`, `pid2`, `ctx1`, `vm1`, `tid5`), options (`bytes=1024`,
`grid=132` or `grid=132x2x1`, `block=256`, `corr=9`, `src=1`, `dst=0`, `graph=3`), and last the
kind: `compute`, `comm`, `kernel NAME`, `memset`, `graph`, or a copy kind of `COPY_KINDS`.
A run of one character other than `.` is one activity, so `AABB` are two that touch.
`graph=3` makes the lane's activities nodes of graph 3, all of one launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack, cast

from .capture import Place
from .rows import ALL_REDUCE, COPY_KINDS, GEMM, Dim3, TraceBuilder
from .writer import WriteOptions

# Graph-node launches share an id far from those counted up.
GRAPH_CORRELATION = 500_000

_LANE = re.compile(r"(?P<head>\S.*?):\s+(?P<cells>[.#\w]+)(?:\s+#.*)?")
_WHERE = re.compile(r"(dev|s|pid|ctx|vm|tid)(\d+)")
_PLACE_KEYS = {"dev": "device", "s": "stream", "ctx": "context"}
_OPTIONS = frozenset(["bytes", "grid", "block", "corr", "src", "dst", "graph"])


@dataclass
class Lane:
    """One line of a drawing: what ran, where, and when, in units."""

    kind: str
    cells: str
    name: str = ""
    place: dict[str, int] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)

    def runs(self) -> Iterator[tuple[int, int]]:
        """First and one-past-last unit of each activity."""
        for run in re.finditer(r"([^.])\1*", self.cells):
            yield run.span()

    def number(self, option: str) -> int | None:
        """An option's value; None where it is not set."""
        return int(self.options[option]) if option in self.options else None

    def shape(self, option: str, default: Dim3) -> Dim3:
        """`132` or `132x2x1` as three numbers."""
        if option not in self.options:
            return default
        x, y, z = [*(int(part) for part in self.options[option].split("x")), 1, 1][:3]
        return x, y, z


def build(
    path: str | Path,
    drawing: str,
    *,
    unit_ns: int = 1000,
    schema: str = "3.20",
    t0: int = 0,
    pid: int = 1000,
    **options: Unpack[WriteOptions],
) -> Path:
    """Turn a drawing into an SQLite export; the first column of every lane is time `t0`."""
    return draw(drawing, unit_ns=unit_ns, t0=t0, pid=pid).write(path, schema, **options)


def draw(drawing: str, *, unit_ns: int = 1000, t0: int = 0, pid: int = 1000) -> TraceBuilder:
    """The drawing's activities in a builder, for tests that add more by hand."""
    builder = TraceBuilder()
    for line in drawing.splitlines():
        if not line.strip() or line.strip().startswith("#"):
            continue
        lane = _parse(line)
        for node, (first, last) in enumerate(lane.runs()):
            place = cast(Place, {"pid": pid, **lane.place})
            _add(builder, lane, (t0 + first * unit_ns, t0 + last * unit_ns), node, place)
    return builder


def _parse(line: str) -> Lane:
    match = _LANE.fullmatch(line.strip())
    if match is None:
        raise ValueError(f"not a lane, `where kind: cells`: {line!r}")
    words = match["head"].split()
    lane = Lane("", match["cells"])
    while words:
        word = words.pop(0)
        if where := _WHERE.fullmatch(word):
            lane.place[_PLACE_KEYS.get(where[1], where[1])] = int(where[2])
        elif "=" in word and word.split("=")[0] in _OPTIONS:
            option, lane.options[option] = word.split("=")
        else:
            lane.kind, lane.name = word, " ".join(words)
            break
    known = {"compute", "comm", "kernel", "memset", "graph", *COPY_KINDS}
    if lane.kind not in known or bool(lane.name) != (lane.kind == "kernel"):
        raise ValueError(f"unknown kind {lane.kind!r} in lane: {line!r}")
    return lane


def _add(b: TraceBuilder, lane: Lane, when: tuple[int, int], node: int, place: Place) -> None:
    """One activity; `node` counts those of the lane."""
    graph, correlation, graph_node = lane.number("graph"), lane.number("corr"), None
    n_bytes = lane.number("bytes")
    if lane.kind == "graph":
        b.graph(*when, graph_id=graph or 1, correlation=correlation, **place)
        return
    if graph is not None:
        graph_node = (graph << 32) | (place.get("stream", 7) << 16) | node
        correlation = GRAPH_CORRELATION + graph if correlation is None else correlation
    if lane.kind == "memset":
        b.memset(*when, n_bytes, correlation=correlation, graph_node=graph_node, **place)
    elif lane.kind in COPY_KINDS:
        b.copy(
            *when,
            lane.kind,
            n_bytes,
            src_device=lane.number("src"),
            dst_device=lane.number("dst"),
            correlation=correlation,
            graph_node=graph_node,
            **place,
        )
    else:
        b.kernel(
            *when,
            {"compute": GEMM, "comm": ALL_REDUCE}.get(lane.kind, lane.name),
            grid=lane.shape("grid", (1, 1, 1)),
            block=lane.shape("block", (256, 1, 1)),
            correlation=correlation,
            graph_node=graph_node,
            **place,
        )
