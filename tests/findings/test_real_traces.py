"""What is found in traces of which is known what ran: nothing missing, nothing invented."""

from __future__ import annotations

import functools

import pytest

from nsysoverlap.findings import Context, find_all
from nsysoverlap.findings.streams import blocks_of
from nsysoverlap.result.model import Finding

from ..traces import h200, h200_names, programs
from .kit import MS, context_of

WARNINGS: dict[str, set[str]] = {
    "jax_capture_barrier_scan": {"late-h2d"},
    "jax_capture_fsdp2_prefetch": set(),
    "jax_capture_optimizer": {"late-h2d", "d2h-awaited", "same-direction-queue"},
    "jax_capture_prefetch": set(),
    "jax_capture_prefetch_scan": set(),
    "jax_capture_published": {"same-direction-queue"},
    "ddp_two_procs": {"d2h-tail"},
    "jax_fsdp2_events_lost": set(),
    "jax_fsdp2_lhs": {"round-trip", "late-h2d"},
    "jax_scan_lhs": {"late-h2d", "head-of-line"},
    "jax_scan_pipelined": {"late-h2d", "d2h-awaited"},
    "jax_scan_pipelined_graph_level": {"graph-opaque"},
    "jax_scan_pipelined_graph_node": {"graph-serialises"},
    "jax_unroll_lhs": {"round-trip", "late-h2d"},
    "jax_unroll_nolhs": {"nothing-beside"},
    "jax_unroll_save": set(),
    "micro_duplex": set(),
    "micro_graph_graph": {"graph-opaque"},
    "micro_graph_node": set(),
    "micro_hidden": set(),
    "micro_managed": {"unified-memory"},
    "micro_pageable": {"pageable-memory"},
    "micro_samedir": {"same-direction-queue", "not-enough-compute"},
    "micro_serial": {"same-stream-as-compute", "host-waits", "not-enough-compute"},
    "record_jax": {"link-bound"},
    "record_torch": {"same-stream-as-compute", "host-waits", "not-enough-compute"},
}


@functools.cache
def context(name: str) -> Context:
    return context_of(h200(name))


@functools.cache
def findings(name: str) -> tuple[Finding, ...]:
    return find_all(context(name))


def of(name: str, code: str) -> list[Finding]:
    return [finding for finding in findings(name) if finding.code == code]


def test_every_trace_has_its_expectation() -> None:
    assert sorted(WARNINGS) == h200_names()


@pytest.mark.parametrize("name", h200_names())
def test_warnings(name: str) -> None:
    assert {f.code for f in findings(name) if f.severity == "warning"} == WARNINGS[name]


@pytest.mark.parametrize("name", h200_names())
def test_no_cost_exceeds_what_was_exposed(name: str) -> None:
    """A `late-h2d` may not cost more than all of the exposed H2D, and so on."""
    steps = context(name).n_steps or 1
    exposed = max((device.both.exposed_ns for device in context(name).devices), default=0) // steps
    # What follows is no transfer of these directions, or hides at a price.
    apart = {"unified-memory", "hiding-costs-compute", "hiding-costs-comm"}
    apart.add("gpu-idle-beside-offload")
    found = [f for f in findings(name) if f.code not in apart]
    assert all(0 <= finding.cost_ns <= exposed for finding in found)


@pytest.mark.parametrize("name", h200_names())
def test_evidence_lies_in_the_trace_and_says_something(name: str) -> None:
    for finding in findings(name):
        assert 0 < len(finding.evidence) <= 3, finding.code
        for row in finding.evidence:
            assert row.end_ns > row.start_ns
            assert row.text
            assert row.trace == f"{name}.sqlite"


def test_pageable_both_ways() -> None:
    d2h, h2d = of("micro_pageable", "pageable-memory")
    assert d2h.title == "3 D2H copies into pageable memory: 2.2 GB/s"
    assert h2d.title == "3 H2D copies from pageable memory: 4.2 GB/s"
    assert h2d.cost_ns == context("micro_pageable").devices[0].h2d.exposed_ns // 3
    assert d2h.cost_ns == context("micro_pageable").devices[0].d2h.exposed_ns // 3


def test_all_that_migrates_is_unified() -> None:
    (finding,) = of("micro_managed", "unified-memory")
    device = context("micro_managed").devices[0]
    assert finding.cost_ns <= (device.unified_h2d.wall_ns + device.unified_d2h.wall_ns) // 3
    assert "128.0 MiB to the device, 128.0 MiB to the host" in finding.title


