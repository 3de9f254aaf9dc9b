"""Traces read side by side by processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import wait
from pathlib import Path

from ..core.errors import TraceFileError
from ..core.interrupts import INTERRUPTS, interrupts_held
from .analysis import Options
from .outcomes import Outcome, Work

_WAIT_S = 0.1


def run_pool(
    work: Work, paths: Sequence[Path], names: Sequence[str], options: Options, jobs: int
) -> Generator[tuple[int, Outcome], None, None]:
    """`work` on each path in one of `jobs` processes; (index, outcome) as they finish.

    A process that dies, for want of memory say, takes its neighbours' work with it: what was
    left is done again one by one, and the trace that kills its process again is an error.
    """
    left = dict.fromkeys(range(len(paths)))
    while left:
        try:
            with _pool(jobs) as pool:
                with _signals_blocked():
                    tasks = {pool.submit(work, paths[i], options, names[i], 1): i for i in left}
                for i, outcome in _results(tasks, jobs):
                    del left[i]
                    yield i, outcome
        except BrokenProcessPool:
            if jobs == 1:
                # One process works in order: it died of the first that is left.
                i = next(iter(left))
                del left[i]
                yield i, _killed(names[i])
            jobs = 1


def _killed(name: str) -> TraceFileError:
    return TraceFileError(
        f"{name}: the process that read it was killed.",
        "It may need more memory than there is; read it on its own with --jobs 1.",
    )


def _results(tasks: dict[Future[Outcome], int], jobs: int) -> Iterator[tuple[int, Outcome]]:
    """Outcomes as they come; each is forgotten here at once, so that memory stays flat."""
    while tasks:
        # Tasks begin in order: those that run are the first of what is left.
        for future in _finished(list(islice(tasks, jobs))):
            yield tasks.pop(future), future.result()


def _finished(tasks: Sequence[Future[Outcome]]) -> set[Future[Outcome]]:
    """Those that are done, after a short wait for one: an interrupt is not seen before.

    Raised inside `wait` it could leave locks behind that nobody opens again.
    """
    with interrupts_held():
        return wait_for(tasks, _WAIT_S, FIRST_COMPLETED).done


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes are gone when the block is left, however it is left."""
    before = set(multiprocessing.active_children())
    # Spawned, not forked: numpy and sqlite may have threads running.
    context = multiprocessing.get_context("spawn")
    with _signals_blocked():
        # Its queues start the process that tracks semaphores.
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_watch_parent)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.kill()  # SIGTERM is held back there.
        raise
    finally:
        with interrupts_held():
            pool.shutdown(cancel_futures=True)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Interrupts wait until the block is left; processes started inside see none at all.

    They may reach the whole process group, and the parent alone must answer them.
    """
    # Held as well: another thread, such as one of numpy's, may take what is blocked here.
    with interrupts_held():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch_parent() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
