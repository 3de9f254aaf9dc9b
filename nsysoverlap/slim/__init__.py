"""Copies of traces that can be shared: only what the analysis needs, and the same report."""

from __future__ import annotations

from .identifying import Sensitive, find_sensitive, names_in
from .making import Slimmed, slim_trace

__all__ = ["Sensitive", "Slimmed", "find_sensitive", "names_in", "slim_trace"]
