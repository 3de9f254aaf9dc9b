"""Kernels that are transfers, and kernels of other processes."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest

from nsysoverlap.core.formatting import format_ns
from nsysoverlap.result.numbers import format_share
from nsysoverlap.run.analysis import Options, analyze_trace
from nsysoverlap.trace.load import read_trace

from ..tracebuilder import TraceBuilder, draw
from .kit import MS, drawn, fired, only

HOST_KERNEL = "wrapped_dynamic_update_slice_2"
PIPELINED = "--xla_gpu_enable_pipelined_host_offloading"
LANES = f"""
    dev0 s7  compute:                             ####..####
    dev0 s20 grid=1024 block=128 kernel {HOST_KERNEL}: ..####....
    dev0 s21 d2h:                                 ......##..
"""


def test_kernels_that_move_host_memory(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, LANES), "transfer-kernels")
    assert (finding.cost_ns, finding.severity) == (2 * MS, "warning")
    assert finding.title == "Kernels that move host memory themselves: 1 of 2 transfers"
    # 1024 x 128 threads move 8 bytes each.
    assert finding.detail.startswith(
        f"{HOST_KERNEL} ran for 4.0 ms, about 1.0 MiB at 0.262 GB/s (from their threads)."
    )
    assert (
        finding.remedy == "Use cudaMemcpyAsync in place of kernels that read or write host memory."
    )
    (row,) = finding.evidence
    assert (row.start_ns, row.end_ns) == (2 * MS, 6 * MS)
    assert row.text == f"{HOST_KERNEL} moves about 1.0 MiB D2H, 2.0 ms exposed"


def test_hidden_ones_are_a_note(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        f"dev0 s7 compute: ####\ndev0 s20 grid=1024 block=128 kernel {HOST_KERNEL}: .##.",
    )
    finding = only(context, "transfer-kernels")
    assert (finding.cost_ns, finding.severity) == (0, "note")


def test_only_those_of_the_steps_count(tmp_path: Path) -> None:
    builder = draw("dev0 s7 compute: ...##", unit_ns=MS)
    builder.nvtx("step 0", 3 * MS - 10_000, 4 * MS)
    for begin in (0, 3):
        builder.kernel(
            begin * MS,
            (begin + 3) * MS,
            HOST_KERNEL,
            grid=(1024, 1, 1),
            block=(128, 1, 1),
            stream=20,
        )
    context = drawn(tmp_path, builder, steps="step")
    assert context.n_steps == 1
    assert only(context, "transfer-kernels").title.endswith(": 1 of 1 transfer")


@pytest.mark.parametrize("unit_ns", [1000, 4000])
def test_short_and_fast_kernels_of_that_name_compute(tmp_path: Path, unit_ns: int) -> None:
    """16 us are too short; 64 us for 64 M threads are too fast for a host link."""
    drawing = f"dev0 s7 grid=500000 block=128 kernel {HOST_KERNEL}: {'#' * 16}"
    assert fired(drawn(tmp_path, drawing, unit_ns=unit_ns), "transfer-kernels") == []


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"XLA_FLAGS": f"{PIPELINED}=true"}, f"Set {PIPELINED}=false in XLA_FLAGS (this run set"),
        ({"XLA_FLAGS": f"{PIPELINED}"}, f"Set {PIPELINED}=false in XLA_FLAGS (this run set"),
        ({"XLA_FLAGS": "--xla_a=1"}, f"Set {PIPELINED}=false in XLA_FLAGS, and leave"),
        (
            {"XLA_FLAGS": f"{PIPELINED}=false", "JAX_OPTIMIZATION_LEVEL": "O1"},
            f"Leave JAX_OPTIMIZATION_LEVEL=O1 out: it pipelines host copies whatever {PIPELINED} ",
        ),
    ],
)
def test_the_remedy_for_xla(tmp_path: Path, env: dict[str, str], expected: str) -> None:
    builder = draw(LANES, unit_ns=MS)
    for name, value in env.items():
        builder.env(name, value)
    remedy = only(drawn(tmp_path, builder), "transfer-kernels").remedy
    assert remedy.startswith(expected)
    assert "depends on the version" in remedy


def shared(*lanes: str) -> TraceBuilder:
    """A drawing in which processes 1 and 2 share one GPU."""
    builder = draw("\n".join(f"dev0 {lane}" for lane in lanes), unit_ns=MS)
    builder.gpu(0)
    for pid in (1, 2):
        builder.cuda_device(0, 0, pid)
    return builder


def test_transfers_hidden_by_another_process(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        shared(
            "pid1 s7  compute: ###.......",
            "pid2 s7  compute: ....##.###",
            "pid1 s20 d2h:     .########.",
            "pid2 s21 h2d:     .......##.",
        ),
    )
    assert len(context.cases) == 1
    finding = only(context, "hidden-by-other-process")
    # 4 to 6 and 7 to 9 ms for process 1; process 2 hides its own copy.
    assert finding.detail.startswith("4.0 ms, 50.0 % of the transfer time:")
    assert (finding.cost_ns, finding.severity) == (0, "warning")
    (row,) = finding.evidence
    assert (row.start_ns, row.end_ns) == (MS, 9 * MS)
    assert row.text == ("381.5 MiB D2H of pid 1, 4.0 ms of it beside kernels of others only")


@pytest.mark.parametrize(
    "lanes",
    [
        # Own kernels hide it too; only communication of the other one; nothing hidden at all.
        ("pid1 s7 compute: ####", "pid2 s7 compute: ####", "pid1 s20 d2h: ####"),
        ("pid1 s7 compute: #...", "pid2 s7 comm: ####", "pid1 s20 d2h: ####"),
        ("pid1 s7 compute: #...", "pid2 s7 compute: #...", "pid1 s20 d2h: .###"),
    ],
)
def test_what_other_processes_do_not_hide(tmp_path: Path, lanes: tuple[str, ...]) -> None:
    context = drawn(tmp_path, shared(*lanes))
    assert len(context.cases) == 1
    assert [f.severity for f in fired(context, "hidden-by-other-process")] == []


def test_kernels_of_the_same_process_elsewhere_are_no_excuse(tmp_path: Path) -> None:
    builder = shared("pid1 s20 d2h: ####", "pid2 s7 compute: ####")
    builder.gpu(1)
    builder.cuda_device(1, 1, 1)
    builder.kernel(0, 4 * MS, pid=1, device=1)
    context = drawn(tmp_path, builder)
    assert len(context.cases) == 2
    assert only(context, "hidden-by-other-process").detail.startswith("4.0 ms, 100.0 % ")


def test_processes_with_a_gpu_each(tmp_path: Path) -> None:
    builder = draw(
        """
        dev0 pid1 s20 d2h:     ####
        dev0 pid1 s7  compute: #...
        dev1 pid2 s7  compute: ####
        """,
        unit_ns=MS,
    )
    context = drawn(tmp_path, builder)
    assert len(context.cases) == 2
    assert fired(context, "hidden-by-other-process") == []


@pytest.mark.parametrize(
    ("length_us", "severity"), [(9, []), (10, ["note"]), (99, ["note"]), (100, ["warning"])]
)
def test_how_much_may_be_hidden_by_others(
    tmp_path: Path, length_us: int, severity: list[str]
) -> None:
    builder = shared()
    builder.copy(0, MS, "d2h", pid=1, stream=20)
    builder.kernel(0, length_us * 1000, pid=2)
    found = fired(drawn(tmp_path, builder), "hidden-by-other-process")
    assert [finding.severity for finding in found] == severity


@pytest.mark.parametrize("seed", range(6))
def test_what_is_hidden_by_others_equals_a_count_of_instants(tmp_path: Path, seed: int) -> None:
    choose, length = random.Random(seed), 60
    builder = shared()
    computes, moves = np.zeros((3, length), np.bool_), []
    for pid in (1, 2, 3):
        builder.cuda_device(0, 0, pid)
        for stream in range(choose.randint(1, 5)):
            start = choose.randrange(length - 12)
            end = start + choose.randint(1, 12)
            if choose.random() < 0.5:
                builder.kernel(start * MS, end * MS, pid=pid, stream=stream)
                computes[pid - 1, start:end] = True
            else:
                builder.copy(start * MS, end * MS, "d2h", pid=pid, stream=stream + 20)
                moves.append((pid - 1, start, end))
    builder.copy(0, 2 * MS, "d2h", pid=1, stream=40)
    builder.kernel(0, MS, pid=2, stream=41)
    computes[1, :1] = True
    moves.append((0, 0, 2))
    hidden, total, by_row = np.zeros(length, np.bool_), np.zeros(length, np.bool_), []
    for pid, start, end in moves:
        row = np.zeros(length, np.bool_)
        row[start:end] = True
        total |= row
        row &= computes.any(axis=0) & ~computes[pid]
        hidden |= row
        by_row.append(int(row.sum()))
    finding = only(drawn(tmp_path, builder), "hidden-by-other-process")
    share = format_share(int(hidden.sum()) / int(total.sum()))
    assert finding.detail.startswith(f"{format_ns(int(hidden.sum()) * MS)}, {share} of the tra")
    assert f"{format_ns(max(by_row) * MS)} of it beside" in finding.evidence[0].text


@pytest.mark.slow
def test_processes_of_one_gpu_cost_what_their_rows_cost(tmp_path: Path) -> None:
    """Four times the processes take at most four times the time and a little."""
    took = []
    for n in (1_000, 4_000):
        builder = TraceBuilder()
        for i in range(4 * n):
            at = 3_000 * i
            builder.copy(at, at + 1_000, pid=1_000 + i % n, stream=20)
            builder.kernel(at + 500, at + 2_000, f"gemm_{i // n}", pid=1_000 + i % n, stream=7)
        path = builder.write(tmp_path / f"{n}.sqlite")
        tries = []
        for _ in range(2):
            before = time.process_time()
            report = analyze_trace(read_trace(path), Options())
            tries.append(time.process_time() - before)
        assert report.devices[0].h2d.n == 4 * n
        took.append(min(tries))
    assert took[1] < 5 * took[0], took
