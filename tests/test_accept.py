"""A way past a health code, and comparisons of like with like."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nsysoverlap.cli import main
from nsysoverlap.health.blocking import BLOCKING

from . import gatekit
from .readerkit import MEMCPY, execute

PASS, FAIL, UNUSABLE, INCONCLUSIVE = 0, 1, 2, 3
HIDDEN = "both.hidden"


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    """Ten steps of which one lost its copy."""
    path = gatekit.step_trace(tmp_path / "t.sqlite", [90] * 10)
    return execute(path, f"DELETE FROM {MEMCPY} WHERE rowid = 5")


def test_a_code_that_stops_a_gate_can_be_accepted(lossy: Path) -> None:
    assert run("gate", lossy, "--min-hidden", 50).exit_code == INCONCLUSIVE
    result = run("gate", lossy, "--min-hidden", 50, "--accept", "copies-lost")
    assert result.exit_code == PASS
    assert result.stdout.startswith("Passed: 1 limit met, with copies-lost ACCEPTED.")
    said = "Warning: ACCEPTED by --accept copies-lost: 1 of 10 copies"
    assert said in result.stdout.replace("\n", " "), result.stdout


@pytest.mark.parametrize("fmt", ["text", "markdown", "json", "junit", "github"])
def test_every_format_says_so(lossy: Path, fmt: str) -> None:
    words = ("gate", lossy, "--min-hidden", 50, "--accept", "copies-lost", "--format", fmt)
    assert "copies-lost ACCEPTED" in run(*words).stdout.replace("\n", " ")
    report = run("report", lossy, "--accept", "copies-lost")
    assert report.exit_code == PASS
    assert "ACCEPTED by --accept copies-lost" in report.stdout.replace("\n", " ")


def words_of(page: Path) -> str:
    return re.sub(r"<[^>]*>|`", "", page.read_text()).replace("\n", " ")


@pytest.mark.parametrize("fmt", ["text", "markdown", "json", "html"])
@pytest.mark.parametrize("stored", [False, True])
def test_a_comparison_goes_on_too_and_says_so(
    lossy: Path, tmp_path: Path, fmt: str, stored: bool
) -> None:
    whole, side = gatekit.step_trace(tmp_path / "whole.sqlite", [90] * 10), lossy
    if stored:
        side = tmp_path / "lossy.json"
        side.write_text(run("report", lossy, "--format", "json").stdout)
    out = tmp_path / "out"
    words = ("compare", whole, side, "--format", fmt, "-o", out)
    assert run(*words).exit_code == INCONCLUSIVE
    text = words_of(out)
    assert "ACCEPTED" not in text
    assert "Findings are not compared" in text
    assert run(*words, "--accept", "copies-lost").exit_code == PASS
    text = words_of(out)
    assert "copies-lost ACCEPTED." in text
    assert "B: ACCEPTED by --accept copies-lost: 1 of 10" in text
    assert "Findings are not compared" not in text
    if fmt == "json":
        assert json.loads(text)["accepted"] == ["copies-lost"]
    assert run(*words, "--accept", "launches-lost").exit_code == INCONCLUSIVE


def test_only_that_code_is_accepted(lossy: Path) -> None:
    result = run("gate", lossy, "--min-hidden", 50, "--accept", "launches-lost")
    assert result.exit_code == INCONCLUSIVE
    assert "ACCEPTED" not in result.stdout
    # A limit that is not met fails as ever.
    result = run("gate", lossy, "--min-hidden", 95, "--accept", "copies-lost")
    assert result.exit_code == FAIL


@pytest.mark.parametrize("code", ["copy-lost", "head-lost", "", "late-h2d"])
def test_a_code_that_stops_nothing_is_refused(lossy: Path, code: str) -> None:
    result = run("gate", lossy, "--min-hidden", 50, "--accept", code)
    assert result.exit_code == UNUSABLE
    assert "stops a gate" in result.stderr
    if code == "copy-lost":
        assert "Did you mean copies-lost?" in result.stderr


def test_what_was_accepted_is_stored_with_the_run(lossy: Path, tmp_path: Path) -> None:
    accept = ("--accept", "copies-lost", "--accept", "end-lost")
    assert run("record", lossy, "--db", tmp_path / "r.db").exit_code == INCONCLUSIVE
    assert run("record", lossy, "--db", tmp_path / "r.db", *accept).exit_code == PASS
    with closing(sqlite3.connect(tmp_path / "r.db")) as db:
        assert db.execute("SELECT accepted FROM runs").fetchall() == [("copies-lost, end-lost",)]
    baseline = tmp_path / "b.json"
    assert run("gate", lossy, "--write-baseline", baseline, *accept).exit_code == PASS
    stored = json.loads(baseline.read_text())["report"]
    assert stored["basis"]["accepted"] == ["copies-lost", "end-lost"]
    assert [h["code"] for h in stored["health"] if h["accepted"]] == ["copies-lost"]


def test_warnings_and_notes_that_stop_a_gate_can_be_accepted_too(tmp_path: Path) -> None:
    path = gatekit.step_trace(tmp_path / "t.sqlite", [90] * 10)
    execute(path, "DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME")
    words = ("gate", path, "--steps", "none", "--min-hidden", 50)
    assert run(*words).exit_code == INCONCLUSIVE
    assert run(*words, "--accept", "no-api-table").exit_code == PASS


def test_every_code_of_the_table_is_one_of_a_check() -> None:
    package = Path(__file__).parents[1] / "nsysoverlap"
    sources = [*(package / "health").glob("*.py"), package / "run" / "rank_checks.py"]
    text = "".join(path.read_text() for path in sources if path.name != "blocking.py")
    assert [code for code in BLOCKING if f'"{code}"' not in text] == []


# Like with like.


@pytest.fixture
def base(tmp_path: Path) -> Path:
    gatekit.step_trace(tmp_path / "t.sqlite", [90] * 10, [50] * 10)
    (tmp_path / "rules.toml").write_text('[[rule]]\npattern = "nothing"\nrole = "comm"\n')
    (tmp_path / "links.toml").write_text("[links]\nh2d_gbps = 50\nd2h_gbps = 50\n")
    words = ("gate", tmp_path / "t.sqlite", "--write-baseline", tmp_path / "b.json")
    assert run(*words).exit_code == PASS
    return tmp_path


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--config rules.toml", "kernel rules are built-in, here 1 own ("),
        ("--skip-steps 2", "steps as asked for are auto, here auto, 2 skipped"),
        ("--step 3:5", "steps as asked for are auto, here auto, step 3 to 5"),
        ("--transfer-kernels off", "it took transfer kernels as auto, this run as off"),
        ("--window 10ms:12ms", "its window is another"),
        ("--steps none", "its numbers are over the steps, these over the trace"),
    ],
)
def test_a_baseline_measured_otherwise_is_not_compared_with(
    base: Path, options: str, reason: str
) -> None:
    words = [base / word if word.endswith(".toml") else word for word in options.split()]
    result = run("gate", base / "t.sqlite", "--baseline", base / "b.json", *words)
    assert result.exit_code == INCONCLUSIVE
    assert reason in result.stdout.replace("\n", " ")


def test_a_baseline_measured_alike_is(base: Path) -> None:
    result = run("gate", base / "t.sqlite", "--baseline", base / "b.json")
    assert result.exit_code == PASS
    assert "renew" not in result.stdout


def test_other_links_are_a_difference(base: Path) -> None:
    config = ("--config", base / "links.toml")
    result = run("gate", base / "t.sqlite", "--baseline", base / "b.json", *config)
    assert result.exit_code == INCONCLUSIVE
    assert "link rates are by GPU name, here 50,50 GB/s" in result.stdout.replace("\n", " ")


def test_an_older_baseline_passes_with_a_warning(base: Path) -> None:
    values = json.loads((base / "b.json").read_text())
    for name in ("rules", "links", "steps_asked", "accepted"):
        del values["report"]["basis"][name]
    (base / "b.json").write_text(json.dumps(values))
    result = run("gate", base / "t.sqlite", "--baseline", base / "b.json")
    assert result.exit_code == PASS
    text = result.stdout.replace("\n", " ")
    assert "b.json does not tell its kernel rules, steps as asked for, link rates: renew it" in text


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Path]:
    """A history of five runs, recorded with some options."""

    def record(*options: str) -> Path:
        for i in range(5):
            path = gatekit.step_trace(tmp_path / f"{i}.sqlite", [90 - i] * 10)
            assert run("record", path, "--db", tmp_path / "r.db", *options).exit_code == PASS
        gatekit.step_trace(tmp_path / "t.sqlite", [85] * 10)
        return tmp_path

    return record


def test_a_history_knows_the_window_of_its_runs(recorded: Callable[..., Path]) -> None:
    at = recorded("--window", "10ms:13ms")
    words = ("gate", at / "t.sqlite", "--history", at / "r.db", "--max-drop", 10)
    assert run(*words).exit_code == INCONCLUSIVE
    assert run(*words, "--window", "10ms:12ms").exit_code == INCONCLUSIVE
    assert run(*words, "--window", "10ms:13ms").exit_code == PASS


def test_runs_of_an_older_history_match_with_a_warning(recorded: Callable[..., Path]) -> None:
    at = recorded()
    words = ("gate", at / "t.sqlite", "--history", at / "r.db", "--max-drop", 10)
    assert "renew" not in run(*words).stdout
    execute(
        at / "r.db",
        "ALTER TABLE runs DROP COLUMN measured",
        "ALTER TABLE runs DROP COLUMN accepted",
    )
    result = run(*words)
    assert result.exit_code == PASS
    assert "does not tell its settings of 5 runs: renew it" in result.stdout.replace("\n", " ")
    path = gatekit.step_trace(at / "6.sqlite", [90] * 10)
    assert run("record", path, "--db", at / "r.db").exit_code == PASS
    assert "settings of 5 runs" in run(*words).stdout.replace("\n", " ")
