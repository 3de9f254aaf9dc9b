"""Too little compute to hide behind, and what hiding takes from compute and communication."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysoverlap.findings import Context
from nsysoverlap.result.model import Finding

from ..tracebuilder import TraceBuilder, draw
from ..traces import h200
from .kit import context_of, drawn, fired

MS = 1_000_000


def only(context: Context, code: str) -> Finding:
    (finding,) = fired(context, code)
    return finding


@pytest.mark.parametrize(
    ("drawing", "cost_ms", "best"),
    [
        ("dev0 s7 compute: ####\ndev0 s20 d2h: ##########", 6, "40.0 %"),
        # Communication hides as well; both directions run at once; two copies at once count once.
        ("dev0 s7 compute: ##\ndev0 s9 comm: ...##\ndev0 s20 d2h: ....######", 2, "66.7 %"),
        ("dev0 s7 compute: ####\ndev0 s20 d2h: .....######\ndev0 s21 h2d: ######", 2, "66.7 %"),
        ("dev0 s7 compute: ##\ndev0 s20 h2d: ..####\ndev0 s21 h2d: ..####", 2, "50.0 %"),
    ],
)
def test_more_to_transfer_than_there_is_to_hide_it(
    tmp_path: Path, drawing: str, cost_ms: int, best: str
) -> None:
    finding = only(drawn(tmp_path, drawing), "not-enough-compute")
    assert (finding.cost_ns, finding.severity) == (cost_ms * MS, "warning")
    assert f"at most {best}" in finding.title
    assert finding.evidence


@pytest.mark.parametrize(
    "drawing",
    [
        "dev0 s7 compute: ####\ndev0 s20 d2h: ....####",
        "dev0 s7 compute: ####\ndev0 s20 d2h: ....####\ndev0 s21 h2d: ........####",
        "dev0 s7 compute: ##\ndev0 s9 graph: ....##\ndev0 s20 d2h: ......####",
        "dev0 s7 compute: ####\ndev0 s20 d2h_pageable: ....#########",
        "dev0 s7 compute: ####",
    ],
)
def test_enough_compute(tmp_path: Path, drawing: str) -> None:
    assert fired(drawn(tmp_path, drawing), "not-enough-compute") == []


def test_compute_of_one_step_does_not_help_another(tmp_path: Path) -> None:
    builder = draw(
        """
        dev0 s7  compute: .##......########....
        dev0 s20 d2h:     ...####....##.....
        """,
        unit_ns=MS,
    )
    builder.nvtx("step 0", 900_000, 3 * MS)
    builder.nvtx("step 1", 8 * MS, 12 * MS)
    finding = only(drawn(tmp_path, builder), "not-enough-compute")
    assert finding.cost_ns == 1 * MS
    assert "at most 66.7 %" in finding.title
    assert finding.detail == (
        "143.1 MiB D2H take 3.0 ms a step, and compute and communication together last 5.0 ms "
        "a step. That ignores the order of work; the bound under Gain and cost, if there is one, "
        "does not."
    )


@pytest.mark.parametrize(
    ("kind", "says"), [("d2h", "save_and_offload_only_these_names"), ("h2d", "optimizer state")]
)
def test_the_remedy_fits_what_is_offloaded(tmp_path: Path, kind: str, says: str) -> None:
    builder = draw(f"dev0 s7 compute: ##......\ndev0 s20 {kind}: .####...", unit_ns=MS)
    builder.nvtx("step 0", -900_000, 6 * MS)
    builder.env("XLA_FLAGS", "--xla_a=1")
    assert says in only(drawn(tmp_path, builder, steps="step"), "not-enough-compute").remedy


@pytest.mark.parametrize("kind", ["d2h", "h2d"])
def test_who_does_not_train_is_not_told_to_offload_less(tmp_path: Path, kind: str) -> None:
    builder = draw(f"dev0 s7 compute: ##......\ndev0 s20 {kind}: .####...", unit_ns=MS)
    builder.nvtx("step 0", -900_000, 6 * MS)
    remedy = only(drawn(tmp_path, builder, steps="step"), "not-enough-compute").remedy
    assert remedy.startswith("Move fewer bytes: keep on the device what its kernels use again")
    assert [word for word in ("offload", "recompute", "optimizer") if word in remedy] == []


def beside(kind: str, alone: int, under: int, *, n: int = 3, copy: int = 0) -> TraceBuilder:
    """n launches alone, then n with a D2H of `copy` ms (default: as long) beside each."""
    builder = TraceBuilder()
    stream = 9 if kind == "comm" else 7
    name = "ncclDevKernel_AllReduce" if kind == "comm" else "gemm_fusion_dot_1"
    at = 0
    for i in range(2 * n):
        length = alone if i < n else under
        builder.kernel(at * MS, (at + length) * MS, name, stream=stream)
        if i >= n:
            builder.copy(at * MS, (at + (copy or length)) * MS, "d2h", stream=20)
        at += length + 1
    return builder


@pytest.mark.parametrize("kind", ["compute", "comm"])
def test_work_that_takes_longer_beside_transfers(tmp_path: Path, kind: str) -> None:
    finding = only(drawn(tmp_path, beside(kind, 10, 12)), f"hiding-costs-{kind}")
    assert (finding.cost_ns, finding.severity) == (6 * MS, "note")
    assert "takes 20.0 % longer beside transfers" in finding.title
    assert finding.detail.startswith("3 launches beside transfers against 3 of the same name")
    assert [row.text.split(", ")[1] for row in finding.evidence] == [
        f"12.0 ms beside {'compute' if kind == 'compute' else 'communication'}"
    ] * 3
    other = {"compute": "comm", "comm": "compute"}[kind]
    assert fired(drawn(tmp_path, beside(kind, 10, 12)), f"hiding-costs-{other}") == []


def test_hiding_that_costs_half_of_what_it_hides_is_a_warning(tmp_path: Path) -> None:
    dear = only(drawn(tmp_path, beside("compute", 10, 16, copy=12)), "hiding-costs-compute")
    assert (dear.cost_ns, dear.severity) == (18 * MS, "warning")
    cheap = only(drawn(tmp_path, beside("compute", 10, 16, copy=13)), "hiding-costs-compute")
    assert (cheap.cost_ns, cheap.severity) == (18 * MS, "note")


@pytest.mark.parametrize(
    "builder",
    [
        beside("compute", 10, 10),
        beside("compute", 12, 10),
        beside("compute", 1_000, 1_009),
        beside("compute", 10, 12, n=2),
    ],
    ids=["no longer", "shorter", "below one percent", "too few"],
)
def test_work_that_does_not_suffer(tmp_path: Path, builder: TraceBuilder) -> None:
    assert fired(drawn(tmp_path, builder), "hiding-costs-compute") == []


def test_real_traces() -> None:
    same = context_of(h200("micro_samedir"))
    finding = only(same, "not-enough-compute")
    (device,) = same.devices
    assert device.bounds is not None
    assert device.bounds.best_hidden_share is not None
    assert f"at most {device.bounds.best_hidden_share:.1%}".replace("%", " %") in finding.title


@pytest.mark.parametrize("name", ["micro_hidden", "micro_duplex", "jax_unroll_save"])
def test_real_traces_with_compute_to_spare(name: str) -> None:
    assert fired(context_of(h200(name)), "not-enough-compute") == []


@pytest.mark.parametrize("name", ["jax_fsdp2_lhs", "jax_unroll_lhs", "micro_hidden"])
def test_no_slowdown_is_invented(name: str) -> None:
    context = context_of(h200(name))
    for code in ("hiding-costs-compute", "hiding-costs-comm"):
        assert fired(context, code) == []


def test_bytes_are_those_of_the_time_that_is_stated(tmp_path: Path) -> None:
    """Pageable copies are in neither."""
    context = drawn(
        tmp_path,
        """
        dev0 s7  compute:                       ##..............
        dev0 s20 bytes=104857600 h2d:           ..########......
        dev0 s21 bytes=10485760 h2d_pageable:   ..........####..
        """,
    )
    finding = only(context, "not-enough-compute")
    assert finding.detail.startswith("100.0 MiB H2D take 8.0 ms in all")


def test_without_a_kernel_nothing_is_too_little(tmp_path: Path) -> None:
    context = drawn(tmp_path, "dev0 s7 memset: #.....\ndev0 s20 h2d: ..####")
    assert fired(context, "not-enough-compute") == []
