"""Large exports that look like a capture of JAX training on eight GPUs, the same for one seed.

    python -m benchmarks.generate 600000 /tmp/bench-600k.sqlite

One process drives eight GPUs of twenty streams each from eight threads. Every step has GEMMs and
fusions, NCCL beside them, host copies both ways, a CUDA graph traced by node, an XLA thunk range
around each launch, and waits between streams.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.builder.capture import CaptureRows, global_pid
from tests.builder.schema import SCHEMAS
from tests.builder.writer import Output

from .names import Ints, Names, name_texts

DEVICES = 8
ROWS_PER_STEP = 1_500
"""GPU rows of one device in one step."""
SCHEMA = SCHEMAS["3.20"]
PID = 4242
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
RANGES = "NVTX_EVENTS"
SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
EVENTS = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"

Columns = dict[str, NDArray[Any] | int]

COMPUTE, COMM, D2H, H2D, ON_DEVICE, MEMSET = range(6)
SHARES = (0.83, 0.04, 0.045, 0.045, 0.02, 0.02)
_MEDIAN_NS = np.array([80_000, 700_000, 300_000, 300_000, 20_000, 2_000])
"""Durations by kind."""
_N_STREAMS = np.array([2, 4, 4, 4, 4, 2])
_FIRST_STREAM = 7 + np.cumsum(_N_STREAMS) - _N_STREAMS
_LAUNCH_NS = 8_000
_BYTES_PER_NS = 50
"""What a link of PCIe 5 takes."""


@dataclass
class Clock:
    """Where the next step begins, and the next free correlation id."""

    now_ns: int = 20_000_000
    correlation: int = 1


def generate(path: Path, n_rows: int, seed: int = 0) -> Path:
    """Write an export with about `n_rows` GPU rows; rows of a table come in order of start."""
    capture = CaptureRows()
    names = name_texts(capture)
    for device in range(DEVICES):
        capture.gpu(device)
        capture.cuda_device(device, device, PID)
    capture.row("PROCESSES", globalPid=global_pid(PID), pid=PID, name="python3")
    capture.env("XLA_FLAGS", "--xla_gpu_enable_latency_hiding_scheduler=true")
    Output(path, SCHEMA).write(capture.described(SCHEMA, 0, lazy=True))
    random, clock = np.random.default_rng(seed), Clock()
    with closing(sqlite3.connect(path)) as db:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -262144"):
            db.execute(f"PRAGMA {pragma}")
        writer = Writer(db)
        for _ in range(max(1, round(n_rows / (DEVICES * ROWS_PER_STEP)))):
            for table, columns in one_step(random, clock, names):
                writer.insert(table, columns)
        db.commit()
    return path


class Writer:
    """Inserts columns; what is the same in every row becomes part of the statement."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._tables = SCHEMA.tables()
        self._created: set[str] = set()

    def insert(self, table: str, columns: Columns) -> None:
        """Rows of one table, put in order of start where it has one."""
        known = self._tables[table]
        if table not in self._created:
            self._created.add(table)
            self._db.execute(f"CREATE TABLE {table} ({', '.join(c.declaration for c in known)})")
        unset = {c.name: 0 for c in known if c.required}
        values = {c.name: columns.get(c.name, unset.get(c.name)) for c in known}
        bound = [value for value in values.values() if isinstance(value, np.ndarray)]
        if isinstance(start := values.get("start"), np.ndarray):
            order = np.argsort(start, kind="stable")
            bound = [value[order] for value in bound]
        terms = [
            "?" if isinstance(v, np.ndarray) else "NULL" if v is None else str(v)
            for v in values.values()
        ]
        self._db.executemany(
            f"INSERT INTO {table} VALUES ({', '.join(terms)})",
            zip(*(value.tolist() for value in bound), strict=True),
        )


