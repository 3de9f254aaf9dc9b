"""What the driver refuses, and what makes a run worthless."""

from __future__ import annotations

import re

from nsysoverlap.core.errors import NsysOverlapError

# XLA's class and code for this differ between versions, backends and places; the words do not.
_OUT_OF_MEMORY = re.compile(r"RESOURCE_EXHAUSTED|out[ _]of[ _]memory", re.IGNORECASE)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of XLA says that memory of the device or of the pinned pool ran out."""
    return _OUT_OF_MEMORY.search(str(error)) is not None


class CaptureError(NsysOverlapError):
    """Base of the driver's own errors: one line what and why, one line what to do."""


class RefusedError(CaptureError):
    """A run that must not start: bad configuration, flags, environment, or no profiler."""
