"""JAX on two CPU devices, compiled with little optimisation: the tests compile many programs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..traces import h200
from .kit import QUICK_XLA, ROOT, build_cudart, install_nsys, tiny, write_toml

# Whatever the shell sets for real runs is not for these.
for _name in [name for name in os.environ if name.startswith(("JAX_", "XLA_", "SLURM_", "CUDA_"))]:
    del os.environ[_name]
# Both are read when the first device is asked for, which no test module does on import.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"{QUICK_XLA} --xla_force_host_platform_device_count=2"


@pytest.fixture
def one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes started by the test see one device each."""
    monkeypatch.setenv("XLA_FLAGS", QUICK_XLA)


@pytest.fixture
def fake_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An nsys that the driver finds; see `install_nsys`."""
    nsys = install_nsys(tmp_path)
    monkeypatch.setenv("NSYS", str(nsys))
    return nsys


@dataclass(frozen=True)
class Recorded:
    """A finished `run --trace` of arm lhs, whose recording lost events."""

    process: subprocess.CompletedProcess[str]
    folder: Path
    root: Path


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The command as a user runs it, with stand-ins for nsys and the CUDA runtime."""
    pytest.importorskip("jax")
    pytest.importorskip("nvtx")
    root = tmp_path_factory.mktemp("recorded")
    library = build_cudart(root)
    (root / "libdw").mkdir()
    (root / "home-of-ada").mkdir()
    environment = {
        **os.environ,
        "HOME": str(root / "home-of-ada"),
        "XLA_FLAGS": QUICK_XLA,
        "NSYS": str(install_nsys(root)),
        "FAKE_EXPORT": str(h200("jax_fsdp2_events_lost")),
        "LD_LIBRARY_PATH": str(library.parent),
        "NCCL_NVLS_ENABLE": "0",
        "SECRET_TOKEN": "do-not-record-this",
    }
    command = ["run", "--config", str(write_toml(tiny(), root / "small.toml")), "--arm", "lhs"]
    command += ["--trace", "--nsys-libs", str(root), "--out", str(root / "results")]
    process = subprocess.run(
        [sys.executable, "-m", "capture", *command],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return Recorded(process, root / "results" / "lhs", root)
