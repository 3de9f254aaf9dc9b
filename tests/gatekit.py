"""Small traces whose shares are known by construction, for gates, histories and comparisons."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from .tracebuilder import ALL_REDUCE, GEMM, TraceBuilder

US = 1_000
STEP_US = 400
COPY_US = 100


def split_trace(
    path: Path, *, d2h: tuple[int, int] | None = None, h2d: tuple[int, int] | None = None,
    behind: str = GEMM, n_bytes: int | None = None, pid: int = 1000,
) -> Path:  # fmt: skip
    """One copy a direction, given as (hidden, wall) in ns; 0 hidden starts when compute ends.

    kernel  ####......          ####
    d2h     ..####....
    h2d                         ..####
    """
    builder, at = TraceBuilder(), 0
    for direction, pair in (("d2h", d2h), ("h2d", h2d)):
        hidden, wall = pair or (0, 0)
        builder.kernel(at, at + hidden + 1_000, behind, pid=pid)
        if pair is not None:
            start = at + 1_000
            builder.copy(start, start + wall, direction, n_bytes, stream=20, pid=pid)
        at += wall + 10_000
    return builder.write(path, "3.20")


def step_trace(
    path: Path, d2h: Sequence[int], h2d: Sequence[int] | None = None, *, pid: int = 1000,
    kernel_us: int = 100, op: str = "copy-start.1", gpu: str | None = None,
) -> Path:  # fmt: skip
    """One step per item of `d2h`, which says how many of 100 us of its copy are hidden.

    kernel  ####........####........
    d2h     ..####........####......     2 of 4 hidden
    h2d     ......##########.......      (after it, likewise, where given)
    """
    builder = TraceBuilder()
    for i, hidden in enumerate(d2h):
        at = 10_000 + i * STEP_US
        builder.nvtx(f"step {i}", (at - 5) * US, (at + STEP_US - 10) * US, pid=pid)
        builder.kernel(at * US, (at + kernel_us) * US, GEMM, pid=pid)
        copies = [("d2h", hidden, at, 20)]
        if h2d is not None:
            builder.kernel((at + 200) * US, (at + 250) * US, GEMM, pid=pid)
            copies.append(("h2d", h2d[i], at + 150, 21))
        for direction, covered, base, stream in copies:
            start = base + 100 - covered
            text = f"Thunk:#name={direction}-{op},hlo_op={direction}-{op}#"
            builder.nvtx(text, (start - 3) * US, (start - 1) * US + 900, pid=pid)
            builder.copy(start * US, (start + COPY_US) * US, direction, stream=stream, pid=pid)
    builder.write(path, "3.20")
    if gpu is not None:
        rename_gpu(path, gpu)
    return path


def rename_gpu(path: Path, name: str) -> None:
    """Make a trace that of another GPU model."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE TARGET_INFO_GPU SET name = ?", [name])


def control_trace(path: Path, pid: int = 1000) -> Path:
    """Healthy, and nothing was offloaded."""
    builder = TraceBuilder()
    builder.kernel(0, 100 * US, GEMM, pid=pid)
    return builder.write(path, "3.20")


def comm_trace(path: Path) -> Path:
    """One D2H, wholly behind communication."""
    return split_trace(path, d2h=(5_000, 5_000), behind=ALL_REDUCE)


def opaque_trace(path: Path) -> Path:
    """A copy half behind a kernel and half beside a CUDA graph recorded as a whole.

    kernel  ####################
    d2h                     ####....
    graph                       ##
    """
    builder = TraceBuilder()
    builder.kernel(0, 200 * US, GEMM)
    builder.copy(150 * US, 250 * US, "d2h", stream=20)
    builder.graph(210 * US, 230 * US, stream=21)
    return builder.write(path, "3.20")


def large_trace(path: Path, n_activities: int) -> Path:
    """Compute with a copy beside every fourth kernel, as many rows as asked for."""
    builder = TraceBuilder()
    for i in range(8):
        builder.kernel(i * 20 * US, (i * 20 + 15) * US, GEMM)
    for i in range(2):
        builder.copy((i * 80 + 10) * US, (i * 80 + 22) * US, "d2h", stream=20)
    builder.write(path, "3.20")
    with closing(sqlite3.connect(path)) as db, db:
        for table in ("KERNEL", "MEMCPY", "RUNTIME"):
            _repeat(db, f"CUPTI_ACTIVITY_KIND_{table}", n_activities // 10)
    return path


def _repeat(db: sqlite3.Connection, table: str, times: int) -> None:
    """Append the rows of a table again and again, later each time and with ids of their own."""
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    shifted = {"start": "+ i * 160000", "end": "+ i * 160000", "correlationId": "+ i * 1000"}
    picked = ", ".join(f'"{c}" {shifted.get(c, "")}' for c in columns)
    db.execute(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {times - 1}) "
        f"INSERT INTO {table} SELECT {picked} FROM n, (SELECT * FROM {table}) ORDER BY i"
    )
