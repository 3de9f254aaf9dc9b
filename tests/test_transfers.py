"""One row a transfer: its values on drawings, its sums on real traces, and which kernel hid it."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysoverlap import RuleSet, Window, analyze, read_trace
from nsysoverlap.cli import main
from nsysoverlap.cli.columnar import to_csv
from nsysoverlap.measure import hiders
from nsysoverlap.run.analysis import Options
from nsysoverlap.run.transfer_table import COLUMNS, transfer_rows

from .builder.query import query
from .gatekit import split_trace
from .tracebuilder import ALL_REDUCE, CopyKind, TraceBuilder, build, draw
from .traces import h200, h200_names

Row = dict[str, Any]
HOST_KERNEL = "wrapped_dynamic_update_slice_2"


def rows_of(path: Path, options: Options | None = None) -> list[Row]:
    """The columns turned into one dictionary a row."""
    columns = transfer_rows(read_trace(path), options)
    assert tuple(columns) == COLUMNS
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def us(row: Row, *names: str) -> tuple[float, ...]:
    return tuple(row[name] / 1000 for name in names)


# Values


def test_a_row_in_full(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        pid42 dev0 s7  compute:        .####....####
        pid42 dev0 s8  comm:           ...####......
        pid42 dev0 s20 corr=9 bytes=90000 d2h: ..######.....
        """,
    )
    assert rows_of(path) == [
        {
            "start_ns": 2000,
            "end_ns": 8000,
            "direction": "d2h",
            "bytes": 90000,
            "bytes_estimated": None,
            "gb_per_s": 15.0,
            "src_kind": "device",
            "dst_kind": "pinned",
            "device": 0,
            "device_id": 0,
            "pid": 42,
            "context_id": 1,
            "stream_id": 20,
            "graph_node_id": None,
            "correlation_id": 9,
            "by_kernel": False,
            "hidden_ns": 3000,
            "comm_ns": 2000,
            "exposed_ns": 1000,
            "top_hiding_kernel": "gemm_fusion_dot_1",
            "trace": "t.sqlite",
            "rank": None,
            "framework": None,
            "step": None,
            "operation": "cudaMemcpyAsync",
            "scope": None,
            "queued_ns": 0,
            "blocking_ns": 0,
            "host_blocking_ns": 0,
            "waiter": None,
        }
    ]


def test_who_issued_a_transfer_how_long_it_queued_and_what_waited() -> None:
    """Held against the report: the same rows, counted another way."""
    trace = read_trace(h200("jax_unroll_lhs"))
    report = analyze(trace)
    frame = trace.transfers()
    inside = frame[frame["step"].notna()]
    assert sorted(inside["step"].unique()) == [0, 1, 2, 3]
    assert set(frame["framework"]) == {"JAX"}
    for direction in ("h2d", "d2h"):
        mine = inside[inside["direction"] == direction]
        total = report.total(direction)
        assert len(mine) == total.n
        # On one device copies of one direction never ran at once here.
        for column in ("exposed_ns", "blocking_ns", "host_blocking_ns"):
            assert mine[column].sum() == getattr(total, column)
    operations = inside.groupby(["operation", "direction"])["exposed_ns"].sum().to_dict()
    said = {(o.op, o.direction): o.overlap.exposed_ns for o in report.operations}
    assert operations == said
    late = frame[frame["blocking_ns"] > 1_000_000]
    assert len(late) > 4
    assert late["waiter"].notna().all()


def test_the_host_is_named_by_its_call() -> None:
    frame = read_trace(h200("pytorch/save_on_cpu")).transfers()
    held = frame[frame["host_blocking_ns"] > 2_000_000]
    assert set(held["waiter"]) == {"cudaStreamSynchronize"}
    assert set(frame["framework"]) == {"PyTorch"}


