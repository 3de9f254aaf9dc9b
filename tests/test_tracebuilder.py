"""Drawn exports hold what was drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from .builder.query import columns, query, tables
from .tracebuilder import (
    ALL_REDUCE,
    COPY_KINDS,
    GEMM,
    CopyKind,
    TraceBuilder,
    build,
    draw,
    global_pid,
    global_tid,
)

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
DEVICES = "TARGET_INFO_CUDA_DEVICE"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "drawn.sqlite"


def test_rows_lie_where_they_were_drawn(out: Path) -> None:
    build(
        out,
        """
        dev0 s7  compute: .####....##.
        dev1 s20 ctx3 h2d: ...####.....     # one character is one microsecond
        """,
        t0=500,
    )
    where = 'start, "end", deviceId, streamId, contextId, globalPid'
    pid = global_pid(1000)
    assert query(out, f"SELECT {where} FROM {KERNEL}") == [
        (1500, 5500, 0, 7, 1, pid),
        (9500, 11500, 0, 7, 1, pid),
    ]
    assert query(out, f"SELECT {where} FROM {MEMCPY}") == [(3500, 7500, 1, 20, 3, pid)]


def test_a_change_of_letter_starts_a_new_activity(out: Path) -> None:
    build(out, "dev0 s7 compute: .AABB.B#", unit_ns=10)
    assert query(out, f'SELECT start, "end" FROM {KERNEL}') == [
        (10, 30),
        (30, 50),
        (60, 70),
        (70, 80),
    ]


@pytest.mark.parametrize("kind", sorted(COPY_KINDS))
def test_copy_kinds(out: Path, kind: str) -> None:
    build(out, f"dev1 s20 {kind}: .####")
    row = query(out, f"SELECT copyKind, srcKind, dstKind, bytes FROM {MEMCPY}")
    expected = COPY_KINDS[kind]
    assert row == [(expected.number, expected.src, expected.dst, 4000 * expected.rate)]


def test_migrations_and_peer_copies_carry_what_only_they_have(out: Path) -> None:
    build(
        out,
        """
        dev0 s20 unified_d2h: ##
        dev1 s20 peer:        ..##
        dev0 s20 d2h:         ....##
        """,
    )
    facts = "streamId, contextId, correlationId > 0, migrationCause, srcDeviceId, dstDeviceId"
    assert query(out, f"SELECT {facts} FROM {MEMCPY} ORDER BY start") == [
        (0, 0, 0, 2, None, None),
        (20, 2, 1, None, 0, 1),
        (20, 1, 1, None, None, None),
    ]
    assert len(query(out, f"SELECT 1 FROM {RUNTIME}")) == 2


def test_kernel_names_and_shapes(out: Path) -> None:
    name = "void deep_ep::internode::dispatch<false, 4>(int4*)"
    build(
        out,
        f"""
        dev0 s7 compute: #
        dev0 s7 comm: .#
        dev0 s7 grid=132x2 block=512 kernel {name}: ..#
        """,
    )
    sql = f"""
        SELECT long.value, short.value, gridX, gridY, gridZ, blockX FROM {KERNEL}
        JOIN StringIds AS long ON long.id = demangledName
        JOIN StringIds AS short ON short.id = shortName ORDER BY start
    """
    assert query(out, sql) == [
        (GEMM, GEMM, 1, 1, 1, 256),
        (ALL_REDUCE, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1, 1, 1, 256),
        (name, "dispatch", 132, 2, 1, 512),
    ]


def test_every_activity_has_its_launch(out: Path) -> None:
    build(
        out,
        """
        dev0 s7  compute: ..##..##..
        dev0 s20 d2h:     ...##.....
        pid2 s7  memset:  ..#.......
        dev0 s7  graph:   ........##
        """,
    )
    sql = f"""
        SELECT value, globalTid FROM {RUNTIME} AS api JOIN StringIds ON StringIds.id = nameId
        JOIN (SELECT start, correlationId, globalPid FROM {KERNEL}
              UNION ALL SELECT start, correlationId, globalPid FROM {MEMCPY}
              UNION ALL SELECT start, correlationId, globalPid FROM {MEMSET}
              UNION ALL SELECT start, correlationId, globalPid FROM {GRAPH_TRACE}) AS gpu
        ON gpu.correlationId = api.correlationId
           AND gpu.globalPid = api.globalTid - (api.globalTid & 0xFFFFFF) AND api."end" < gpu.start
        ORDER BY value
    """
    main = global_tid(1000)
    assert query(out, sql) == [
        ("cudaGraphLaunch_v10000", main),
        ("cudaLaunchKernel_v7000", main),
        ("cudaLaunchKernel_v7000", main),
        ("cudaMemcpyAsync_v3020", main),
        ("cudaMemsetAsync_v3020", global_tid(2)),
    ]


def test_correlation_ids_repeat_across_processes_only(out: Path) -> None:
    build(out, "pid1 s7 compute: #.#\npid2 s7 compute: #.#")
    assert query(out, f"SELECT correlationId, globalPid FROM {KERNEL} ORDER BY 2, 1") == [
        (1, global_pid(1)),
        (2, global_pid(1)),
        (1, global_pid(2)),
        (2, global_pid(2)),
    ]


def test_graph_nodes_share_one_launch(out: Path) -> None:
    build(
        out,
        """
        dev0 s7 graph=3 compute: ##.##.
        dev0 s7 graph=3 d2h:     ..##..
        """,
    )
    nodes = query(
        out,
        f"SELECT graphNodeId >> 32, correlationId FROM {KERNEL} "
        f"UNION ALL SELECT graphNodeId >> 32, correlationId FROM {MEMCPY}",
    )
    assert len(nodes) == 3
    assert len(set(nodes)) == 1
    assert nodes[0][0] == 3
    launches = query(out, f"SELECT value FROM {RUNTIME} JOIN StringIds ON id = nameId")
    assert launches == [("cudaGraphLaunch_v10000",)]


def test_staged_peer_copy_is_two_rows_of_one_launch(out: Path) -> None:
    build(
        out,
        """
        dev1 s7 corr=9 staged_d2h: ##..
        dev0 s7 corr=9 staged_h2d: .##.
        """,
    )
    facts = "copyKind, srcKind, dstKind, deviceId, correlationId"
    assert query(out, f"SELECT {facts} FROM {MEMCPY}") == [(2, 2, 2, 1, 9), (1, 2, 2, 0, 9)]
    assert len(query(out, f"SELECT 1 FROM {RUNTIME}")) == 1


@pytest.mark.parametrize("lane", ["dev0 s7 h2q: ##", "dev0 s7 kernel: ##", "dev0 compute ##", "x:"])
def test_a_lane_that_means_nothing_is_refused(out: Path, lane: str) -> None:
    with pytest.raises(ValueError, match="lane"):
        build(out, lane)
    assert not out.exists()


def test_a_misspelt_column_is_refused(out: Path) -> None:
    builder = TraceBuilder()
    builder.row(KERNEL, start=1, end=2, streamID=7)
    with pytest.raises(ValueError, match="streamID"):
        builder.write(out)
    assert not out.exists()


def test_lazy_tables_exist_empty_on_demand(out: Path) -> None:
    build(out, "dev0 s7 compute: ##")
    assert MEMCPY not in tables(out)
    build(out, "dev0 s7 compute: ##", lazy=False)
    assert query(out, f"SELECT count(*) FROM {MEMCPY}") == [(0,)]


def test_shuffled_rows_are_the_same_rows_out_of_order(out: Path) -> None:
    drawing = "dev0 s7 compute: " + "#." * 20
    starts = f"SELECT start FROM {KERNEL} ORDER BY rowid"
    in_order = query(build(out, drawing), starts)
    shuffled = query(build(out, drawing, shuffle_seed=1), starts)
    assert in_order == sorted(in_order)
    assert shuffled != in_order
    assert sorted(shuffled) == in_order


def test_shift_moves_events_but_not_rows_without_timestamps(out: Path) -> None:
    shift = 1_700_000_000_000_000_000
    builder = draw("dev0 s7 compute: .##")
    builder.kernel(0, 0)
    builder.nvtx("step", -500, 500)
    builder.write(out, shift_ns=shift)
    kernels = query(out, f'SELECT start, "end" FROM {KERNEL} ORDER BY start')
    assert kernels == [(0, 0), (shift + 1000, shift + 3000)]
    assert query(out, 'SELECT start, "end" FROM NVTX_EVENTS') == [(shift - 500, shift + 500)]


def test_damage_on_request(out: Path) -> None:
    build(
        out,
        "dev0 s7 compute: ##",
        drop_tables=["TARGET_INFO_GPU"],
        drop_columns=["mangledName", f"{RUNTIME}.callchainId"],
        extra_sql=["CREATE VIEW EXTRAP_GPU AS SELECT 1 AS one"],
    )
    assert "TARGET_INFO_GPU" not in tables(out)
    assert "mangledName" not in columns(out, KERNEL)
    assert "callchainId" not in columns(out, RUNTIME)
    assert query(out, "SELECT one FROM EXTRAP_GPU") == [(1,)]


def test_metadata_need_not_be_utf8(out: Path) -> None:
    builder = draw("dev0 s7 compute: ##")
    builder.meta("HOST", b"M\xfcnchen")
    builder.write(out)
    sql = "SELECT typeof(value), hex(value) FROM META_DATA_EXPORT WHERE name = 'HOST'"
    assert query(out, sql) == [("text", b"M\xfcnchen".hex().upper())]


def test_gpus_and_their_map_are_made_up_unless_given(out: Path) -> None:
    pairs = f"SELECT gpuId, cudaId, pid FROM {DEVICES}"
    drawn = draw("dev0 pid1 s7 compute: #\ndev1 pid2 s7 compute: #")
    drawn.write(out)
    assert query(out, pairs) == [(0, 0, 1), (1, 1, 2)]
    assert query(out, "SELECT count(DISTINCT uuid) FROM TARGET_INFO_GPU") == [(2,)]
    drawn.gpu(5, "NVIDIA GB200", uuid="abc", bandwidth=None)
    drawn.cuda_device(5, 0, pid=1)
    drawn.write(out, "3.24")
    gpu = "SELECT id, name, uuid, memoryBandwidth FROM TARGET_INFO_GPU"
    assert query(out, gpu) == [(5, "NVIDIA GB200", "abc", None)]
    assert query(out, f"SELECT gpuId, cudaId, pid, uuid FROM {DEVICES}") == [(5, 0, 1, "abc")]


def test_ids_can_be_too_large_for_a_float(out: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10, vm=0x100, pid=77)
    builder.write(out)
    ((tid,),) = query(out, f"SELECT globalTid FROM {RUNTIME}")
    assert tid == (0x100 << 48) + (77 << 24) + 77
    assert int(float(tid)) != tid


def test_unusual_copy_kind(out: Path) -> None:
    builder = TraceBuilder()
    builder.copy(0, 10, CopyKind(99), 4096, api=None, stream=3)
    builder.write(out)
    facts = "copyKind, srcKind, bytes, streamId"
    assert query(out, f"SELECT {facts} FROM {MEMCPY}") == [(99, 7, 4096, 3)]
    assert RUNTIME not in tables(out)
