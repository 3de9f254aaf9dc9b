"""When host threads stood still for the GPU, and for what work of it they waited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..trace import schema
from ..trace.contents import Activities, Trace
from ..trace.cupti import MemoryKind
from ..trace.host import ALL_STREAMS, NEVER, HostSide

PAUSE_NS = 1_000_000
"""A process that makes no call for longer than this may be waiting, though no call says so."""
RESUMED_NS = 2_000_000
"""It was if it went on at most so long after all that it had launched was done."""

_CALLS_AT_ONCE = 1 << 20

CallOf = Callable[[Activities, slice], Int64Array]
"""Index into `HostSide.calls` of the call behind some rows of a table, -1 where there is none."""


@dataclass(frozen=True)
class Stalls:
    """Stretches for which a host thread waited for GPU work, by process, then end; shape (n,).

    From `start_ns` to `end_ns` the thread stood still until all that was launched on `stream`
    (index into `Trace.streams`, `ALL_STREAMS` for those of the process) before host time
    `before_ns` was done. `call` is the call that held it, -1 for a pause between calls, which XLA
    makes of its waits; `next_call` the call that came after the pause, -1 for a call's own wait.
    `thread` indexes `HostSide.threads`, -1 for a pause of all threads of the process `global_pid`.
    `copy` is true where the call is a copy that returns when it is done.
    """

    start_ns: Int64Array
    end_ns: Int64Array
    global_pid: Int64Array
    thread: Int64Array
    stream: Int64Array
    before_ns: Int64Array
    call: Int64Array
    next_call: Int64Array
    copy: BoolArray

    def __len__(self) -> int:
        return len(self.start_ns)

    def select(self, index: BoolArray | Int64Array) -> Stalls:
        """The waits that a mask (n,) or an index (m,) picks."""
        return Stalls(*(getattr(self, field.name)[index] for field in fields(self)))

    def of_process(self, global_pid: int) -> Stalls:
        """The waits of one process."""
        low, high = np.searchsorted(self.global_pid, (global_pid, global_pid + 1))
        return self.select(np.arange(low, high))


def stalls_of(trace: Trace, call_of: CallOf) -> Stalls:
    """All host waits of a trace: calls that synchronise, copies that block, and pauses.

    A pause is a stretch of more than `PAUSE_NS` without a call of the process that ends at most
    `RESUMED_NS` after all GPU work launched until then was done (matched every wait of seven JAX
    traces, and nothing in three traces that do not wait).
    """
    parts = [_of_calls(trace, call_of), *_pauses(trace, call_of)]
    whole = Stalls(
        *(np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(Stalls))
    )
    return whole.select(np.lexsort((whole.start_ns, whole.end_ns, whole.global_pid)))


def _of_calls(trace: Trace, call_of: CallOf) -> Stalls:
    """Waits inside a call: synchronisations, and copies that return when they are done."""
    host, copies = trace.host, trace.copies
    blocking = np.array([bool(schema.BLOCKING_COPY_API.match(n)) for n in host.api_names], bool)
    row_call = call_of(copies, slice(None))
    known = np.flatnonzero((row_call >= 0) & ~copies.from_graph)
    call = row_call[known]
    # An "async" copy from or to pageable memory holds its thread as well.
    holds = copies.src_kind[known] == MemoryKind.PAGEABLE
    holds |= copies.dst_kind[known] == MemoryKind.PAGEABLE
    if len(blocking):
        holds |= blocking[host.calls.name[call]]
    copy_call, copy_row = call[holds], known[holds]
    syncs = host.host_waits
    calls = np.concatenate((syncs.call, copy_call))
    is_copy = np.arange(len(calls)) >= len(syncs)
    # A copy waits for itself and for what stood before it on its stream.
    return Stalls(
        start_ns=host.calls.start_ns[calls],
        end_ns=host.calls.end_ns[calls],
        global_pid=host.thread_pid[host.calls.thread[calls]],
        thread=host.calls.thread[calls].astype(np.int64),
        stream=np.concatenate((syncs.stream, copies.stream[copy_row])).astype(np.int64),
        before_ns=np.concatenate((syncs.before_ns, host.calls.end_ns[copy_call])),
        call=calls.astype(np.int64),
        next_call=np.full(len(calls), -1, np.int64),
        copy=is_copy,
    )


def _pauses(trace: Trace, call_of: CallOf) -> list[Stalls]:
    """Pauses of each process that makes calls."""
    host = trace.host
    pids, code = np.unique(host.thread_pid, return_inverse=True)
    gaps = []
    for i in range(len(pids)):
        # All calls of one process are no list of their own, which would be as long as they are.
        one = len(pids) == 1
        mine = None if one else np.flatnonzero((code == i)[host.calls.thread])
        gaps.append(_gaps(host, mine))
    done = _done(trace, call_of, code, [next_call for _, next_call in gaps])
    return [
        _pauses_of(host, process, *gap, last)
        for process, gap, last in zip(pids.tolist(), gaps, done, strict=True)
    ]


def _gaps(host: HostSide, mine: Int64Array | None) -> tuple[Int64Array, Int64Array]:
    """Where no call of some follows within `PAUSE_NS`: since when, and the next call; all calls
    where `mine` is None.
    """
    start, end = host.calls.start_ns, host.calls.end_ns
    n = len(start) if mine is None else len(mine)
    began, next_call, reach = [], [], NEVER
    # In parts, to save memory.
    for begin in range(0, n - 1, _CALLS_AT_ONCE):
        part = slice(begin, begin + _CALLS_AT_ONCE + 1)
        own = part if mine is None else mine[part]
        until = np.maximum(np.maximum.accumulate(end[own][:-1]), reach)
        at = np.flatnonzero(start[own][1:] - until > PAUSE_NS)
        began.append(until[at])
        next_call.append(at + begin + 1 if mine is None else mine[at + begin + 1])
        reach = int(until[-1])
    none = [np.empty(0, np.int64)]
    return np.concatenate(began or none), np.concatenate(next_call or none)


def _pauses_of(
    host: HostSide, process: int, began: Int64Array, next_call: Int64Array, last: Int64Array
) -> Stalls:
    """Those gaps between calls in which a process waited; `last` is when all that had been
    launched before their ends was done. Columns of shape (n,).
    """
    ended = host.calls.start_ns[next_call]
    # `NEVER` is too far down to subtract from.
    waited = (last > began) & (last <= ended)
    waited[waited] = ended[waited] - last[waited] <= RESUMED_NS
    began, ended, next_call = began[waited], ended[waited], next_call[waited]
    none, everywhere = np.full(len(began), -1, np.int64), np.full(len(began), ALL_STREAMS, np.int64)
    return Stalls(
        start_ns=began,
        end_ns=ended,
        global_pid=np.full(len(began), process, np.int64),
        thread=none,
        stream=everywhere,
        before_ns=began,
        call=none,
        next_call=next_call,
        copy=np.zeros(len(began), np.bool_),
    )


def _done(
    trace: Trace, call_of: CallOf, process: Int64Array, next_calls: Sequence[Int64Array]
) -> list[Int64Array]:
    """For each process when all that it had launched before each of its `next_calls` was done,
    `NEVER` for nothing; `process` (n_threads,) numbers that of each thread.
    """
    calls = trace.host.calls
    if not any(map(len, next_calls)):
        return list(next_calls)
    # Calls of one process, then of the next: each gap ends a stretch of them, and so does the end.
    width = len(calls) + 1
    ends = [
        i * width + np.append(np.searchsorted(calls.start_ns, calls.start_ns[own]), len(calls))
        for i, own in enumerate(next_calls)
    ]
    whole = np.concatenate(ends)
    done = np.full(len(whole), NEVER, np.int64)
    for table in trace.tables.values():
        for begin in range(0, len(table), _CALLS_AT_ONCE):
            part = slice(begin, begin + _CALLS_AT_ONCE)
            call = call_of(table, part)
            known = call >= 0
            end_ns = table.end_ns[part] if known.all() else table.end_ns[part][known]
            call = call if known.all() else call[known]
            place = call if len(ends) == 1 else process[calls.thread[call]] * width + call
            np.maximum.at(done, np.searchsorted(whole, place, side="right"), end_ns)
    cuts = np.cumsum([len(own) for own in ends])[:-1]
    return [np.maximum.accumulate(own)[:-1] for own in np.split(done, cuts)]
