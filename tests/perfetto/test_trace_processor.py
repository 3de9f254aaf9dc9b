"""The real Perfetto trace processor reads the export, where TRACE_PROCESSOR names its binary."""

from __future__ import annotations

import csv
import os
import subprocess
from pathlib import Path

import pytest

from nsysoverlap import analyze

from ..traces import h200
from .test_export import export

BINARY = os.environ.get("TRACE_PROCESSOR")
pytestmark = pytest.mark.skipif(not BINARY, reason="TRACE_PROCESSOR names no trace processor")


def query(trace: Path, sql: str) -> list[dict[str, str]]:
    """Rows of a query, as text."""
    assert BINARY is not None
    script = trace.with_suffix(".sql")
    script.write_text(sql, encoding="utf-8")
    command = [BINARY, "-q", str(script), str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(csv.DictReader(done.stdout.strip().splitlines()))


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("perfetto") / "out.json"
    assert export(h200("jax_fsdp2_lhs"), path).exit_code == 0
    return path


def test_exposed_time_is_that_of_the_report(trace: Path) -> None:
    report = analyze(h200("jax_fsdp2_lhs"))
    rows = query(trace, "SELECT category, SUM(dur) AS ns FROM slice GROUP BY category;")
    ns = {row["category"]: int(row["ns"]) for row in rows}
    assert ns["exposed_h2d"] == report.total("h2d").exposed_ns
    assert ns["exposed_d2h"] == report.total("d2h").exposed_ns


def test_all_arrows_and_no_errors(trace: Path) -> None:
    (flows,) = query(trace, "SELECT COUNT(*) AS n FROM flow;")
    (copies,) = query(trace, "SELECT COUNT(*) AS n FROM slice WHERE category IN ('h2d', 'd2h');")
    assert flows["n"] == copies["n"] != "0"
    errors = query(trace, "SELECT name FROM stats WHERE severity = 'error' AND value > 0;")
    assert errors == []


def test_gpus_are_processes(trace: Path) -> None:
    rows = query(trace, "SELECT name FROM process WHERE name LIKE 'H200%' ORDER BY name;")
    assert [row["name"] for row in rows] == ["H200 dev 0, pid 18648", "H200 dev 1, pid 18648"]
