"""A trace as Chrome trace events, for ui.perfetto.dev."""

from __future__ import annotations

from .export import compressed, trace_events

__all__ = ["compressed", "trace_events"]
