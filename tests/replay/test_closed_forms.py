"""Programs whose step can be worked out by hand, replayed exactly to the ns."""

from __future__ import annotations

from pathlib import Path

import pytest

from .programs import DROP, Program, link, prediction, step_us


def one_stream() -> Program:
    """Compute, a reload, compute: all in a row."""
    program = Program(400)
    program.add("compute", 0, 100)
    program.add("h2d", 100, 300)
    program.add("compute", 300, 400)
    return program


def test_one_stream(tmp_path: Path) -> None:
    model = one_stream().model(tmp_path)
    assert step_us(model) == model.now.step_ns / 1_000 == 400
    assert step_us(model, link(2)) == 100 + 100 + 100
    assert step_us(model, link(0.5)) == 100 + 400 + 100
    assert step_us(model, link(2, h2d=False)) == 400
    assert step_us(model, DROP) == 200


@pytest.mark.parametrize("old_events", [False, True], ids=["eventSyncId", "eventId"])
def test_two_streams(tmp_path: Path, old_events: bool) -> None:
    """A reload beside compute: the last kernel waits for the later of the two.

    Older exports have no eventSyncId: a wait is for the latest record of its event.
    """
    program = Program(500, old_events=old_events)
    program.wait(7, 20)
    program.add("compute", 0, 100)
    program.wait(7, 20)
    program.add("h2d", 100, 400, stream=20)
    program.add("compute", 100, 300)
    program.wait(20, 7)
    program.add("compute", 400, 500)
    model = program.model(tmp_path)
    assert step_us(model) == 500
    assert step_us(model, link(1.2)) == 100 + 250 + 100
    assert step_us(model, link(2)) == 100 + max(150, 200) + 100
    assert step_us(model, DROP) == 100 + 200 + 100


def test_two_engines(tmp_path: Path) -> None:
    """Both directions at once, each at its own rate."""
    program = Program(400)
    program.add("compute", 0, 100)
    program.wait(7, 20)
    program.add("d2h", 100, 300, stream=20)
    program.wait(7, 21)
    program.add("h2d", 100, 250, stream=21)
    program.wait(20, 7)
    program.wait(21, 7)
    program.add("compute", 300, 400)
    model = program.model(tmp_path)
    assert step_us(model) == 400
    assert step_us(model, link(2)) == 100 + 100 + 100
    assert step_us(model, link(2, h2d=False)) == 100 + max(100, 150) + 100
    assert step_us(model, link(2, d2h=False)) == 400


def test_one_engine(tmp_path: Path) -> None:
    """Two reloads of two streams take turns."""
    program = Program(400)
    program.add("compute", 0, 100)
    program.wait(7, 20)
    program.add("h2d", 100, 180, stream=20)
    program.wait(7, 21)
    program.add("h2d", 180, 300, stream=21)
    program.wait(20, 7)
    program.wait(21, 7)
    program.add("compute", 300, 400)
    model = program.model(tmp_path)
    assert step_us(model) == 400
    assert step_us(model, link(2)) == 100 + 40 + 60 + 100


def test_host_bound(tmp_path: Path) -> None:
    """The GPU waits for launches: a faster link wins nothing, a slow one loses."""
    program = Program(200)
    program.add("compute", 0, 10, issue_us=-5)
    program.add("h2d", 50, 70, issue_us=45)
    program.add("compute", 100, 110, issue_us=95)
    program.add("compute", 150, 160, issue_us=145)
    model = program.model(tmp_path, first_us=-6)
    assert step_us(model) == 200
    assert step_us(model, link(10)) == 200
    # 20 us become 400, with the three kernels of 10 us a step of 430; of the three steps the first
    # begins while the host is not yet ahead: its copy waits 40 us more for its launch.
    assert [one / 1_000 for one in prediction(model, link(0.05)).outcome.slowest.steps_ns] == [
        470,
        430,
        430,
    ]


def test_hidden_host_wait(tmp_path: Path) -> None:
    """The host waits, without a call that says so, until the GPU has been idle for 500 us."""
    program = Program(3_510)
    program.add("compute", 0, 1_000, issue_us=-10)
    program.add("h2d", 1_000, 3_000, issue_us=-5)
    model = program.model(tmp_path, first_us=-11)
    assert step_us(model) == 3_510
    assert step_us(model, link(2)) == 2_510
    assert step_us(model, link(0.5)) == 5_510


