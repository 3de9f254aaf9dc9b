"""Scenarios of findings: only what a finding blames changes, exact to the ns on drawn programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import nsysoverlap as no
from nsysoverlap.cli import main
from nsysoverlap.core.arrays import BoolArray
from nsysoverlap.findings import CODES
from nsysoverlap.findings.scenarios import SCENARIOS, TESTED, WORDS
from nsysoverlap.replay.blamed import KINDS, changed_by
from nsysoverlap.replay.predict import of_changed, run
from nsysoverlap.replay.prepared import Model
from nsysoverlap.replay.replayed import COPIES, Operations, OpKind
from nsysoverlap.replay.scenario import Scenario

from ..traces import h200
from .programs import Program
from .test_accuracy import model_of
from .test_closed_forms import one_stream

MB = 1 << 20
LHS = h200("jax_unroll_lhs")


def copies(ops: Operations) -> BoolArray:
    return np.isin(ops.kind, COPIES)


def of(kind: OpKind) -> Callable[[Operations], BoolArray]:
    return lambda ops: ops.kind == kind


def sized(n_bytes: int) -> Callable[[Operations], BoolArray]:
    return lambda ops: copies(ops) & (ops.n_bytes == n_bytes)


def step_us(
    model: Model,
    kind: str,
    blamed: Callable[[Operations], BoolArray] = copies,
    target: float | None = None,
) -> float:
    """The step of a scenario of some operations, with compute at its traced speed, in µs."""
    changed = changed_by(model, kind, blamed(model.operations), target)
    return of_changed(model, Scenario(kind), changed).outcome.step_ns / 1_000


def test_link_and_bytes(tmp_path: Path) -> None:
    """100 us of compute, 1 MiB in 200 us, 100 us of compute."""
    model = one_stream().model(tmp_path)
    rate = MB / 200_000
    assert step_us(model, "link", target=2 * rate) == 100 + 100 + 100
    assert step_us(model, "link", target=1.25 * rate) == 100 + 160 + 100
    # What is faster already stays so.
    assert step_us(model, "link", target=0.5 * rate) == 400
    assert step_us(model, "bytes", target=0.25) == 100 + 50 + 100
    assert step_us(model, "drop") == 100 + 100


@pytest.mark.parametrize(("kind", "target"), [("link", 2 * MB / 100_000), ("bytes", 0.5)])
def test_only_what_is_blamed_changes(tmp_path: Path, kind: str, target: float) -> None:
    program = Program(400)
    program.add("compute", 0, 100)
    program.add("h2d", 100, 200)
    program.add("h2d", 200, 400, n_bytes=2 * MB)
    model = program.model(tmp_path)
    assert step_us(model, kind, sized(MB), target) == 100 + 50 + 200
    assert step_us(model, kind, sized(2 * MB), target) == 100 + 100 + 100
    assert step_us(model, kind, target=target) == 100 + 50 + 100


def reloads() -> Program:
    """Each reload of 50 us begins when the kernel before the one that needs it is done."""
    program = Program(400)
    program.add("compute", 0, 100)
    for i, at in enumerate((100, 250)):
        program.wait(7, 20)
        program.add("h2d", at, at + 50, stream=20, n_bytes=(i + 1) * MB)
        program.wait(20, 7)
        program.add("compute", at + 50, at + 150)
    return program


def test_earlier(tmp_path: Path) -> None:
    """The second comes right behind the first; both blamed, the first comes in the step before."""
    model = reloads().model(tmp_path)
    assert model.now.step_ns == 400_000
    assert step_us(model, "earlier", sized(2 * MB)) == 350
    assert step_us(model, "earlier") == 300


def test_earlier_of_what_leaves(tmp_path: Path) -> None:
    """A kernel that fills a tensor waits for the tensor before, the one between them for none."""
    program = Program(500)
    for at in (0, 250):
        program.add("compute", at, at + 100)
        program.wait(7, 20)
        program.add("d2h", at + 100, at + 150, stream=20)
        program.wait(20, 7)
        program.add("compute", at + 150, at + 250)
    model = program.model(tmp_path)
    assert model.now.step_ns == 500_000
    assert step_us(model, "earlier") == 400


@pytest.mark.parametrize(("length", "step"), [(150, 200), (300, 300)])
def test_a_reload_not_behind_compute(tmp_path: Path, length: int, step: int) -> None:
    """With a stream of its own it runs beside compute, and a step takes what takes longer."""
    program = Program(200 + length)
    program.add("compute", 0, 100)
    program.add("h2d", 100, 100 + length)
    program.add("compute", 100 + length, 200 + length)
    model = program.model(tmp_path)
    assert model.now.step_ns == (200 + length) * 1_000
    assert step_us(model, "not behind") == step


def test_compute_not_behind_what_leaves(tmp_path: Path) -> None:
    program = Program(400)
    program.add("compute", 0, 100)
    program.add("d2h", 100, 300)
    program.add("compute", 300, 400)
    assert step_us(program.model(tmp_path), "not behind") == 200


def test_a_reload_not_behind_what_leaves(tmp_path: Path) -> None:
    """The reload that a kernel needs is queued behind a long D2H of the same stream."""
    program = Program(450)
    program.add("compute", 0, 100)
    program.wait(7, 20)
    program.add("d2h", 100, 300, stream=20, n_bytes=2 * MB)
    program.add("h2d", 300, 350, stream=20)
    program.wait(20, 7)
    program.add("compute", 350, 450)
    model = program.model(tmp_path)
    assert model.now.step_ns == 450_000
    assert step_us(model, "not behind", of(OpKind.D2H)) == 100 + 50 + 100
    # With both on streams of their own the reload waits for nothing but its launch.
    assert step_us(model, "not behind") == 200


def test_its_own_copy_is_waited_for(tmp_path: Path) -> None:
    """The same where what comes back is what leaves."""
    program = Program(450)
    program.add("compute", 0, 100)
    program.wait(7, 20)
    program.add("d2h", 100, 300, stream=20)
    program.add("h2d", 300, 350, stream=20)
    program.wait(20, 7)
    program.add("compute", 350, 450)
    assert step_us(program.model(tmp_path), "not behind") == 450


def awaited() -> Program:
    """A kernel waits by an event for a tensor to leave."""
    program = Program(400)
    program.add("compute", 0, 100)
    program.wait(7, 20)
    program.add("d2h", 100, 300, stream=20)
    program.wait(20, 7)
    program.add("compute", 300, 400)
    return program


def test_kernels_do_not_wait(tmp_path: Path) -> None:
    model = awaited().model(tmp_path)
    assert step_us(model, "not awaited") == 200
    # An event is no matter of streams.
    assert step_us(model, "not behind") == 400


def test_the_host_does_not_wait(tmp_path: Path) -> None:
    """It waits for what came before the copy: 20 us behind the kernel, and launches 20 us later."""
    program = Program(450)
    program.add("compute", 0, 100, issue_us=-10)
    program.add("d2h", 100, 400, issue_us=-5)
    program.sync(0, 420)
    model = program.model(tmp_path, first_us=-11)
    assert model.now.step_ns == 450_000
    assert step_us(model, "not awaited") == 100 + 20 + 20 + 10


@pytest.mark.parametrize("call_us", [425, 404], ids=["after the copy", "just before its end"])
def test_pinned(tmp_path: Path, call_us: int) -> None:
    """The call of a copy holds the host as long as the copy takes; pinned it does not."""
    program = Program(460)
    program.add("compute", 0, 100, issue_us=-10)
    program.add("h2d", 100, 400, issue_us=-5, call_us=call_us)
    program.add("compute", 440, 445, issue_us=430)
    model = program.model(tmp_path, first_us=-11)
    assert model.now.step_ns == 460_000
    assert step_us(model, "pinned", target=2 * MB / 300_000) == 100 + 150 + 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["jax_unroll_nolhs", "jax_fsdp2_lhs", "pytorch/save_on_cpu"])
def test_where_nothing_is_blamed_nothing_changes(name: str, kind: str) -> None:
    model = model_of(h200(name))
    assert isinstance(model, Model)
    changed = changed_by(model, kind, np.zeros(len(model.operations), np.bool_), 1.0)
    assert run(model, changed).step_ns == (model.replayed or model.now).step_ns


def test_every_finding_has_a_scenario_or_none() -> None:
    assert set(SCENARIOS) == set(CODES)
    assert {one.kind for one in SCENARIOS.values()} == {*KINDS, ""}
    assert set(WORDS) == set(KINDS)
    assert all(one.why for one in SCENARIOS.values())
    assert set(KINDS) > TESTED


def answer(*args: str | Path) -> dict[str, object]:
    result = CliRunner().invoke(main, ["whatif", *map(str, args), "--format", "json"])
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_what_each_finding_would_give_stands_beside_its_gain_in_the_report() -> None:
    """Both replay two steps of this trace."""
    report = no.analyze(LHS)
    priced = {f.code: f.gain for f in report.findings}
    found = no.whatif(LHS, findings=True)
    assert {one.code for one in found.findings} == set(priced)
    assert found.scenarios == ()
    for one in found.findings:
        gain = priced[one.code]
        assert one.tested == (gain is not None)
        if gain is not None:
            assert (one.gain_low_ns, one.gain_high_ns) == (gain.low_ns, gain.high_ns)
            assert one.scenario == gain.scenario == "without these copies"
    lows = [one.gain_low_ns for one in found.findings if one.gain_low_ns is not None]
    assert lows == sorted(lows, reverse=True)


def test_findings_are_priced_where_nothing_else_is_asked() -> None:
    assert answer(LHS)["findings"]
    assert answer(LHS, "--findings")["scenarios"] == []
    assert answer(LHS, "--link", "2x")["findings"] == []
    assert answer(LHS, "--sweep", "link=1:2")["findings"] == []


def test_a_finding_without_a_scenario_says_why() -> None:
    result = CliRunner().invoke(
        main, ["whatif", str(h200("jax_scan_pipelined_graph_node")), "--findings"]
    )
    said = " ".join(result.stdout.split())
    assert "graph-serialises" in said
    assert "What each finding would give" in said
    assert max(map(len, result.stdout.splitlines())) <= 80
    found = no.whatif(h200("jax_scan_pipelined_graph_node"), findings=True).findings
    graph = next(one for one in found if one.code == "graph-serialises")
    assert (graph.scenario, graph.gain_low_ns, graph.tested) == (None, None, False)
    assert graph.reason == SCENARIOS["graph-serialises"].why
