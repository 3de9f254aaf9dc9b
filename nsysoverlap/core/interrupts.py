"""Ctrl-C, SIGTERM and SIGHUP as one kind of exception: what cleans up on one does so on all."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as a scheduler or a CI runner sends it, or SIGHUP of a terminal that closed.

    `number` says which.
    """

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(number)
        self.number = number


def end_at_once() -> None:
    """Ctrl-C ends the process with no word, as SIGTERM does: while there is nothing to clean up.

    For the start of a program, where Python would say in which import it was.
    """
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Inside, each of the signals raises, unless whoever started the process chose otherwise.

    SIGINT is `KeyboardInterrupt`, the others `Terminated`. While what the first one raised is
    handled, further ones change nothing, so that cleaning up is never broken off. For programs:
    a library leaves signals to its program. Only the main thread gets them.
    """
    ours = (signal.SIG_DFL, signal.default_int_handler)
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in INTERRUPTS:
                handler = signal.getsignal(number)
                if handler in ours:
                    before[number] = handler
                    signal.signal(number, _raise)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_last: list[int] = []
"""The number of the signal that raised last."""


def _raise(number: int, _: FrameType | None) -> None:
    if interrupt_behind(sys.exception()) is None:
        _last[:] = [number]
        raise _as_error(number)


def _as_error(number: int) -> KeyboardInterrupt:
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


def swallowed() -> KeyboardInterrupt:
    """What a signal raised inside a callback, where a library made something else of it."""
    return _as_error(_last[-1] if _last else signal.SIGINT)


def interrupt_behind(error: BaseException | None) -> int | None:
    """The number of the signal that an error goes back to, or None.

    Libraries make other errors of an interrupt that reaches them at a bad moment.
    """
    seen: set[int] = set()
    left = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        if isinstance(one, KeyboardInterrupt):
            return one.number if isinstance(one, Terminated) else signal.SIGINT
        seen.add(id(one))
        left += [one.__cause__, one.__context__]
    return None


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Interrupts wait until the block is left, and the first of them is raised then.

    For the moment between making something that has to be cleaned up and knowing its name: the
    block belongs inside the `try` whose `finally` cleans up. Only the main thread gets interrupts.
    """
    came: list[int] = []
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in INTERRUPTS:
                handler = signal.getsignal(number)
                if callable(handler):
                    before[number] = handler
                    signal.signal(number, lambda got, _: came.append(got))
        yield
    finally:
        for held, handler in before.items():
            signal.signal(held, handler)
        for first in came[:1]:
            signal.raise_signal(first)
