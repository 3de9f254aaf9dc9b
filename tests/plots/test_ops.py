"""Operations by exposed time, and what of it compute waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.axes import Axes

import nsysoverlap as no
from nsysoverlap.draw.plot_ops import MAX_OPS, ops_size
from nsysoverlap.result.model import OperationReport, OverlapReport
from tests.stepreports import operation, report_of_steps
from tests.traces import h200

from . import kit


def ops_of(report: OverlapReport) -> Axes:
    with kit.canvas() as (ax,):
        return no.plot_ops(report, ax=ax)


def report_with(*operations: OperationReport) -> OverlapReport:
    return report_of_steps([(0, 100)] * 4, operations=operations)


REST = "exposed, compute is not known to have waited"


def names(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def test_bars_are_the_exposed_time_a_step() -> None:
    report = no.analyze(h200("jax_unroll_lhs"))
    ax = ops_of(report)
    shown = report.operations[:MAX_OPS]
    waited, rest = kit.bars(ax, "exposed, compute waited"), kit.bars(ax, REST)
    total = [one.get_width() + two.get_width() for one, two in zip(waited, rest, strict=True)]
    assert total == pytest.approx([(o.exposed_per_step_ns or 0) / 1e6 for o in shown])
    assert names(ax)[0] == "H2D copy-start.1.0"
    assert ax.get_xlim() == (0, 8)
    assert ax.get_xticks().tolist() == [0, 2, 4, 6, 8]
    assert ax.get_xlabel() == "exposed, mean step (ms)"
    assert "4 more expose 1.0 ms" in kit.texts(ax)
    assert kit.title(ax) == "H2D copy-start.1.0 exposes most: 7.5 ms of 48.4 ms, mean step"


def test_bars_that_hold_more_than_the_report_say_why() -> None:
    report = no.analyze(h200("jax_fsdp2_lhs"))
    n = sum(len(device.steps) for device in report.devices)
    assert round(report.total("both").exposed_ns / n / 1e6, 1) == 20.8
    ax = ops_of(report)
    assert kit.title(ax).endswith("of 21.2 ms, mean step")
    in_all = "in all 20.8 ms: time in which several were exposed counts in each bar"
    assert f"4 more expose 218.3 µs; {in_all}" in kit.texts(ax)


def test_without_a_mean_of_each_all_bars_are_sums() -> None:
    """Of ranks with and without steps: no bar of a step stands beside one of a whole trace."""
    report = report_with(operation("a", 9_000, 900), operation("b", 10_000))
    two = replace(report, devices=report.devices * 2)
    ax = ops_of(two)
    assert names(ax) == ["D2H b", "D2H a"]
    assert [bar.get_width() for bar in kit.bars(ax, REST)] == pytest.approx([0.01, 0.009])
    assert ax.get_xlabel() == "exposed (ms)"
    assert any("sum over 2 devices" in text for text in kit.texts(ax))
    assert not any("mean" in text for text in kit.texts(ax))


def test_the_axis_reaches_the_longest_bar() -> None:
    for exposed in (900, 1_000, 7_301_000, 123_456_789):
        ax = ops_of(report_with(operation("a", exposed, exposed)))
        ticks = ax.get_xticks()
        assert ticks[-1] == ax.get_xlim()[1] >= exposed / 1e6 > ticks[-2]


def test_the_most_exposed_is_on_top() -> None:
    ax = ops_of(report_with(operation("a", 9_000, 900), operation("b", 4_000, 400)))
    bottom, top = ax.get_ylim()
    assert bottom > top
    widths = [bar.get_width() for bar in kit.bars(ax, REST)]
    assert widths == pytest.approx([900 / 1e6, 400 / 1e6])


def test_time_that_compute_waited_for_is_hatched() -> None:
    one = operation("a", 8_000, 800)
    blocked = replace(one, overlap=replace(one.overlap, blocking_ns=2_000))
    ax = ops_of(report_with(blocked))
    (waited,), (rest,) = kit.bars(ax, "exposed, compute waited"), kit.bars(ax, REST)
    assert (waited.get_width(), rest.get_width()) == pytest.approx((200 / 1e6, 600 / 1e6))
    assert rest.get_x() == pytest.approx(200 / 1e6)
    assert waited.get_hatch()
    assert not rest.get_hatch()


def test_time_that_the_host_waited_for_is_a_part_of_its_own() -> None:
    """Of 800 ns a step compute waited for 200, else the host for 400."""
    one = operation("a", 8_000, 800)
    held = replace(one.overlap, blocking_ns=2_000, host_blocking_ns=4_000, unawaited_ns=0)
    ax = ops_of(report_with(replace(one, overlap=held)))
    neither = "exposed, neither is known to have waited"
    parts = ["exposed, compute waited", "exposed, host waited", neither]
    bars = [kit.bars(ax, part)[0] for part in parts]
    assert [bar.get_width() * 1e6 for bar in bars] == pytest.approx([200, 400, 200])
    assert [bar.get_x() * 1e6 for bar in bars] == pytest.approx([0, 200, 600])
    assert len({bar.get_hatch() for bar in bars}) == 3


def test_a_host_that_waited_all_the_time_is_in_the_legend() -> None:
    """The report says of these copies: host waited 100.0 %."""
    ax = ops_of(no.analyze(h200("record_torch")))
    legend = ax.get_legend()
    assert legend is not None
    assert "exposed, host waited" in [text.get_text() for text in legend.get_texts()]


def test_without_steps_bars_are_totals() -> None:
    ax = ops_of(report_with(operation("a", 8_000)))
    assert [bar.get_width() for bar in kit.bars(ax, REST)] == pytest.approx([8_000 / 1e6])
    assert ax.get_xlabel() == "exposed (ms)"
    assert kit.title(ax) == "D2H a exposes most: 8.0 µs"


def test_operations_that_expose_nothing_are_not_drawn() -> None:
    hidden = operation("hidden", 0, 0)
    ax = ops_of(report_with(operation("a", 8_000, 800), hidden))
    assert names(ax) == ["D2H a"]


def test_of_many_the_rest_is_summed() -> None:
    many = [operation(f"op{i}", 1_000_000, 1_000_000) for i in range(MAX_OPS + 3)]
    ax = ops_of(report_with(*many))
    assert len(kit.bars(ax, REST)) == MAX_OPS
    assert any(text.startswith("3 more expose 3.0 ms") for text in kit.texts(ax))
    assert kit.overlapping_labels(ax, "y") == []


def test_labels_tell_equal_operations_apart() -> None:
    one, two = operation("copy", 9_000, 900), operation("copy", 8_000, 800)
    ax = ops_of(report_with(replace(one, label="graph"), two, operation("x", 1_000, 100)))
    assert names(ax) == ["D2H copy (graph)", "D2H copy", "D2H x"]


@pytest.mark.parametrize("name", ["jax_unroll_save", "jax_fsdp2_events_lost"])
def test_without_transfers_the_picture_says_so(name: str) -> None:
    ax = ops_of(no.analyze(h200(name)))
    assert kit.title(ax) == "No host transfers"
    assert "No operation is known to have exposed transfer time." in kit.texts(ax)


def test_an_empty_picture_is_small() -> None:
    assert ops_size(no.analyze(h200("jax_unroll_save")))[1] < 1.5
    opaque = ops_of(no.analyze(h200("jax_scan_pipelined_graph_level")))
    assert kit.title(opaque).startswith("Not known: ")


def test_the_size_grows_with_the_bars() -> None:
    few = ops_size(report_with(operation("a", 8_000)))
    many = ops_size(report_with(*[operation(f"op{i}", 1_000) for i in range(40)]))
    assert few[0] == many[0]
    assert (
        few[1] < many[1] == ops_size(report_with(*[operation(f"op{i}", 1) for i in range(99)]))[1]
    )
