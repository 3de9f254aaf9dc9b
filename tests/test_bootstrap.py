"""Whether a drop is real: intervals, their seed, and how many steps are needed."""

from __future__ import annotations

import numpy as np
import pytest

from nsysoverlap.judge.bootstrap import (
    MIN_STEPS,
    REPLICATES,
    RunSample,
    StepSample,
    measure_drop,
    steps_sample,
)
from nsysoverlap.result.model import OverlapReport

from .stepreports import report_of_steps


def steps(hidden: list[int], wall: int = 1000) -> StepSample:
    return StepSample(np.array(hidden), np.full(len(hidden), wall))


def noisy(mean: float, sigma: float, n: int, seed: int = 1) -> StepSample:
    """Steps of 1 ms whose hidden share is normal around a mean."""
    shares = np.random.default_rng(seed).normal(mean, sigma, n).clip(0, 1)
    return StepSample((shares * 1e6).astype(np.int64), np.full(n, 1_000_000))


def test_the_share_of_steps_is_the_ratio_of_sums() -> None:
    sample = StepSample(np.array([10, 90]), np.array([100, 900]))
    assert sample.share == 0.1
    assert sample.n == 2


def test_the_same_input_gives_the_same_output() -> None:
    one, two = noisy(0.92, 0.01, 40), noisy(0.94, 0.01, 40, seed=2)
    assert measure_drop(one, two, 0.01, 0.95) == measure_drop(one, two, 0.01, 0.95)


def test_steps_that_are_all_alike_have_no_spread() -> None:
    drop = measure_drop(steps([920] * 10), 0.94, 0.02, 0.95)
    assert (drop.now.low, drop.now.high) == (0.92, 0.92)
    assert drop.exceeds(0.02) is False, "a drop of exactly what is allowed"
    assert drop.exceeds(0.0199) is True


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_holds_the_truth_as_often_as_it_says(level: float) -> None:
    held = 0
    for seed in range(200):
        drop = measure_drop(noisy(0.9, 0.02, 40, seed), 0.9, 0.0, level)
        held += drop.now.low <= 0.9 <= drop.now.high
    assert held / 200 == pytest.approx(level, abs=0.07)


def test_a_clear_drop_a_clear_pass_and_neither() -> None:
    now = noisy(0.92, 0.01, 40)
    assert measure_drop(now, 0.94, 0.01, 0.95).exceeds(0.01) is True
    assert measure_drop(now, 0.94, 0.03, 0.95).exceeds(0.03) is False
    assert measure_drop(now, 0.94, 0.02, 0.95).exceeds(0.02) is None


def test_the_number_of_steps_needed_is_enough() -> None:
    few = noisy(0.915, 0.03, 10)
    drop = measure_drop(few, 0.94, 0.01, 0.95)
    assert drop.exceeds(0.01) is None
    needed = drop.n_needed
    assert needed is not None
    assert needed > few.n
    # As many steps of just this spread and mean.
    times = -(-needed // few.n)
    many = StepSample(np.tile(few.hidden_ns, times), np.tile(few.wall_ns, times))
    assert measure_drop(many, 0.94, 0.01, 0.95).exceeds(0.01) is not None


def test_no_number_of_steps_helps_against_an_uncertain_baseline() -> None:
    drop = measure_drop(noisy(0.92, 0.001, 40), noisy(0.94, 0.1, 6), 0.02, 0.95)
    assert drop.exceeds(0.02) is None
    assert drop.n_needed is None


def test_at_least_the_fewest_steps_are_needed() -> None:
    drop = measure_drop(steps([500] * 5), 0.9, 0.01, 0.95)
    assert drop.n_needed == MIN_STEPS


def test_runs_are_compared_by_their_median() -> None:
    runs = RunSample(np.array([0.94, 0.94, 0.94, 0.94, 0.1]))
    assert runs.share == 0.94
    assert len(runs.replicates(np.random.default_rng(0))) == REPLICATES
    assert measure_drop(steps([900] * 10), runs, 0.02, 0.8).exceeds(0.02) is True


def test_thousands_of_steps_stay_small_in_memory() -> None:
    drop = measure_drop(noisy(0.9, 0.01, 5_000), 0.9, 0.01, 0.95)
    assert drop.exceeds(0.01) is False
    assert drop.now.high - drop.now.low < 0.001


def test_steps_of_several_devices_count_once() -> None:
    report = report_of_steps([(10, 100), (20, 100)], [(30, 100), (40, 300)])
    sample = steps_sample(report, "d2h")
    assert sample is not None
    assert sample.hidden_ns.tolist() == [40, 60]
    assert sample.wall_ns.tolist() == [200, 400]


def test_no_steps_and_no_transfers_are_no_sample() -> None:
    assert steps_sample(OverlapReport((), (), ()), "d2h") is None
    assert steps_sample(report_of_steps([(10, 100)]), "h2d") is None
