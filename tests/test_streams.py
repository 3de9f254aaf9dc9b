"""Per-stream rows: what a stream is for, how long it worked, how its own transfers split."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap import Window, analyze
from nsysoverlap.result.model import StreamReport

from .builder.query import query
from .tracebuilder import build
from .traces import h200, h200_names

HOST_KERNEL = "wrapped_dynamic_update_slice_2"


def streams(
    tmp_path: Path, drawing: str, window: Window | None = None, device: int = 0
) -> dict[int, StreamReport]:
    """Stream rows of a drawing's device by stream id; they must come in order."""
    report = analyze(build(tmp_path / "t.sqlite", drawing), window=window)
    rows = report.devices[device].streams
    keys = [(row.pid, row.context_id, row.stream_id) for row in rows]
    assert keys == sorted(set(keys))
    return {row.stream_id: row for row in rows}


@pytest.mark.parametrize(
    ("lanes", "role", "busy_us"),
    [
        (["compute: ####"], "compute", {"compute": 4}),
        (["comm: ####"], "comm", {"comm": 4}),
        (["peer: ####"], "comm", {"comm": 4}),
        (["h2d: ####"], "h2d", {"h2d": 4}),
        (["d2h: ####"], "d2h", {"d2h": 4}),
        (["memset: ####"], "other", {"other": 4}),
        (["d2d: ##", "memset: ..##"], "other", {"other": 4}),
        (["graph: ####"], "opaque", {"opaque": 4}),
        (["compute: ###", "memset: ...#"], "compute", {"compute": 3, "other": 1}),
        (["h2d: ###", "d2d: ...##"], "h2d", {"h2d": 3, "other": 2}),
        (["compute: ##", "d2h: ..##"], "mixed", {"compute": 2, "d2h": 2}),
        (["h2d: ##", "d2h: ..##"], "mixed", {"h2d": 2, "d2h": 2}),
        (["compute: ##", "comm: ..##"], "mixed", {"compute": 2, "comm": 2}),
        ([f"kernel {HOST_KERNEL}: {'#' * 30}"], "d2h", {"d2h": 30}),
    ],
)
def test_roles_and_busy_time(
    tmp_path: Path, lanes: list[str], role: str, busy_us: dict[str, int]
) -> None:
    row = streams(tmp_path, "\n".join(f"dev0 s9 {lane}" for lane in lanes))[9]
    assert row.role == role
    assert row.busy_ns == {name: 1000 * us for name, us in busy_us.items()}


def test_busy_is_a_sum_of_durations_not_wall_time(tmp_path: Path) -> None:
    found = streams(tmp_path, "dev0 s7 compute: ####..\ndev0 s7 compute: ..####")
    assert found[7].busy_ns == {"compute": 8000}


def test_transfers_of_a_stream_hide_behind_the_whole_device(tmp_path: Path) -> None:
    found = streams(
        tmp_path,
        """
        dev0 s7  compute: ..####........
        dev0 s8  comm:    .....##.......
        dev0 s20 bytes=9 d2h: ....####......
        dev0 s21 bytes=5 h2d: ......####.###
        """,
    )
    assert set(found) == {7, 8, 20, 21}
    d2h, h2d = found[20].d2h, found[21].h2d
    assert (d2h.n, d2h.bytes, d2h.wall_ns) == (1, 9, 4000)
    parts = (d2h.hidden_by_compute_ns, d2h.hidden_by_comm_ns, d2h.exposed_ns)
    assert parts == (2000, 1000, 1000)
    assert (h2d.n, h2d.bytes, h2d.busy_ns) == (2, 10, 7000)
    assert (h2d.hidden_by_compute_ns, h2d.hidden_by_comm_ns, h2d.exposed_ns) == (0, 1000, 6000)
    assert found[20].h2d.n == found[21].d2h.n == found[7].d2h.n == 0


def test_copies_at_the_same_time_count_on_each_stream_but_once_on_the_device(
    tmp_path: Path,
) -> None:
    path = build(tmp_path / "t.sqlite", "dev0 s20 d2h: ####\ndev0 s21 d2h: ..####")
    (device,) = analyze(path).devices
    assert [row.d2h.wall_ns for row in device.streams] == [4000, 4000]
    assert device.d2h.wall_ns == 6000


def test_only_the_window_counts(tmp_path: Path) -> None:
    drawing = """
        dev0 s7  compute: ####....##
        dev0 s20 bytes=9 d2h: ..####....
        dev0 s21 h2d:     ........##
    """
    found = streams(tmp_path, drawing, Window(3000, 7000))
    assert set(found) == {7, 20}, "stream 21 did nothing in the window"
    assert found[7].busy_ns == {"compute": 1000}
    assert found[20].busy_ns == {"d2h": 3000}
    d2h = found[20].d2h
    assert (d2h.n, d2h.bytes, d2h.wall_ns, d2h.exposed_ns) == (0, 0, 3000, 2000)