def test_the_second_copy_of_a_direction_queues() -> None:
    (finding,) = of("micro_samedir", "same-direction-queue")
    assert finding.title == "3 D2H copies queued behind another one on a different stream"
    # The first copy runs for 4.85 ms, and the second is exposed for 4.4 of as many.
    assert finding.cost_ns == pytest.approx(4.4 * MS, rel=0.02)


def test_head_of_line_in_a_scan() -> None:
    (finding,) = of("jax_scan_lhs", "head-of-line")
    # 8 layers lose about 6 ms each.
    assert finding.cost_ns == pytest.approx(8 * 6.3 * MS, rel=0.02)
    assert "an on-device copy" in finding.detail
    assert "jax.lax.optimization_barrier" in finding.remedy
    case = context("jax_scan_lhs").cases[0]
    blocks = blocks_of(case)
    assert len(blocks.transfer) == 32
    start = case.rows.start_ns[blocks.transfer]
    (at,) = [i for i, ns in enumerate(start.tolist()) if round(ns / 1e6, 3) == 83.516]
    queue, queued = blocks.queue, blocks.queued[at]
    kernels = case.classified.trace.kernels
    times = (
        *(case.rows.end_ns[blocks.transfer[at]], queue.start_ns[queued], queue.end_ns[queued]),
        *(kernels.start_ns[blocks.kernel[at]], blocks.start_ns[at], blocks.end_ns[at]),
    )
    assert [round(int(ns) / 1e6, 3) for ns in times] == [
        *(91.709, 91.713, 91.774),
        *(91.783, 85.453, 91.709),
    ]
    stream = case.classified.trace.streams[case.rows.stream[blocks.transfer[at]]]
    assert stream.stream_id == 69
    table = list(case.classified.trace.tables.values())[queue.table[queued]]
    assert table is case.classified.trace.copies
    assert case.classified.trace.copies.n_bytes[queue.row[queued]] == 134_217_728


def test_kernels_that_are_transfers() -> None:
    for name in ("jax_scan_pipelined", "jax_scan_pipelined_graph_node"):
        (finding,) = of(name, "transfer-kernels")
        assert finding.title == "Kernels that move host memory themselves: 8 of 128 transfers"
        assert "wrapped_dynamic_update_slice_2, wrapped_dynamic_update_slice_3" in finding.detail
        # 3 % of a step: the published flag is not advised against.
        assert finding.remedy.startswith("Leave --xla_gpu_enable_pipelined_host_offloading as")
        assert finding.severity == "note"


def test_command_buffers_in_turn() -> None:
    (finding,) = of("jax_scan_pipelined_graph_node", "graph-serialises")
    assert finding.detail.startswith("128 copies inside graphs")
    assert "--xla_gpu_enable_command_buffer= in XLA_FLAGS" in finding.remedy


def test_reloads_that_come_late_and_right_after_they_left() -> None:
    late, trip = of("jax_unroll_lhs", "late-h2d"), of("jax_unroll_lhs", "round-trip")
    # Most reloads follow their own D2H at once: they could not have come sooner.
    assert late[0].cost_ns < trip[0].cost_ns / 4
    for finding in (*late, *trip):
        assert all((row.op or "").startswith("copy-start") for row in finding.evidence)
    assert (len(late), len(trip)) == (1, 1)


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("micro_serial", {"pageable-memory", "no-duplex", "head-of-line"}),
        ("jax_unroll_nolhs", {"pageable-memory", "round-trip", "same-stream-as-compute"}),
        ("micro_graph_node", {"graph-serialises", "graph-opaque"}),
        ("jax_scan_pipelined_graph_node", {"same-stream-as-compute", "head-of-line"}),
        ("ddp_two_procs", {"hidden-by-other-process"}),
        ("jax_fsdp2_lhs", {"hidden-by-other-process", "same-stream-as-compute"}),
    ],
)
def test_what_must_not_be_found(name: str, codes: set[str]) -> None:
    assert not codes & {finding.code for finding in findings(name)}


