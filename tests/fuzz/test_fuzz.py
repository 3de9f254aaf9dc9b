"""A budgeted run of the fuzzer, and what it has found before."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..drawn import drawn
from .damage import bases, check, damage

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("fuzz")
    return [builder.write(folder / f"{i}.sqlite").read_bytes() for i, builder in enumerate(bases())]


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(4))
def test_every_kind_of_damage(kind: int, exports: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(base=st.integers(0, 1), data=st.binary(min_size=4, max_size=120))
    def run(base: int, data: bytes) -> None:
        check(damage(bytes([base, kind]) + data, exports, path))

    run()


def test_undamaged_exports_give_reports(exports: list[bytes], tmp_path: Path) -> None:
    for i in range(len(exports)):
        path = damage(bytes([i, 0]), exports, tmp_path / "t.sqlite")
        assert path.read_bytes() == exports[i]
        assert check(path).split()[1] in ("report", "inconclusive")


def test_damage_is_the_same_for_the_same_bytes(exports: list[bytes], tmp_path: Path) -> None:
    data = bytes(range(1, 90))
    first = damage(data, exports, tmp_path / "a.sqlite").read_bytes()
    assert damage(data, exports, tmp_path / "b.sqlite").read_bytes() == first
    assert first not in exports


def test_memory_is_measured_without_what_the_parent_held() -> None:
    held = b"1" * 400_000_000
    command = [sys.executable, "-c", "from tests.memory import peak_mb; print(peak_mb())"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert 1 < float(done.stdout) < len(held) / 1e6 / 4


SEED = "20261201"


@pytest.mark.slow
def test_damage_that_coverage_guides(tmp_path: Path) -> None:
    """Half a minute from one seed, printed with what fails; at random where atheris is missing."""
    words = ["--seconds", "30", "--seed", SEED, "--folder", str(tmp_path)]
    command = [sys.executable, "-m", "tests.fuzz", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    print(said)
    assert done.returncode == 0, said
    assert f"seed {SEED}" in done.stdout
    guided = importlib.util.find_spec("atheris") is not None
    assert ("cov: " in said) == guided, said


@pytest.mark.slow
def test_damaged_traces_end_in_time_and_memory() -> None:
    """The same each time; `python -m tests.fuzz --cases N` draws others and prints its seed."""
    command = [sys.executable, "-m", "tests.fuzz", "--cases", str(drawn(5_000)), "--seed", SEED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
