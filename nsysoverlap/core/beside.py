"""Work done beside this process, on another core, by a copy of it that shares its memory.

Threads of Python wait for each other between the steps of numpy; processes do not, and a copy of
the process needs nothing sent to it. What it made comes back through memory that both have.
"""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, TypeVar

from .interrupts import INTERRUPTS, interrupts_held

T = TypeVar("T")
_ALIGNMENT = 64
_allowed: list[bool] = []


def allow_copies() -> None:
    """Let this process make copies of itself; for programs of one thread.

    A library does not: a copy has one thread only, and what others held then it holds for good.
    """
    _allowed[:] = [sys.platform == "linux"]


def can_copy() -> bool:
    """Whether `Beside` may be used."""
    return any(_allowed)


class Beside(Generic[T]):
    """`work` that goes on in a copy of this process until its `result` is asked for.

    Used as a context manager, at whose end the copy is gone. What is changed there is lost but for
    what `work` returns, which pickle must know.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._made = os.memfd_create("nsysoverlap")
        with interrupts_held():
            self._child = os.fork()
            if self._child == 0:
                _do(work, self._made)

    def result(self) -> T:
        """What `work` returned; where the copy died, it is done here. Raises what `work` raised."""
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        if status:
            return self._work()
        error, value = _received(self._made)
        if error is not None:
            raise error
        result: T = value
        return result

    def __enter__(self) -> Beside[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._child:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._child, signal.SIGKILL)
                os.waitpid(self._child, 0)
        os.close(self._made)


def _do(work: Callable[[], object], target: int) -> None:
    """The whole life of the copy."""
    status = 1
    try:
        for number in INTERRUPTS:
            signal.signal(number, signal.SIG_DFL)
        # Collecting would write to all objects, and so copy their memory.
        gc.disable()
        try:
            made: tuple[BaseException | None, object] = None, work()
        except Exception as error:
            made = error, None
        _send(made, target)
        status = 0
    finally:
        # Nothing of what the process would do at its end is the copy's to do.
        os._exit(status)


def _send(made: object, target: int) -> None:
    """Arrays as they lie in memory, then the rest, then how long each of them is."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(made, protocol=5, buffer_callback=buffers.append)
    parts = [buffer.raw() for buffer in buffers]
    sizes = [part.nbytes for part in parts]
    with os.fdopen(target, "wb", closefd=False) as file:
        for part in parts:
            file.write(part)
            file.write(bytes(-part.nbytes % _ALIGNMENT))
        file.write(head)
        tail = pickle.dumps((sizes, len(head)))
        file.write(tail)
        file.write(len(tail).to_bytes(8, "little"))


def _received(source: int) -> Any:
    """What `_send` wrote; its arrays lie where it wrote them, and may be changed."""
    size = os.fstat(source).st_size
    whole = memoryview(mmap.mmap(source, size, flags=mmap.MAP_PRIVATE))
    n_tail = int.from_bytes(whole[-8:], "little")
    sizes, n_head = pickle.loads(whole[-8 - n_tail : -8])
    buffers, at = [], 0
    for n_bytes in sizes:
        buffers.append(whole[at : at + n_bytes])
        at += n_bytes + -n_bytes % _ALIGNMENT
    return pickle.loads(whole[at : at + n_head], buffers=buffers)
