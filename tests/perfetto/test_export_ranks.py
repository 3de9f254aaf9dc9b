"""Exports of the ranks of a run in one file: one clock where it is known, one rank in memory."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoverlap import analyze
from nsysoverlap.cli import main

from ..tracebuilder import draw
from ..traces import h200
from .chrome import ChromeTrace
from .test_export import export, exported

DRAWING = """
    dev0 s7  compute:        .####....##
    dev0 s20 bytes=1000 h2d: ...####....
"""
UTC = 1_700_000_000_000_000_000


def rank(folder: Path, number: int, utc_ns: int | None, shift_ns: int = 0, **meta: str) -> Path:
    """A drawn rank whose recording began at a time of day, or does not say when."""
    builder = draw(DRAWING)
    for name, value in meta.items():
        builder.meta(name, value)
    path = builder.write(folder / f"rank{number}.sqlite", shift_ns=shift_ns)
    with closing(sqlite3.connect(path)) as db, db:
        if utc_ns is None:
            db.execute("DELETE FROM TARGET_INFO_SESSION_START_TIME")
        else:
            db.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = ?", (utc_ns,))
    return path


def copies(trace: ChromeTrace) -> dict[str, tuple[int, int]]:
    """Start and end of each rank's copy."""
    return {
        trace.processes[one.track[0]].partition(":")[0]: (one.start, one.end)
        for one in trace.of("h2d")
    }


def test_ranks_stand_on_one_clock(tmp_path: Path) -> None:
    rank(tmp_path, 0, UTC + 5_000_001)
    rank(tmp_path, 1, UTC, shift_ns=70_000)
    rank(tmp_path, 2, UTC + 900, UTC + 900, EXPORT_PARAM_TIME_NORMALIZE="true")
    trace = exported(tmp_path, tmp_path)
    # Each copy lasts from 3,000 to 7,000 ns after its recording began; rank 1 began first.
    assert copies(trace) == {
        "rank 0": (5_003_001, 5_007_001),
        "rank 1": (3_000, 7_000),
        "rank 2": (3_900, 7_900),
    }
    assert [one["trace"] for one in trace.other["traces"]] == [f"rank{i}.sqlite" for i in range(3)]
    counted = [values[0][0] for (_, name), values in trace.counters.items() if "GB/s" in name]
    assert sorted(counted) == [3_000, 3_900, 5_003_001]


def test_a_rank_that_tells_no_time_of_day_starts_at_0(tmp_path: Path) -> None:
    rank(tmp_path, 0, UTC)
    for number in range(1, 6):
        rank(tmp_path, number, None, shift_ns=70_000 * number)
    output = tmp_path / "all.json"
    result = export(tmp_path, output)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[1:] == [
        "Note: not told when recording began, so each starts at 0 of the file: rank1.sqlite, "
        "rank2.sqlite, rank3.sqlite and 2 more."
    ]
    trace = exported(tmp_path, tmp_path)
    assert set(copies(trace).values()) == {(3_000, 7_000)}
    assert len(copies(trace)) == 6


def test_real_ranks_keep_their_numbers_and_their_arrows(tmp_path: Path) -> None:
    names = ("jax_unroll_lhs", "jax_unroll_nolhs")
    for number, name in enumerate(names):
        shutil.copy(h200(name), tmp_path / f"run.{number}.sqlite")
    trace = exported(tmp_path, tmp_path)
    both = {number: exported(h200(name), tmp_path) for number, name in enumerate(names)}
    assert len(trace.flows) == sum(len(one.flows) for one in both.values())
    assert len(set(trace.processes)) == 4
    # The second was recorded first, 35 s before; docs/perfetto.md says what the clock is.
    with closing(sqlite3.connect(h200("jax_unroll_lhs"))) as a:
        query = "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"
        late = a.execute(query).fetchone()[0]
        with closing(sqlite3.connect(h200("jax_unroll_nolhs"))) as b:
            late -= b.execute(query).fetchone()[0]
    assert late > 0
    for number, name in enumerate(names):
        (gpu,) = (p for p in trace.devices if trace.processes[p].startswith(f"rank {number}: H200"))
        alone, moved = both[number], late if number == 0 else 0
        assert [one.start - moved for one in trace.of("compute", gpu)] == [
            one.start for one in alone.of("compute") if one.track[0] in alone.devices
        ]
        exposed = sum(one.end - one.start for one in trace.of("exposed_d2h", gpu))
        assert exposed == analyze(h200(name)).total("d2h").exposed_ns


def test_one_rank_alone_is_the_file_of_its_trace(tmp_path: Path) -> None:
    for number in range(2):
        rank(tmp_path, number, UTC)
    one, other = tmp_path / "1.json", tmp_path / "2.json"
    assert export(tmp_path, one, "--rank", "1").exit_code == 0
    assert export(tmp_path / "rank1.sqlite", other).exit_code == 0
    assert one.read_bytes() == other.read_bytes()
    assert b"rank 1" not in one.read_bytes()


def test_a_rank_that_cannot_be_read_is_left_out_and_said(tmp_path: Path) -> None:
    rank(tmp_path, 0, UTC)
    (tmp_path / "rank1.sqlite").write_text("broken")
    output = tmp_path / "all.json.gz"
    result = export(tmp_path, output)
    assert result.exit_code == 3
    assert "Skipped: rank1.sqlite" in result.stderr
    assert b"rank 0: " in gzip.decompress(output.read_bytes())
    (tmp_path / "rank0.sqlite").write_text("broken")
    output.unlink()
    assert export(tmp_path, output).exit_code == 2
    assert not output.exists()


def test_two_traces_of_one_rank_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        rank(tmp_path / folder, 3, UTC)
    given = [str(tmp_path / "a"), str(tmp_path / "b")]
    result = CliRunner().invoke(main, ["export", *given, "-o", str(tmp_path / "all.json")])
    assert result.exit_code == 2
    assert "both are rank 3" in result.stderr


@pytest.mark.slow
def test_one_rank_is_in_memory_at_a_time(tmp_path: Path) -> None:
    def peak(n: int) -> int:
        folder = tmp_path / str(n)
        folder.mkdir()
        for number in range(n):
            shutil.copy(h200("jax_unroll_lhs"), folder / f"rank{number}.sqlite")
        tracemalloc.start()
        assert export(folder, folder / "all.json.gz").exit_code == 0
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2)
    assert peak(6) < 1.1 * peak(3)
