"""When host threads stood still for the GPU, and for what work of it they waited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np

from ..core.arrays import BoolArray, Int64Array
from ..core.records import dataclass
from ..trace import schema
from ..trace.contents import Activities, Trace
from ..trace.cupti import MemoryKind
from ..trace.host import ALL_STREAMS, NEVER, HostSide

PAUSE_NS = 1_000_000
"""A process that makes no call for longer than this may be waiting, though no call says so."""
RESUMED_NS = 2_000_000
"""It was if it went on at most so long after all that it had launched was done."""

CallOf = Callable[[Activities], Int64Array]
"""Index into `HostSide.calls` of the call behind each row of a table, -1 where there is none."""


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
    row_call = call_of(copies)
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
    done = _done(trace, call_of)
    pids, code = np.unique(host.thread_pid, return_inverse=True)
    pauses = []
    for i, process in enumerate(pids.tolist()):
        # All calls of one process are no list of their own, which would be as long as they are.
        mine = None
        if len(pids) > 1:
            mine = np.flatnonzero((code == i)[host.calls.thread])
        own = slice(None) if mine is None else mine
        launching = np.flatnonzero(done[own] > NEVER)
        calls = launching if mine is None else mine[launching]
        launched = host.calls.start_ns[calls], np.maximum.accumulate(done[calls])
        pauses.append(_pauses_of(host, process, mine, launched))
    return pauses


def _pauses_of(
    host: HostSide,
    process: int,
    mine: Int64Array | None,
    launched: tuple[Int64Array, Int64Array],
) -> Stalls:
    """Pauses of one process between its calls, all of them where `mine` is None; `launched` is
    when work was sent, rising, and when all that had been sent until then was done.
    """
    calls, (sent, done) = host.calls, launched
    own = slice(None) if mine is None else mine
    start, until = calls.start_ns[own], np.maximum.accumulate(calls.end_ns[own])
    at = np.flatnonzero(start[1:] - until[:-1] > PAUSE_NS)
    began, ended = until[at], start[at + 1]
    n_sent = np.searchsorted(sent, ended, side="left")
    last = np.concatenate(([NEVER], done))[n_sent]
    # `NEVER` is too far down to subtract from.
    waited = (last > began) & (last <= ended)
    waited[waited] = ended[waited] - last[waited] <= RESUMED_NS
    at, began, ended = at[waited], began[waited], ended[waited]
    none, everywhere = np.full(len(at), -1, np.int64), np.full(len(at), ALL_STREAMS, np.int64)
    return Stalls(
        start_ns=began,
        end_ns=ended,
        global_pid=np.full(len(at), process, np.int64),
        thread=none,
        stream=everywhere,
        before_ns=began,
        call=none,
        next_call=at + 1 if mine is None else mine[at + 1],
        copy=np.zeros(len(at), np.bool_),
    )


def _done(trace: Trace, call_of: CallOf) -> Int64Array:
    """When all work that each call launched was done, `NEVER` for one that launched none; (n,)."""
    done = np.full(len(trace.host.calls), NEVER, np.int64)
    for table in trace.tables.values():
        call = call_of(table)
        known = call >= 0
        if known.all():
            np.maximum.at(done, call, table.end_ns)
        else:
            np.maximum.at(done, call[known], table.end_ns[known])
    return done
