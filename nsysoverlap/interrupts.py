"""SIGTERM as a kind of Ctrl-C, so that what cleans up on one does so on the other."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM, as a scheduler or a CI runner sends it."""


def raise_on_sigterm() -> None:
    """From now on SIGTERM raises `Terminated`, unless whoever started the process chose otherwise.

    For programs only: a library leaves signals to its program.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _raise_terminated)


def _raise_terminated(_: int, __: FrameType | None) -> None:
    raise Terminated


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the block is left, and are raised then.

    For the moment between making something that has to be cleaned up and knowing its name: the
    block belongs inside the `try` whose `finally` cleans up. Only the main thread gets interrupts.
    """
    came: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(signal.getsignal(number)):
                before[number] = signal.signal(number, lambda got, _: came.append(got))
    try:
        yield
    finally:
        for held, handler in before.items():
            signal.signal(held, handler)
        for first in came[:1]:
            signal.raise_signal(first)
