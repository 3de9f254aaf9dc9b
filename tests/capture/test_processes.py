"""Two processes through jax.distributed train as one does."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capture import worker
from capture.results import is_done, load_rows, read_outcome, write_outcome

from .kit import QUICK_XLA, ROOT, say, spec_for, tiny, write_toml

pytest.importorskip("jax")


def free_port() -> int:
    """One below those that the system gives to whoever asks, so that nobody gets it meanwhile."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port
    raise AssertionError("a hundred ports are all taken")


def manifest_in(folder: Path, name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return values


@pytest.mark.slow
def test_two_processes_train_as_one_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = write_toml(tiny(batch_per_device=1, fsdp=2), tmp_path / "toy.toml")
    coordinator = f"localhost:{free_port()}"
    command = [sys.executable, "-m", "capture", "run", "--config", str(config), "--arm", "lhs-scan"]
    command += ["--no-trace", "--out", str(tmp_path / "two"), "--coordinator", coordinator]
    environment = {**os.environ, "XLA_FLAGS": QUICK_XLA}
    ranks = [
        subprocess.Popen(
            [*command, "--processes", "2", "--rank", str(rank)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    printed = [rank.communicate(timeout=600)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], printed
    assert printed == [f"rank {rank} of 2: ok\n" for rank in range(2)]

    one, two = (
        manifest_in(tmp_path / "two" / "lhs-scan", f"manifest.rank{i}.json") for i in range(2)
    )
    assert (one["rank"], two["rank"], one["processes"]) == (0, 1, 2)
    assert one["mesh"] == {"fsdp": 2}
    assert one["losses"] == two["losses"]
    assert one["hlo_sha256"] == two["hlo_sha256"]

    (row,) = load_rows(tmp_path / "two")
    assert (row.arm, row.status, list(row.losses)) == ("lhs-scan", "ok", one["losses"])
    said = say(capsys, monkeypatch, "report", tmp_path / "two")
    assert "| lhs-scan |" in said.out

    alone = spec_for(replace(tiny(), name="toy"), "lhs-scan", tmp_path / "one")
    alone.write(tmp_path / "one" / "spec.json")
    assert worker.main([str(tmp_path / "one" / "spec.json")]) == 0
    single = manifest_in(tmp_path / "one", "manifest.json")
    assert single["losses"] == pytest.approx(one["losses"], rel=1e-5)
    assert single["traffic"] == one["traffic"]


def test_the_worst_rank_decides(tmp_path: Path) -> None:
    write_outcome(tmp_path, "ok", rank=0)
    write_outcome(tmp_path, "void", "events lost", rank=1)
    assert read_outcome(tmp_path) == {"status": "void", "reason": "events lost"}
    assert is_done(tmp_path)
    write_outcome(tmp_path, "timeout", rank=2)
    assert not is_done(tmp_path)


def workers(folder: Path) -> list[int]:
    """Processes that train for an arm in `folder`."""
    found = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = cmdline.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"capture.worker" in arguments and any(
            word.startswith(os.fsencode(folder)) for word in arguments
        ):
            found.append(int(cmdline.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_driver_leaves_no_arm_on_the_gpu(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    config = write_toml(tiny(), tmp_path / "toy.toml")
    command = [sys.executable, "-m", "capture", "run", "--config", str(config), "--arm", "keep"]
    driver = subprocess.Popen(
        [*command, "--no-trace", "--out", str(tmp_path / "out")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 300
    while not workers(tmp_path):
        assert time.monotonic() < end, "the arm never began"
        time.sleep(0.01)
    driver.send_signal(number)
    said = driver.communicate(timeout=300)
    assert driver.returncode == code, said
    assert "Traceback" not in said[1]
    assert workers(tmp_path) == []
