"""Old or broken files in a results folder, and arguments that make no sense: one line, no run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capture import launch, matrix
from capture.arms import find_arm
from capture.cli import slurm_ranks
from capture.errors import CaptureError, RefusedError
from capture.nsys import finish

from .kit import say, tiny
from .test_results import leave, manifest


def test_an_old_recording_does_not_pass_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arm = tmp_path / "keep"
    arm.mkdir()
    for name in ("trace.nsys-rep", "trace.qdstrm", "trace.sqlite"):
        (arm / name).write_text("of an earlier run", encoding="utf-8")

    def recorded_nothing(spec: Any, nsys: Any) -> list[str]:
        return ["sh", "-c", f'echo \'{{"status": "ok"}}\' > {spec.folder}/manifest.json']

    monkeypatch.setattr(launch, "worker_command", recorded_nothing)
    plan = matrix.Plan(folder=tmp_path, nsys=Path("/nsys"))
    outcome = matrix.run_arm(tiny(), find_arm(tiny(), "keep"), plan)
    assert outcome.status == "ok"
    assert outcome.trace is not None
    with pytest.raises(CaptureError, match="nsys left no recording"):
        finish(Path("/nsys"), outcome.trace)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("config.json", None, "config.json: cannot be read"),
        ("config.json", "{", "config.json: holds no JSON object; it is damaged."),
        ("config.json", '{"name": "x", "model": 3}', "model"),
        ("keep/outcome.json", "[1", "keep/outcome.json: holds no JSON object"),
        ("keep/outcome.json", "{}", "keep: an outcome with no known status"),
        ("keep/manifest.json", "null", "keep/manifest.json: holds no JSON object"),
    ],
)
def test_a_broken_results_folder_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    text: str | None,
    problem: str,
) -> None:
    out = tmp_path / "out"
    leave(out, "keep", manifest())
    path = out / name
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")
    said = say(capsys, monkeypatch, "report", out)
    assert said.status in (1, 2)
    assert said.err.startswith("Error: ")
    assert problem in said.err
    assert "Traceback" not in said.err
    assert not (out / "results.md").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        ["--arm-timeout-s", "-1"],
        ["--arm-timeout-s", "nan"],
        ["--arm-timeout-s", "0"],
        ["--arm-timeout-s", "inf"],
        ["--rank", "5", "--processes", "2", "--coordinator", "a:1"],
        ["--rank", "1"],
    ],
)
def test_arguments_that_are_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    wrong: list[str],
) -> None:
    out = tmp_path / "out"
    command = ["run", "--config", "toy", "--arm", "keep", "--no-trace", "--out", out]
    said = say(capsys, monkeypatch, *command, *wrong)
    assert said.status == 2
    assert not out.exists()


def test_an_out_that_can_be_no_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    command = ["run", "--config", "toy", "--arm", "keep", "--no-trace"]
    said = say(capsys, monkeypatch, *command, "--out", tmp_path / "file" / "below")
    assert said.status == 2
    assert "--out below: cannot be a folder" in said.err


@pytest.mark.parametrize("given", [("-3", "0"), ("2", "2"), ("2", "-1"), ("0", "0")])
def test_ranks_of_slurm_that_cannot_be(given: tuple[str, str]) -> None:
    with pytest.raises(RefusedError, match="There is no rank"):
        slurm_ranks(dict(zip(("SLURM_NTASKS", "SLURM_PROCID"), given, strict=True)))


@pytest.mark.parametrize(
    ("arms", "problem"),
    [
        ({"own": {"like": "none-such"}}, "has no known `like`"),
        ({"own": {"like": "prefetch", "speed": 9}}, "a field that is none"),
        ({"own": {"like": "prefetch", "offload": {"speed": 9}}}, "'speed'"),
        ({"own": {"like": "prefetch", "offload": {"names": ["mla_q"]}}}, "no tensor named 'mla_q'"),
        ({"own": {"like": "prefetch", "offload": {"host": {"qkv_proj": "0-9"}}}}, "not there"),
        (
            {
                "own": {
                    "like": "lhs",
                    "offload": {"host": {"qkv_proj": "0"}, "device": {"qkv_proj": "0-1"}},
                }
            },
            "two places",
        ),
        ({"../own": {"like": "prefetch"}}, "no plain name"),
    ],
)
def test_arms_of_ones_own_that_make_no_sense(arms: dict[str, Any], problem: str) -> None:
    from dataclasses import replace

    with pytest.raises(RefusedError, match=problem):
        find_arm(replace(tiny(), arms=arms), "own")


@pytest.mark.parametrize("text", ["x", "-1", "remat+", "remat+nan", "0"])
def test_memory_that_is_no_size(text: str) -> None:
    from capture.cli_tune import goal_from

    with pytest.raises(RefusedError, match="is no size"):
        goal_from((text,), frontier=False)


def test_a_goal_is_asked_for() -> None:
    from capture.cli_tune import goal_from

    with pytest.raises(RefusedError, match="Nothing to tune for"):
        goal_from((), frontier=False)
