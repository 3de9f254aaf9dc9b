"""The MaxText commands, against MaxText's own option names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capture import nsys
from capture.arms import all_arms, find_arm
from capture.config import DENSE_NAMES, MLA_NAMES, MLP_NAMES, MOE_NAMES, load_config
from capture.errors import RefusedError
from capture.maxtext import maxtext_names, maxtext_run

from .kit import changed, say, tiny

PUBLISHED = ("llama3.1-405b-gb200", "deepseek-v3-671b-gb200")

# As in MaxText's configs/base.yml: tensors that remat_policy=custom places, then plain options.
PLACED_TEXT = """
decoder_layer_input context mlpwi mlpwi_0 mlpwi_1 mlpwo moe_mlpwi_0 moe_mlpwi_1 moe_mlpwo
query_proj key_proj value_proj kv_proj qkv_proj out_proj query_wa_proj kv_wa_proj mla_q mla_kv
attention_out engram indexer_cutoff_threshold
"""
PLAIN_TEXT = """
run_name model_name hardware dataset_type dataset_path enable_checkpointing reuse_example_batch
enable_goodput_recording monitor_goodput enable_checkpoint_cloud_logger base_output_directory steps
dtype attention max_target_length per_device_batch_size ici_fsdp_parallelism dcn_fsdp_parallelism
remat_policy scan_layers param_scan_axis optimizer_memory_host_offload quantization
parameter_memory_host_offload profiler skip_first_n_steps_for_profiler profiler_steps
profile_cleanly upload_all_profiler_results
"""
PLACED, PLAIN = set(PLACED_TEXT.split()), set(PLAIN_TEXT.split())
POLICIES = {"custom", "full", "minimal_with_context"}


def options_of(preset: str, arm: str, recorded: bool = True) -> dict[str, str]:
    config = load_config(preset)
    path = Path("/opt/nsys") if recorded else None
    command = maxtext_run(config, find_arm(config, arm), path, Path("out")).command
    position = command.index("src/maxtext/configs/base.yml")
    pairs = [word.partition("=") for word in command[position + 1 :]]
    assert all(equals for _, equals, _ in pairs)
    return {name: value for name, _, value in pairs}


def possible_arms() -> list[str]:
    arms = all_arms(tiny())
    return [
        arm.name
        for arm in arms
        if not (arm.keeps == "prefetch" or arm.barrier or arm.feed or arm.profile_from)
        and not arm.name.startswith("pressure")
    ]


@pytest.mark.parametrize("preset", PUBLISHED)
@pytest.mark.parametrize("arm", [*possible_arms(), "pressure-75"])
def test_every_option_is_one_of_maxtexts(preset: str, arm: str) -> None:
    options = options_of(preset, arm)
    assert set(options) <= PLACED | PLAIN
    assert options["remat_policy"] in POLICIES
    places = {value for name, value in options.items() if name in PLACED}
    assert places <= {"device", "offload"}
    assert bool(places) == (options["remat_policy"] == "custom")


def test_every_tensor_name_is_one_of_maxtexts() -> None:
    ours = {*DENSE_NAMES, *MLA_NAMES, *MLP_NAMES, *MOE_NAMES}
    assert set(maxtext_names(sorted(ours))) <= PLACED


@pytest.mark.parametrize("preset", PUBLISHED)
def test_the_whole_command(preset: str, golden: Callable[[str, str], None]) -> None:
    config = load_config(preset)
    arm = find_arm(config, "published-scan")
    run = maxtext_run(config, arm, Path("/opt/nsys"), Path("out"))
    golden(f"maxtext-{preset}.txt", run.shell() + "\n")


def test_the_published_shapes() -> None:
    llama = options_of("llama3.1-405b-gb200", "lhs-scan")
    assert llama["max_target_length"] == "8192"
    assert llama["per_device_batch_size"] == "2"
    for preset in PUBLISHED:
        options = options_of(preset, "lhs-scan")
        n_devices = int(options["ici_fsdp_parallelism"]) * int(options["dcn_fsdp_parallelism"])
        assert n_devices == load_config(preset).training.fsdp == 128
    config = load_config("deepseek-v3-671b-gb200")
    assert config.training.batch_per_device == 8
    assert config.training.batch_per_device * config.training.fsdp == 1024


def test_what_the_arms_change() -> None:
    preset = "deepseek-v3-671b-gb200"
    assert options_of(preset, "remat")["remat_policy"] == "full"
    assert options_of(preset, "save")["mla_q"] == "device"
    assert options_of(preset, "lhs")["mla_q"] == "offload"
    assert options_of(preset, "lhs")["scan_layers"] == "false"
    assert options_of(preset, "lhs-scan")["scan_layers"] == "true"
    assert options_of(preset, "optimizer")["optimizer_memory_host_offload"] == "true"
    parameters = options_of(preset, "parameters-scan")
    assert parameters["parameter_memory_host_offload"] == "true"
    assert parameters["param_scan_axis"] == "0"
    assert "profiler" not in options_of(preset, "lhs", recorded=False)


def test_the_window_lies_after_the_timed_steps() -> None:
    options = options_of("llama3.1-405b-gb200", "lhs-scan")
    before, recorded = int(options["skip_first_n_steps_for_profiler"]), options["profiler_steps"]
    assert before + int(recorded) == int(options["steps"])
    # Else only process 0 opens the window.
    assert options["upload_all_profiler_results"] == "true"


def test_flags_go_through_the_environment() -> None:
    config = load_config("llama3.1-405b-gb200")
    run = maxtext_run(config, find_arm(config, "published-graphs-scan"), None, Path("out"))
    flags = run.environment["XLA_FLAGS"].split()
    assert "--xla_gpu_enable_pipelined_host_offloading=true" in flags
    assert not any("command_buffer" in flag for flag in flags)
    assert run.environment["XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB"] == "120"


@pytest.mark.parametrize(
    ("arm", "problem"),
    [
        ("prefetch", "is a program of our own"),
        ("barrier-scan", "is a program of our own"),
        ("feed", "is a program of our own"),
        ("pgle", "builds on our own recording"),
    ],
)
def test_arms_that_maxtext_cannot_run(arm: str, problem: str) -> None:
    with pytest.raises(RefusedError, match=problem):
        options_of("llama3.1-405b-gb200", arm)


def test_options_that_maxtext_does_not_have() -> None:
    with pytest.raises(RefusedError, match="has no MaxText model"):
        maxtext_run(tiny(), find_arm(tiny(), "keep"), None, Path("out"))
    config = changed(tiny(), maxtext={"model_name": "x", "fast": "yes"})
    with pytest.raises(RefusedError, match="has fast, which is no option known here"):
        maxtext_run(config, find_arm(config, "keep"), None, Path("out"))


def test_a_dry_run_needs_no_nsys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(nsys, "find_nsys", lambda: None)
    command = ["maxtext", "--config", PUBLISHED[0], "--arm", "lhs-scan", "--out", tmp_path / "o"]
    said = say(capsys, monkeypatch, *command, "--dry-run")
    assert said.status == 0
    assert "remat_policy=custom" in said.out
    assert not (tmp_path / "o").exists()
    refused = say(capsys, monkeypatch, *command)
    assert (refused.status, refused.out) == (2, "")


def test_maxtext_is_run_and_its_recording_finished(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    fake_nsys: Path,
    tmp_path: Path,
) -> None:
    # A Python that prints what it was asked to run stands in for MaxText's.
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho "$@" "$NVTE_FUSED_ATTN"\n', encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", f"{python.parent}:/usr/bin:/bin")
    out = tmp_path / "out"
    command = ["maxtext", "--config", PUBLISHED[0], "--arm", "lhs-scan", "--out", out]
    said = say(capsys, monkeypatch, *command, "--no-trace")
    assert said.status == 0
    log = (out / "log.rank0.txt").read_text(encoding="utf-8")
    assert log.startswith("-m maxtext.trainers.pre_train.train src/maxtext/configs/base.yml run_")
    assert log.endswith(" 1\n")
