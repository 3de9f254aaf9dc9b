"""The report as one self-contained HTML page: no network, no other files."""

from __future__ import annotations

from .page import render_html

__all__ = ["render_html"]
