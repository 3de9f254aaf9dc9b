"""Offloading that frees little, or that does not happen."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap.findings import Context
from nsysoverlap.result.model import Finding

from ..tracebuilder import TraceBuilder, draw
from ..traces import h200, h200_names
from .kit import context_of, drawn, fired

MS = 1_000_000
PIPELINED = "--xla_gpu_enable_pipelined_host_offloading=true"

# Each step: three tensors that leave and come back at once.
BACK_AT_ONCE = {
    "s7  compute": ".##.##.##.###",
    "s20 bytes=3000000 d2h": ".##...##...##",
    "s21 bytes=3000000 h2d": "....##...##..##",
}
ALL_AWAY = {
    "s7  compute": ".##.##.##.###",
    "s20 bytes=3000000 d2h": ".ABC",
    "s21 bytes=3000000 h2d": ".......A.B.C",
}
TWO_TENSORS = {
    "s7  compute": ".##.##.##.###",
    "s20 bytes=3000000 d2h": ".##...##",
    "s21 bytes=3000000 h2d": "....##...##",
}
# Optimizer state, layer by layer: it comes in, is updated, and goes out.
STREAMED_STATE = {
    "s7  compute": ".##.##.##.###",
    "s21 bytes=3000000 h2d": ".#..#..#",
    "s20 bytes=3000000 d2h": "..#..#..#",
}
ONE_WAY = {
    "s7  compute": ".##.##.##.###",
    "s20 bytes=3000000 d2h": ".##...##...##",
    "s21 bytes=3000001 h2d": "....##...##..##",
}


def only(context: Context, code: str) -> Finding:
    (finding,) = fired(context, code)
    return finding


def steps(lanes: dict[str, str], *, marked: bool = True) -> TraceBuilder:
    """The lanes twice, 20 ms apart, as two steps."""
    builder = draw(
        "\n".join(f"dev0 {lane}: {cells.ljust(20, '.') * 2}" for lane, cells in lanes.items()),
        unit_ns=MS,
    )
    for i in range(2 * marked):
        builder.nvtx(f"step {i}", 20 * i * MS + 500_000, (20 * i + 19) * MS)
    return builder


def test_tensors_that_come_back_at_once(tmp_path: Path) -> None:
    finding = only(drawn(tmp_path, steps(BACK_AT_ONCE)), "round-trip")
    # Exposed are 6-7 of the second tensor's D2H, 9-10 of its H2D and 13-15 of the third's.
    assert (finding.cost_ns, finding.severity) == (4 * MS, "warning")
    assert finding.title == (
        "Offloading frees little: 2.9 MiB of the 8.6 MiB offloaded a step were ever on the host "
        "at once (33.3 %)"
    )
    assert finding.detail == (
        "6 tensors stayed 1.0 ms (median) on the host between the end of their D2H and the start "
        "of their reload. Operations: 2.9 MiB, 2.9 MiB after gemm_fusion_dot_1 (1 of 2), "
        "2.9 MiB after gemm_fusion_dot_1 (2 of 2)."
    )
    assert [(row.start_ns // MS, row.text) for row in finding.evidence] == [
        (11, "2.9 MiB D2H, back 0 ms later"),
        (31, "2.9 MiB D2H, back 0 ms later"),
        (1, "2.9 MiB D2H, back 1.0 ms later"),
    ]


@pytest.mark.parametrize("lanes", [ALL_AWAY, TWO_TENSORS, STREAMED_STATE, ONE_WAY])
def test_offloading_that_frees_memory_or_is_no_offloading(
    tmp_path: Path, lanes: dict[str, str]
) -> None:
    context = drawn(tmp_path, steps(lanes))
    assert context.n_steps == 2
    assert fired(context, "round-trip") == []


def test_without_steps_nothing_is_said(tmp_path: Path) -> None:
    assert fired(drawn(tmp_path, steps(BACK_AT_ONCE, marked=False)), "round-trip") == []
    for name in ("jax_unroll_nolhs", "jax_unroll_lhs"):
        assert fired(context_of(h200(name), steps="none"), "round-trip") == []


@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        (None, "Keep these tensors on the device"),
        ("--xla_gpu_autotune_level=0", "--xla_gpu_memory_limit_slop_factor (95 by default"),
        ("--xla_gpu_memory_limit_slop_factor=60", "--xla_gpu_memory_limit_slop_factor (60 here"),
    ],
)
def test_the_remedy_fits_the_flags(tmp_path: Path, flags: str | None, remedy: str) -> None:
    builder = steps(BACK_AT_ONCE)
    if flags is not None:
        builder.env("XLA_FLAGS", flags)
    assert remedy in only(drawn(tmp_path, builder), "round-trip").remedy


def test_the_round_trips_of_a_real_trace() -> None:
    context = context_of(h200("jax_unroll_lhs"))
    finding = only(context, "round-trip")
    # Every transfer of the trace is one half of a round trip.
    assert finding.cost_ns == context.devices[0].both.exposed_ns // 4
    assert "768.0 MiB of the 3.00 GiB offloaded a step" in finding.title
    assert finding.detail.startswith("32 tensors stayed 868.6 µs (median) on the host")
    assert "copy-start" in finding.detail
    assert all((row.op or "").startswith("copy-start") for row in finding.evidence)


@pytest.mark.parametrize("name", h200_names())
def test_which_real_traces_make_round_trips(name: str) -> None:
    found = fired(context_of(h200(name)), "round-trip")
    assert bool(found) == (name in {"jax_unroll_lhs", "jax_fsdp2_lhs"})


def asking(text: str, n_bytes: int = 999_999) -> TraceBuilder:
    """Compute inside an NVTX range, and one copy."""
    builder = draw(f"dev0 s7 compute: ####\ndev0 s20 bytes={n_bytes} d2h: ..#", unit_ns=MS)
    builder.nvtx(text, 0, 4 * MS)
    return builder


@pytest.mark.parametrize("op", ["copy-start.3", "dynamic-update-slice-start"])
def test_offload_ops_without_transfers(tmp_path: Path, op: str) -> None:
    text = f"TSL:Thunk:#name=while/body,hlo_op={op},unique_hlo_op_id=4#"
    finding = only(drawn(tmp_path, asking(text)), "offload-missing")
    assert (finding.cost_ns, finding.severity) == (0, "warning")
    assert finding.detail.startswith(f"The trace names offload copies ({op})")
    assert fired(drawn(tmp_path, asking(text, 1_000_000)), "offload-missing") == []


@pytest.mark.parametrize(
    "text",
    [
        "TSL:Thunk:#hlo_op=loop_slice_fusion_3#",
        "TSL:Thunk:#name=copy-start,hlo_op=wrapped_slice#",
        "a note on copy-start",
    ],
)
def test_other_ops_ask_for_no_offloading(tmp_path: Path, text: str) -> None:
    assert fired(drawn(tmp_path, asking(text)), "offload-missing") == []


@pytest.mark.parametrize(
    ("flags", "severities"),
    [(PIPELINED, ["note"]), (PIPELINED.replace("true", "false"), []), ("", [])],
)
def test_the_flag_without_transfers(tmp_path: Path, flags: str, severities: list[str]) -> None:
    builder = asking("train")
    builder.env("XLA_FLAGS", flags)
    found = fired(drawn(tmp_path, builder), "offload-missing")
    assert [finding.severity for finding in found] == severities


def test_a_graph_may_hold_the_transfers(tmp_path: Path) -> None:
    builder = asking("TSL:Thunk:#hlo_op=copy-start#")
    builder.graph(5 * MS, 6 * MS)
    assert fired(drawn(tmp_path, builder), "offload-missing") == []
    unseen = asking("TSL:Thunk:#hlo_op=copy-start#")
    unseen.api("cudaGraphLaunch_v10000", 5 * MS, 6 * MS, 77)
    assert fired(drawn(tmp_path, unseen), "offload-missing") == []


@pytest.mark.parametrize("name", h200_names())
def test_no_real_trace_misses_its_offloading(name: str) -> None:
    assert fired(context_of(h200(name)), "offload-missing") == []
