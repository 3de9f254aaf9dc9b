"""What colour means what, in every picture and page.

Exposed time is vermilion and hatched wherever it is drawn. The colours are of Okabe and Ito's
palette, which eyes that confuse red and green tell apart.
"""

from __future__ import annotations

COLORS = {
    "compute": "#9aa5b1",
    "comm": "#cc79a7",
    "h2d": "#0072b2",
    "d2h": "#009e73",
    "other": "#b8a97f",
    "unified": "#56b4e9",
    "opaque": "#4d4d4d",
    "idle": "#ffffff",
    "exposed": "#d55e00",
}
"""By lane or by part of the time budget, on white."""
ON_DARK = {
    "compute": "#8c97a3",
    "comm": "#cc79a7",
    "h2d": "#4aa3dc",
    "d2h": "#2fb592",
    "other": "#a3956c",
    "unified": "#7cc5ec",
    "opaque": "#b9bfca",
    "exposed": "#e8773f",
}
"""The same hues on a dark page."""
PALE_EXPOSED = "#f6c9a4"
"""Exposed time that no kernel waited for, beside such that one did."""
PALE_H2D = "#bcd5e6"
"""The filling of a curve, under a line."""
