"""Ranks that are not there, twice there, or not read; exports older than their report."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nsysoverlap.cli import main
from nsysoverlap.core.errors import ExportError, UsageError
from nsysoverlap.run.rank_checks import parse_ranks
from nsysoverlap.trace import nsys_export

from . import gatekit

PASS, UNUSABLE, INCONCLUSIVE = 0, 2, 3
REPORT = b"NVIDIA Tegra Profiler Report 2025@1@1@1-0v0." + bytes(200)


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def ranks(folder: Path, *numbers: int) -> Path:
    """A folder of traces that differ, one a rank."""
    folder.mkdir(exist_ok=True)
    for rank in numbers:
        path = folder / f"rank{rank}.sqlite"
        gatekit.split_trace(path, d2h=(9_000 + rank, 10_000), pid=100 + rank)
    return folder


def health(folder: Path, *words: object) -> tuple[int, dict[str, str]]:
    """The exit code of a gate that the numbers meet, and code -> message of ranks in a report."""
    code = run("gate", folder, "--min-hidden", 50, *words).exit_code
    report = run("report", folder, *words, "--format", "json")
    entries = json.loads(report.stdout)["health"]
    return code, {e["code"]: e["message"] for e in entries if e["code"].startswith("ranks-")}


@pytest.mark.parametrize(
    ("numbers", "missing"),
    [
        ((0, 1, 2, 3), None),
        ((0, 8, 16), None),
        ((3,), None),
        ((0, 9), None),
        ((0, 1, 3), "Rank 2 is not among the 3 traces."),
        ((0, 8, 24), "Rank 16 is not among the 3 traces."),
        ((0, 1, 7), "Ranks 2, 3, 4, 5 and 1 more are not among the 3 traces."),
    ],
)
def test_gaps_in_the_numbering(
    tmp_path: Path, numbers: tuple[int, ...], missing: str | None
) -> None:
    found = health(ranks(tmp_path / "r", *numbers))
    assert found == (PASS, {"ranks-missing": missing} if missing else {})


@pytest.mark.parametrize(
    ("wanted", "missing", "more"),
    [
        ("2", None, None),
        ("0-1", None, None),
        ("1", None, "Rank 1 is not in --ranks, and counted."),
        (
            "5-6",
            "Ranks 5, 6 are not among the 2 traces.",
            "Ranks 0, 1 are not in --ranks, and counted.",
        ),
        ("3", "Rank 2 is not among the 2 traces.", None),
        ("0-3", "Ranks 2, 3 are not among the 2 traces.", None),
        ("0,8", "Rank 8 is not among the 2 traces.", "Rank 1 is not in --ranks, and counted."),
    ],
)
def test_ranks_that_are_asked_for(
    tmp_path: Path, wanted: str, missing: str | None, more: str | None
) -> None:
    found = health(ranks(tmp_path / "r", 0, 1), "--ranks", wanted)
    said = {"ranks-missing": missing, "ranks-unexpected": more}
    code = INCONCLUSIVE if missing else PASS
    assert found == (code, {name: text for name, text in said.items() if text})


def test_traces_of_no_rank_are_counted(tmp_path: Path) -> None:
    for name in ("a", "b"):
        gatekit.split_trace(tmp_path / f"{name}.sqlite", d2h=(9_000, 10_000), pid=ord(name))
    assert health(tmp_path, "--ranks", "2") == (PASS, {})
    text = "2 of 3 ranks are there."
    assert health(tmp_path, "--ranks", "3") == (INCONCLUSIVE, {"ranks-missing": text})


def test_a_pipe_among_the_files_is_waited_for_by_none(tmp_path: Path) -> None:
    folder = ranks(tmp_path / "r", 0)
    (folder / "rank2.sqlite").touch()
    os.mkfifo(folder / "rank5.sqlite")
    result = run("gate", folder, "--min-hidden", 50)
    assert result.exit_code == INCONCLUSIVE
    assert "rank5.sqlite" in result.output


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """What the file system takes for a name need not be UTF-8."""
    folder = ranks(tmp_path / "r", 0)
    odd = folder / os.fsdecode(b"b\xff_rank0.sqlite")
    (folder / "rank0.sqlite").rename(odd)
    written = run("report", odd, "--format", "json").stdout
    assert json.loads(written)["traces"][0]["path"] == "b?_rank0.sqlite"
    assert written.encode("utf-8", "strict")
    assert run("record", odd, "--db", tmp_path / "h.db").exit_code == PASS
    assert run("history", "--db", tmp_path / "h.db").stdout.startswith("1 run; ")


def test_one_can_be_accepted(tmp_path: Path) -> None:
    folder = ranks(tmp_path / "r", 0, 1)
    words = ("gate", folder, "--min-hidden", 50, "--ranks", 3, "--accept", "ranks-missing")
    result = run(*words)
    assert result.exit_code == PASS
    assert "with ranks-missing ACCEPTED" in result.stdout


def test_a_baseline_asks_for_its_ranks(tmp_path: Path) -> None:
    folder, baseline = ranks(tmp_path / "r", 0, 1, 3), tmp_path / "b.json"
    assert run("gate", folder, "--write-baseline", baseline).exit_code == PASS
    words = ("gate", folder, "--baseline", baseline)
    assert run(*words).exit_code == PASS, "the baseline has the same gap"
    (folder / "rank3.sqlite").rename(folder / "rank2.sqlite")
    result = run(*words)
    assert result.exit_code == INCONCLUSIVE
    assert "its rank 3 did not come" in result.stdout.replace("\n", " ")


def test_the_same_trace_under_two_names(tmp_path: Path) -> None:
    folder, baseline = ranks(tmp_path / "r", 0, 1), tmp_path / "b.json"
    assert run("gate", folder, "--write-baseline", baseline).exit_code == PASS
    shutil.copy(folder / "rank0.sqlite", folder / "rank1.sqlite")
    text = "rank0.sqlite, rank1.sqlite are the same, byte for byte."
    assert health(folder) == (PASS, {"ranks-identical": text})
    assert health(folder, "--ranks", 2) == (INCONCLUSIVE, {"ranks-identical": text})
    assert run("gate", folder, "--baseline", baseline).exit_code == INCONCLUSIVE


def test_files_of_one_size_are_not_the_same(tmp_path: Path) -> None:
    folder = ranks(tmp_path / "r", 0, 1)
    sizes = {path.stat().st_size for path in folder.iterdir()}
    assert len(sizes) == 1
    assert health(folder) == (PASS, {})


def test_what_lies_beside_the_traces(tmp_path: Path) -> None:
    folder = ranks(tmp_path / "r", 0, 1)
    ranks(folder / "old", 0)
    (folder / "logs").mkdir()
    (folder / "rank2.qdstrm").write_bytes(b"x")
    (folder / "notes.txt").write_text("x")
    code, found = health(folder)
    assert code == PASS
    assert found == {
        "ranks-unfinished": "r holds 1 file of an unfinished recording or copy: rank2.qdstrm.",
        "ranks-not-read": "r holds 1 folder of more traces, which are not read: old.",
    }
    assert health(folder / "rank0.sqlite") == (PASS, {})


def test_no_more_than_four_names_are_shown(tmp_path: Path) -> None:
    folder = ranks(tmp_path / "r", 0)
    for i in range(6):
        (folder / f"{i}.qdstrm").write_bytes(b"x")
    _, found = health(folder)
    shown = "0.qdstrm, 1.qdstrm, 2.qdstrm, 3.qdstrm and 2 more."
    assert found["ranks-unfinished"].endswith(
        f"6 files of an unfinished recording or copy: {shown}"
    )


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("1", {0}), ("4", {0, 1, 2, 3}), ("2-4", {2, 3, 4}), ("0,8,16", {0, 8, 16}),
        ("0, 2-3", {0, 2, 3}), ("5-5", {5}), ("0,0", {0}),
    ],
)  # fmt: skip
def test_forms_of_ranks(text: str, ranks: set[int]) -> None:
    assert parse_ranks(text) == ranks


@pytest.mark.parametrize("text", ["", "0", "a", "3-1", "-3", "1-", "0-9999999", "1,,2", "٣"])
def test_what_names_no_ranks(text: str) -> None:
    with pytest.raises(UsageError, match="names no ranks"):
        parse_ranks(text)


# Exports older than their report.


def recorded(folder: Path, newer_s: float) -> Path:
    """An export, and a report beside it that is so much newer."""
    folder.mkdir()
    path = gatekit.split_trace(folder / "train.sqlite", d2h=(9_000, 10_000))
    (folder / "train.nsys-rep").write_bytes(REPORT)
    at = path.stat().st_mtime
    os.utime(folder / "train.nsys-rep", (at + newer_s, at + newer_s))
    return folder


@pytest.mark.parametrize("named", [[""], ["train.sqlite"], ["train.sqlite", "train.nsys-rep"]])
def test_a_stale_export_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: list[str]
) -> None:
    monkeypatch.setattr(nsys_export, "INSTALL_PATTERNS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = recorded(tmp_path / "r", 61.0)
    result = run("gate", *(folder / name for name in named), "--min-hidden", 50)
    assert result.exit_code == UNUSABLE
    assert "train.nsys-rep has to be exported to SQLite, for train.sqlite beside it is older" in (
        result.stderr
    )


@pytest.mark.parametrize("newer_s", [-1_000.0, 0.0, 59.0])
def test_an_export_about_as_old_as_its_report_is(tmp_path: Path, newer_s: float) -> None:
    folder = recorded(tmp_path / "r", newer_s)
    assert run("gate", folder, "--min-hidden", 50).exit_code == PASS


def fake_nsys(folder: Path, export: Path) -> Path:
    """A program that exports whatever it is given as one trace."""
    folder.mkdir(exist_ok=True)
    path = folder / "nsys"
    path.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && echo "NVIDIA Nsight Systems version 2025.3.1.90" && exit\n'
        f'cp "{export}" "$5"\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of an nsys that exports a trace of which 20 % are hidden."""
    export = gatekit.split_trace(tmp_path / "new.sqlite", d2h=(2_000, 10_000))
    monkeypatch.setenv("NSYS", str(fake_nsys(tmp_path / "bin", export)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "nsysoverlap"


def test_a_stale_export_is_made_anew(tmp_path: Path, nsys: Path) -> None:
    folder = recorded(tmp_path / "r", 61.0)
    values = json.loads(run("report", folder, "--format", "json").stdout)
    assert values["totals"]["d2h"]["hidden_share"] == 0.2
    assert [trace["path"] for trace in values["traces"]] == ["train.nsys-rep"]


# The cache.


def test_an_older_report_is_given_to_nsys(tmp_path: Path, nsys: Path) -> None:
    old = tmp_path / "old.qdrep"
    old.write_bytes(b"\0\1binary without a version" + bytes(100))
    assert run("gate", old, "--min-hidden", 10).exit_code == PASS
    old.write_text("a text")
    assert run("gate", old, "--min-hidden", 10).exit_code == UNUSABLE


def test_an_export_that_others_could_have_written_is_made_anew(tmp_path: Path, nsys: Path) -> None:
    report = tmp_path / "train.nsys-rep"
    report.write_bytes(REPORT)
    words = ("gate", report, "--min-hidden", 50)
    assert run(*words).exit_code == 1
    (export,) = nsys.glob("*/train.sqlite")
    assert [path.stat().st_mode & 0o777 for path in (nsys, export.parent, export)] == [
        *(0o700, 0o700, 0o600)
    ]
    gatekit.split_trace(export, d2h=(9_000, 10_000))
    export.chmod(0o600)
    assert run(*words).exit_code == PASS, "the cache is used"
    export.chmod(0o666)
    assert run(*words).exit_code == 1
    gatekit.split_trace(export, d2h=(9_000, 10_000))
    export.chmod(0o600)
    export.parent.chmod(0o777)
    assert run(*words).exit_code == 1
    assert export.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives away")
def test_an_export_of_another_owner_is_made_anew(tmp_path: Path, nsys: Path) -> None:
    report = tmp_path / "train.nsys-rep"
    report.write_bytes(REPORT)
    words = ("gate", report, "--min-hidden", 50)
    assert run(*words).exit_code == 1
    (export,) = nsys.glob("*/train.sqlite")
    gatekit.split_trace(export, d2h=(9_000, 10_000))
    export.chmod(0o600)
    os.chown(export, 12_345, 12_345)
    assert run(*words).exit_code == 1
    os.chown(nsys, 12_345, 12_345)
    export.unlink()
    with pytest.raises(ExportError, match="belongs to another user"):
        nsys_export.export_report(report)
