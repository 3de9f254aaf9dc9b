"""What changes nothing, what no order can beat, and what cannot be ordered at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import nsysoverlap as no
from nsysoverlap.cli import main
from nsysoverlap.core.errors import UsageError
from nsysoverlap.replay.bound import order_bounds
from nsysoverlap.replay.prepared import Model
from nsysoverlap.replay.scenario import Scenario, change, without

from ..traces import h200
from .programs import DROP, Program, link, step_us
from .test_accuracy import model_of

TRACES = ("jax_unroll_nolhs", "jax_scan_pipelined", "jax_fsdp2_lhs", "pytorch/save_on_cpu")


@pytest.fixture(scope="module", params=TRACES)
def model(request: pytest.FixtureRequest) -> Model:
    found = model_of(h200(request.param))
    assert isinstance(found, Model)
    return found


def test_dropping_nothing_changes_nothing(model: Model) -> None:
    plain = model.calibrated.run()
    changed = without(model, change(model, Scenario()), np.zeros(len(model.operations), np.bool_))
    run = changed.calibrated.run(changed.duration_ns)
    assert (run.start_ns, run.end_ns) == (plain.start_ns, plain.end_ns)
    assert changed.kept.all()
    assert changed.notes == ()


def test_a_factor_of_one_changes_nothing(model: Model) -> None:
    plain = model.calibrated.run()
    changed = change(model, Scenario(n_bytes=1.0, compute=1.0, memory=1.0))
    run = changed.calibrated.run(changed.duration_ns)
    assert (run.start_ns, run.end_ns) == (plain.start_ns, plain.end_ns)


@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    layers=st.integers(3, 5),
    compute_us=st.integers(20, 300),
    out_us=st.integers(20, 400),
    back_us=st.integers(20, 400),
    window=st.sampled_from([1, 2, None]),
)
def test_no_bound_below_what_an_engine_takes(
    tmp_path_factory: pytest.TempPathFactory,
    layers: int,
    compute_us: int,
    out_us: int,
    back_us: int,
    window: int | None,
) -> None:
    """Every layer's tensor leaves after it is made, and comes back before it is needed."""
    program = two_passes(layers, compute_us, out_us, back_us)
    model = program.model(tmp_path_factory.mktemp("bound"))
    found = order_bounds(model, (window,))
    assert not isinstance(found, str), found
    (bound,) = found
    assert max(layers * out_us, layers * back_us) * 1_000 <= bound.step_ns
    assert 2 * layers * compute_us * 1_000 <= bound.step_ns <= model.now.step_ns


def two_passes(layers: int, compute_us: int, out_us: int, back_us: int) -> Program:
    """A forward and a backward pass with each copy by itself: nothing at all is hidden."""
    program = Program(layers * (2 * compute_us + out_us + back_us))
    at = 0
    for _ in range(layers):
        program.add("compute", at, at + compute_us)
        program.add("d2h", at + compute_us, at + compute_us + out_us)
        at += compute_us + out_us
    for _ in range(layers):
        program.add("h2d", at, at + back_us)
        program.add("compute", at + back_us, at + back_us + compute_us)
        at += back_us + compute_us
    return program


def test_the_bound_of_two_passes(tmp_path: Path) -> None:
    """Two layers of 100 us, out 50, back 50: the last tensor leaves at 200 and is back at 300.

    Then its backward kernel starts, and the other one comes back beside that. With room for one
    beside compute the second kernel waits for the first D2H, 50 us.
    """
    model = two_passes(2, 100, 50, 50).model(tmp_path)
    assert model.now.step_ns == 600_000
    found = order_bounds(model, (1, None))
    assert not isinstance(found, str)
    assert [bound.step_ns for bound in found] == [550_000, 500_000]
    assert step_us(model, DROP) == 400


def tangled() -> Program:
    """Three tensors whose copies start in another order than they are made in.

    The one made second leaves third, behind the one made last: no window of one copy can be.
    """
    program = Program(1_000)
    program.add("compute", 0, 100)
    program.wait(7, 21)
    program.add("compute", 100, 200)
    program.wait(7, 22)
    program.add("compute", 200, 300)
    program.wait(7, 20)
    program.add("d2h", 300, 400, stream=20)
    program.add("d2h", 400, 500, stream=21)
    program.add("d2h", 500, 600, stream=22)
    for i, stream in enumerate((20, 21, 22)):
        program.wait(stream, 30)
        program.add("h2d", 600 + 100 * i, 700 + 100 * i, stream=30)
    program.wait(30, 7)
    program.add("compute", 900, 1_000)
    return program


def test_copies_that_would_wait_for_each_other(tmp_path: Path) -> None:
    tangled().model(tmp_path)
    path = tmp_path / "program.sqlite"
    with pytest.raises(UsageError, match="some would wait for each other"):
        no.whatif(path, window=1)
    result = CliRunner().invoke(main, ["whatif", str(path), "--window", "1"])
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output


def test_a_reload_waits_for_its_own_copy_whatever_is_issued_anew() -> None:
    """D2H 394 ms and H2D 393 ms of offload_stream lie one after the other, window or not."""
    (one,) = no.whatif(h200("pytorch/offload_stream"), window=1).scenarios
    assert one.step_low_ns >= 787e6


def test_a_faster_link_that_costs_time_is_printed(tmp_path: Path) -> None:
    """Graham's anomaly, as in test_closed_forms: 41.5 ms at the rate of now, 46.5 at twice that."""
    from .test_closed_forms import anomaly

    model = anomaly().model(tmp_path)
    assert step_us(model, link(2)) > step_us(model)
    args = ["whatif", str(tmp_path / "program.sqlite"), "--sweep", "link=1:2"]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "41.5 ms" in said
    assert "46.5 ms" in said
    assert "takes longer than at a slower link" in said
