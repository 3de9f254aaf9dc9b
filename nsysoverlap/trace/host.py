"""The host side of a trace: what was launched when, from which thread, inside which NVTX range."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..core.arrays import BoolArray, CodeArray, IdArray, Int32Array, Int64Array

ALL_STREAMS = -1
"""Stands for all streams of a process."""
NEVER = np.iinfo(np.int64).min
"""The time of what did not happen; times of a trace may be below zero, but never this low."""


def _none64() -> Int64Array:
    return np.empty(0, np.int64)


def _none32() -> Int32Array:
    return np.empty(0, np.int32)


@dataclass(frozen=True)
class Calls:
    """CUDA API calls that launch, copy, record or wait, sorted by start; columns of shape (n,).

    `thread` indexes `HostSide.threads`, `name` indexes `HostSide.api_names`. Correlation ids are
    unique within a process only.
    """

    start_ns: Int64Array = field(default_factory=_none64)
    end_ns: Int64Array = field(default_factory=_none64)
    thread: CodeArray = field(default_factory=_none32)
    correlation_id: IdArray = field(default_factory=_none64)
    name: CodeArray = field(default_factory=_none32)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class Ranges:
    """NVTX ranges that were closed, sorted by start, then longest first; columns of shape (n,).

    `text` indexes `HostSide.texts`. `nested` is true for push/pop ranges, which nest within their
    thread; start/end ranges may overlap anything.
    """

    start_ns: Int64Array = field(default_factory=_none64)
    end_ns: Int64Array = field(default_factory=_none64)
    thread: CodeArray = field(default_factory=_none32)
    text: CodeArray = field(default_factory=_none32)
    nested: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    n_unclosed: int = 0

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class StreamWaits:
    """Stream waits joined to the event records they wait for; columns of shape (n,).

    From host time `wait_ns` on, work launched on `wait_stream` waits until all work launched on
    `record_stream` before host time `record_ns` is done. Streams index `Trace.streams`.
    `n_unresolved` waits name an event whose record is not in the trace.
    """

    wait_ns: Int64Array = field(default_factory=_none64)
    wait_stream: Int32Array = field(default_factory=_none32)
    record_ns: Int64Array = field(default_factory=_none64)
    record_stream: Int32Array = field(default_factory=_none32)
    n_unresolved: int = 0

    def __len__(self) -> int:
        return len(self.wait_ns)

    def sources(self, waiting: CodeArray | Int64Array) -> list[int]:
        """The streams that any of some streams (n,) was ever told to wait for, rising."""
        mine = self.record_stream[np.isin(self.wait_stream, np.unique(waiting))]
        sources: list[int] = np.unique(mine).tolist()
        return sources

    def latest(
        self,
        waiting: CodeArray | Int64Array,
        recording: CodeArray | Int64Array,
        before: Int64Array,
    ) -> Int64Array:
        """The latest `record_ns` that the streams `waiting` had been told, before a host time, to
        wait for on the streams `recording`; `NEVER` for none. Every argument has shape (n,).
        """
        if not len(self):
            return np.full(len(waiting), NEVER, np.int64)
        return self._by_pair.latest(waiting, recording, self._by_pair.rank(before))

    def through_another(
        self,
        waiting: CodeArray | Int64Array,
        recording: CodeArray | Int64Array,
        sent: Int64Array,
        launched: Int64Array,
        most: int | None = None,
    ) -> BoolArray:
        """Whether what was launched on the streams `waiting` at host time `launched` waits, by way
        of one other stream, for what was `sent` on `recording`; every argument has shape (n,).

        `most` limits how many streams between are looked at.
        """
        result = np.zeros(len(waiting), np.bool_)
        # In order of what is looked up, which is then found sooner.
        asked = np.lexsort((launched, waiting))
        rank = self._by_pair.rank(launched[asked]) if len(self) else asked
        for between in self.sources(waiting)[:most]:
            told = self._by_pair.latest(waiting[asked], np.int64(between), rank)
            # What was recorded before the transfer was sent cannot stand behind it.
            near = np.flatnonzero(told > sent[asked])
            mine = asked[near]
            via = np.full(len(mine), between, np.int64)
            result[mine] = self.latest(via, recording[mine], told[near]) > sent[mine]
            left = ~result[asked]
            asked, rank = asked[left], rank[left]
        return result

    @cached_property
    def _by_pair(self) -> _Pairs:
        return _Pairs.of(self)


@dataclass(frozen=True)
class _Pairs:
    """Waits by pair of streams, then time.

    `pairs` (k,) are the distinct `wait stream * width + record stream`, `told` (n,) all host times
    of waits, both rising. `place` (n,) is `pair * (n + 1) + rank of the time`, rising, and
    `recorded` (n,) the latest record of the pair until then.
    """

    width: int
    pairs: Int64Array
    told: Int64Array
    place: Int64Array
    recorded: Int64Array

    def rank(self, instants: Int64Array) -> Int64Array:
        """How many waits there were before each host time (n,)."""
        return np.searchsorted(self.told, instants, side="left")

    def latest(
        self,
        waiting: CodeArray | Int64Array,
        recording: CodeArray | Int64Array | np.int64,
        rank: Int64Array,
    ) -> Int64Array:
        """As `StreamWaits.latest`, of a time given by its rank."""
        width = len(self.told) + 1
        key = waiting.astype(np.int64) * self.width + recording
        pair = np.minimum(np.searchsorted(self.pairs, key), len(self.pairs) - 1)
        at = np.searchsorted(self.place, pair * width + rank, side="left") - 1
        first = np.maximum(at, 0)
        hit = (self.pairs[pair] == key) & (at >= 0) & (self.place[first] >= pair * width)
        return np.where(hit, self.recorded[first], NEVER)

    @classmethod
    def of(cls, waits: StreamWaits) -> _Pairs:
        """In ranks throughout, because times times pairs could overflow."""
        n = len(waits)
        width = int(max(waits.wait_stream.max(), waits.record_stream.max())) + 1
        key = waits.wait_stream.astype(np.int64) * width + waits.record_stream
        pairs, pair = np.unique(key, return_inverse=True)
        by_time = np.argsort(waits.wait_ns, kind="stable")
        by_pair = np.argsort(pair[by_time], kind="stable")
        order = by_time[by_pair]
        start = pair[order] * (n + 1)
        recorded = np.sort(waits.record_ns)
        rank = np.searchsorted(recorded, waits.record_ns[order])
        latest = recorded[np.maximum.accumulate(start + rank) - start]
        return cls(width, pairs, waits.wait_ns[by_time], start + by_pair, latest)


@dataclass(frozen=True)
class HostWaits:
    """Synchronising calls and what they wait for; columns of shape (n,).

    The call `call` (an index of `HostSide.calls`) returns once all work launched on `stream`
    before host time `before_ns` is done. `ALL_STREAMS` is every stream of the process;
    so it is where the export does not say which.
    """

    call: Int64Array = field(default_factory=_none64)
    stream: Int32Array = field(default_factory=_none32)
    before_ns: Int64Array = field(default_factory=_none64)

    def __len__(self) -> int:
        return len(self.call)


@dataclass(frozen=True)
class HostSide:
    """Host threads, API calls, NVTX ranges and stream waits of a trace.

    `threads` are globalTids. `has_calls` and `has_ranges` are false where the export lacks the
    table; `waits` is None where its schema cannot join waits to records. `host_waits` are the
    calls by which the host waits for the GPU.
    """

    threads: tuple[int, ...] = ()
    api_names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    calls: Calls = field(default_factory=Calls)
    ranges: Ranges = field(default_factory=Ranges)
    waits: StreamWaits | None = None
    host_waits: HostWaits = field(default_factory=HostWaits)
    has_calls: bool = False
    has_ranges: bool = False

    @cached_property
    def thread_pid(self) -> Int64Array:
        """GlobalPid of each thread, shape (n_threads,)."""
        return np.array([thread & ~0xFFFFFF for thread in self.threads], dtype=np.int64)
