"""Read one nsys export into a `Trace`; the only package that opens the file."""

from __future__ import annotations

from .load import read_trace

__all__ = ["read_trace"]
