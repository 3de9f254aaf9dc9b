"""Regular expressions that users write, searched for a bounded time."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from .errors import NsysOverlapError

SECONDS = 10.0
"""Processor time that one pattern may take for all texts; a sane one takes microseconds a text."""


@contextmanager
def bounded(error: NsysOverlapError) -> Iterator[None]:
    """Raise `error` where the searches inside take more than `SECONDS` of processor time.

    A pattern such as `(a+)+$` can take longer than anyone lives, and `re` has no limit of its
    own; what stops it is a signal. Signals reach the main thread of a Unix process only, so
    nothing is bounded anywhere else.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise error

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
