"""A trace whose names are as bad as names can be."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from .tracebuilder import TraceBuilder

HOSTILE_NAMES = (
    """</script><script>alert("x's")</script><img src=x onerror=alert(1)>""",
    "Größe \u200f\u202e零",
    "a\\b\n\x1b[31mc\x00",
    "k" * 2_000,
    "",
)
"""Of kernels, in the order in which they run, 1 us apart; the same name the copies' operations."""


def hostile_trace(path: Path) -> Path:
    """Kernels with these names, and as many exposed copies inside NVTX ranges of these names."""
    builder = TraceBuilder()
    for i in range(len(HOSTILE_NAMES)):
        start = 10_000 + i * 1_000
        builder.kernel(start, start + 500, f"name{i}", stream=7)
        builder.copy(start + 600, start + 900, "h2d", stream=20)
        builder.nvtx(f"name{i}", start + 600 - 2_100, start + 600 - 1_950, registered=True)
    builder.write(path)
    with closing(sqlite3.connect(path)) as connection:
        for i, name in enumerate(HOSTILE_NAMES):
            connection.execute("UPDATE StringIds SET value = ? WHERE value = ?", (name, f"name{i}"))
        connection.commit()
    return path
