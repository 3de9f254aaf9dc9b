"""From what arms leave to rows: bytes, losses, prediction, and what makes a run void."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capture.arms import Arm, all_arms, find_arm, select_arms
from capture.cli import _exit_code
from capture.config import load_config
from capture.overlap import analyze_folder
from capture.results import Row, exposed_ns, is_done, load_rows, recorded_bytes, write_outcome
from capture.tables import frontier, frontier_text, markdown

from ..traces import h200
from .kit import tiny

TRACED_STEPS = 4


def manifest(bytes_a_step: int = 0, **more: Any) -> dict[str, Any]:
    traffic = {f"{way}_bytes": bytes_a_step for way in ("d2h", "h2d")}
    memory = {"peak_gib": 10.0, "arguments_gib": 3.0, "temporary_gib": 6.0, "host_gib": 3.0}
    return {
        "status": "ok",
        "step_ms": 300.0,
        "traced_ms": 303.0,
        "tflops_per_device": 500.0,
        "memory": memory,
        "traffic": traffic,
        "mesh": {"fsdp": 1},
        "traced_steps": TRACED_STEPS,
        "losses": [4.0, 3.5],
        **more,
    }


def leave(
    folder: Path, arm: str, values: Mapping[str, Any], trace: str | None = None, status: str = "ok"
) -> None:
    """What a finished arm leaves in a results folder."""
    (folder / arm).mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(tiny().to_dict()), encoding="utf-8")
    (folder / arm / "manifest.json").write_text(json.dumps(values), encoding="utf-8")
    if trace is not None:
        (folder / arm / "trace.sqlite").write_bytes(h200(trace).read_bytes())
        analyze_folder(folder / arm)
    write_outcome(folder / arm, status)


def rows_by_name(folder: Path) -> dict[str, Row]:
    return {row.arm: row for row in load_rows(folder)}


def bytes_of(trace: str, folder: Path) -> int:
    """D2H bytes a step that a trace recorded."""
    (folder / "trace.sqlite").write_bytes(h200(trace).read_bytes())
    (device,) = analyze_folder(folder)["devices"]
    return round(recorded_bytes(device, "d2h") / TRACED_STEPS)


def test_an_arm_whose_recording_agrees(tmp_path: Path) -> None:
    size = bytes_of("jax_unroll_lhs", tmp_path)
    assert size == 8 * 4 * 4096 * 3 * 4096 * 2
    leave(tmp_path, "keep", manifest())
    leave(tmp_path, "save", manifest(step_ms=268.0))
    leave(tmp_path, "lhs", manifest(size), "jax_unroll_lhs")
    row = rows_by_name(tmp_path)["lhs"]
    assert (row.status, row.reason) == ("ok", "")
    assert row.d2h_hidden == pytest.approx(0.94, abs=0.02)
    assert row.h2d_hidden == pytest.approx(0.24, abs=0.02)
    assert row.relief_share == pytest.approx(0.25, abs=0.02)
    assert row.exposed_ms == pytest.approx(48, abs=2)
    assert row.predicted_ms == 268.0 + (row.exposed_ms or 0)
    assert row.prediction_error == pytest.approx((row.predicted_ms or 0) / 300 - 1)
    assert row.finding != ""


@pytest.mark.parametrize(("factor", "status"), [(1.009, "ok"), (1.02, "void"), (0.98, "void")])
def test_recorded_bytes_must_be_those_of_the_program(
    tmp_path: Path, factor: float, status: str
) -> None:
    size = bytes_of("jax_unroll_lhs", tmp_path)
    leave(tmp_path, "lhs", manifest(round(size * factor)), "jax_unroll_lhs")
    row = rows_by_name(tmp_path)["lhs"]
    assert row.status == status
    assert ("D2H moved 3.221 GB a step, the program says" in row.reason) == (status == "void")


def test_an_arm_that_keeps_all_and_still_moves_is_void(tmp_path: Path) -> None:
    leave(tmp_path, "keep", manifest(), "jax_unroll_lhs")
    leave(tmp_path, "save", manifest(), "jax_unroll_save")
    rows = rows_by_name(tmp_path)
    assert rows["keep"].status == "void"
    assert "D2H moved 3.221 GB a step, the program says 0.000" in rows["keep"].reason
    assert rows["save"].status == "ok"


@pytest.mark.parametrize(
    ("arm", "bytes_a_step", "reason"),
    [
        ("lhs", 0, "the program moves nothing to the host"),
        ("optimizer", 0, "the program moves nothing to the host"),
        ("remat", 7, "the program moves data to the host, and the arm must not"),
    ],
)
def test_the_program_must_do_what_the_arm_says(
    tmp_path: Path, arm: str, bytes_a_step: int, reason: str
) -> None:
    leave(tmp_path, arm, manifest(bytes_a_step))
    row = rows_by_name(tmp_path)[arm]
    assert (row.status, row.reason) == ("void", reason)


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        ([4.0, 3.5], ""),
        ([4.0, 3.50001], ""),
        ([4.0, 3.6], "losses differ from keep's by up to 2.86e-02"),
        ([4.0, None], "a loss is not finite"),
        ([None, 3.5], "a loss is not finite"),
    ],
)
def test_losses_must_be_keeps(tmp_path: Path, losses: list[float | None], reason: str) -> None:
    leave(tmp_path, "keep", manifest())
    leave(tmp_path, "remat", manifest(losses=losses))
    row = rows_by_name(tmp_path)["remat"]
    assert (row.status, row.reason) == ("void" if reason else "ok", reason)


@pytest.mark.parametrize(
    ("fifth", "reason"),
    [(2.0, ""), (2.3, ""), (2.5, "losses drift from keep's by up to 2.50e-01")],
)
def test_rounding_may_spread_after_the_first_steps(
    tmp_path: Path, fifth: float, reason: str
) -> None:
    first = [4.0, 3.5, 3.0, 2.5]
    leave(tmp_path, "keep", manifest(losses=[*first, 2.0]))
    leave(tmp_path, "remat", manifest(losses=[*first, fifth]))
    row = rows_by_name(tmp_path)["remat"]
    assert (row.status, row.reason) == ("void" if reason else "ok", reason)


def test_keep_itself_must_be_finite(tmp_path: Path) -> None:
    leave(tmp_path, "keep", manifest(losses=[4.0, None]))
    leave(tmp_path, "remat", manifest())
    rows = rows_by_name(tmp_path)
    assert (rows["keep"].status, rows["remat"].status) == ("void", "ok")


def test_lost_events_are_no_measurement(tmp_path: Path) -> None:
    leave(tmp_path, "lhs", manifest(1), "jax_fsdp2_events_lost")
    row = rows_by_name(tmp_path)["lhs"]
    assert row.status == "void"
    assert row.reason.startswith("the recording cannot be trusted")
    assert row.d2h_hidden is None


def test_the_exit_status_of_a_matrix() -> None:
    def status(*states: str) -> int:
        return _exit_code([Row("a", "", state) for state in states])

    assert status("ok", "out-of-memory") == 0
    assert status("ok", "failed") == status("timeout") == 1
    assert status("failed", "void") == 3


def test_what_is_run_again(tmp_path: Path) -> None:
    assert not is_done(tmp_path)
    again = {}
    for state in ("ok", "void", "out-of-memory", "failed", "timeout", "refused"):
        write_outcome(tmp_path, state)
        again[state] = not is_done(tmp_path)
    assert [state for state, value in again.items() if value] == ["failed", "timeout", "refused"]


def test_exposed_time_is_that_of_the_median_step() -> None:
    device = {
        "steps": [{"both": {"exposed_ns": ns}} for ns in (5, 9, 100)],
        "both": {"exposed_ns": 114},
    }
    assert exposed_ns(device, 3) == 9
    assert exposed_ns({"both": {"exposed_ns": 120}}, 3) == 40


def row(arm: str, step_ms: float, peak_gib: float, status: str = "ok") -> Row:
    return Row(arm, "", status, step_ms=step_ms, peak_gib=peak_gib)


def test_the_frontier_of_time_and_memory() -> None:
    rows = [
        row("keep", 232, 26.5),
        row("save", 268, 12.0),
        row("lhs", 306, 16.8),
        row("remat", 293, 9.8),
        row("void", 100, 1.0, "void"),
        row("tied", 293, 9.9),
    ]
    best, beaten = frontier(rows)
    assert [r.arm for r in best] == ["keep", "save", "remat"]
    assert [r.arm for r in beaten] == ["tied", "lhs"]
    assert frontier_text(rows) == (
        "On the frontier of step time and peak memory: keep, save, remat. "
        "Worse than another arm on both: tied, lhs."
    )
    assert frontier_text([]) == "No arm has both a step time and a memory reading."


def test_the_table() -> None:
    text = markdown([row("keep", 232.04, 26.5), Row("lhs", "", "void", "why not")])
    lines = text.splitlines()
    assert lines[2] == "| keep | 232.0 | – | 26.5 | – | – | – | – | – | – | – |  |"
    assert lines[3].endswith("| **void**: why not |")


def controls_of(arms: tuple[Arm, ...]) -> set[str]:
    return {name for arm in arms for name in (arm.control, arm.profile_from) if name}


def test_controls_run_before_the_arms_they_judge() -> None:
    names = [arm.name for arm in all_arms(tiny())]
    assert len(set(names)) == len(names)
    for position, name in enumerate(names):
        arm = find_arm(tiny(), name)
        assert controls_of((arm,)) <= set(names[:position]), name


def test_choosing_arms_brings_what_they_need() -> None:
    assert [arm.name for arm in select_arms(tiny(), ["pgle"])] == ["keep", "save", "lhs", "pgle"]
    assert select_arms(tiny(), []) == all_arms(tiny())
    assert "pressure-40" in [arm.name for arm in all_arms(load_config("toy"))]