def test_queued_is_the_time_that_the_direction_was_busy_with_others(tmp_path: Path) -> None:
    """Launched at 0: the second D2H waits for the first (2 to 6), and not for the H2D."""
    builder = TraceBuilder()
    builder.kernel(0, 1_000, "gemm", stream=7)
    for i, (start, end, direction) in enumerate(
        ((1_500, 9_000, "h2d"), (2_000, 6_000, "d2h"), (7_000, 9_000, "d2h"))
    ):
        builder.api("cudaMemcpyAsync_v3020", 500 + i, 600 + i, 90 + i, stream=20)
        builder.copy(start, end, direction, stream=20 + i, correlation=90 + i, api=None)
    rows = rows_of(builder.write(tmp_path / "t.sqlite", "3.20"))
    assert [(r["direction"], r["queued_ns"]) for r in rows] == [
        ("h2d", 0), ("d2h", 0), ("d2h", 4_000)
    ]  # fmt: skip


def test_rows_come_by_start_over_devices_and_streams(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        dev1 s20 h2d: #...##
        dev0 s20 d2h: .##...
        dev0 s21 h2d: .#..##
        dev0 s7 compute: ######
        """,
        shuffle_seed=3,
    )
    found = [(r["start_ns"], r["end_ns"], r["device"], r["stream_id"]) for r in rows_of(path)]
    assert found == [
        (0, 1000, 1, 20),
        (1000, 2000, 0, 21),
        (1000, 3000, 0, 20),
        (4000, 6000, 0, 21),
        (4000, 6000, 1, 20),
    ]


def test_what_is_a_transfer_and_of_which_direction(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        dev0 s7 compute:       ##........
        dev0 s8 h2d:           #.........
        dev0 s8 d2h_pageable:  .#........
        dev0 s8 h2a:           ..#.......
        dev0 s8 a2h:           ...#......
        dev0 s8 unified_h2d:   ....#.....
        dev0 s8 unified_d2h:   .....#....
        dev0 s8 d2d:           ......#...
        dev0 s8 peer:          .......#..
        dev0 s8 staged_d2h:    ........#.
        dev0 s8 memset:        .........#
        """,
    )
    assert [(r["direction"], r["src_kind"], r["dst_kind"]) for r in rows_of(path)] == [
        ("h2d", "pinned", "device"),
        ("d2h", "device", "pageable"),
        ("h2d", "pinned", "array"),
        ("d2h", "array", "pinned"),
        ("unified_h2d", "unknown", "unknown"),
        ("unified_d2h", "unknown", "unknown"),
    ]


def test_every_memory_kind_has_its_name(tmp_path: Path) -> None:
    names = ["pageable", "pinned", "device", "array", "managed", "device_static", "managed_static"]
    builder = TraceBuilder()
    for kind in range(9):
        # Kind 8 is no kind nsys knows; 1 at the other end keeps the copy one from the host.
        builder.copy(kind * 10 + 10, kind * 10 + 15, CopyKind(1, kind, 1))
    path = builder.write(
        tmp_path / "t.sqlite", extra_sql=["UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET dstKind = NULL"]
    )
    found = rows_of(path)
    assert [row["src_kind"] for row in found] == [*names, "unknown", "unknown"]
    assert {row["dst_kind"] for row in found} == {"unknown"}


def test_a_transfer_kernel_has_estimated_bytes_only(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        f"""
        dev0 s7 corr=5 grid=100x2 block=256 kernel {HOST_KERNEL}: {"#" * 30}
        dev0 s8 compute: {"." * 10 + "#" * 15 + "." * 5}
        dev0 s20 h2d: {"." * 20 + "#" * 10}
        """,
    )
    kernel, copy = rows_of(path)
    assert kernel["by_kernel"]
    assert not copy["by_kernel"]
    assert (kernel["direction"], kernel["stream_id"], kernel["correlation_id"]) == ("d2h", 7, 5)
    assert (kernel["bytes"], kernel["bytes_estimated"]) == (None, 100 * 2 * 256 * 8)
    assert (kernel["gb_per_s"], kernel["src_kind"], kernel["dst_kind"]) == (None, None, None)
    assert us(kernel, "hidden_ns", "comm_ns", "exposed_ns") == (15, 0, 15)
    # It neither hides the copy nor itself.
    assert us(copy, "hidden_ns", "exposed_ns") == (5, 5)
    assert (copy["bytes"], copy["bytes_estimated"]) == (10_000 * 50, None)
    off = Options(rules=RuleSet(transfer_kernels=False))
    (copy,) = rows_of(path, off)
    assert us(copy, "hidden_ns", "exposed_ns") == (10, 0)


