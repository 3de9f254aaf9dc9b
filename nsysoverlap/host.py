"""The host side of a trace: what was launched when, from which thread, inside which NVTX range."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .arrays import BoolArray, Int32Array, Int64Array


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
    thread: Int32Array = field(default_factory=_none32)
    correlation_id: Int64Array = field(default_factory=_none64)
    name: Int32Array = field(default_factory=_none32)

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
    thread: Int32Array = field(default_factory=_none32)
    text: Int32Array = field(default_factory=_none32)
    nested: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    n_unclosed: int = 0

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class Waits:
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

    def latest(self, waiting: int, recording: int) -> tuple[Int64Array, Int64Array]:
        """Waits of one stream for another: when told to, rising, and the latest record until then.

        Of all waits before a launch the event recorded last covers the most.
        """
        key, order = self._by_pair
        width = int(max(self.wait_stream.max(initial=0), self.record_stream.max(initial=0))) + 1
        low, high = np.searchsorted(key, [waiting * width + recording + i for i in (0, 1)])
        own = order[low:high]
        return self.wait_ns[own], np.maximum.accumulate(self.record_ns[own])

    @cached_property
    def _by_pair(self) -> tuple[Int64Array, Int64Array]:
        """A number for each pair of streams, rising, and waits by pair, then time."""
        width = int(max(self.wait_stream.max(initial=0), self.record_stream.max(initial=0))) + 1
        key = self.wait_stream.astype(np.int64) * width + self.record_stream
        order = np.lexsort((self.wait_ns, key))
        return key[order], order


@dataclass(frozen=True)
class HostSide:
    """Host threads, API calls, NVTX ranges and stream waits of a trace.

    `threads` are globalTids. `has_calls` and `has_ranges` are false where the export lacks the
    table; `waits` is None where its schema cannot join waits to records.
    """

    threads: tuple[int, ...] = ()
    api_names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    calls: Calls = field(default_factory=Calls)
    ranges: Ranges = field(default_factory=Ranges)
    waits: Waits | None = None
    has_calls: bool = False
    has_ranges: bool = False

    @cached_property
    def thread_pid(self) -> Int64Array:
        """GlobalPid of each thread, shape (n_threads,)."""
        return np.array([thread & ~0xFFFFFF for thread in self.threads], dtype=np.int64)
