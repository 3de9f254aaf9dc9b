"""Pictures of traces and reports; matplotlib is imported when one is drawn. Nothing is measured."""

from __future__ import annotations

from .bandwidth import plot_bandwidth
from .ops import plot_ops
from .steps import plot_steps
from .timeline import plot_timeline

__all__ = ["plot_bandwidth", "plot_ops", "plot_steps", "plot_timeline"]
