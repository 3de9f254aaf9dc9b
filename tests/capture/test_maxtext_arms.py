"""Arms through MaxText: its log, the library it loads, and its own program where it is installed.

A stand-in plays the Python that has MaxText: it answers as MaxText 0.2.5 did, and its recording is
one of MaxText's on an H200. With the variable MAXTEXT_PYTHON the last tests run the real one.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from capture.arms import find_arm
from capture.config import Config, load_config
from capture.errors import RefusedError
from capture.matrix import Plan
from capture.maxtext import maxtext_options
from capture.maxtext_arms import (
    MAXTEXT_ARMS,
    Installed,
    _program,
    find_maxtext,
    link_cudart,
    train_environment,
)
from capture.maxtext_log import logged_steps, planned_gib, timings
from capture.results import load_rows

from ..traces import FIXTURES
from .kit import build_cudart, say, tiny, write_toml
from .test_manifest import SCHEMA

# MaxText's own lines, shortened.
LOG = """I0 max_utils.py:823] Total estimated memory size: 30.4 GB, \
estimated output size: 14.8 GB, estimated temp size: 15.6 GB, \
estimated argument size: 14.8 GB, Estimated host temp size: 3.0 GB.
I0 metric_logger.py:265] completed step: 0, seconds: 9.398, TFLOP/s/device: 0.1, loss: 11.069
I0 metric_logger.py:265] completed step: 1, seconds: 0.834, TFLOP/s/device: 479.1, loss: nan
I0 metric_logger.py:265] completed step: 2, seconds: 0.836, TFLOP/s/device: 478.2, loss: 1.1e+01
completed profiler activation/deactivation step: 3
I0 metric_logger.py:265] completed step: 4, seconds: 0.850, TFLOP/s/device: 470.0, loss: 9.5
"""
STAND_IN = """#!/usr/bin/env python3
import json, os, subprocess, sys
given = sys.argv[1:]
if given[0] == "-c":
    print("/opt/maxtext/configs/base.yml")
    sys.exit()
assert given[:2] == ["-m", "capture.maxtext_worker"], given
mode, out, base, *options = given[2:]
options = dict(text.split("=", 1) for text in options)
assert base == "/opt/maxtext/configs/base.yml"
size = (3221225472 if "offload" in options.values() else 0)
if mode == "program":
    assert (options["hardware"], options["attention"]) == ("cpu", "dot_product")
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    if os.environ.get("STAND_IN") == "refuses":
        sys.exit("ValueError: Invalid key: query_proj")
    ways = {f"{way}_{what}": 24 for way in ("d2h", "h2d") for what in ("copies", "sites")}
    traffic = {**ways, "d2h_bytes": size, "h2d_bytes": size}
    versions = {"maxtext": "0.2.5", "jax": "0.11.2"}
    found = {"traffic": traffic, "placement_calls": {}, "devices": 1, "versions": versions}
    json.dump(found, open(out, "w"))
    sys.exit()
json.dump({"peak_gib": 30.6, "limit_gib": 125.0, "kind": "NVIDIA H200"}, open(out, "w"))
if os.environ.get("STAND_IN") == "fills memory":
    sys.exit("jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate")
if "profiler" in options:
    assert os.path.exists(os.environ["LD_LIBRARY_PATH"].split(":")[0] + "/libcudart.so")
if os.environ.get("STAND_IN") == "no library":
    print("WARNING: Failed to load library for nsys: libcudart.so\\nprofiler has no effect")
if mode == "train" and size:
    print("Total estimated memory size: 30.4 GB, estimated output size: 1.0 GB, estimated temp "
          "size: 15.6 GB, estimated argument size: 14.8 GB, Estimated host temp size: 3.0 GB.")
for step in range(int(options["steps"])):
    ms = 880 if "latency_hiding_scheduler=false" in os.environ["XLA_FLAGS"] else 828
    print(f"completed step: {step}, seconds: 0.{ms}, TFLOP/s/device: 400.0, loss: 9.{step}")
"""


@pytest.fixture
def maxtext_python(tmp_path: Path) -> Path:
    path = tmp_path / "python-with-maxtext"
    path.write_text(STAND_IN, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def recorded_by_maxtext(
    tmp_path: Path, fake_nsys: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Options of a command whose recording is MaxText's own of four steps."""
    library = build_cudart(tmp_path)
    (tmp_path / "libdw").mkdir()
    export = FIXTURES / "maxtext" / "maxtext_off_lhs.sqlite"
    monkeypatch.setenv("FAKE_EXPORT", str(export))
    monkeypatch.setattr(
        "capture.maxtext_arms.runtime_candidates", lambda: [(str(library), "cudaProfiler")]
    )
    return ["--nsys-libs", str(tmp_path)]


