"""`gate --max-gain-ms`: decided by the range of the replayed gain, never by what is not known."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import nsysoverlap as no
from nsysoverlap.cli import main
from nsysoverlap.judge.gain_limit import judge_gain
from nsysoverlap.judge.verdicts import Status
from nsysoverlap.result.model import OverlapReport, ReplayReport

from ..traces import h200


def gate(name: str, limit: str) -> Result:
    return CliRunner().invoke(main, ["gate", str(h200(name)), "--max-gain-ms", limit])


@pytest.mark.parametrize(
    ("limit", "code"), [("20", 1), ("20ms", 1), ("40", 3), ("60", 0), ("0.06s", 0)]
)
def test_the_range_of_a_round_trip_decides(limit: str, code: int) -> None:
    """The measured gain of jax_unroll_lhs is 306 - 268 ms; the range has it inside."""
    result = gate("jax_unroll_lhs", limit)
    assert result.exit_code == code, result.output
    assert "largest replayed gain" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("micro_managed", "no host transfers"),
        ("jax_unroll_save", "no host transfers"),
        ("jax_unroll_nolhs", "The gain of nothing-beside is unknown"),
        ("ddp_two_procs", "nothing is predicted: the records of 70 events"),
    ],
)
def test_what_is_not_known_never_passes(name: str, said: str) -> None:
    result = gate(name, "1000")
    assert result.exit_code == 3
    assert said in " ".join(result.output.split())


def test_nothing_exposed_and_nothing_found_passes() -> None:
    report = replace(lhs(), findings=())
    found = judge_gain(report, Fraction(1), "--max-gain-ms 1")
    assert (found.status, found.measured) == (Status.PASSED, Fraction(0))


def test_a_withheld_prediction_never_passes_but_a_known_gain_fails() -> None:
    report = lhs()
    other = replace(report.traces[0], path="b.sqlite", replay=ReplayReport(withheld="no ids"))
    both = replace(report, traces=(*report.traces, other))
    high, low = (judge_gain(both, Fraction(ms * 10**6), "") for ms in (60, 20))
    assert (high.status, high.reason) == (
        Status.INCONCLUSIVE,
        "b.sqlite: nothing is predicted: no ids.",
    )
    assert low.status is Status.FAILED


def test_a_trace_that_moved_nothing_needs_no_steps() -> None:
    report = lhs()
    other = replace(report.traces[0], path="b.sqlite", replay=None)
    both = replace(report, traces=(*report.traces, other))
    assert judge_gain(both, Fraction(60 * 10**6), "").status is Status.PASSED
    moved = replace(both, devices=(*report.devices, replace(report.devices[0], trace="b.sqlite")))
    found = judge_gain(moved, Fraction(60 * 10**6), "")
    assert (found.status, found.reason) == (
        Status.INCONCLUSIVE,
        "b.sqlite: without steps nothing is replayed.",
    )


def test_a_rank_of_unknown_gain_does_not_pass_beside_one_of_known_gain(tmp_path: Path) -> None:
    """jax_unroll_nolhs exposes 118.6 ms a step, and what that would win was not tested."""
    for rank, name in enumerate(("jax_unroll_lhs", "jax_unroll_nolhs")):
        (tmp_path / f"rank{rank}.sqlite").write_bytes(h200(name).read_bytes())
    for limit, code in (("20", 1), ("100", 3), ("120", 0)):
        result = CliRunner().invoke(main, ["gate", str(tmp_path), "--max-gain-ms", limit])
        assert result.exit_code == code, result.output
    low = CliRunner().invoke(main, ["gate", str(tmp_path), "--max-gain-ms", "100"])
    assert "It may be up to 118.6 ms." in " ".join(low.output.split())


def lhs() -> OverlapReport:
    return no.analyze(h200("jax_unroll_lhs"))


@pytest.mark.parametrize("text", ["fast", "-1", "5%"])
def test_a_limit_that_is_no_time(text: str) -> None:
    result = gate("jax_unroll_lhs", text)
    assert result.exit_code == 2
    assert "--max-gain-ms" in result.output
