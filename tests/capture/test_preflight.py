"""What is known of the arms without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from capture.cli_checks import preflight_table

from .kit import changed, say, tiny, write_toml

pytest.importorskip("jax")


def test_an_arm_of_each_kind(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = write_toml(tiny(), tmp_path / "small.toml")
    arms = "keep-scan,lhs-scan,published-scan,optimizer"
    command = ["preflight", "--config", config, "--arms", arms, "--devices", 2]
    said = say(capsys, monkeypatch, *command)
    assert said.status == 0, said.err
    rows = {line.split(" | ")[0]: line for line in said.out.splitlines()}
    # 3 layers of two sequences of 16 tokens a device and 256 float32 features; a third of the
    # state is parameters, two thirds are AdamW's moments, and half of it is on each device.
    n_bytes, state = 3 * 2 * 16 * 256 * 4, 59_616 * 12 / 2
    moved = f"{n_bytes / 1e9:.3g}"
    assert rows["| lhs-scan"] == (
        f"| lhs-scan | {moved} | {moved} | {moved} | {state / 2**30:.3g} | 6 | ok |"
    )
    assert rows["| keep-scan"].startswith("| keep-scan | 0 | 0 | 0 | ")
    assert rows["| published-scan"].endswith("| 6 | ok |")
    assert "| save" not in rows
    assert "2 devices" in said.out


def test_what_speaks_against_an_arm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The output of an MLP is added to the stream; no gradient needs it.
    silent = changed(
        tiny(),
        offload={"names": ["qkv_proj", "mlpwo"]},
        environment={"XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": "0.0001"},
    )
    config = write_toml(silent, tmp_path / "small.toml")
    arms = "save-scan,lhs-scan,optimizer"
    said = say(capsys, monkeypatch, "preflight", "--config", config, "--arms", arms)
    assert said.status == 1
    assert "**no**: no backward pass needs mlpwo, so it is not offloaded" in said.out
    assert "**no**: needs 0 GB of pinned memory a device" in said.out
    assert said.out.count("**no**") == 2


def test_a_program_that_does_not_trace_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = write_toml(changed(tiny(), model={"head_width": 15}), tmp_path / "odd.toml")
    said = say(capsys, monkeypatch, "preflight", "--config", config, "--arms", "keep")
    assert said.status == 2
    assert said.err.startswith("Error: odd: status 1:")


def test_without_jax_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Found before the installed one, as nothing is found where there is none.
    (tmp_path / "jax.py").write_text("""raise ModuleNotFoundError("No module named 'jax'")""")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config = write_toml(tiny(), tmp_path / "small.toml")
    said = say(capsys, monkeypatch, "preflight", "--config", config, "--arms", "keep")
    assert said.status == 2
    assert "No module named 'jax'" in said.err
    assert "pip install -e '.[capture]'" in said.err


def test_one_device_is_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = write_toml(tiny(), tmp_path / "small.toml")
    said = say(capsys, monkeypatch, "preflight", "--config", config, "--arms", "keep-scan")
    assert "1 device; nsys: " in said.out


def test_the_table() -> None:
    entry = {"arm": "lhs", "d2h_gb": 3.221, "h2d_gb": 3.2, "host_gb": 3.2, "state_gib": 18.75}
    text = preflight_table([{**entry, "d2h_copies": 8, "problem": ""}])
    assert text.splitlines()[2] == "| lhs | 3.22 | 3.2 | 3.2 | 18.8 | 8 | ok |"
