"""The command line: the only part that prints and sets exit codes.

Modules here import nothing heavy at the top, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

from .app import main

__all__ = ["main"]