def test_unified_migrations_appear_on_no_stream(tmp_path: Path) -> None:
    found = streams(
        tmp_path,
        """
        dev0 s7 compute:     ##....
        dev0 s9 unified_h2d: ..##..
        dev0 s9 unified_d2h: ...###
        """,
    )
    assert set(found) == {7}


def test_work_on_stream_0_is_kept_apart_from_migrations(tmp_path: Path) -> None:
    found = streams(tmp_path, "dev0 s0 ctx0 compute: ##..\ndev0 s9 unified_h2d: ..##")
    assert found[0].busy_ns == {"compute": 2000}
    assert found[0].role == "compute"


def test_graph_nodes_share_the_stream_of_their_launch(tmp_path: Path) -> None:
    row = streams(
        tmp_path,
        """
        dev0 s7 graph=3 compute: ####..
        dev0 s7 graph=3 d2h:     .####.
        """,
    )[7]
    assert row.role == "mixed"
    assert row.busy_ns == {"compute": 4000, "d2h": 4000}
    assert (row.d2h.hidden_by_compute_ns, row.d2h.exposed_ns) == (3000, 1000)


def test_equal_numbers_on_other_devices_contexts_and_processes(tmp_path: Path) -> None:
    drawing = """
        dev0 pid1 ctx1 s7 compute: ####....
        dev0 pid1 ctx2 s7 h2d:     .##.....
        dev1 pid1 ctx1 s7 d2h:     ..###...
        dev0 pid2 ctx1 s7 comm:    ...#####
    """
    report = analyze(build(tmp_path / "t.sqlite", drawing))
    rows = [
        [(row.pid, row.context_id, row.stream_id, dict(row.busy_ns)) for row in device.streams]
        for device in report.devices
    ]
    assert rows == [
        [
            (1, 1, 7, {"compute": 4000}),
            (1, 2, 7, {"h2d": 2000}),
            (2, 1, 7, {"comm": 5000}),
        ],
        [(1, 1, 7, {"d2h": 3000})],
    ]


def test_long_sums_are_exact(tmp_path: Path) -> None:
    """Sums in floats would lose the odd nanosecond."""
    long = 2**53 + 1
    path = build(
        tmp_path / "t.sqlite",
        "dev0 s7 compute: #",
        extra_sql=[f'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 1, "end" = {1 + long}'],
    )
    assert analyze(path).devices[0].streams[0].busy_ns == {"compute": long}


# Real traces


@pytest.mark.parametrize("name", h200_names())
def test_streams_of_real_traces_add_up_to_the_busy_time_of_the_device(name: str) -> None:
    for device in analyze(h200(name)).devices:
        for direction in ("h2d", "d2h"):
            own = [getattr(row, direction) for row in device.streams]
            whole = getattr(device, direction)
            assert sum(part.n for part in own) == whole.n
            assert sum(part.bytes for part in own) == whole.bytes
            assert sum(part.busy_ns for part in own) == whole.busy_ns
            assert [part.busy_ns for part in own] == [
                row.busy_ns.get(direction, 0) for row in device.streams
            ]


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("micro_hidden", ["compute", "d2h"]),
        ("micro_duplex", ["compute", "d2h", "h2d"]),
        ("micro_samedir", ["compute", "d2h", "d2h"]),
        ("micro_serial", ["mixed"]),
        # The copies carry the stream of the launch, the kernels one that the driver made.
        ("micro_graph_node", ["compute", "d2h"]),
        ("jax_scan_pipelined_graph_node", ["mixed"]),
        ("micro_graph_graph", ["opaque"]),
        ("micro_managed", ["compute"]),
    ],
)
def test_roles_in_real_traces(name: str, roles: list[str]) -> None:
    (device,) = analyze(h200(name)).devices
    assert sorted(row.role for row in device.streams) == roles


@pytest.mark.parametrize("name", ["micro_graph_node", "jax_scan_pipelined_graph_node"])
def test_graph_nodes_of_real_traces_keep_the_streams_nsys_gives(name: str) -> None:
    (device,) = analyze(h200(name)).devices
    ids = query(
        h200(name),
        "SELECT DISTINCT streamId FROM CUPTI_ACTIVITY_KIND_KERNEL UNION "
        "SELECT DISTINCT streamId FROM CUPTI_ACTIVITY_KIND_MEMCPY",
    )
    assert [(row.stream_id,) for row in device.streams] == ids
