"""Independent pieces of work, some of them at the same time."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from .beside import Beside, can_copy

T = TypeVar("T")
R = TypeVar("R")


def usable_threads(wanted: int) -> int:
    """How many threads to work with: one where `ulimit -v` limits the memory of the process.

    There a thread may fail to start, or end without a word while another one waits for it.
    """
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return 1 if limited else max(1, wanted)


def each(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """What `work` makes of each item, in their order, on up to `threads` threads or processes.

    In a process of its own what `work` changes is lost: only what it returns counts.
    """
    threads = min(usable_threads(threads), len(items))
    if threads < 2:
        return [work(item) for item in items]
    if can_copy():
        return _each_beside(work, items, threads)
    # Imported where there are threads: it takes as long as a small table.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as executor:
        return list(executor.map(work, items))


def _each_beside(work: Callable[[T], R], items: Sequence[T], copies: int) -> list[R]:
    """Every so many-th item here, the others by as many copies of this process."""

    def share(first: int) -> list[R]:
        return [work(item) for item in items[first::copies]]

    with ExitStack() as stack:
        others = [
            stack.enter_context(Beside(lambda first=first: share(first)))  # type: ignore[misc]
            for first in range(1, copies)
        ]
        parts = [share(0), *(other.result() for other in others)]
    return [parts[i % copies][i // copies] for i in range(len(items))]
