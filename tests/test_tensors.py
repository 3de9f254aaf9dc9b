"""Tensors that nothing names: one row each, in every step the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoverlap import analyze
from nsysoverlap.measure.lanes import Transfers
from nsysoverlap.measure.tensors import _sent_before
from nsysoverlap.roles.rules import Role
from nsysoverlap.steps.labels import without_counters

from .stepdrawing import Dispatch
from .traces import h200


def rows_of(path: Path) -> list[tuple[str, str, int]]:
    """(op, direction, n) of each operation, in order of name."""
    found = analyze(path).operations
    return sorted((one.op, one.direction, one.overlap.n) for one in found)


def steps(names: tuple[str, ...], copies: tuple[tuple[int, str, int], ...]) -> Dispatch:
    """Three steps of kernels, one every 10 us, and of copies (at, kind, bytes)."""
    drawn = Dispatch()
    for i in range(3):
        at = 200 * i
        drawn.range(f"step {i}", at, at + 190)
        for k, name in enumerate(names):
            drawn.run(at + 10 * k + 1, at + 10 * k + 2, at + 10 * k + 8, name=name)
        for offset, kind, n_bytes in copies:
            start = (at + offset) * 1000
            drawn.builder.api("cudaMemcpyAsync_v3020", start, start + 500, 10_000 + start, tid=1)
            drawn.builder.copy(
                start, start + 2_000, kind, n_bytes=n_bytes, correlation=10_000 + start, api=None
            )
    return drawn


def test_a_tensor_has_one_name_out_and_back(tmp_path: Path) -> None:
    """Two of one size: what leaves last comes back first."""
    mib = 1 << 20
    drawn = steps(
        ("attention", "mlp", "loss", "back_mlp", "back_attention"),
        ((5, "d2h", mib), (15, "d2h", mib), (27, "h2d", mib), (37, "h2d", mib)),
    )
    assert rows_of(drawn.builder.write(tmp_path / "t.sqlite")) == [
        ("1.0 MiB after attention", "d2h", 3),
        ("1.0 MiB after attention", "h2d", 3),
        ("1.0 MiB after mlp", "d2h", 3),
        ("1.0 MiB after mlp", "h2d", 3),
    ]
    # The first one out is the last one back.
    report = analyze(tmp_path / "t.sqlite", steps="none")
    assert [one.op for one in report.operations] == ["step N", "step N"]


def test_equal_ones_behind_one_kernel_are_told_apart_by_their_order(tmp_path: Path) -> None:
    drawn = steps(("mlp", "loss"), ((3, "d2h", 4096), (6, "d2h", 4096), (9, "d2h", 8192)))
    assert rows_of(drawn.builder.write(tmp_path / "t.sqlite")) == [
        ("4.0 KiB after mlp (1 of 2)", "d2h", 3),
        ("4.0 KiB after mlp (2 of 2)", "d2h", 3),
        ("8.0 KiB after mlp", "d2h", 3),
    ]


def test_parameters_whose_gradients_leave_are_tensors_of_their_own(tmp_path: Path) -> None:
    """Two come in for each one that leaves, so what leaves is not what came back."""
    drawn = steps(("mlp", "back"), ((3, "h2d", 4096), (6, "d2h", 4096), (13, "h2d", 4096)))
    assert rows_of(drawn.builder.write(tmp_path / "t.sqlite")) == [
        ("4.0 KiB after back", "h2d", 3),
        ("4.0 KiB after mlp", "d2h", 3),
        ("4.0 KiB after mlp", "h2d", 3),
    ]


def test_a_name_in_the_trace_stays(tmp_path: Path) -> None:
    drawn = steps(("mlp",), ((3, "d2h", 4096),))
    for i in range(3):
        drawn.range("offload hidden", 200 * i + 2, 200 * i + 5)
    assert rows_of(drawn.builder.write(tmp_path / "t.sqlite")) == [("offload hidden", "d2h", 3)]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.booleans()), max_size=24))
def test_pairs_are_those_of_a_stack(events: list[tuple[int, int, bool]]) -> None:
    """(step, size, whether out) one after the other, against a stack for each step and size."""
    events = sorted(events, key=lambda event: event[0])
    stacks: dict[tuple[int, int], list[int]] = {}
    expected = [-1] * len(events)
    for i, (step, size, out) in enumerate(events):
        stack = stacks.setdefault((step, size), [])
        if out:
            stack.append(i)
        elif stack:
            expected[i] = stack.pop()
    for key, stack in stacks.items():
        mine = [i for i, (step, size, _) in enumerate(events) if (step, size) == key]
        starved = any(expected[i] < 0 and not events[i][2] for i in mine)
        if stack or starved:
            for i in mine:
                expected[i] = -1
    n = len(events)
    at = np.arange(n, dtype=np.int64)
    role = np.array([Role.D2H if out else Role.H2D for *_, out in events], np.int64)
    zero = np.zeros(n, np.int64)
    rows = Transfers(at, at, zero, zero, zero.astype(bool), zero, role, zero)
    steps_of = np.array([event[0] for event in events], np.int64)
    sizes_of = np.array([event[1] for event in events], np.int64)
    if n:
        assert _sent_before(rows, steps_of, sizes_of).tolist() == expected


@pytest.mark.parametrize(
    ("name", "times"), [("save_on_cpu", 3), ("offload_stream", 3), ("fsdp2_cpu", 4)]
)
def test_real_programs_have_one_row_a_tensor(name: str, times: int) -> None:
    """Each moves once a step, on each of two ranks for fsdp2_cpu."""
    report = analyze(h200(f"pytorch/{name}"))
    counts = Counter(one.overlap.n for one in report.operations if one.overlap.bytes > 1 << 20)
    assert set(counts) == {times}
    assert sum(one.overlap.n for one in report.operations) == report.total("both").n
    if name != "fsdp2_cpu":
        large = [one for one in report.operations if one.overlap.bytes > 1 << 20]
        out = {one.op for one in large if one.direction == "d2h"}
        assert out == {one.op for one in large if one.direction == "h2d"}


def test_no_name_of_a_real_trace_holds_a_counter() -> None:
    ops = {one.op for one in analyze(h200("pytorch/lightning")).operations}
    assert ops == {"aten::copy_", "aten::_local_scalar_dense"}


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("aten::mm, seq = 12, op_id = 345, sizes = [[2, 3], [3, 4]]", "aten::mm"),
        ("aten::copy_, op_id = 23531", "aten::copy_"),
        ("TSL:offload", "offload"),
        ("step 12/100", "step N/N"),
        ("ProfilerStep#7", "ProfilerStep#N"),
        ("Iteration 3", "Iteration N"),
        ("micro_batch 3", "micro_batch N"),
        ("chunk 4/16", "chunk N"),
        ("CacheEngine.get_impl_local[17]", "CacheEngine.get_impl_local[N]"),
        # Identities, not counters.
        ("Linear_3", "Linear_3"),
        ("layers.3", "layers.3"),
        ("fusion.12", "fusion.12"),
        ("FSDP::all_gather (layers.3), op_id = 7", "FSDP::all_gather (layers.3)"),
        ("copy-start.3", "copy-start.3"),
        ("Optimizer.step#AdamW.step, op_id = 5", "Optimizer.step#AdamW.step"),
    ],
)
def test_counters_are_folded(text: str, folded: str) -> None:
    assert without_counters(text) == folded