def test_pause_that_is_no_wait(tmp_path: Path) -> None:
    """The GPU was idle for longer than 2 ms: whatever the host did, it did not wait for that."""
    program = Program(6_010)
    program.add("compute", 0, 1_000, issue_us=-10)
    program.add("h2d", 1_000, 3_000, issue_us=-5)
    model = program.model(tmp_path, first_us=-11)
    assert step_us(model, link(2)) == 6_010


def test_blocking_wait(tmp_path: Path) -> None:
    """A call that waits for the device returns 20 us after the last work."""
    program = Program(450)
    program.add("compute", 0, 100, issue_us=-10)
    program.add("h2d", 100, 400, issue_us=-5)
    program.sync(0, 420)
    model = program.model(tmp_path, first_us=-11)
    assert step_us(model) == 450
    assert step_us(model, link(2)) == 300


def test_blocking_copy(tmp_path: Path) -> None:
    """The call of a copy returns 20 us after the copy: nothing is launched before that."""
    program = Program(460)
    program.add("compute", 0, 100, issue_us=-10)
    program.add("h2d", 100, 400, issue_us=-5, call_us=425)
    program.add("compute", 440, 450, issue_us=430)
    model = program.model(tmp_path, first_us=-11)
    assert step_us(model) == 460
    assert step_us(model, link(2)) == 310


def test_collective_waits_for_the_slower_rank(tmp_path: Path) -> None:
    program = Program(350)
    program.add("compute", 0, 100, device=0, stream=7)
    program.add("compute", 0, 300, device=1, stream=8)
    program.add("h2d", 100, 200, device=0, stream=7)
    program.add("comm", 200, 350, device=0, stream=7)
    program.add("comm", 300, 350, device=1, stream=8)
    model = program.model(tmp_path)
    assert len(model.calibrated.plan.graph.group_cost_ns) == 3
    assert step_us(model) == 350
    assert step_us(model, link(0.5)) == 350
    assert step_us(model, link(0.25)) == 100 + 400 + 50


def anomaly() -> Program:
    """Graham's anomaly: with a faster link a long copy comes first and holds up a short one."""
    program = Program(41_500)
    program.wait(7, 20)
    program.wait(7, 21)
    program.add("compute", 0, 10_500)
    program.add("h2d", 0, 10_000, stream=20)
    program.add("compute", 10_000, 11_000, stream=20)
    program.add("h2d", 11_500, 31_500, stream=20)
    program.wait(7, 21)
    program.add("h2d", 10_500, 11_500, stream=21)
    program.wait(21, 7)
    program.add("compute", 11_500, 41_500)
    return program


def test_a_faster_link_can_cost_time(tmp_path: Path) -> None:
    model = anomaly().model(tmp_path)
    assert step_us(model) == 41_500
    assert step_us(model, link(2)) == 46_500


@pytest.mark.parametrize("times", [1.0, 1.25, 2.0, 8.0])
def test_more_link_is_never_slower_without_contention(tmp_path: Path, times: float) -> None:
    model = one_stream().model(tmp_path)
    assert step_us(model, link(times)) <= step_us(model)
    assert step_us(model, link(2 * times)) <= step_us(model, link(times))


PACK = "void at::native::elementwise_kernel<(int)128, (int)4, at::native::direct_copy_kernel_cuda>"
CAST = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda, float>"


@pytest.mark.parametrize(
    ("name", "late_us", "left_us"),
    [(PACK, 0, 200), (PACK, 40, 230), (CAST, 0, 230), ("gemm_a", 0, 230)],
    ids=["laid out for the copy", "copied by a hook later", "another type", "a product"],
)
def test_what_lays_a_tensor_out_goes_with_its_copy(
    tmp_path: Path, name: str, late_us: float, left_us: float
) -> None:
    """100 us of compute, 30 that may only serve the copy, the copy, 100 us of compute."""
    program = Program(430)
    program.add("compute", 0, 100)
    program.add("compute", 100, 130, name=name)
    program.pause(late_us)
    program.add("d2h", 130, 330)
    program.add("compute", 330, 430)
    model = program.model(tmp_path)
    assert step_us(model) == 430
    found = prediction(model, DROP)
    assert found.outcome.step_ns == left_us * 1_000
    notes = ("with the copies go 1 kernel a step that only laid tensors out for them",)
    assert found.notes == (notes if left_us == 200 else ())
