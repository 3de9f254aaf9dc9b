"""How long a plot of a large trace takes, and how much memory: `python -m benchmarks.plot_bench`.

Writes an export of a million GPU rows and half a million launches, draws each kind of plot in a
process of its own, and fails where the timeline needs more than 5 s or 600 MB.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from tests.tracebuilder import TraceBuilder

from .usage import measure as measure_command

MAX_SECONDS, MAX_MB = 5.0, 600
KERNEL_NS, PERIOD_NS, STEP_ROWS = 900, 1_000, 10_000


def write_large(path: Path, n_rows: int) -> None:
    """A trace of `n_rows` GPU rows: kernels with gaps, one copy in ten, steps of 10,000 rows."""
    builder = TraceBuilder()
    builder.kernel(1_000_000, 1_000_000 + KERNEL_NS, correlation=1)
    for kind in ("h2d", "d2h"):
        builder.copy(1_000_000, 1_000_000 + 5 * PERIOD_NS, kind, 1 << 16, stream=20, correlation=2)
    builder.nvtx("step 0", 0, 10_000)
    builder.write(path)
    n_copies = n_rows // 10
    with closing(sqlite3.connect(path)) as db, db:
        repeat(db, "CUPTI_ACTIVITY_KIND_KERNEL", n_rows - n_copies, PERIOD_NS, correlations=True)
        repeat(db, "CUPTI_ACTIVITY_KIND_MEMCPY", n_copies, 10 * PERIOD_NS)
        repeat(db, "CUPTI_ACTIVITY_KIND_RUNTIME", n_rows // 2, PERIOD_NS, correlations=True)
        repeat(db, "NVTX_EVENTS", n_rows // STEP_ROWS, STEP_ROWS * PERIOD_NS)


def repeat(
    db: sqlite3.Connection, table: str, n: int, period_ns: int, *, correlations: bool = False
) -> None:
    """Repeat the rows of a table in turn until it has `n`, each `period_ns` after the last."""
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    n_first = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    shifted = {"start": f"start + i * {period_ns}", "end": f"end + i * {period_ns}"}
    if correlations:
        shifted["correlationId"] = "correlationId + i * 2"
    values = ", ".join(shifted.get(column, f'"{column}"') for column in columns)
    db.execute(f"CREATE TEMP TABLE first AS SELECT *, row_number() OVER () - 1 AS k FROM {table}")
    db.execute(f"DELETE FROM {table}")
    db.execute(
        f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {n}) "
        f"INSERT INTO {table} SELECT {values} FROM n JOIN first ON k = i % {n_first}"
    )
    db.execute("DROP TABLE first")


def measure(trace: Path, kind: str) -> tuple[float, float]:
    """Seconds and peak MB of `nsysoverlap plot` as a process of its own."""
    output = trace.with_name(f"{kind}.png")
    arguments = [sys.executable, "-m", "nsysoverlap", "plot", str(trace)]
    took = measure_command([*arguments, "--kind", kind, "-o", str(output)])
    if not output.stat().st_size:
        raise SystemExit(f"plot --kind {kind} failed")
    return took.wall_s, took.peak_bytes / 2**20


def main() -> None:
    """Print seconds and MB of each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, help="write the trace and the plots to this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = (options.keep or Path(folder)) / "large.sqlite"
        write_large(trace, options.rows)
        results = {kind: measure(trace, kind) for kind in ("timeline", "steps", "bandwidth", "ops")}
    for kind, (seconds, megabytes) in results.items():
        print(f"{kind:10} {seconds:5.1f} s {megabytes:6.0f} MB")
    seconds, megabytes = results["timeline"]
    if seconds > MAX_SECONDS or megabytes > MAX_MB:
        sys.exit(f"the timeline must take no more than {MAX_SECONDS:.0f} s and {MAX_MB} MB")


if __name__ == "__main__":
    main()
