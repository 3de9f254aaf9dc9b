"""`nsysoverlap slim`: what it prints, and when it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nsysoverlap.cli import main

from ..traces import h200


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["slim", *map(str, arguments)])


def test_a_whole_copy(tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    result = run(h200("jax_unroll_lhs"), out)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "Its report is the same: nsysoverlap report out.sqlite Tables" in said
    assert "TARGET_INFO_SYSTEM_ENV (6)" in said
    assert f"Wrote {out}" in result.stderr
    again = run(h200("jax_unroll_lhs"), out)
    assert again.exit_code == 2
    assert "exists already" in again.stderr


@pytest.mark.parametrize(("step", "ns"), [("1", 306e6), ("1:2", 612e6)])
def test_steps(step: str, ns: float, tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    result = run(h200("jax_unroll_lhs"), out, "--step", step)
    assert result.exit_code == 0, result.output
    window = result.stdout.split("--window")[1].split()[0]
    start, end = (int(side.removesuffix("ns")) for side in window.rstrip(".").split(":"))
    assert abs((end - start) / ns - 1) < 0.05
    assert out.stat().st_size < h200("jax_unroll_lhs").stat().st_size / 1.5
    shown = CliRunner().invoke(main, ["report", str(out), "--window", window, "--format", "json"])
    expected = CliRunner().invoke(
        main, ["report", str(h200("jax_unroll_lhs")), "--window", window, "--format", "json"]
    )
    alone = CliRunner().invoke(main, ["report", str(out), "--format", "json"])
    steps = [device["steps"] for device in json.loads(alone.stdout)["devices"]]
    # What is left of the steps on either side is no step; one XlaModule range alone marks none.
    assert [len(found) for found in steps] == [0 if step == "1" else 2]
    named = shown.stdout.replace("out.sqlite", "jax_unroll_lhs.sqlite")
    assert named.split('"totals"')[1] == expected.stdout.split('"totals"')[1]


def test_marks_that_work_in_the_window_is_named_after_stay(tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    result = run(h200("micro_graph_node"), out, "--step", "1")
    assert result.exit_code == 0, result.output
    assert "without --window a report counts them as steps" in " ".join(result.stdout.split())
    other = run(h200("jax_unroll_lhs"), tmp_path / "other.sqlite", "--step", "1")
    assert "counts them as steps" not in " ".join(other.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "OUT is missing"),
        (("out.sqlite", "--check"), "--check writes nothing"),
        (("out.sqlite", "--window", "1:2", "--step", "1"), "exclude each other"),
        (("out.sqlite", "--step", "9"), "step 9 is not among its 4 steps"),
        (("out.sqlite", "--step", "1", "--steps", "none"), "--step needs steps"),
        (("out.sqlite", "--window", "5:1"), "ends before it starts"),
        (("out.sqlite", "--window", "900s:901s"), "no GPU activity in window"),
    ],
)
def test_refusals(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(h200("jax_unroll_lhs"), *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_check(tmp_path: Path) -> None:
    result = run("--check", h200("jax_unroll_lhs"))
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "PROCESSES.name names of running programs 1 0" in words
    assert "ANALYSIS_FILE.filename paths of log files 2 2" in words
