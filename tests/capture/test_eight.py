"""Eight devices without eight GPUs: the program over simulated ones, and a folder of eight ranks.

The ranks are drawn: what is shown is that files, ranks and sums come together, not how eight
GPUs behave.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from capture.results import write_outcome
from nsysoverlap.cli import main

from ..tracebuilder import draw
from .kit import QUICK_XLA, say, tiny, write_toml
from .test_results import manifest

N = 8
SLOW = 5
SIZE = 4096
US = 1_000
NORMAL = f"""
    dev0 s7  compute:             ####.....
    dev0 s9  comm:                ....##...
    dev0 s20 bytes={SIZE} d2h:    ..#####..
    dev0 s21 bytes={SIZE} h2d:    ##.......
"""
LATE = f"""
    dev0 s7  compute:             ####.....
    dev0 s9  comm:                ....##...
    dev0 s20 bytes={SIZE} d2h:    ....#####
    dev0 s21 bytes={SIZE} h2d:    ##.......
"""


def ranks(folder: Path) -> Path:
    """What eight processes of arm lhs leave: one step each, rank 5 copies too late."""
    arm = folder / "lhs"
    arm.mkdir(parents=True)
    config = json.dumps(tiny(fsdp=N).to_dict())
    (folder / "config.json").write_text(config, encoding="utf-8")
    values = manifest(N * SIZE, mesh={"fsdp": N}, traced_steps=1)
    for rank in range(N):
        builder = draw(LATE if rank == SLOW else NORMAL)
        builder.write(arm / f"rank{rank}.sqlite", "3.20")
        text = json.dumps({**values, "rank": rank, "processes": N})
        (arm / f"manifest.rank{rank}.json").write_text(text, encoding="utf-8")
        write_outcome(arm, "ok", rank=rank)
    return folder


@pytest.mark.slow
def test_one_process_trains_over_eight_devices(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jax")
    count = f"--xla_force_host_platform_device_count={N}"
    monkeypatch.setenv("XLA_FLAGS", f"{QUICK_XLA} {count}")
    config = write_toml(tiny(batch_per_device=1), tmp_path / "small.toml")
    command = ["run", "--config", config, "--arm", "lhs-scan", "--out", tmp_path / "out"]
    said = say(capsys, monkeypatch, *command, "--no-trace", "--devices", N, "--batch", N)
    assert said.status == 0, said.err
    text = (tmp_path / "out" / "lhs-scan" / "manifest.json").read_text(encoding="utf-8")
    found = json.loads(text)
    assert found["mesh"] == {"fsdp": N}
    model, training = tiny().model, tiny().training
    heads = (model.heads + 2 * model.kv_heads) * model.head_width
    features = heads + model.mlp_width
    # float32 tensors of all layers, of N sequences.
    moved = 4 * N * training.sequence * features * model.layers
    assert found["traffic"]["d2h_bytes"] == found["traffic"]["h2d_bytes"] == moved
    assert found["losses"][-1] < found["losses"][0]


def test_eight_ranks_are_one_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = say(capsys, monkeypatch, "report", ranks(tmp_path), "--reanalyze")
    assert said.status == 0, said.err
    (row,) = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    # 2 of 5 behind compute in seven ranks, none in the eighth; H2D hidden everywhere.
    assert row["status"] == "ok", row["reason"]
    assert row["d2h_hidden"] == pytest.approx(7 * 2 / (N * 5))
    assert row["h2d_hidden"] == 1.0


def test_the_report_of_eight_ranks_names_the_worst(tmp_path: Path) -> None:
    folder = ranks(tmp_path) / "lhs"
    said = CliRunner().invoke(main, ["report", str(folder)])
    assert said.exit_code == 0, said.output
    assert f"Ranks, {N}\n" in said.output
    assert f"Worst: rank {SLOW} with 3.0 µs exposed." in said.output
    asked = ["report", str(folder), "--format", "json"]
    values = json.loads(CliRunner().invoke(main, asked).stdout)
    assert [trace["rank"] for trace in values["traces"]] == list(range(N))
    assert [device["both"]["exposed_ns"] for device in values["devices"]] == [
        3 * US if rank == SLOW else US for rank in range(N)
    ]
    assert {device["both"]["hidden_by_comm_ns"] for device in values["devices"]} == {2 * US}
