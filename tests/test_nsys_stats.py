"""Our report inside `nsys stats`, run by a real nsys; skipped where there is none."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from nsysoverlap import analyze

from .gatekit import split_trace
from .traces import h200

REPO = Path(__file__).parents[1]
NSYS = os.environ.get("NSYS") or shutil.which("nsys")

pytestmark = pytest.mark.skipif(NSYS is None, reason="needs nsys, on PATH or in NSYS")


def stats(trace: Path, tmp_path: Path, program: str | None = None) -> str:
    """What `nsys stats --format csv` prints."""
    script = tmp_path / "nsysoverlap"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="{REPO}" exec "{sys.executable}" -m nsysoverlap "$@"\n'
    )
    script.chmod(0o755)
    copy = shutil.copy(trace, tmp_path / "t.sqlite")
    command = [str(NSYS), "stats", "--report-dir", str(REPO / "nsys" / "reports")]
    command += ["--report", "nsysoverlap_sum", "--format", "csv", str(copy)]
    env = {**os.environ, "NSYSOVERLAP": program or str(script)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_nsys_stats_prints_the_numbers_of_the_report(tmp_path: Path) -> None:
    out = stats(h200("jax_unroll_lhs"), tmp_path)
    table = out[out.index("Device,") :].split("\n\n")[0]
    rows = {row["Device"].rpartition(", ")[2]: row for row in csv.DictReader(StringIO(table))}
    report = analyze(h200("jax_unroll_lhs"))
    assert set(rows) == {"H2D", "D2H", "BOTH"}
    for direction, row in rows.items():
        total = report.total(direction.lower())
        assert int(row["Transfers"]) == total.n
        assert float(row["Total (MB)"]) == round(total.bytes / 1e6, 3)
        assert int(row["Time (ns)"]) == total.wall_ns
        assert int(row["Behind compute (ns)"]) == total.hidden_by_compute_ns
        assert int(row["Exposed (ns)"]) == total.exposed_ns
        assert int(row["Compute waited (ns)"]) == total.blocking_ns


def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    nothing = split_trace(tmp_path / "nothing.sqlite")
    assert "Inconclusive: " in stats(h200("jax_fsdp2_events_lost"), tmp_path)
    assert "does not contain host transfers" in stats(nothing, tmp_path)
    assert "set NSYSOVERLAP to its path" in stats(h200("micro_hidden"), tmp_path, "/nosuch")
