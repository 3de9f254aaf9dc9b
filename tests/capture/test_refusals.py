"""What the driver refuses, before anything runs where it can know before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capture import launch, nsys, profiler, worker
from capture.arms import find_arm, select_arms
from capture.config import load_config
from capture.errors import RefusedError, is_out_of_memory
from capture.options import check_environment
from capture.results import load_rows

from .kit import changed, say, spec_for, tiny, write_toml


def test_without_nsys_nothing_is_recorded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(nsys, "find_nsys", lambda: None)
    said = say(
        capsys, monkeypatch, "run", "--config", "toy", "--arm", "lhs", "--trace", "--out", tmp_path
    )
    assert said.status == 2
    assert said.err.startswith("Error: No nsys was found")
    assert "--no-trace" in said.err
    assert list(tmp_path.iterdir()) == []


def test_without_a_cuda_runtime_nothing_is_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jax")
    monkeypatch.setattr(profiler, "runtime_candidates", lambda: [("libnone.so", "cudaProfiler")])
    spec = spec_for(tiny(), "lhs", tmp_path, trace=True)
    spec.write(tmp_path / "spec.json")
    assert worker.main([str(tmp_path / "spec.json")]) == 2
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["status"] == "refused"
    assert "No CUDA runtime library was found" in manifest["reason"]
    assert "step_ms" not in manifest


def test_an_unknown_flag_stops_the_matrix_before_its_first_arm(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pytest.importorskip("jax")
    config, out = write_toml(tiny(), tmp_path / "small.toml"), tmp_path / "results"
    option = "--xla=xla_gpu_no_such_thing=1"
    said = say(capsys, monkeypatch, "matrix", "--config", config, "--out", out, option)
    assert said.status == 2
    assert "XLA does not take the option xla_gpu_no_such_thing='1'" in said.err
    assert {path.name for path in out.iterdir()} == {"config.json", "shared"}


@pytest.mark.parametrize(
    ("name", "value"), [("xla_gpu_autotune_level", "high"), ("xla_gpu_no_such_thing", "1")]
)
def test_options_are_tried_on_xla_itself(name: str, value: str) -> None:
    pytest.importorskip("jax")
    from capture.measure import check_options

    check_options({"xla_gpu_autotune_level": "0"})
    with pytest.raises(RefusedError, match=f"XLA does not take the option {name}='{value}'"):
        check_options({name: value})


def test_a_flag_without_a_value_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = say(
        capsys, monkeypatch, "matrix", "--config", "toy", "--out", tmp_path, "--xla", "--xla_x"
    )
    assert said.status == 2
    assert "is not FLAG=VALUE" in said.err


@pytest.mark.parametrize(("preset", "name"), [("toy", "mla_q"), ("toy-moe", "qkv_proj")])
def test_a_tensor_name_that_the_model_does_not_have(preset: str, name: str) -> None:
    with pytest.raises(RefusedError, match=f"layer has no tensor named '{name}'") as raised:
        changed(tiny(preset), offload={"names": [name]})
    assert "decoder_layer_input" in str(raised.value.hint)


def test_a_batch_that_cannot_be_divided(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = ["run", "--config", "toy", "--arm", "keep", "--out", tmp_path, "--no-trace"]
    said = say(capsys, monkeypatch, *command, "--devices", 2, "--batch", 3)
    assert said.status == 2
    assert "A batch of 3 cannot be divided over 2 devices." in said.err


def test_more_devices_than_there_are() -> None:
    jax = pytest.importorskip("jax")
    from capture.program import make_mesh

    with pytest.raises(RefusedError, match="FSDP over 9 devices, and there are 2"):
        make_mesh(tiny(fsdp=9), jax.devices())


@pytest.mark.parametrize(
    ("name", "value"),
    [("JAX_OPTIMIZATION_LEVEL", "O1"), ("JAX_ENABLE_PGLE", "true"), ("CUDA_LAUNCH_BLOCKING", "1")],
)
def test_variables_that_change_every_schedule(name: str, value: str) -> None:
    arm = find_arm(tiny(), "lhs")
    with pytest.raises(RefusedError, match=f"{name}={value} is set"):
        check_environment(arm, {name: value})
    check_environment(arm, {name: "0" if name != "JAX_OPTIMIZATION_LEVEL" else "O0"})


def test_inherited_flags_that_the_arm_decides() -> None:
    flag = "--xla_gpu_enable_latency_hiding_scheduler=true"
    with pytest.raises(RefusedError, match="XLA_FLAGS sets xla_gpu_enable_latency_hiding_sch"):
        check_environment(find_arm(tiny(), "keep"), {"XLA_FLAGS": f"--xla_dump_to=/x {flag}"})
    check_environment(find_arm(tiny(), "keep"), {"XLA_FLAGS": "--xla_gpu_autotune_level=0"})
    with pytest.raises(RefusedError, match=r"XLA_FLAGS cannot be read: No closing quotation\."):
        check_environment(find_arm(tiny(), "keep"), {"XLA_FLAGS": "--xla_dump_to='/x"})


def test_a_variable_that_contradicts_the_configuration(tmp_path: Path) -> None:
    config = changed(tiny(), environment={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.9"})
    spec = spec_for(config, "lhs", tmp_path)
    inherited = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5"}
    with pytest.raises(RefusedError, match=r"MEM_FRACTION=0\.5 is set, and toy asks for 0\.9"):
        launch.worker_environment(spec, inherited)
    given = launch.worker_environment(spec, {"XLA_FLAGS": "--xla_gpu_autotune_level=0"})
    assert given["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.9"
    assert given["XLA_FLAGS"].startswith("--xla_gpu_autotune_level=0 --xla_dump_to=")


def test_running_out_of_memory_is_a_result(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    one_device: None,
) -> None:
    pytest.importorskip("jax")
    # 140 TB of embedding.
    huge = changed(tiny(), model={"vocabulary": (1 << 31) - 1, "width": 1 << 14, "layers": 1})
    config = write_toml(huge, tmp_path / "huge.toml")
    out = tmp_path / "results"
    said = say(
        capsys, monkeypatch, "run", "--config", config, "--arm", "keep", "--no-trace", "--out", out
    )
    assert said.status == 0, said.err
    assert "**out-of-memory**" in said.out
    (row,) = load_rows(out)
    assert row.status == "out-of-memory"
    assert row.step_ms is None
    assert "ut of memory" in row.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RESOURCE_EXHAUSTED: Failed to allocate request for 3.00GiB", True),
        ("INTERNAL: Error dispatching computation: Out of memory allocating 7 bytes.", True),
        ("INTERNAL: CUDA_ERROR_OUT_OF_MEMORY: out of memory", True),
        ("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS", False),
    ],
)
def test_the_words_of_running_out_of_memory(text: str, expected: bool) -> None:
    assert is_out_of_memory(RuntimeError(text)) == expected


def test_an_arm_that_takes_too_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = ["run", "--config", "toy", "--arm", "keep", "--out", tmp_path, "--no-trace"]
    said = say(capsys, monkeypatch, *command, "--arm-timeout-s", 0.2)
    assert said.status == 1
    assert "**timeout**: not done after 0 s" in said.out


def test_a_folder_of_another_configuration(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"name": "other"}', encoding="utf-8")
    command = ["matrix", "--config", "toy", "--out", tmp_path, "--no-trace"]
    said = say(capsys, monkeypatch, *command)
    assert said.status == 2
    assert "holds results of another configuration" in said.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[model", "no TOML"),
        ("[optics]\nx = 1", r"unknown section \[optics\]"),
        ("[training]\nsequence = 1\nbatch_per_device = 1", r"section \[model\] is missing"),
        ("[model]\nkind = 'dense'", r"\[model\] is incomplete"),
        ("[training]\nsequence = 1\nspeed = 9", r"\[training\] has no field 'speed'"),
    ],
)
def test_configurations_that_say_nonsense(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RefusedError, match=f"^bad.*{problem}"):
        load_config(str(path))


def test_names_that_there_are_not() -> None:
    with pytest.raises(RefusedError, match="There is no arm 'fast'") as raised:
        select_arms(tiny(), ["keep", "fast"])
    assert "prefetch-scan" in str(raised.value.hint)
    with pytest.raises(RefusedError, match="no such configuration") as raised:
        load_config("gb999")
    assert "h200-dense" in str(raised.value.hint)
    with pytest.raises(RefusedError, match="model kind 'sparse'"):
        changed(tiny(), model={"kind": "sparse"})
    with pytest.raises(RefusedError, match="4 heads cannot share 3"):
        changed(tiny(), model={"kv_heads": 3})
    with pytest.raises(RefusedError, match="nothing to offload"):
        changed(tiny(), offload={"names": []})
