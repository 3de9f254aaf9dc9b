"""The bars of the steps are the report's numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

import nsysoverlap as no
from nsysoverlap.cli.formats import render
from nsysoverlap.result.model import OverlapReport
from nsysoverlap.show.html_steps import step_chart
from tests import sample_reports
from tests.html.pages import Page
from tests.stepreports import report_of_steps
from tests.traces import h200

from . import kit


def steps_of(report: OverlapReport) -> Axes:
    with kit.canvas() as (ax,):
        return no.plot_steps(report, ax=ax)


def shares_of(ax: Axes) -> Axes:
    figure = ax.get_figure(root=True)
    assert figure is not None
    (other,) = [axes for axes in figure.axes if axes is not ax]
    return other


def line(ax: Axes, label: str) -> list[float]:
    (found,) = [line for line in ax.get_lines() if line.get_label() == label]
    return [float(value) for value in np.asarray(found.get_ydata(), float)]


def test_bars_stack_to_the_step_time_of_a_real_trace() -> None:
    report = no.analyze(h200("jax_unroll_lhs"))
    ax = steps_of(report)
    steps = report.devices[0].steps
    for part, key in (("compute", "compute"), ("exposed", "transfer"), ("idle", "idle")):
        heights = [bar.get_height() for bar in kit.bars(ax, part)]
        assert heights == pytest.approx(
            [getattr(step.time_budget, f"{key}_ns") / 1e6 for step in steps]
        )
    tops = [bar.get_y() + bar.get_height() for bar in kit.bars(ax, "idle")]
    assert tops == pytest.approx([step.duration_ns / 1e6 for step in steps])
    assert kit.title(ax) == "H2D exposed 44.7 ms in the mean step, D2H 3.7 ms"


def test_shares_are_in_percent_above_the_bars() -> None:
    report = no.analyze(h200("jax_unroll_lhs"))
    ax = steps_of(report)
    shares = shares_of(ax)
    expected = [100 * (step.d2h.hidden_share or 0) for step in report.devices[0].steps]
    assert line(shares, "D2H") == pytest.approx(expected)
    figure = kit.figure_of(ax)
    zero = shares.transData.transform((0, 0))[1]
    highest = max(
        ax.transData.transform((0, step.duration_ns / 1e6))[1] for step in report.devices[0].steps
    )
    assert highest < zero < shares.transData.transform((0, 100))[1] < figure.bbox.height
    assert [text.get_text() for text in shares.get_yticklabels()] == ["0 %", "50 %", "100 %"]


def test_ticks_of_the_budget_stop_at_the_longest_step() -> None:
    report = no.analyze(h200("jax_unroll_lhs"))
    ax = steps_of(report)
    longest = max(step.duration_ns for step in report.devices[0].steps) / 1e6
    assert ax.get_yticks().min() == 0
    assert ax.get_yticks().max() <= longest
    assert ax.get_ylabel() == "time of a step (ms)"


def test_exposed_time_is_hatched_and_outlined() -> None:
    ax = steps_of(no.analyze(h200("jax_unroll_lhs")))
    exposed, compute = kit.bars(ax, "exposed")[0], kit.bars(ax, "compute")[0]
    assert exposed.get_hatch()
    assert not compute.get_hatch()
    assert exposed.get_linewidth() > 0


def test_devices_are_averaged_and_shares_summed() -> None:
    report = report_of_steps([(0, 100), (100, 100)], [(50, 300), (300, 300)])
    ax = steps_of(report)
    assert [bar.get_height() for bar in kit.bars(ax, "compute")] == pytest.approx([1e-3, 1e-3])
    assert line(shares_of(ax), "D2H") == pytest.approx([12.5, 100])
    # 100 + 250 ns exposed over two steps of two devices.
    assert kit.title(ax) == "D2H exposed 88 ns in the mean step"
    assert "train.sqlite · mean of 2 devices · 2 steps, NVTX ranges 'step N'" in kit.texts(ax)


def test_steps_are_numbered_by_their_index() -> None:
    report = report_of_steps([(10, 100)] * 5)
    device = replace(report.devices[0], steps=report.devices[0].steps[2:])
    ax = steps_of(replace(report, devices=(device,)))
    assert [text.get_text() for text in ax.get_xticklabels()] == ["2", "3", "4"]
    assert ax.get_xlabel() == "step"


def test_without_steps_the_whole_window_is_one_bar() -> None:
    ax = steps_of(no.analyze(h200("ddp_two_procs"), steps="none"))
    assert [text.get_text() for text in ax.get_xticklabels()] == ["whole window"]
    assert len(kit.bars(ax, "compute")) == 1


def test_without_transfers_there_are_no_shares() -> None:
    ax = steps_of(no.analyze(h200("jax_unroll_save")))
    assert kit.title(ax) == "No host transfers"
    assert {line.get_label() for line in shares_of(ax).get_lines()}.isdisjoint({"H2D", "D2H"})
    assert kit.bars(ax, "exposed") == []


def test_a_report_without_devices_says_so() -> None:
    ax = steps_of(no.analyze(h200("jax_fsdp2_events_lost")))
    assert kit.title(ax) == "No GPU activity"


def test_two_thousand_steps_keep_the_slow_one(tmp_path: Path) -> None:
    report = no.analyze(kit.many_steps(tmp_path / "many.sqlite", 2_000, slow=1_234))
    ax = steps_of(report)
    idle, compute = kit.bars(ax, "exposed"), kit.bars(ax, "compute")
    assert len(compute) == 100
    tops = [bar.get_y() + bar.get_height() for bar in idle]
    assert max(tops) == pytest.approx(0.030)
    assert tops.index(max(tops)) == 1_234 // 20
    assert ax.get_xlabel() == "step; each bar is the longest of 20 in a row"
    assert kit.overlapping_labels(ax, "x") == []


def test_the_page_keeps_the_slow_step_by_the_same_rule(tmp_path: Path) -> None:
    report = no.analyze(kit.many_steps(tmp_path / "many.sqlite", 2_000, slow=1_234))
    chart = step_chart(report.devices[0], "GPU")
    assert chart is not None
    heights = [sum(part.width for part in column.segments) for column in chart.columns]
    assert len(heights) == 100
    assert heights.index(max(heights)) == 1_234 // 20
    assert max(heights) == pytest.approx(3 * heights[0], abs=0.1)
    assert chart.columns[1_234 // 20].title.startswith("step 1234: 30.0 µs, compute 28.0 µs")
    assert chart.note == "Each bar is the longest of 20 in a row; the shares are that step's."
    assert chart.note in Page(render(report, "html")).shown


def test_opaque_time_makes_exposed_time_a_bound() -> None:
    report = sample_reports.opaque_bounds()
    assert report.time_budget.opaque_ns
    assert " exposed up to " in kit.title(steps_of(report))