CAUSES: dict[str, str | None] = {
    # What decides the time of each of these programs, by the notes of the captures; None where
    # nothing does.
    "pytorch/save_on_cpu": "same-stream-as-compute",
    "pytorch/lightning": "same-stream-as-compute",
    "record_torch": "same-stream-as-compute",
    "pytorch/offload_stream": "link-bound",
    "pytorch/fsdp2_cpu": "gpu-idle-beside-offload",
    "pytorch/gen_offloaded": "offloaded-again",
    "pytorch/save": "immaterial-transfers",
    "maxtext/maxtext_off_nolhs": "late-h2d",
    "maxtext/maxtext_off_lhs": "late-h2d",
    "record_jax": "link-bound",
    "jax_unroll_nolhs": "nothing-beside",
    # Tensors come back right after they left: 0.81 of 3.22 GB, 384 of 1536 MiB are ever away.
    "jax_unroll_lhs": "round-trip",
    "jax_fsdp2_lhs": "round-trip",
    # No H2D is hidden, and compute waits for each: 61.2 of 113.2 and 138.5 of 278.2 ms a step.
    "jax_scan_lhs": "late-h2d",
    "jax_scan_pipelined": "late-h2d",
    "jax_scan_pipelined_graph_node": "graph-serialises",
    "jax_scan_pipelined_graph_level": "graph-opaque",
    "jax_capture_barrier_scan": "late-h2d",
    "jax_capture_optimizer": "d2h-awaited",
    "jax_capture_published": "same-direction-queue",
    # Where nearly all is hidden: what is left, none of it a warning.
    "jax_capture_prefetch": "d2h-awaited",
    "jax_capture_fsdp2_prefetch": "d2h-awaited",
    "jax_capture_prefetch_scan": "hiding-costs-compute",
    # In the first step of one rank the copy ran 475 us longer than the products beside it.
    "ddp_two_procs": "d2h-tail",
    "micro_graph_node": "d2h-tail",
    "micro_serial": "same-stream-as-compute",
    "micro_samedir": "same-direction-queue",
    "micro_pageable": "pageable-memory",
    "micro_managed": "unified-memory",
    "micro_graph_graph": "graph-opaque",
    "micro_hidden": None,
    "micro_duplex": None,
    "jax_unroll_save": None,
    "jax_fsdp2_events_lost": None,
}


def test_every_program_has_its_cause() -> None:
    assert sorted(CAUSES) == sorted([*h200_names(), *programs()])


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_the_dearest_finding_is_the_cause(name: str) -> None:
    dearest = max(findings(name), key=lambda finding: finding.cost_ns, default=None)
    assert (None if dearest is None else dearest.code) == CAUSES[name]


@pytest.mark.parametrize("name", [name for name, code in sorted(CAUSES.items()) if code])
def test_the_cause_is_said_first(name: str) -> None:
    assert findings(name)[0].code == CAUSES[name]


def test_the_optimizer_on_the_cpu_is_the_price() -> None:
    """403 and 410 ms lie between the gradients' D2H and the next step's first H2D."""
    (finding,) = of("pytorch/fsdp2_cpu", "gpu-idle-beside-offload")
    first = min(finding.evidence, key=lambda row: row.start_ns)
    assert any(402 < (row.end_ns - row.start_ns) / MS < 411 for row in (first, *finding.evidence))
    assert finding.remedy.startswith("The optimizer on the CPU is the price of CPUOffloadPolicy")


def test_the_whole_cache_leaves_for_every_token() -> None:
    """12 tokens send 8 GiB each, though one position of each layer changed."""
    (finding,) = of("pytorch/gen_offloaded", "offloaded-again")
    assert finding.title.startswith("The same data goes to the host 12 times: 88.05 GiB for 11.0")
    assert 'cache_implementation="offloaded"' in finding.remedy
    # Nothing is trained here: no word of activations.
    (stream,) = of("pytorch/gen_offloaded", "same-stream-as-compute")
    assert "save_on_cpu" not in stream.remedy


def test_a_link_that_decides_is_not_a_late_reload() -> None:
    (finding,) = of("pytorch/offload_stream", "link-bound")
    exposed = context("pytorch/offload_stream").devices[0].both.exposed_ns
    assert finding.cost_ns == pytest.approx(exposed / 3, rel=1e-3)
    assert "of 20.28 GiB the compute of that time can hide" in finding.detail
    codes = {f.code for f in findings("pytorch/offload_stream")}
    assert not codes & {"late-h2d", "not-enough-compute", "same-direction-queue"}


@pytest.mark.parametrize("name", [n for n in sorted(CAUSES) if n.startswith("pytorch/")])
def test_no_word_of_jax_for_pytorch(name: str) -> None:
    for finding in findings(name):
        assert not any(word in finding.remedy for word in ("jax", "xla", "XLA", "JAX"))
