"""`tune` and `validate` from an empty folder to their tables, on a CPU: plumbing, no timings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from capture.config import load_config
from capture.predictions import read_predictions
from capture.results import load_rows

from .kit import Said, say, tiny, write_toml

pytestmark = pytest.mark.slow


@pytest.fixture
def configured(tmp_path: Path, one_device: None) -> list[str]:
    pytest.importorskip("jax")
    path = write_toml(tiny(), tmp_path / "small.toml")
    return ["--config", str(path), "--out", str(tmp_path / "out"), "--no-trace", "--rounds", "1"]


def finished(said: Said) -> str:
    assert said.status == 0, said.err
    return said.out


def started(said: Said) -> list[str]:
    """The arms that were run, in order."""
    lines = [line for line in said.err.splitlines() if ": ok" in line]
    return [line.split()[2].rstrip(":") for line in lines]


def test_tune_from_an_empty_folder_and_again(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    configured: list[str],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    command = ["tune", *configured, "--memory", "remat+0.3", "--turns", "1"]
    said = say(capsys, monkeypatch, *command)
    text = finished(said)
    fixed, tuned = started(said)[:4], started(said)[4:]
    assert fixed == ["keep", "remat", "save", "prefetch"]
    assert tuned
    predicted = read_predictions(out)
    for name in tuned:
        manifest = out / name / "manifest.json"
        assert predicted[name].written < manifest.stat().st_mtime, "written before it ran"
        assert predicted[name].blind, "without a recording nothing is known of the schedule"
        assert predicted[name].peak_gib is not None
        own = load_config(str(out / "toml" / f"{name}.toml"))
        assert own.offload.names
    rows = {row.arm: row for row in load_rows(out)}
    assert {row.status for row in rows.values()} == {"ok"}, "losses are those of keep"
    assert (out / "tune.md").read_text(encoding="utf-8").strip() == text.strip()
    assert "| tensor | GiB freed | recompute ms |" in text
    (turns,) = json.loads((out / "rounds" / "rounds.json").read_text())["rounds"][tuned[0]]
    assert turns > 0

    again = say(capsys, monkeypatch, *command)
    assert finished(again)
    # It has learned from the first call and may try more; nothing is run or predicted again.
    assert not {*started(again)} & {*fixed, *tuned}
    later = read_predictions(out)
    assert {name: later[name] for name in predicted} == predicted


def test_tune_for_maxtext(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    configured: list[str],
    tmp_path: Path,
) -> None:
    command = ["tune", *configured, "--memory", "remat+0.3", "--turns", "1", "--maxtext"]
    text = finished(say(capsys, monkeypatch, *command))
    (line,) = [line for line in text.splitlines() if line.startswith("- MaxText, ")]
    # What wins on this machine, now, is not known before; its options are.
    found = re.search(r"`remat_policy=(\w+).*` \((.*)\)", line)
    assert found is not None, line
    fixed = {"keep": "minimal_with_context", "remat": "full"}
    assert found[1] == fixed.get(found[2], "custom")
    arms = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))["arms"]
    assert {values["like"] for values in arms.values()} <= {"lhs", "save", "remat"}


def test_validate_predicts_first_and_leaves_nothing_out(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    configured: list[str],
    tmp_path: Path,
) -> None:
    arms = ["copies-2", "kept-half", "beside", "save", "optimizer"]
    said = say(capsys, monkeypatch, "validate", *configured, "--arms", ",".join(arms))
    text = finished(said)
    assert started(said) == ["keep", "remat", "prefetch", *arms]
    out = tmp_path / "out"
    predicted = read_predictions(out)
    assert set(predicted) == set(arms)
    for name in arms:
        assert predicted[name].written < (out / name / "manifest.json").stat().st_mtime
    shown = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines()]
    assert {*arms, "keep", "remat", "prefetch"} <= set(shown)
    assert {row.status for row in load_rows(out)} == {"ok"}
    log = (out / "beside" / "companion" / "log.txt").read_text(encoding="utf-8")
    assert "warming up" in log
    assert "done" not in log, "the companion is ended while it steps"
    rounds = json.loads((out / "rounds" / "rounds.json").read_text(encoding="utf-8"))["rounds"]
    assert set(rounds) == {"keep", "remat", "prefetch", "copies-2", "kept-half", "save"}