def test_steps_of_a_log() -> None:
    steps = logged_steps(LOG)
    assert [(step.number, step.seconds) for step in steps] == [
        (0, 9.398),
        (1, 0.834),
        (2, 0.836),
        (4, 0.85),
    ]
    found = timings(LOG, 1, 3, 2)
    assert found["step_ms"] == pytest.approx(835.0)
    assert found["timed_ms"] == [834.0, 836.0]
    # Step 3, which opens the window, is hidden.
    assert found["traced_ms"] == pytest.approx(850.0)
    assert found["losses"] == [11.069, None, 11.0, 9.5]
    assert timings(LOG, 1, 4, 1) == {}


def test_the_plan_of_a_log() -> None:
    assert planned_gib(LOG) == {
        "planned_gib": 30.4,
        "temporary_gib": 15.6,
        "arguments_gib": 14.8,
        "host_gib": 3.0,
    }
    assert set(planned_gib("nothing").values()) == {None}


def test_the_arms_leave_what_ours_leave(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    maxtext_python: Path,
    recorded_by_maxtext: list[str],
    tmp_path: Path,
) -> None:
    out = tmp_path / "results"
    command = ["maxtext", "--config", "h200-dense", "--out", out, "--python", maxtext_python]
    command += [*recorded_by_maxtext, "--arms", "lhs-scan"]
    said = say(capsys, monkeypatch, *command)
    assert said.status == 0, said.err
    assert "1/1 lhs-scan: ok" in said.err
    (row,) = load_rows(out)
    assert (row.status, row.reason, row.step_ms, row.peak_gib) == ("ok", "", 828.0, 30.6)
    assert row.d2h_hidden == pytest.approx(0.987, abs=0.001)
    assert row.exposed_ms == pytest.approx(13.7, abs=0.1)
    # The log of that run said 479 TFLOP/s at 0.826 s.
    assert row.tflops == pytest.approx(478, abs=2)
    assert (out / "results.md").read_text(encoding="utf-8").strip() == said.out.strip()
    manifest = json.loads((out / "lhs-scan" / "manifest.json").read_text(encoding="utf-8"))
    jsonschema.validate(manifest, SCHEMA)
    assert manifest["program"] == "MaxText 0.2.5"
    assert manifest["versions"]["jax"] == "0.11.2"
    again = say(capsys, monkeypatch, *command)
    assert "1/1 lhs-scan: has a result already" in again.err


def test_a_recording_that_holds_something_else_is_void(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    maxtext_python: Path,
    recorded_by_maxtext: list[str],
    tmp_path: Path,
) -> None:
    """`save-scan` moves nothing, and the recording does; five steps were asked for, four found."""
    config = load_config("h200-dense")
    config = replace(config, recording=replace(config.recording, traced=5))
    five = write_toml(config, tmp_path / "five.toml")
    for name, arm, reason in (
        ("h200-dense", "save-scan", "D2H moved 3.221 GB a step, the program says 0.000"),
        (five, "lhs-scan", "4 steps were found in the recording, not 5"),
    ):
        out = tmp_path / arm
        command = ["maxtext", "--config", name, "--out", out, "--python", maxtext_python]
        said = say(capsys, monkeypatch, *command, *recorded_by_maxtext, "--arms", arm)
        assert said.status == 3, said.err
        (row,) = load_rows(out)
        assert (row.status, reason in row.reason) == ("void", True), row.reason


@pytest.mark.parametrize(
    ("plays", "status", "state", "reason"),
    [
        ("no library", 3, "void", "MaxText found no libcudart.so"),
        ("refuses", 1, "refused", "MaxText does not take it: ValueError: Invalid key"),
        ("fills memory", 0, "out-of-memory", "RESOURCE_EXHAUSTED"),
    ],
)
def test_what_goes_wrong_is_a_row(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    maxtext_python: Path,
    recorded_by_maxtext: list[str],
    tmp_path: Path,
    plays: str,
    status: int,
    state: str,
    reason: str,
) -> None:
    monkeypatch.setenv("STAND_IN", plays)
    out = tmp_path / "results"
    command = ["maxtext", "--config", "h200-dense", "--out", out, "--python", maxtext_python]
    said = say(capsys, monkeypatch, *command, *recorded_by_maxtext, "--arms", "lhs-scan")
    assert said.status == status, said.err
    (row,) = load_rows(out)
    assert row.status == state
    assert reason in row.reason


def test_the_library_gets_the_name_that_maxtext_loads(tmp_path: Path) -> None:
    library = build_cudart(tmp_path)
    renamed = library.rename(library.parent / "libcudart.so.13")
    plan = Plan(tmp_path, None)
    folder = link_cudart(plan, [("libnothing.so", "cudaProfiler"), (str(renamed), "cudaProfiler")])
    assert (folder / "libcudart.so").resolve() == renamed
    with pytest.raises(RefusedError, match="No CUDA runtime was found"):
        link_cudart(plan, [(str(renamed), "cuProfiler")])


