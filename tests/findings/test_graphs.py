"""CUDA graphs: told from time alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..tracebuilder import TraceBuilder, draw
from .kit import MS, drawn, fired, only

XLA_FLAGS = "--xla_gpu_enable_latency_hiding_scheduler=true"


def test_a_graph_that_runs_copies_and_kernels_in_turn(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7 graph=3 compute: ##......##.
        dev0 s7 graph=3 d2h:     ..######...
        """,
    )
    finding = only(context, "graph-serialises")
    # The kernels last 4 ms, so no more than that of the 6 ms could have been hidden.
    assert finding.cost_ns == 4 * MS
    assert finding.severity == "warning"
    assert finding.detail == (
        "1 copy inside graphs: 6.0 ms exposed, while kernels of the same launches ran for 4.0 ms "
        "with no copy beside them."
    )
    assert "cudaStreamWaitEvent" in finding.remedy
    (row,) = finding.evidence
    assert (row.start_ns, row.end_ns) == (2 * MS, 8 * MS)
    assert row.text == "286.1 MiB D2H inside a graph, 6.0 ms exposed"


def test_the_cost_is_no_more_than_was_exposed(tmp_path: Path) -> None:
    """Work outside of the graph hides 2 ms; the graph's own kernels could have hidden the rest."""
    context = drawn(
        tmp_path,
        """
        dev0 s7 graph=3 compute: #########....
        dev0 s7 graph=3 d2h:     .........####
        dev0 s9 compute:         ...........##
        """,
    )
    # Half of the copy ran beside compute, if not that of its graph: not one after the other.
    assert fired(context, "graph-serialises") == []
    context = drawn(
        tmp_path,
        """
        dev0 s7 graph=3 compute: #########....
        dev0 s7 graph=3 d2h:     .........####
        dev0 s9 comm:            ...........##
        """,
    )
    assert only(context, "graph-serialises").cost_ns == 2 * MS


def test_only_launches_that_compute_and_kernels_without_a_copy_beside_them_count(
    tmp_path: Path,
) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7 graph=3 compute: ######......
        dev0 s7 graph=3 d2h:     ......##....
        dev0 s7 graph=4 d2h:     ........####
        """,
    )
    assert only(context, "graph-serialises").cost_ns == 2 * MS
    context = drawn(
        tmp_path,
        """
        dev0 s7 graph=3 compute: ####....
        dev0 s7 graph=3 d2h:     ....####
        dev0 s9 h2d:             .###....
        """,
    )
    assert only(context, "graph-serialises").cost_ns == 1 * MS


def test_a_graph_with_a_branch_for_its_copies(tmp_path: Path) -> None:
    """All nodes carry one stream, yet they run at the same time."""
    context = drawn(
        tmp_path,
        """
        dev0 s7 graph=3 compute: ########
        dev0 s7 graph=3 d2h:     .####...
        """,
    )
    assert fired(context, "graph-serialises") == []


@pytest.mark.parametrize(("beside_us", "n"), [(50, 0), (49, 1)])
def test_less_than_one_part_in_twenty_beside_compute(
    tmp_path: Path, beside_us: int, n: int
) -> None:
    builder = TraceBuilder()
    builder.kernel(0, MS, correlation=5, graph_node=1)
    begin = MS - beside_us * 1000
    builder.copy(begin, begin + MS, "d2h", correlation=5, graph_node=2)
    assert len(fired(drawn(tmp_path, builder), "graph-serialises")) == n


@pytest.mark.parametrize(
    "drawing",
    [
        # No graph at all, a graph of copies only, kernels and copies of two launches.
        "dev0 s7 compute: ##..\ndev0 s7 d2h: ..##",
        "dev0 s7 graph=3 d2h: ####",
        "dev0 s7 graph=3 compute: ##..\ndev0 s7 graph=4 d2h: ..##",
    ],
)
def test_what_is_no_graph_in_turn(tmp_path: Path, drawing: str) -> None:
    assert fired(drawn(tmp_path, drawing), "graph-serialises") == []


def test_equal_correlation_ids_of_two_processes_are_two_launches(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.gpu(0)
    for pid in (1, 2):
        builder.cuda_device(0, 0, pid)
    builder.kernel(0, 2 * MS, correlation=5, graph_node=1, pid=1)
    builder.copy(2 * MS, 4 * MS, "d2h", correlation=5, graph_node=2, pid=2)
    context = drawn(tmp_path, builder)
    assert len(context.cases) == 1
    assert fired(context, "graph-serialises") == []


def test_the_remedy_for_xla_turns_command_buffers_off(tmp_path: Path) -> None:
    builder = draw(
        "dev0 s7 graph=3 compute: ##..\ndev0 s7 graph=3 d2h: ..##\ndev0 s7 graph: ....####",
        unit_ns=MS,
    )
    builder.env("XLA_FLAGS", XLA_FLAGS)
    context = drawn(tmp_path, builder)
    assert "--xla_gpu_enable_command_buffer= in XLA_FLAGS" in (
        only(context, "graph-serialises").remedy
    )
    assert "--xla_gpu_enable_command_buffer= in XLA_FLAGS" in only(context, "graph-opaque").remedy


def test_graphs_recorded_as_a_whole(tmp_path: Path) -> None:
    context = drawn(
        tmp_path,
        """
        dev0 s7  graph: ..##.###..
        dev0 s20 d2h:   #.........
        """,
    )
    finding = only(context, "graph-opaque")
    assert (finding.severity, finding.cost_ns) == ("warning", 0)
    assert finding.title == "2 CUDA graph launches recorded as a whole: nothing inside can be seen"
    assert "They ran for 5.0 ms, 62.5 % of the measured time." in finding.detail
    assert finding.remedy == "Capture with nsys profile --cuda-graph-trace=node."
    assert [(e.start_ns // MS, e.text) for e in finding.evidence] == [
        (5, "a graph launch of 3.0 ms"),
        (2, "a graph launch of 2.0 ms"),
    ]


@pytest.mark.parametrize(
    ("length_us", "severity"), [(0, []), (1, []), (2, ["note"]), (20, ["note"]), (21, ["warning"])]
)
def test_how_much_may_be_opaque(tmp_path: Path, length_us: int, severity: list[str]) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 2 * MS)
    if length_us:
        builder.graph(2 * MS, 2 * MS + length_us * 1000 + (length_us > 1) * 20)
    found = fired(drawn(tmp_path, builder), "graph-opaque")
    assert [finding.severity for finding in found] == severity


def test_only_graphs_of_the_steps_count(tmp_path: Path) -> None:
    builder = draw("dev0 s7 graph: #..A.B", unit_ns=MS)
    builder.nvtx("step 0", 3 * MS - 10_000, 5 * MS)
    context = drawn(tmp_path, builder, steps="step")
    assert context.n_steps == 1
    assert only(context, "graph-opaque").title.startswith("2 CUDA graph launches ")


def test_graphs_of_nodes_are_not_opaque(tmp_path: Path) -> None:
    context = drawn(tmp_path, "dev0 s7 graph=3 compute: ##..\ndev0 s7 graph=3 d2h: ..##")
    assert fired(context, "graph-opaque") == []
