"""The real H200 traces against what is known of them, whole trace, to the nanosecond.

The nanoseconds were found with plain SQL and sets, independently of the package; the shares
beside them are what the notes of the captures state.
"""

from __future__ import annotations

import pytest

from nsysoverlap import RuleSet, analyze
from nsysoverlap.result.model import DeviceReport, Overlap, OverlapReport

from .traces import h200


def report(name: str) -> OverlapReport:
    return analyze(h200(name), steps="none")


def device(name: str, index: int = 0) -> DeviceReport:
    return report(name).devices[index]


def shares(overlap: Overlap) -> tuple[float, float]:
    """Percent behind compute and behind communication only, to one decimal."""
    hidden = 100 * overlap.hidden_by_compute_ns / overlap.wall_ns
    return round(hidden, 1), round(100 * overlap.hidden_by_comm_ns / overlap.wall_ns, 1)


@pytest.mark.parametrize(
    ("name", "index", "direction", "hidden", "comm"),
    [
        ("micro_hidden", 0, "d2h", 99.6, 0.0),
        ("micro_serial", 0, "d2h", 0.0, 0.0),
        ("micro_serial", 0, "h2d", 0.0, 0.0),
        ("micro_duplex", 0, "d2h", 98.7, 0.0),
        ("micro_duplex", 0, "h2d", 98.8, 0.0),
        ("micro_graph_node", 0, "d2h", 98.5, 0.0),
        ("ddp_two_procs", 0, "d2h", 96.3, 0.2),
        # 14,693,845 of 14,820,533 ns are 99.145 %.
        ("ddp_two_procs", 1, "d2h", 99.1, 0.1),
        ("jax_unroll_nolhs", 0, "both", 0.0, 0.0),
        ("jax_unroll_lhs", 0, "d2h", 93.9, 0.0),
        ("jax_unroll_lhs", 0, "h2d", 24.2, 0.0),
        ("jax_scan_lhs", 0, "d2h", 21.1, 0.0),
        ("jax_scan_lhs", 0, "h2d", 0.0, 0.0),
        ("jax_scan_pipelined", 0, "d2h", 7.0, 0.0),
        ("jax_scan_pipelined_graph_node", 0, "both", 0.0, 0.0),
        ("jax_fsdp2_lhs", 0, "d2h", 85.1, 12.1),
        ("jax_fsdp2_lhs", 1, "d2h", 89.0, 7.7),
        ("jax_fsdp2_lhs", 0, "h2d", 30.1, 6.5),
        ("jax_fsdp2_lhs", 1, "h2d", 32.7, 3.8),
    ],
)
def test_shares(name: str, index: int, direction: str, hidden: float, comm: float) -> None:
    assert shares(getattr(device(name, index), direction)) == (hidden, comm)


def test_unroll_lhs_in_full() -> None:
    found = device("jax_unroll_lhs")
    assert found.both == Overlap(
        n=64,
        bytes=25769803776,
        busy_ns=477_554_975,
        wall_ns=477_554_975,
        hidden_by_compute_ns=284_146_705,
        exposed_ns=193_408_270,
        exposed_under_other_ns=10_116_602,
        blocking_ns=183_271_251,
        host_blocking_ns=0,
        unawaited_ns=193_408_270 - 183_271_251,
        copy_ns=477_554_975,
    )
    assert round(found.d2h.exposed_ns / 1e6, 1) == 14.8
    assert round(found.d2h.exposed_under_other_ns / 1e6, 1) == 9.1


def test_duplex_copies_run_at_the_same_time() -> None:
    found = device("micro_duplex")
    assert found.both.busy_ns == found.h2d.wall_ns + found.d2h.wall_ns
    assert found.both.wall_ns == pytest.approx(found.both.busy_ns / 2, rel=0.06)


def test_copies_of_one_direction_queue() -> None:
    d2h = device("micro_samedir").d2h
    assert (d2h.n, d2h.busy_ns) == (6, d2h.wall_ns), "one engine: the two never overlap"


def test_pageable_rates_and_exposure() -> None:
    found = device("micro_pageable")
    assert found.h2d.gb_per_s == pytest.approx(4.2, abs=0.05)
    assert found.d2h.gb_per_s == pytest.approx(2.2, abs=0.05)
    assert found.both.hidden_share == pytest.approx(0.085, abs=0.001)


def test_managed_memory_gives_only_unified_migrations() -> None:
    found = device("micro_managed")
    assert (found.both.n, found.both.hidden_share) == (0, None)
    assert (found.unified_h2d.n, found.unified_d2h.n) == (4665, 1152)
    assert found.time_budget.transfer_ns == 0


@pytest.mark.parametrize(
    ("name", "opaque_ns"),
    [("micro_graph_graph", 33_641_636), ("jax_scan_pipelined_graph_level", 2_040_139_060)],
)
def test_graphs_traced_as_a_whole_are_inconclusive(name: str, opaque_ns: int) -> None:
    found = report(name)
    assert not found.conclusive
    assert found.time_budget.opaque_ns == opaque_ns
    assert found.total("both").hidden_share is None


def test_two_ranks_that_both_say_gpu_0_are_two_devices() -> None:
    found = report("ddp_two_procs").devices
    assert [d.device_id for d in found] == [0, 0]
    assert len({d.gpu_uuid for d in found}) == len({d.pid for d in found}) == 2


def test_transfer_kernels() -> None:
    d2h = device("jax_scan_pipelined").d2h
    assert (d2h.n, d2h.n_by_kernel) == (64, 8)
    assert d2h.bytes_estimated == 4 * (402_653_184 + 536_870_912)
    assert d2h.busy_ns - d2h.copy_ns == 72_846_590
    rules = RuleSet(transfer_kernels=False)
    as_compute = analyze(h200("jax_scan_pipelined"), steps="none", rules=rules)
    assert shares(as_compute.devices[0].d2h) == (7.9, 0.0)
    assert as_compute.devices[0].d2h.n == 56


def test_lost_events_are_inconclusive() -> None:
    found = report("jax_fsdp2_events_lost")
    assert not found.conclusive
    assert found.devices == ()
    assert found.health[0].code == "events-lost"


def test_saving_on_the_device_transfers_nothing_and_is_healthy() -> None:
    found = report("jax_unroll_save")
    assert found.conclusive
    assert found.total("both") == Overlap(blocking_ns=0, host_blocking_ns=0, unawaited_ns=0)
    assert "no-transfers" in {entry.code for entry in found.health}
