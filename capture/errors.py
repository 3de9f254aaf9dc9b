"""What the driver refuses, and what makes a run worthless."""

from __future__ import annotations

from nsysoverlap.errors import NsysOverlapError


class CaptureError(NsysOverlapError):
    """Base of the driver's own errors: one line what and why, one line what to do."""


class RefusedError(CaptureError):
    """A run that must not start: bad configuration, flags, environment, or no profiler."""
