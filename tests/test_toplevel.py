"""What `import nsysoverlap` gives: traces or reports in, the results of the commands out."""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import nsysoverlap as no
from nsysoverlap.core.errors import InconclusiveError, TraceFileError, UsageError
from nsysoverlap.judge.thresholds import KEYS
from nsysoverlap.result.frames import FRAMES
from nsysoverlap.result.model import TableName

from .gatekit import split_trace
from .traces import h200

REPO = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two ranks: 9 and 5 of 10 us hidden; and what is no trace, beside it."""
    folder = tmp_path_factory.mktemp("top") / "run"
    folder.mkdir()
    split_trace(folder / "rank0.sqlite", d2h=(9_000, 10_000))
    split_trace(folder / "rank1.sqlite", d2h=(5_000, 10_000), pid=2000)
    (folder.parent / "broken.sqlite").write_text("broken")
    return folder


def shown(report: no.OverlapReport) -> tuple[float | None, list[int | None]]:
    return report.total("d2h").hidden_share, [trace.rank for trace in report.traces]


def test_analyze_takes_a_path_a_folder_a_list_and_a_pattern(run: Path) -> None:
    both = (0.7, [0, 1])
    assert shown(no.analyze(run)) == both
    assert shown(no.analyze(str(run / "rank*.sqlite"))) == both
    assert shown(no.analyze([run / "rank1.sqlite", str(run / "rank0.sqlite")])) == (0.7, [1, 0])
    assert shown(no.analyze(run / "rank1.sqlite")) == (0.5, [1])
    assert no.analyze(no.read_trace(run / "rank1.sqlite")).total("d2h").hidden_share == 0.5


def test_ranks_that_are_missing_or_cannot_be_read_are_no_number(run: Path) -> None:
    assert not no.analyze(run, ranks=3).conclusive
    assert no.analyze(run, ranks="0-1").conclusive
    with pytest.raises(TraceFileError, match=r"broken\.sqlite"):
        no.analyze([run, run.parent / "broken.sqlite"])
    with pytest.raises(TraceFileError, match="no such file"):
        no.analyze("nosuch.sqlite")
    with pytest.raises(UsageError, match="no health code"):
        no.analyze(run, accept=["nosuch"])


def test_gate_measures_what_is_no_report(run: Path) -> None:
    for source in (run, no.analyze(run)):
        result = no.gate(
            source, "d2h.hidden@worst-rank >= 60%", min_hidden=70, require_transfers=True
        )
        assert [v.status.value for v in result.verdicts] == ["pass", "pass", "fail"]
        assert result.verdicts[0].name == "both.n@worst-rank"
        assert result.verdicts[2].where == "rank 1"
    (verdict,) = no.gate(run, max_exposed_ms="4us").verdicts
    assert float(verdict.measured or 0) == 0.005
    assert str(verdict.status) == "fail"


def test_no_gate_is_green_where_a_trace_cannot_be_read(run: Path) -> None:
    broken = run.parent / "broken.sqlite"
    for source in (broken, "nosuch.sqlite", [run, broken], run.parent / "nothing*.sqlite"):
        result = no.gate(source, min_hidden=1)
        assert result.status.value == "inconclusive"
        assert result.blockers
    for wrong in ({}, {"max_drop": 1}, {"min_hidden": 0.5}):
        with pytest.raises(UsageError):
            no.gate(run, **wrong)


def test_a_baseline_is_written_and_compared_with(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "main.json"
    assert no.gate(run, write_baseline=path).verdicts == ()
    assert json.loads(path.read_text())["format"] == "nsysoverlap.baseline"
    assert no.gate(run, baseline=path).passed
    worse = shutil.copytree(run, tmp_path / "worse")
    split_trace(worse / "rank0.sqlite", d2h=(5_000, 10_000))
    result = no.gate(worse, baseline=path, max_drop=10, write_baseline=path)
    assert result.status.value == "fail"
    assert no.gate(run, baseline=path).passed, "a baseline was written by a gate that failed"
    empty = split_trace(tmp_path / "empty.sqlite")
    nothing = no.gate(empty, write_baseline=tmp_path / "empty.json")
    assert nothing.blockers
    assert not (tmp_path / "empty.json").exists()


def test_compare_takes_traces_reports_and_files(run: Path, tmp_path: Path) -> None:
    no.gate(run, write_baseline=tmp_path / "main.json")
    expected = no.compare(no.analyze(run), no.analyze(run / "rank1.sqlite"))
    for a in (run, tmp_path / "main.json", [run / "rank0.sqlite", run / "rank1.sqlite"]):
        found = no.compare(a, run / "rank1.sqlite")
        assert found.split == expected.split
    exposed = next(change for change in expected.split if change.name == "d2h.exposed_ms")
    assert (float(exposed.a or 0), float(exposed.b or 0)) == (0.006, 0.005)


def test_record_and_history(run: Path, tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    assert no.record(run, db, labels={"branch": "main"}) == no.record(run, db).__class__(1, True)
    assert not no.record(str(run / "*.sqlite"), db).is_new, "the same files"
    for i in range(5):
        no.record(no.analyze(run), db, labels={"branch": "x"}, content=f"run {i}")
    assert len(no.history(db).runs) == 6
    assert len(no.history(db, labels={"branch": "x"}, last=3).runs) == 3
    assert "<table>" in no.history(db)._repr_html_()
    assert no.gate(run, history=db).passed
    with pytest.raises(InconclusiveError, match="Nothing was stored"):
        no.record(h200("jax_fsdp2_events_lost"), db)
    with pytest.raises(UsageError, match="is not key=value"):
        no.record(run, db, labels={"": "x"})


def test_signatures_hold_every_limit_and_every_table() -> None:
    assert set(KEYS) <= set(inspect.signature(no.gate).parameters)
    assert get_args(TableName) == tuple(FRAMES)


USER = """
import nsysoverlap as no

report: no.OverlapReport = no.analyze(["a.sqlite", "b.sqlite"], ranks=2)
frame = report.to_frame("steps")
passed: bool = no.gate(report, "h2d.hidden >= 60%", min_hidden=90).passed
no.compare("a.sqlite", report, ("A", "B"))
no.record("run/", "runs.db", labels={"branch": "main"})
no.whatif("a.sqlite", link="2x")
"""
WRONG = {
    'report.to_frame("steps")': 'report.to_frame("step")',
    "min_hidden=90": "min_hiden=90",
    "ranks=2": "ranks=2.5",
}


OPTIONS = ("--strict", "--follow-imports=silent", "--hide-error-context", "--no-pretty")


@pytest.mark.slow
def test_type_checkers_follow_an_editable_install(tmp_path: Path) -> None:
    """From another folder, with an environment that knows of the checkout by its install alone."""
    checkout = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPO / "nsysoverlap", checkout / "nsysoverlap", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, checkout / name)
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    subprocess.run([*pip, "--editable", str(checkout)], check=True, capture_output=True)
    paths = [line for file in site.glob("*.pth") for line in file.read_text().splitlines()]
    assert paths == [str(checkout)], "a path, which type checkers follow, and no finder"
    user = tmp_path / "user.py"
    checker = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-incremental",
        "--follow-imports=silent",
        str(user),
    ]

    def errors(text: str) -> str:
        user.write_text(text)
        env = {"MYPYPATH": paths[0], "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            checker, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        return done.stdout

    assert errors(USER).startswith("Success")
    text = USER
    for right, wrong in WRONG.items():
        assert right in text
        text = text.replace(right, wrong)
    found = errors(text)
    assert f"Found {len(WRONG)} errors in 1 file" in found, found
