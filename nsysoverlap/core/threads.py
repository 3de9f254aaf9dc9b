"""Independent pieces of work, some of them at the same time."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def usable_threads(wanted: int) -> int:
    """How many threads to work with: one where `ulimit -v` limits the memory of the process.

    There a thread may fail to start, or end without a word while another one waits for it.
    """
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return 1 if limited else max(1, wanted)


def each(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """What `work` makes of each item, in their order, on up to `threads` threads."""
    threads = min(usable_threads(threads), len(items))
    if threads < 2:
        return [work(item) for item in items]
    # Imported where there are threads: it takes as long as a small table.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as executor:
        return list(executor.map(work, items))