def test_the_environment_of_the_training(tmp_path: Path) -> None:
    config = load_config("h200-dense")
    arm = find_arm(config, "offload-control-scan")
    found = train_environment(config, arm, Plan(tmp_path, None), {"HOME": "h", "XLA_FLAGS": "--a"})
    assert found["HOME"] == "h"
    assert found["DECOUPLE_GCLOUD"] == "TRUE"
    assert found["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.9"
    flags = found["XLA_FLAGS"].split()
    assert flags[0] == "--a"
    assert "--xla_gpu_enable_latency_hiding_scheduler=false" in flags
    assert "--xla_gpu_enable_command_buffer=" in flags


def test_one_gpu_takes_the_sizes_of_the_model() -> None:
    config = load_config("h200-moe")
    options = maxtext_options(config, find_arm(config, "lhs-scan"), Path("o"), recorded=True)
    assert {
        "decoder_block=deepseek",
        "attention_type=mla",
        "q_lora_rank=1536",
        "first_num_dense_layers=1",
        "num_experts=16",
        "sparse_matmul=false",
        "skip_jax_distributed_system=true",
        "hardware=gpu",
        "attention=cudnn_flash_jax",
        "query_proj=offload",
    } <= set(options)
    assert not any(text.startswith("model_name=") for text in options)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--arm", "lhs-scan", "--arms", "lhs-scan"], "--arm and --arms say different things"),
        (["--dry-run"], "--dry-run prints the command of one arm"),
        (["--arms", "lhs", "--python", "/nowhere/python"], "python: cannot be run"),
        (["--arms", "prefetch"], "is a program of our own"),
        (["--timeout-s", "nan"], "nan is no time"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    maxtext_python: Path,
    tmp_path: Path,
    more: list[str],
    problem: str,
) -> None:
    command = ["maxtext", "--config", "h200-dense", "--out", tmp_path / "o", "--no-trace"]
    python = [] if "--python" in more else ["--python", maxtext_python]
    said = say(capsys, monkeypatch, *command, *python, *more)
    assert (said.status, said.out) == (2, "")
    assert problem in said.err


def test_a_python_without_maxtext(tmp_path: Path) -> None:
    without = tmp_path / "python"
    without.write_text("#!/bin/sh\necho\n", encoding="utf-8")
    without.chmod(0o755)
    with pytest.raises(RefusedError, match="python has no MaxText"):
        find_maxtext(str(without))


def real_maxtext() -> Installed:
    python = os.environ.get("MAXTEXT_PYTHON")
    if not python:
        pytest.skip("needs MAXTEXT_PYTHON, a Python that has MaxText")
    return find_maxtext(python)


def small(preset: str) -> Config:
    """A preset that stays as it is but for its sizes, on a CPU."""
    config = tiny("toy-moe" if preset == "h200-moe" else "toy")
    options = {**load_config(preset).maxtext, "hardware": "cpu", "attention": "dot_product"}
    offload = replace(config.offload, names=load_config(preset).offload.names)
    return replace(config, maxtext=options, offload=offload)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["h200-dense", "h200-moe"])
@pytest.mark.parametrize("arm", [*MAXTEXT_ARMS, "optimizer", "lhs"])
def test_maxtexts_own_program_moves_what_the_arm_says(
    preset: str, arm: str, tmp_path: Path
) -> None:
    """At full size, by the released MaxText, which takes all options; lowered for CUDA."""
    installed, config = real_maxtext(), load_config(preset)
    plan = Plan(tmp_path, None, arm_timeout_s=900)
    found, problem = _program(config, find_arm(config, arm), plan, installed, tmp_path)
    assert problem == ""
    traffic = found["traffic"]
    layers, stacks = config.model.layers, 1 if preset == "h200-dense" else 2
    n_bytes = layers * 384 << 20
    placed = found["placement_calls"].get("pinned_host", 0)
    if arm == "optimizer":
        assert traffic["d2h_bytes"] == traffic["h2d_bytes"] > n_bytes
        assert placed > 10
    elif find_arm(config, arm).offloads:
        # Of each of three tensors one placement in each stack of layers, or one in each layer.
        assert placed == 3 * (layers if arm == "lhs" else stacks)
        assert (traffic["d2h_bytes"], traffic["h2d_bytes"]) == (n_bytes, n_bytes)
    else:
        assert placed == traffic["d2h_bytes"] == traffic["h2d_bytes"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["h200-dense", "h200-moe"])
def test_a_tiny_run_of_the_real_one(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    one_device: None,
    tmp_path: Path,
    preset: str,
) -> None:
    installed = real_maxtext()
    # Flags of this Python's XLA may be unknown to the other's.
    monkeypatch.delenv("XLA_FLAGS")
    config = write_toml(small(preset), tmp_path / "small.toml")
    command = ["maxtext", "--config", config, "--out", tmp_path / "o", "--no-trace"]
    command += ["--python", installed.python, "--arms", "save-scan,lhs-scan"]
    said = say(capsys, monkeypatch, *command)
    assert said.status == 0, said.err
    rows = {row.arm: row for row in load_rows(tmp_path / "o")}
    assert [row.status for row in rows.values()] == ["ok", "ok"], rows
    assert rows["lhs-scan"].losses == rows["save-scan"].losses
    for arm in rows:
        values = json.loads((tmp_path / "o" / arm / "manifest.json").read_text(encoding="utf-8"))
        jsonschema.validate(values, SCHEMA)