def test_a_copy_without_duration_has_no_rate(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.copy(500, 500, "h2d", 64)
    (row,) = rows_of(builder.write(tmp_path / "t.sqlite"))
    assert (row["gb_per_s"], row["bytes"], row["exposed_ns"]) == (None, 64, 0)
    assert row["top_hiding_kernel"] is None


def test_graph_nodes_carry_their_node(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        dev0 s7 graph=3 compute: ####....
        dev0 s7 graph=3 d2h:     .##.....
        dev0 s8 h2d:             .....##.
        """,
    )
    nodes = [row["graph_node_id"] for row in rows_of(path)]
    ((node,),) = query(
        path, "SELECT graphNodeId FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE graphNodeId IS NOT NULL"
    )
    assert nodes == [node, None]


def test_unified_migrations_have_no_stream_of_their_own(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        dev0 s7 compute:     ..####
        dev0 s9 unified_h2d: .###..
        """,
    )
    (row,) = rows_of(path)
    assert (row["stream_id"], row["context_id"], row["correlation_id"]) == (0, 0, 0)
    assert us(row, "hidden_ns", "exposed_ns") == (2, 1)
    assert row["top_hiding_kernel"] == "gemm_fusion_dot_1"


def test_a_window_keeps_whole_transfers_by_their_start(tmp_path: Path) -> None:
    path = build(
        tmp_path / "t.sqlite",
        """
        dev0 s7  compute: .########
        dev0 s20 d2h:     ###.###..
        """,
    )
    first, second = rows_of(path)
    assert us(first, "start_ns", "end_ns", "hidden_ns", "exposed_ns") == (0, 3, 2, 1)
    assert rows_of(path, Options(window=Window(None, 4000))) == [first]
    assert rows_of(path, Options(window=Window(1000, 5000))) == [second]
    assert rows_of(path, Options(window=Window(1000, 4000))) == []


def test_a_trace_without_transfers_has_columns_without_rows(tmp_path: Path) -> None:
    path = build(tmp_path / "t.sqlite", "dev0 s7 compute: ####")
    assert transfer_rows(read_trace(path)) == {name: [] for name in COLUMNS}
    no_rows = TraceBuilder()
    no_rows.nvtx("step", 0, 5)
    path = no_rows.write(tmp_path / "t.sqlite")
    assert transfer_rows(read_trace(path)) == {name: [] for name in COLUMNS}


# Real traces


@pytest.mark.parametrize("name", h200_names())
def test_rows_of_real_traces_sum_to_plain_sql(name: str) -> None:
    found = [row for row in rows_of(h200(name)) if not row["by_kernel"]]
    kinds = {"h2d": (1, 3), "d2h": (2, 4), "unified_h2d": (11, 11), "unified_d2h": (12, 12)}
    tables = query(h200(name), "SELECT name FROM sqlite_master WHERE name LIKE '%KIND_MEMCPY'")
    for direction, numbers in kinds.items():
        mine = [row for row in found if row["direction"] == direction]
        expected: list[tuple[Any, ...]] = [(0, 0, 0)]
        if tables:
            expected = query(
                h200(name),
                'SELECT count(*), ifnull(sum(bytes), 0), ifnull(sum("end" - start), 0) '
                f"FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind IN {numbers}",
            )
        busy = sum(row["end_ns"] - row["start_ns"] for row in mine)
        assert expected == [(len(mine), sum(row["bytes"] for row in mine), busy)]


@pytest.mark.parametrize("name", h200_names())
def test_each_row_of_real_traces_splits_exactly(name: str) -> None:
    found = rows_of(h200(name))
    assert found == sorted(found, key=lambda r: (r["start_ns"], r["end_ns"], r["device"]))
    for row in found:
        parts = row["hidden_ns"], row["comm_ns"], row["exposed_ns"]
        assert min(parts) >= 0
        assert sum(parts) == row["end_ns"] - row["start_ns"]
        assert (row["top_hiding_kernel"] is None) == (row["hidden_ns"] == 0)
        assert (row["bytes"] is None) == row["by_kernel"] == (row["bytes_estimated"] is not None)


@pytest.mark.parametrize("name", ["jax_unroll_lhs", "jax_scan_pipelined", "jax_fsdp2_lhs"])
def test_rows_sum_to_the_report_where_copies_of_a_direction_queue(name: str) -> None:
    found = rows_of(h200(name))
    for device, reported in enumerate(analyze(h200(name)).devices):
        for direction in ("h2d", "d2h"):
            mine = [r for r in found if (r["device"], r["direction"]) == (device, direction)]
            overlap = getattr(reported, direction)
            assert overlap.n == len(mine)
            if overlap.busy_ns == overlap.wall_ns:
                assert overlap.hidden_by_compute_ns == sum(r["hidden_ns"] for r in mine)
                assert overlap.hidden_by_comm_ns == sum(r["comm_ns"] for r in mine)
                assert overlap.exposed_ns == sum(r["exposed_ns"] for r in mine)


def test_transfer_kernels_of_a_real_trace() -> None:
    found = [row for row in rows_of(h200("jax_scan_pipelined")) if row["by_kernel"]]
    assert Counter((row["direction"], row["bytes_estimated"]) for row in found) == {
        ("d2h", 402_653_184): 4,
        ("d2h", 536_870_912): 4,
    }


def test_pageable_memory_of_a_real_trace() -> None:
    found = rows_of(h200("micro_pageable"))
    assert Counter((r["direction"], r["src_kind"], r["dst_kind"]) for r in found) == {
        ("h2d", "pageable", "device"): 3,
        ("d2h", "device", "pageable"): 3,
    }
    pinned = rows_of(h200("micro_hidden"))
    assert {(r["src_kind"], r["dst_kind"]) for r in pinned} == {("device", "pinned")}


def test_ranks_of_a_real_trace_keep_their_pids() -> None:
    found = rows_of(h200("ddp_two_procs"))
    assert {(r["device"], r["device_id"]) for r in found} == {(0, 0), (1, 0)}
    assert len({(r["device"], r["pid"]) for r in found}) == 2


# The kernel that hid most. A kernel is (name, stream, start, length), a copy (start, length).

Kernels = Sequence[tuple[str, int, int, int]]
Copies = Sequence[tuple[int, int]]


def brute_top(kernels: Kernels, start: int, length: int) -> str | None:
    """Longest time beside the copy, launches of a name together; of equals the first name."""
    beside: Counter[str] = Counter()
    for name, _, k_start, k_length in kernels:
        beside[name] += len(
            set(range(k_start, k_start + k_length)) & set(range(start, start + length))
        )
    return min((-ns, name) for name, ns in beside.items())[1] if any(beside.values()) else None


def write(kernels: Kernels, copies: Copies, path: Path) -> Path:
    builder = TraceBuilder()
    # Work that hides nothing or is no compute must not be named.
    builder.kernel(1, 100, ALL_REDUCE, stream=30)
    builder.memset(1, 100, stream=31)
    builder.kernel(1, 100, "elsewhere", device=1)
    for name, stream, start, length in kernels:
        builder.kernel(start, start + length, name, stream=stream)
    for i, (start, length) in enumerate(copies):
        builder.copy(start, start + length, "d2h" if i % 2 else "h2d", stream=20 + i % 3)
    return builder.write(path)


def top_kernels(path: Path) -> list[tuple[int, int, str | None]]:
    return [(r["start_ns"], r["end_ns"], r["top_hiding_kernel"]) for r in rows_of(path)]


KERNELS = st.lists(
    st.tuples(
        st.sampled_from(["alpha", "beta", "gamma", "delta"]),
        st.integers(7, 8),
        st.integers(1, 40),
        st.one_of(st.integers(1, 6), st.integers(20, 50)),
    ),
    max_size=14,
)
COPIES = st.lists(st.tuples(st.integers(1, 45), st.integers(0, 15)), min_size=1, max_size=8)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(kernels=KERNELS, copies=COPIES, at_once=st.sampled_from([1, 3, 1 << 22]))
def test_top_kernel_equals_the_brute_force_model(
    tmp_path: Path, kernels: Kernels, copies: Copies, at_once: int
) -> None:
    path = write(kernels, copies, tmp_path / "t.sqlite")
    expected = sorted((s, s + n, brute_top(kernels, s, n) or "") for s, n in copies)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hiders, "_PAIRS_AT_ONCE", at_once)
        assert sorted((s, e, name or "") for s, e, name in top_kernels(path)) == expected