@dataclass(frozen=True)
class Work:
    """GPU rows of one step, in order of launch on each device; columns of shape (n,).

    `place` is the position among the launches of the device, `call` a correlation id for the
    call that follows the launch.
    """

    device: Ints
    place: Ints
    kind: Ints
    launched_ns: Ints
    start_ns: Ints
    end_ns: Ints
    stream: Ints
    in_graph: NDArray[np.bool_]
    correlation: Ints
    call: Ints

    @property
    def thread(self) -> Ints:
        """The globalTid that launched each row."""
        return global_pid(PID) + 5_000 + self.device

    def gpu_columns(self, mask: NDArray[np.bool_]) -> Columns:
        """The columns that all GPU tables share."""
        node = ((3 << 32) + self.place).astype(object)
        node[~self.in_graph] = None
        return {
            "start": self.start_ns[mask],
            "end": self.end_ns[mask],
            "graphNodeId": node[mask],
            "correlationId": self.correlation[mask],
            **self.where(mask),
        }

    def where(self, mask: NDArray[np.bool_]) -> Columns:
        """Where each row ran."""
        return {
            "deviceId": self.device[mask],
            "contextId": self.device[mask] + 1,
            "greenContextId": 0,
            "streamId": self.stream[mask],
            "globalPid": global_pid(PID),
        }


def one_step(
    random: np.random.Generator, clock: Clock, names: Names
) -> Iterator[tuple[str, Columns]]:
    """(table, columns) of one step on all devices; moves the clock on."""
    work = draw_work(random, clock)
    yield KERNELS, _kernels(work, names)
    yield COPIES, _copies(work)
    sets = work.kind == MEMSET
    yield MEMSETS, {**work.gpu_columns(sets), "bytes": 4096, "memKind": 2}
    yield CALLS, _calls(work, names)
    yield from _events(work)
    yield RANGES, _ranges(work, names)
    n = len(work.device)
    clock.correlation += 2 * n + DEVICES
    clock.now_ns = int(work.end_ns.max()) + 150_000


def draw_work(random: np.random.Generator, clock: Clock) -> Work:
    """What the GPUs do in one step."""
    shape = (DEVICES, ROWS_PER_STEP)
    place = np.broadcast_to(np.arange(ROWS_PER_STEP), shape)
    device = np.broadcast_to(np.arange(DEVICES)[:, None], shape)
    in_graph = place >= ROWS_PER_STEP * 9 // 10
    kind = np.where(in_graph, COMPUTE, random.choice(len(SHARES), shape, p=SHARES))
    duration = (np.exp(random.normal(0, 0.4, shape)) * _MEDIAN_NS[kind]).astype(np.int64) + 1_000
    # Computation is one after the other; everything else starts where that has got to.
    busy = np.where(kind == COMPUTE, duration + random.integers(800, 3_000, shape), 0)
    launched = clock.now_ns + place * _LAUNCH_NS + random.integers(0, 2_000, shape)
    start = clock.now_ns + 50_000 + np.cumsum(busy, axis=1) - busy
    stream = _FIRST_STREAM[kind] + place % _N_STREAMS[kind]
    start = queued(np.maximum(start, launched + 3_000), duration, stream)
    number = (device * ROWS_PER_STEP + place) * 2 + clock.correlation
    graph = clock.correlation + 2 * place.size + device
    columns = {
        "device": device,
        "place": place,
        "kind": kind,
        "launched_ns": launched,
        "start_ns": start,
        "end_ns": start + duration,
        "stream": stream,
        "in_graph": in_graph,
        "correlation": np.where(in_graph, graph, number),
        "call": number + 1,
    }
    return Work(**{name: values.ravel() for name, values in columns.items()})


def queued(start: Ints, duration: Ints, stream: Ints) -> Ints:
    """Starts that wait for what is before them on their stream; shapes (devices, rows)."""
    found = start.copy()
    for device in range(len(start)):
        for one in np.unique(stream[device]):
            mine = (device, stream[device] == one)
            before = np.cumsum(duration[mine]) - duration[mine]
            found[mine] = before + np.maximum.accumulate(start[mine] - before)
    return found


