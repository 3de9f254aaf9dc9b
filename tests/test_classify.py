"""Roles of activities: every condition at its boundary, drawn and on real H200 traces."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from nsysoverlap.roles.rule_table import COPY_RULES
from nsysoverlap.roles.rules import (
    Classified,
    Role,
    Rule,
    RuleSet,
    classify,
    comm_like_compute,
    top_names,
)
from nsysoverlap.trace.contents import (
    Activities,
    Copies,
    Device,
    Kernels,
    LaunchShapes,
    Stream,
    TargetGpu,
    Trace,
    TraceFacts,
    TraceInfo,
)
from nsysoverlap.trace.load import read_trace

FIXTURES = Path(__file__).parent / "fixtures"
H200_BANDWIDTH = 4_800_000_000_000
QUARTER_BYTES_PER_NS = 1200

Launch = tuple[str, int, int | None]
"""Kernel name, duration in ns, threads (None: launch shape not read)."""
Copy = tuple[int, int, int, int, int]
"""copyKind, srcKind, dstKind, srcDeviceId, dstDeviceId."""


def trace_of(
    launches: Sequence[Launch] = (),
    copies: Sequence[Copy] = (),
    bandwidth: int | None = H200_BANDWIDTH,
    n_memsets: int = 0,
    n_graphs: int = 0,
) -> Trace:
    """One device, one stream, launches one after the other."""
    names = tuple(dict.fromkeys(name for name, _, _ in launches))
    blocks = [threads or 0 for _, _, threads in launches]
    ends = np.cumsum([duration for _, duration, _ in launches], dtype=np.int64)
    starts = ends - np.array([duration for _, duration, _ in launches], np.int64)
    columns = np.array(copies, np.int64).reshape(len(copies), 5)
    ones = np.ones((len(launches), 2), np.int64)
    device = Device(0, (1 << 24,), 0, TargetGpu(memory_bandwidth=bandwidth), True)
    return Trace(
        info=TraceInfo("drawn.sqlite"),
        kernels=Kernels(
            **_rows(starts, ends),
            name=np.array([names.index(name) for name, _, _ in launches], np.int32),
            shape=np.arange(len(launches), dtype=np.int32),
            shapes=LaunchShapes(
                np.ones((len(launches), 3), np.int64),
                np.column_stack((np.array(blocks, np.int64), ones)),
            ),
        ),
        copies=Copies(
            **_rows(*_spans(len(copies))),
            n_bytes=np.ones(len(copies), np.int64),
            copy_kind=columns[:, 0].astype(np.uint8),
            src_kind=columns[:, 1].astype(np.uint8),
            dst_kind=columns[:, 2].astype(np.uint8),
            migration_cause=np.zeros(len(copies), np.uint8),
            src_device=columns[:, 3].astype(np.int32),
            dst_device=columns[:, 4].astype(np.int32),
            graph_node_id=np.zeros(len(copies), np.int64),
        ),
        memsets=Activities(**_rows(*_spans(n_memsets))),
        graphs=Activities(**_rows(*_spans(n_graphs))),
        streams=(Stream(0, 1 << 24, 0, 1, 7, 0),),
        devices=(device,),
        names=names,
        facts=TraceFacts(),
    )


def _spans(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.int64), np.arange(n, dtype=np.int64) + 1


def _rows(starts: np.ndarray, ends: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "start_ns": starts,
        "end_ns": ends,
        "stream": np.zeros(len(starts), np.int32),
        "correlation_id": np.zeros(len(starts), np.int64),
        "from_graph": np.zeros(len(starts), bool),
    }


def roles_of(classified: Classified) -> list[Role]:
    return [Role(role) for role in classified.kernel_role]


# Transfer kernels


@pytest.mark.parametrize(
    ("duration", "threads", "is_transfer"),
    [
        (19_999, 1, False),
        (20_000, 1, True),
        (20_000, 20_000 * QUARTER_BYTES_PER_NS // 16 - 1, True),
        (20_000, 20_000 * QUARTER_BYTES_PER_NS // 16, False),
        (10_395_908, 67_108_864, True),  # jax_scan_pipelined: 103 GB/s
        (325_000, 67_108_864, False),  # an on-device slice: 3300 GB/s
        (20_000, None, False),
        (20_000, 0, False),  # an export without grid and block
    ],
)
@pytest.mark.parametrize(
    ("name", "role"),
    [("wrapped_dynamic_update_slice_3", Role.D2H), ("wrapped_dynamic_slice", Role.H2D)],
)
def test_a_transfer_kernel_is_long_and_slow(
    name: str, role: Role, duration: int, threads: int | None, is_transfer: bool
) -> None:
    classified = classify(trace_of([(name, duration, threads)]))
    assert roles_of(classified) == [role if is_transfer else Role.COMPUTE]
    assert classified.estimated_row.tolist() == ([0] if is_transfer else [])
    assert classified.estimated_bytes.tolist() == ([(threads or 0) * 8] if is_transfer else [])


@pytest.mark.parametrize("bandwidth", [None, 0])
def test_without_memory_bandwidth_the_limit_is_500_gb_per_s(bandwidth: int | None) -> None:
    at_limit = 20_000 * 500 // 16
    launches = [
        ("wrapped_dynamic_slice", 20_000, at_limit),
        ("wrapped_dynamic_slice", 20_000, at_limit - 1),
    ]
    classified = classify(trace_of(launches, bandwidth=bandwidth))
    assert roles_of(classified) == [Role.COMPUTE, Role.H2D]


def test_a_huge_launch_does_not_wrap_around_into_a_slow_one() -> None:
    # 2^60 threads x 16 bytes is 0 in 64 bits.
    classified = classify(trace_of([("wrapped_dynamic_slice", 20_000, 2**60)]))
    assert roles_of(classified) == [Role.COMPUTE]


def test_only_candidates_are_transfers_and_their_bytes_belong_to_their_rows() -> None:
    launches = [
        ("gemm", 50_000, 64),
        ("wrapped_dynamic_slice", 50_000, 100),
        ("wrapped_dynamic_slice", 10_000, 100),
        ("ncclDevKernel_SendRecv", 50_000, 64),
        ("wrapped_dynamic_update_slice", 50_000, 7),
    ]
    classified = classify(trace_of(launches))
    assert roles_of(classified) == [Role.COMPUTE, Role.H2D, Role.COMPUTE, Role.COMM, Role.D2H]
    assert classified.estimated_row.tolist() == [1, 4]
    assert classified.estimated_bytes.tolist() == [800, 56]


def test_transfer_kernels_off_makes_candidates_compute_and_needs_no_shapes() -> None:
    rules = RuleSet(transfer_kernels=False)
    classified = classify(trace_of([("wrapped_dynamic_slice", 50_000, 100)]), rules)
    assert roles_of(classified) == [Role.COMPUTE]
    assert classified.estimated_row.tolist() == []
    assert not rules.moves_host_data(rules.rule_for("wrapped_dynamic_slice"))
    assert "turned off" in rules.explain("wrapped_dynamic_slice").why


# The user's rules


def test_users_rules_come_first() -> None:
    mine = Rule("mine", "config", Role.COMPUTE, "^wrapped_dynamic_slice")
    rules = RuleSet(user_rules=(mine,))
    classified = classify(trace_of([("wrapped_dynamic_slice", 50_000, 100)]), rules)
    assert roles_of(classified) == [Role.COMPUTE]
    assert rules.rules[classified.name_rule[0]] is mine


@pytest.mark.parametrize(("threads", "n_bytes"), [(10**9, [8 * 10**9]), (None, [0])])
def test_a_users_transfer_needs_no_proof(threads: int | None, n_bytes: list[int]) -> None:
    rules = RuleSet(user_rules=(Rule("mine", "config", Role.H2D, "fetch"),), transfer_kernels=False)
    classified = classify(trace_of([("my_fetch", 10, threads)]), rules)
    assert roles_of(classified) == [Role.H2D]
    assert classified.estimated_bytes.tolist() == n_bytes


# Copies

DEVICE_KINDS = {2, 3, 5}


def expected_copy_role(copy: Copy) -> Role:
    kind, src, dst, src_device, dst_device = copy
    if kind in (1, 2) and src in DEVICE_KINDS and dst in DEVICE_KINDS:
        return Role.COMM
    if kind == 8:
        known = src_device >= 0 and dst_device >= 0
        return Role.COMM if known and src_device != dst_device else Role.OTHER
    by_kind = {1: Role.H2D, 2: Role.D2H, 3: Role.H2D, 4: Role.D2H, 10: Role.COMM}
    return {**by_kind, 11: Role.UNIFIED_H2D, 12: Role.UNIFIED_D2H}.get(kind, Role.OTHER)


def test_copies_by_kind_memory_and_devices() -> None:
    memory = [0, 1, 2, 3, 4, 5, 6, 7, 255]
    copies = [
        (kind, src, dst, *devices)
        for kind in [*range(21), 255]
        for src in memory
        for dst in memory
        for devices in [(-1, -1), (0, 0), (0, 1), (1, 0), (-1, 0), (0, -1)]
    ]
    random.Random(0).shuffle(copies)
    classified = classify(trace_of(copies=copies))
    assert classified.copy_role.tolist() == [expected_copy_role(copy) for copy in copies]


def test_every_copy_rule_has_a_reason_and_a_name_of_its_own() -> None:
    assert all(rule.why for rule in COPY_RULES)
    assert len({rule.name for rule in COPY_RULES}) == len(COPY_RULES)


# Whole traces


def test_memsets_are_other_and_whole_graphs_opaque() -> None:
    classified = classify(
        trace_of([("gemm", 5, None)], [(1, 1, 2, -1, -1)], n_memsets=2, n_graphs=1)
    )
    assert {kind: roles.tolist() for kind, roles in classified.roles.items()} == {
        "kernel": [Role.COMPUTE],
        "memcpy": [Role.H2D],
        "memset": [Role.OTHER, Role.OTHER],
        "graph": [Role.OPAQUE],
    }


def test_an_empty_trace_has_no_roles() -> None:
    classified = classify(trace_of())
    assert [len(roles) for roles in classified.roles.values()] == [0, 0, 0, 0]
    assert top_names(classified) == []
    assert comm_like_compute(classified) == []


def test_comm_like_compute_lists_unruled_names_that_sound_like_communication() -> None:
    launches = [
        ("my_all_reduce", 5, None),
        ("MyAllGather", 30, None),
        ("my_all_reduce", 7, None),
        ("ncclDevKernel_SendRecv", 100, None),
        ("all_reduce_32_0_fusion_1", 100, None),
        ("AllReduceFusion", 100, None),
        ("void gemm<AllReduceEpilogue>(int)", 100, None),
        ("gemm", 100, None),
        ("known_all_to_all", 100, None),
    ]
    rules = RuleSet(user_rules=(Rule("mine", "config", Role.COMPUTE, "^known_"),))
    found = comm_like_compute(classify(trace_of(launches), rules))
    assert found == [("MyAllGather", 30, 1), ("my_all_reduce", 12, 2)]


def test_top_names_are_the_most_expensive_of_each_category() -> None:
    launches = [
        ("gemm_a", 10, None),
        ("gemm_b", 30, None),
        ("gemm_a", 25, None),
        ("gemm_c", 1, None),
        ("ncclDevKernel_SendRecv", 20, None),
        ("wrapped_dynamic_slice", 50_000, 1),
        ("wrapped_dynamic_slice", 10_000, 1),
    ]
    assert top_names(classify(trace_of(launches)), per_category=2) == [
        ("transfer kernel", Role.H2D, "wrapped_dynamic_slice", 1, 50_000),
        ("transfer kernel", Role.COMPUTE, "wrapped_dynamic_slice", 1, 10_000),
        ("compute", Role.COMPUTE, "gemm_a", 2, 35),
        ("compute", Role.COMPUTE, "gemm_b", 1, 30),
        ("nccl", Role.COMM, "ncclDevKernel_SendRecv", 1, 20),
    ]


def test_totals_are_exact_beyond_what_a_float_holds() -> None:
    huge = 2**53
    launches = [("gemm", huge, None), ("gemm", 1, None), ("gemm", 1, None)]
    assert top_names(classify(trace_of(launches)))[0].total_ns == huge + 2


# Real H200 traces


def kernel_rows_named(trace_name: str, like: str) -> list[tuple[int, int, int]]:
    """start, end and threads of the kernels whose name is LIKE the pattern, by plain SQL."""
    with closing(sqlite3.connect(FIXTURES / trace_name)) as connection:
        return connection.execute(
            "SELECT start, end, gridX * gridY * gridZ * blockX * blockY * blockZ"
            " FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON StringIds.id = demangledName"
            " WHERE value LIKE ? ORDER BY start",
            (like,),
        ).fetchall()


def test_jax_scan_pipelined_has_eight_kernels_that_are_d2h_transfers() -> None:
    classified = classify(read_trace(FIXTURES / "jax_scan_pipelined.sqlite"))
    kernels = classified.trace.kernels
    expected = kernel_rows_named("jax_scan_pipelined.sqlite", "wrapped_dynamic_update_slice%")
    rows = np.flatnonzero(classified.kernel_role == Role.D2H)
    assert len(rows) == 8
    assert kernels.start_ns[rows].tolist() == [start for start, _, _ in expected]
    assert classified.estimated_row.tolist() == rows.tolist()
    assert classified.estimated_bytes.tolist() == [threads * 8 for _, _, threads in expected]
    assert np.count_nonzero(classified.copy_role == Role.D2H) == 56


def test_jax_fsdp2_lhs_takes_nccl_as_communication_and_a_fusion_as_compute() -> None:
    trace = read_trace(FIXTURES / "jax_fsdp2_lhs.sqlite")
    classified = classify(trace)
    roles = {
        name: {Role(role) for role in classified.kernel_role[trace.kernels.name == index]}
        for index, name in enumerate(trace.names)
    }
    assert roles["all_reduce_32_0_fusion_1"] == {Role.COMPUTE}
    comm = {name for name, found in roles.items() if found == {Role.COMM}}
    assert comm == {name for name in trace.names if name.startswith("ncclDevKernel_")}
    assert np.count_nonzero(classified.kernel_role == Role.COMM) == len(
        kernel_rows_named("jax_fsdp2_lhs.sqlite", "ncclDevKernel%")
    )
    assert comm_like_compute(classified) == []