@pytest.mark.parametrize(
    ("drawing", "expected"),
    [
        # Two short launches of one name beat a longer one of another.
        ("s7 kernel a: ###.###...\ns8 kernel b: ..#####...", "a"),
        ("s7 kernel a: ###.#.....\ns8 kernel b: ..#####...", "b"),
        # Of equals the first name.
        ("s7 kernel b: ###.......\ns8 kernel a: ...###....", "a"),
        # Only the part beside the copy counts (the copy is the first eight).
        ("s7 kernel a: ......####\ns8 kernel b: ###.......", "b"),
        # A long kernel begun early on the same stream is not overlooked.
        ("s7 kernel a: ########..\ns7 kernel b: .#.#......", "a"),
        ("s7 kernel a: ........##\ns8 kernel b: ........##", None),
    ],
)
def test_top_kernel_of_a_drawing(tmp_path: Path, drawing: str, expected: str | None) -> None:
    path = build(tmp_path / "t.sqlite", f"{drawing}\ns20 d2h: ########..")
    assert [name for _, _, name in top_kernels(path)] == [expected]


def test_top_kernel_has_its_short_name(tmp_path: Path) -> None:
    name = "void at::native::vectorized_elementwise_kernel<(int)4, float>(int, float*)"
    path = build(tmp_path / "t.sqlite", f"s7 kernel {name}: ####\ns20 d2h: .##.")
    assert rows_of(path)[0]["top_hiding_kernel"] == "vectorized_elementwise_kernel"


