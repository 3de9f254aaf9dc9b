"""Our report inside `nsys stats` and `nsys recipe`, by a real nsys; skipped where there is none."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoverlap import analyze
from nsysoverlap.cli import main

from .gatekit import split_trace
from .traces import h200

REPO = Path(__file__).parents[1]
NSYS = os.environ.get("NSYS") or shutil.which("nsys")

pytestmark = pytest.mark.skipif(NSYS is None, reason="needs nsys, on PATH or in NSYS")


def launcher(folder: Path) -> Path:
    """An `nsysoverlap` of this checkout."""
    script = folder / "nsysoverlap"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="{REPO}" exec "{sys.executable}" -m nsysoverlap "$@"\n'
    )
    script.chmod(0o755)
    return script


def stats(trace: Path, tmp_path: Path, program: str | None = None) -> str:
    """What `nsys stats --format csv` prints."""
    copy = shutil.copy(trace, tmp_path / "t.sqlite")
    command = [str(NSYS), "stats", "--report-dir", str(REPO / "nsys" / "reports")]
    command += ["--report", "nsysoverlap_sum", "--format", "csv", str(copy)]
    env = {**os.environ, "NSYSOVERLAP": program or str(launcher(tmp_path))}
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


def recipe(folder: Path, *given: str, program: str | None = None) -> tuple[int, str]:
    """What `nsys recipe nsysoverlap_sum` prints in a folder, and its exit code."""
    env = {
        **os.environ,
        "NSYSOVERLAP": program or str(launcher(folder)),
        "NSYS_RECIPE_PATH": str(REPO / "nsys" / "recipes"),
        # nsys runs the first python3 on PATH, which needs its libraries.
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = [str(NSYS), "recipe", "nsysoverlap_sum", *given]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_nsys_recipe_prints_the_report_of_all_ranks(tmp_path: Path) -> None:
    if importlib.util.find_spec("psutil") is None:
        pytest.skip("recipes of nsys need psutil")
    for rank, name in enumerate(("jax_unroll_lhs", "jax_unroll_nolhs")):
        shutil.copy(h200(name), tmp_path / f"rank{rank}.sqlite")
        # nsys asks only for a report of this name: the export beside it is read.
        (tmp_path / f"rank{rank}.nsys-rep").touch()
    code, out = recipe(tmp_path, "--input", ".")
    assert code == 0
    left = tmp_path / "nsysoverlap_sum-1"
    for folder in (tmp_path, left):
        printed = CliRunner().invoke(main, ["report", str(folder)])
        assert printed.exit_code == 0
        assert printed.stdout in out
    written = json.loads((left / "report.json").read_text())
    assert [trace["rank"] for trace in written["traces"]] == [0, 1]
    assert (left / "report.html").stat().st_size > 10_000

    code, out = recipe(tmp_path, "--input", ".", "--output", "other", program="/nosuch")
    assert code != 0
    assert "set NSYSOVERLAP to its path" in out
    assert not (tmp_path / "other").exists()
