"""A program beside another: which GPU it gets, and that it is gone afterwards."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from capture.arms import find_arm
from capture.companion import companion, two_gpus, visible_gpus
from capture.errors import CaptureError
from capture.matrix import Plan, run_arm
from nsysoverlap.core.processes import group_beside

from .kit import spec_for, tiny

SMI = """#!/bin/sh
printf 'GPU 0: NVIDIA H200 (UUID: GPU-1)\\n'
[ "$N" = 1 ] || printf 'GPU 1: NVIDIA H200 (UUID: GPU-2)\\n  MIG 1g (UUID: MIG-3)\\n'
"""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "3,5,6"}, ("3", "5")),
        ({"CUDA_VISIBLE_DEVICES": "3"}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
        ({"CUDA_VISIBLE_DEVICES": "3,5", "JAX_PLATFORMS": "cpu"}, ("", "")),
    ],
)
def test_the_two_gpus(variables: dict[str, str], expected: tuple[str, str] | None) -> None:
    assert two_gpus(variables) == expected


@pytest.mark.parametrize(("n", "expected"), [("1", ["0"]), ("2", ["0", "1"])])
def test_without_the_variable_all_gpus_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: str, expected: list[str]
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI, encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("N", n)
    assert visible_gpus({}) == expected


def test_one_gpu_is_not_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAX_PLATFORMS")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    config = replace(tiny(), arms={"both": {"like": "prefetch", "beside": True}})
    outcome = run_arm(config, find_arm(config, "both"), Plan(tmp_path, None))
    assert outcome.status == "skipped"
    assert outcome.reason.startswith("needs a second GPU on this host")


def test_a_companion_that_does_not_come_to_its_steps(tmp_path: Path) -> None:
    """It asks for more devices than there are, and is refused."""
    spec = spec_for(tiny(fsdp=64), "prefetch", tmp_path)
    refused = pytest.raises(CaptureError, match="did not come to its steps")
    with refused, companion(spec, {}, 120):
        pytest.fail("the block must not begin")


def state_of(pid: int) -> str:
    """R, S, ...; Z of one that has ended and nobody asked, and "" of none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def test_what_runs_beside_is_gone_with_the_block(tmp_path: Path) -> None:
    """Also what it has started itself."""
    program = (
        "import subprocess, sys;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print(child.pid, flush=True); child.wait()"
    )
    with (
        (tmp_path / "log").open("wb") as log,
        group_beside([sys.executable, "-c", program], os.environ, log) as process,
    ):
        while not (said := (tmp_path / "log").read_text(encoding="utf-8")).endswith("\n"):
            time.sleep(0.05)
        assert state_of(int(said)) not in ("", "Z")
    assert process.returncode == -signal.SIGKILL
    end = time.monotonic() + 30
    while state_of(int(said)) not in ("", "Z") and time.monotonic() < end:
        time.sleep(0.05)
    assert state_of(int(said)) in ("", "Z")