def _kernels(work: Work, names: Names) -> Columns:
    mine = work.kind <= COMM
    place, comm = work.place[mine], work.kind[mine] == COMM
    name = np.where(
        comm, names.comm[place % len(names.comm)], names.compute[place % len(names.compute)]
    )
    return {
        **work.gpu_columns(mine),
        "demangledName": name,
        "shortName": name,
        "mangledName": name,
        "launchType": 1,
        "registersPerThread": 168,
        "gridX": np.where(comm, 24, 128 + place % 60),
        **dict.fromkeys(("gridY", "gridZ", "blockY", "blockZ"), 1),
        "blockX": 256,
        "gridId": place,
    }


def _copies(work: Work) -> Columns:
    mine = (work.kind == D2H) | (work.kind == H2D) | (work.kind == ON_DEVICE)
    kind = work.kind[mine]
    return {
        **work.gpu_columns(mine),
        "bytes": (work.end_ns[mine] - work.start_ns[mine]) * _BYTES_PER_NS,
        "copyKind": np.select([kind == D2H, kind == H2D], [2, 1], 8),
        "srcKind": np.where(kind == H2D, 1, 2),
        "dstKind": np.where(kind == D2H, 1, 2),
        "copyCount": 1,
    }


def _calls(work: Work, names: Names) -> Columns:
    """A launch for each row outside of graphs, another call after it, and one launch a graph."""
    own = ~work.in_graph
    graphs = work.in_graph & np.append(True, own[:-1])
    launch = np.full(len(own), names.launch)
    launch[(work.kind == D2H) | (work.kind == H2D) | (work.kind == ON_DEVICE)] = names.copy
    launch[work.kind == MEMSET] = names.memset
    launch[graphs] = names.graph
    launches = own | graphs
    records, waits = _ordering(work)
    other = np.select([records, waits], [names.record, names.wait], names.other)
    start = np.append(work.launched_ns[launches], work.launched_ns + 3_500)
    return {
        "start": start,
        "end": start + np.append(np.full(launches.sum(), 2_500), np.full(len(own), 600)),
        "eventClass": 1,
        "globalTid": np.append(work.thread[launches], work.thread),
        "correlationId": np.append(work.correlation[launches], work.call),
        "nameId": np.append(launch[launches], other),
    }


def _ordering(work: Work) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """After which rows an event is recorded on their stream, and which streams then wait."""
    return work.place % 10 == 0, work.place % 10 == 5


def _events(work: Work) -> Iterator[tuple[str, Columns]]:
    records, waits = _ordering(work)
    common = {"eventId": 1}
    yield (
        EVENTS,
        {
            **work.where(records),
            **common,
            "correlationId": work.call[records],
            "eventSyncId": work.call[records],
        },
    )
    yield (
        SYNCS,
        {
            **work.where(waits),
            **common,
            "start": work.launched_ns[waits] + 3_500,
            "end": work.launched_ns[waits] + 4_000,
            "syncType": 2,
            "correlationId": work.call[waits],
            # What was recorded five launches earlier.
            "eventSyncId": work.call[np.flatnonzero(waits) - 5],
        },
    )


def _ranges(work: Work, names: Names) -> Columns:
    """A thunk around each launch, and a module around each device's step."""
    first = work.place == 0
    begin = work.launched_ns[first] - 5_000
    length = np.full(len(begin), (ROWS_PER_STEP + 2) * _LAUNCH_NS)
    return {
        "start": np.append(begin, work.launched_ns - 1_000),
        "end": np.append(begin + length, work.launched_ns + 5_000),
        "eventType": 59,
        "globalTid": np.append(work.thread[first], work.thread),
        "textId": np.append(
            np.full(len(begin), names.module), names.thunks[work.place % len(names.thunks)]
        ),
        "domainId": 1,
    }


def main() -> None:
    """Command line: how many rows, and where to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, help="GPU rows, for example 600000")
    parser.add_argument("path", type=Path, help="the export to write")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    generate(arguments.path, arguments.rows, arguments.seed)


if __name__ == "__main__":
    main()