@pytest.mark.parametrize("at_once", [1, 7, 64])
def test_pairs_in_small_runs_give_the_same(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    at_once_all = rows_of(h200("jax_fsdp2_lhs"))
    assert len({row["top_hiding_kernel"] for row in at_once_all}) > 3
    monkeypatch.setattr(hiders, "_PAIRS_AT_ONCE", at_once)
    assert rows_of(h200("jax_fsdp2_lhs")) == at_once_all


def test_runs_hold_a_bounded_number_of_pairs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn = draw("s7 kernel a: " + "#." * 50 + "\ns20 d2h: " + "AB" * 50)
    path = drawn.write(tmp_path / "t.sqlite")
    sizes: list[int] = []
    expand = hiders._expand

    def spy(low: Any, high: Any) -> Any:
        pairs = expand(low, high)
        sizes.append(len(pairs[0]))
        return pairs

    monkeypatch.setattr(hiders, "_expand", spy)
    monkeypatch.setattr(hiders, "_PAIRS_AT_ONCE", 10)
    rows_of(path)
    assert sum(sizes) == 50, "every other copy has one kernel beside it"
    assert max(sizes) == 10


def test_ranks_of_a_folder_are_listed_one_after_another(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for i, hidden in enumerate((9_000, 5_000)):
        split_trace(folder / f"rank{i}.sqlite", d2h=(hidden, 10_000))
    (folder / "rank2.sqlite").write_text("broken")
    done = CliRunner().invoke(main, ["transfers", str(folder)])
    assert done.exit_code == 3
    assert done.stderr.startswith("Skipped: rank2.sqlite: ")
    found = [
        (r["trace"], r["rank"], r["exposed_ns"]) for r in csv.DictReader(StringIO(done.stdout))
    ]
    assert found == [("rank0.sqlite", "0", "1000"), ("rank1.sqlite", "1", "5000")]
    alone = CliRunner().invoke(main, ["info", str(folder), "--rank", "1", "--format", "json"])
    assert json.loads(alone.stdout)["path"] == "rank1.sqlite"
    none = CliRunner().invoke(main, ["plot", str(folder), "--rank", "7", "-o", "x.png"])
    assert none.exit_code == 2
    assert "rank 7 is that of 0 traces" in none.stderr


@pytest.mark.parametrize("name", ["=1+2", "+a", "-b", "@c", "=cmd|'/C calc'!A0"])
def test_no_cell_is_a_formula(name: str) -> None:
    lines = to_csv({"top_hiding_kernel": [name, "a=b", None], "n": [-1, 2, 3]}).splitlines()
    assert list(csv.reader(lines)) == [
        ["top_hiding_kernel", "n"], [f"'{name}", "-1"], ["a=b", "2"], ["", "3"]
    ]  # fmt: skip
