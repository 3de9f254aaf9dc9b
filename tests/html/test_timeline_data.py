"""The timeline of real and drawn traces says what the report says."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap.draw.timeline import LANES, DeviceTimeline, Lane
from nsysoverlap.draw.timeline_blocks import MAX_NAMES, RARE_NAME

from ..builder.query import query
from ..tracebuilder import TraceBuilder, build
from ..traces import h200
from .pages import measured


def lane(device: DeviceTimeline, kind: str) -> Lane:
    (found,) = (one for one in device.lanes if one.kind == kind)
    return found


@pytest.mark.parametrize("most", [100_000, 300])
@pytest.mark.parametrize("name", ["jax_unroll_lhs", "jax_fsdp2_lhs", "ddp_two_procs"])
def test_sums_are_those_of_the_report_however_much_is_merged(name: str, most: int) -> None:
    report, timeline = measured(h200(name), "none", most)
    assert len(timeline.devices) == len(report.devices)
    drawn = sum(len(one) for device in timeline.devices for one in device.lanes)
    assert drawn <= most
    for device, measures in zip(timeline.devices, report.devices, strict=True):
        assert (device.start_ns, device.end_ns) == measures.window_ns
        assert lane(device, "compute").busy_ns.sum() >= measures.time_budget.compute_ns
        for direction in ("h2d", "d2h"):
            part, one = getattr(measures, direction), lane(device, direction)
            assert one.n.sum() == one.n_activities == part.n
            assert one.n_bytes.sum() == part.bytes + part.bytes_estimated
            assert one.exposed_ns.sum() == part.exposed_ns
            stretches = device.exposed[direction]
            assert stretches.all_ns == part.exposed_ns
            kept = (stretches.end_ns - stretches.start_ns).sum()
            assert kept == part.exposed_ns or len(stretches.start_ns) < stretches.n_all
        assert [one.kind for one in device.lanes] == [k for k in LANES if k in kinds(device)]


def kinds(device: DeviceTimeline) -> set[str]:
    return {one.kind for one in device.lanes}


def test_a_drawing(tmp_path: Path) -> None:
    path = build(
        tmp_path / "a.sqlite",
        """
        dev0 s7  compute: .####....##.
        dev0 s20 h2d:     ...####.....
        dev0 s7  memset:  ......#.....
        """,
    )
    _, timeline = measured(path)
    (device,) = timeline.devices
    copies = lane(device, "h2d")
    assert copies.start_ns.tolist() == [3_000]
    assert copies.end_ns.tolist() == [7_000]
    assert copies.exposed_ns.tolist() == [2_000]
    assert device.streams[copies.stream].tolist() == [20]
    assert timeline.names[copies.name[0]] == "cudaMemcpyAsync"
    stretches = device.exposed["h2d"]
    assert (stretches.start_ns.tolist(), stretches.end_ns.tolist()) == ([5_000], [7_000])
    assert len(lane(device, "d2h")) == 0
    assert [timeline.names[i] for i in lane(device, "other").name] == ["memset"]
    assert device.measured == ((1_000, 11_000),)


def test_other_work_is_named_by_what_it_is(tmp_path: Path) -> None:
    path = build(
        tmp_path / "a.sqlite",
        """
        dev0 s7 compute: #....
        dev0 s7 d2d:     .#...
        dev0 s9 peer:    ..#..
        dev0 s9 comm:    ...#.
        """,
    )
    _, timeline = measured(path)
    device = timeline.devices[0]
    assert [timeline.names[i] for i in lane(device, "other").name] == ["on-device copy"]
    assert timeline.names[lane(device, "comm").name[0]] == "peer copy"


def test_page_migrations_have_a_lane_of_their_own() -> None:
    _, timeline = measured(h200("micro_managed"))
    found = lane(timeline.devices[0], "unified")
    ((migrations,),) = query(
        h200("micro_managed"),
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind IN (11, 12)",
    )
    assert found.n_activities == migrations > 0
    assert {timeline.names[i] for i in found.name.tolist()} == {
        "page migration to the device",
        "page migration to the host",
    }


def test_too_many_names_share_one(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for i in range(MAX_NAMES + 50):
        builder.kernel(i * 100, i * 100 + 50, f"kernel_{i}", api=None)
    _, timeline = measured(builder.write(tmp_path / "a.sqlite"))
    assert len(timeline.names) == MAX_NAMES + 1
    assert timeline.names[-1] == RARE_NAME
    assert lane(timeline.devices[0], "compute").n.sum() == MAX_NAMES + 50


def test_steps_and_what_is_measured() -> None:
    report, timeline = measured(h200("jax_unroll_lhs"))
    device = timeline.devices[0]
    assert [(s.start_ns, s.end_ns) for s in device.steps] == [
        (s.start_ns, s.end_ns) for s in report.devices[0].steps
    ]
    assert [device.step_name(s) for s in device.steps] == ["step 0", "step 1", "step 2", "step 3"]
    assert device.measured == ((device.steps[0].start_ns, device.steps[-1].end_ns),)
