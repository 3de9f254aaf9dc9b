"""Real SQLite exports from drawings: the picture in a test is its input.

`build(path, drawing)` writes one; `draw(drawing)` or `TraceBuilder()` give a builder to add API
calls, NVTX ranges, diagnostics and damage to before `write`. `tests/builder/drawing.py` explains
the drawings, `SCHEMAS` names the versions.
"""

from __future__ import annotations

from .builder.capture import global_pid, global_tid
from .builder.drawing import build, draw
from .builder.rows import ALL_REDUCE, COPY_KINDS, GEMM, CopyKind, TraceBuilder
from .builder.schema import SCHEMAS

__all__ = [
    "ALL_REDUCE",
    "COPY_KINDS",
    "GEMM",
    "SCHEMAS",
    "CopyKind",
    "TraceBuilder",
    "build",
    "draw",
    "global_pid",
    "global_tid",
]
