"""The clock law fitted on a pair of traces, and what is predicted with it."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import nsysoverlap as no
from nsysoverlap.cli import main
from nsysoverlap.core.errors import UsageError
from nsysoverlap.roles.clock import ClockPair
from nsysoverlap.run.clock_fit import law_of

from ..traces import h200
from .programs import Program
from .test_whatif import traced_step_ns

SMALL, PYTORCH = (("micro_pageable", "micro_duplex"), ("pytorch/offload_stream", "pytorch/save"))
UNROLLED = ("jax_unroll_nolhs", "jax_unroll_save")


def pair_of(names: tuple[str, str]) -> tuple[Path, Path]:
    first, second = map(h200, names)
    return first, second


@pytest.mark.parametrize(
    ("name", "control", "pair"),
    [
        ("jax_unroll_nolhs", "jax_unroll_save", PYTORCH),
        ("jax_unroll_lhs", "jax_unroll_save", SMALL),
        ("pytorch/offload_stream", "pytorch/save", UNROLLED),
        ("pytorch/save_on_cpu", "pytorch/save", UNROLLED),
    ],
)
def test_a_pair_of_another_program_narrows_the_range(
    name: str, control: str, pair: tuple[str, str]
) -> None:
    assert not {name, control} & set(pair)
    steps = "guess" if name.endswith("save_on_cpu") else "auto"
    result = no.whatif(h200(name), drop=".", steps=steps, clock=pair_of(pair))
    (one,) = result.scenarios
    measured = traced_step_ns(h200(control), "guess" if "pytorch" in control else "auto")
    assert one.step_low_ns <= measured <= one.step_high_ns
    assert one.step_high_ns - one.step_low_ns <= 0.04 * measured
    assert "no test of that law" not in " ".join(result.notes)


def drawn(folder: Path, gemm_us: float, idle_us: float, name: str = "gemm_a") -> Path:
    """Ten kernels a step, and then nothing for a while."""
    folder.mkdir()
    program = Program(10 * gemm_us + idle_us)
    for i in range(10):
        program.add("compute", i * gemm_us, (i + 1) * gemm_us, name=name)
    program.model(folder)
    return folder / "program.sqlite"


def test_the_exponent_of_a_drawn_pair(tmp_path: Path) -> None:
    """Busy half of the step, then all of it, when the same kernels take 1.1 times as long."""
    pair = drawn(tmp_path / "waits", 100, 1_000), drawn(tmp_path / "busy", 110, 0)
    law = law_of(ClockPair(*pair, floor=0.25))
    assert law is not None
    assert law.exponent == pytest.approx(math.log(1.1) / math.log(2))
    assert law == law_of(ClockPair(*pair, floor=0.25))
    assert "100 % of their time, take 1.100x as long" in law.source
    swapped = law_of(ClockPair(*pair[::-1], floor=0.25))
    assert swapped is not None
    assert swapped.exponent == law.exponent


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("micro_serial", "micro_hidden"), "only 0.0 % of their kernel time is of the same"),
        (("jax_scan_lhs", "jax_unroll_nolhs"), "about equally busy (66.9 % and 68.2 % of a step)"),
        (("micro_graph_graph", "micro_hidden"), "micro_graph_graph.sqlite: no repeating pattern"),
    ],
)
def test_a_pair_that_tells_nothing(names: tuple[str, str], reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        no.whatif(h200("jax_unroll_lhs"), clock=pair_of(names))
    assert reason in caught.value.message


def test_kernels_that_run_faster_when_the_gpu_is_busier(tmp_path: Path) -> None:
    pair = drawn(tmp_path / "waits", 110, 1_100), drawn(tmp_path / "busy", 100, 0)
    with pytest.raises(UsageError, match=r"take 0\.909x as long in the busier one"):
        law_of(ClockPair(*pair))


def recorded(path: Path, mhz: object) -> Path:
    (path.parent / "manifest.json").write_text(json.dumps({"clocks": {"n": 9, "sm_mhz": mhz}}))
    return path


def test_recorded_clocks_where_the_kernels_differ(tmp_path: Path) -> None:
    """Clocks of 1,600 and 1,500 MHz: a range from no law to that one, for it is a bound."""
    first = recorded(drawn(tmp_path / "a", 100, 1_000, "gemm_a"), 1_600)
    second = recorded(drawn(tmp_path / "b", 100, 0, "gemm_b"), 1_500.0)
    law = law_of(ClockPair(first, second, floor=0.25))
    assert law is not None
    assert law.exponent == pytest.approx(math.log(1_600 / 1_500) / math.log(2))
    plain = no.whatif(h200("jax_unroll_nolhs"), drop=".").scenarios[0]
    result = no.whatif(h200("jax_unroll_nolhs"), drop=".", clock=law)
    (one,) = result.scenarios
    assert one.step_low_ns == plain.step_low_ns < one.step_high_ns < plain.step_high_ns
    assert "1600 and 1500 MHz recorded beside program.sqlite" in result.clock


@pytest.mark.parametrize("mhz", [None, "fast", True, 0, [1]])
def test_recorded_clocks_that_are_none(tmp_path: Path, mhz: object) -> None:
    first = recorded(drawn(tmp_path / "a", 100, 1_000, "gemm_a"), 1_600)
    second = recorded(drawn(tmp_path / "b", 100, 0, "gemm_b"), mhz)
    with pytest.raises(UsageError, match=r"only 0\.0 % of their kernel time"):
        law_of(ClockPair(first, second, floor=0.25))


def test_a_pair_in_the_configuration_file(tmp_path: Path) -> None:
    """Paths are relative to the file; what a law was fitted on does not test it, which is said."""
    for path in pair_of(UNROLLED):
        shutil.copy(path, tmp_path)
    config = tmp_path / "machine.toml"
    config.write_text('[clock]\npair = ["jax_unroll_nolhs.sqlite", "jax_unroll_save.sqlite"]\n')
    args = ["whatif", str(h200("jax_unroll_nolhs")), "--drop", ".", "--config", str(config)]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "fitted on jax_unroll_nolhs.sqlite and jax_unroll_save.sqlite (the same kernels" in said
    assert "The clock law was fitted on this trace, which is no test of that law." in said


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('pair = ["a.sqlite"]', "clock.pair cannot be ['a.sqlite']"),
        ("pair = true", "clock.pair cannot be True"),
        ('pair = ["a", "b"]\nexponent = 0.1', "clock.exponent is not a known key"),
        ('pair = ["a", "b"]\nfloor = 2', "clock.floor cannot be 2"),
        ('pair = ["a.sqlite", "b.sqlite"]', "a.sqlite"),
    ],
)
def test_a_pair_that_makes_no_sense(tmp_path: Path, table: str, said: str) -> None:
    config = tmp_path / "machine.toml"
    config.write_text(f"[clock]\n{table}\n")
    args = ["whatif", str(h200("micro_hidden")), "--config", str(config)]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
