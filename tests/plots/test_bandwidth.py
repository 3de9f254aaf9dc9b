"""One point a copy, at its rate, filled or hollow by whether anything hid it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

import nsysoverlap as no
from nsysoverlap.draw.plot_bandwidth import bandwidth_size
from nsysoverlap.draw.plot_cases import options_for, subject
from nsysoverlap.roles.links import LinkOverride
from tests.tracebuilder import TraceBuilder, draw
from tests.traces import h200

from . import kit


def bandwidth(path: Path, **options: object) -> tuple[Axes, Axes]:
    with kit.canvas(2) as axes:
        return no.plot_bandwidth(path, axes=axes, **options)  # type: ignore[arg-type]


def group(ax: Axes, label: str) -> Line2D:
    (found,) = [line for line in ax.get_lines() if line.get_label() == label]
    return found


def points(ax: Axes, label: str) -> list[tuple[float, float]]:
    line = group(ax, label)
    x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
    return list(zip(x.round(6).tolist(), y.round(6).tolist(), strict=True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    draw(
        """
        dev0 s7  compute:            ####....####....
        dev0 s20 bytes=100000 h2d:   .##.............     # hidden, 50 GB/s
        dev0 s20 bytes=80000 h2d:    .....##.........     # exposed, 40 GB/s
        dev0 s21 bytes=60000 d2h:    ...###..........     # a third hidden, 20 GB/s
        dev0 s21 bytes=60000 d2h:    ..........###...     # two thirds hidden, 20 GB/s
        """
    ).write(tmp_path / "drawn.sqlite")
    return tmp_path / "drawn.sqlite"


def test_each_copy_is_in_the_group_it_belongs_to(path: Path) -> None:
    _, right = bandwidth(path)
    assert points(right, "H2D, mostly hidden") == [(0.001, 50)]
    assert points(right, "H2D, mostly exposed") == [(0.005, 40)]
    assert points(right, "D2H, mostly exposed") == [(0.003, 20)]
    assert points(right, "D2H, mostly hidden") == [(0.010, 20)]


def test_sizes_are_on_the_left_axis(path: Path) -> None:
    left, _ = bandwidth(path)
    low, high = left.get_xlim()
    ((x, rate),) = points(left, "H2D, mostly hidden")
    assert rate == 50
    assert x == pytest.approx(np.log2(100_000), abs=0.05 * (high - low))
    assert low < np.log2(60_000) < np.log2(100_000) < high


def test_one_size_is_named_exactly() -> None:
    left, _ = bandwidth(h200("jax_unroll_lhs"))
    assert [text.get_text() for text in left.get_xticklabels()] == ["384 MiB"]


def test_many_sizes_have_round_ticks(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10_000_000)
    for power in range(4, 34):
        builder.copy(power * 100_000, power * 100_000 + 50_000, "h2d", 1 << power, stream=20)
    builder.write(tmp_path / "sizes.sqlite")
    left, _ = bandwidth(tmp_path / "sizes.sqlite")
    shown = [text.get_text() for text in left.get_xticklabels()]
    assert shown == ["64 B", "4 KiB", "256 KiB", "16 MiB", "8 GiB"]
    assert kit.overlapping_labels(left, "x") == []


def test_ticks_reach_the_largest_copy(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10_000_000)
    for i, size in enumerate((100, 5_000, 300_000, 3 << 20, 90 << 20, 125 << 20, 130 << 20)):
        builder.copy(i * 900_000, i * 900_000 + 50_000, "h2d", size, stream=20)
    builder.write(tmp_path / "sizes.sqlite")
    left, right = bandwidth(tmp_path / "sizes.sqlite")
    assert left.get_xticklabels()[-1].get_text() == "130 MiB"
    assert left.get_xticks()[-1] == pytest.approx(np.log2(130 << 20))
    assert kit.overlapping_labels(left, "x") == []
    assert left.get_xlabel() == "size of the copy"
    assert right.get_xlabel() == "trace time at which it began (ms)"


def test_nothing_to_draw_makes_a_small_picture_that_says_why() -> None:
    what = subject(h200("jax_scan_pipelined_graph_level"), options_for(None, None, "auto", None))
    assert bandwidth_size(what)[1] < 1.5
    left, _ = bandwidth(h200("jax_scan_pipelined_graph_level"))
    assert "What CUDA graphs recorded as a whole copied is not in the trace." in kit.texts(left)


def test_hidden_and_exposed_differ_in_more_than_colour(path: Path) -> None:
    left, _ = bandwidth(path)
    hidden, exposed = (group(left, f"H2D, mostly {how}") for how in ("hidden", "exposed"))
    assert hidden.get_markerfacecolor() != "white"
    assert exposed.get_markerfacecolor() == "white"
    assert exposed.get_markeredgewidth() > hidden.get_markeredgewidth()
    assert group(left, "D2H, mostly hidden").get_marker() != hidden.get_marker()


def test_the_link_is_a_line_at_its_rate_with_its_source() -> None:
    left, right = bandwidth(h200("jax_unroll_lhs"))
    for ax in (left, right):
        assert np.asarray(group(ax, "link").get_ydata()).tolist() == [63, 63]
        assert ax.get_ylim()[1] > 63
    assert "63.0 GB/s, PCIe Gen5 x16, peak by data sheet" in kit.texts(left)
    assert kit.title(left) == "H2D 54.6 and D2H 53.3 of 63.0 GB/s"
    assert left.get_ylabel() == "rate of a copy (GB/s)"


def test_rates_given_by_the_user_win() -> None:
    left, _ = bandwidth(h200("jax_unroll_lhs"), links=LinkOverride(55, 53))
    lines = [line for line in left.get_lines() if line.get_label() == "link"]
    assert [np.asarray(line.get_ydata())[0] for line in lines] == [55, 53]
    assert {"H2D 55.0 GB/s, as given", "D2H 53.0 GB/s, as given"} <= set(kit.texts(left))
    assert kit.title(left) == "H2D 54.6 and D2H 53.3 GB/s"


def test_a_step_keeps_its_copies(tmp_path: Path) -> None:
    path = kit.many_steps(tmp_path / "steps.sqlite", 4)
    left, right = bandwidth(path, step=2)
    assert points(right, "D2H, mostly hidden") == [(1.026, 50)]
    assert "steps.sqlite · H200 dev 0, pid 1000 · step 2 · 1 copy" in kit.texts(left)


def test_points_on_one_another_are_drawn_once_and_counted(tmp_path: Path) -> None:
    path = kit.many_steps(tmp_path / "steps.sqlite", 2_000)
    left, right = bandwidth(path)
    assert len(points(left, "D2H, mostly hidden")) == 1
    assert 800 <= len(points(right, "D2H, mostly hidden")) <= 1_001
    assert any("2,000 copies" in text for text in kit.texts(left))


def test_copies_without_length_or_bytes_have_no_rate(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10_000)
    builder.copy(1_000, 1_000, "h2d", 4_096, stream=20)
    builder.copy(2_000, 3_000, "h2d", 0, stream=20)
    builder.write(tmp_path / "odd.sqlite")
    left, _ = bandwidth(tmp_path / "odd.sqlite")
    assert kit.title(left) == "No host copies of known rate"
    assert any(text.startswith("There is no copy between") for text in kit.texts(left))


def test_transfer_kernels_have_no_rate() -> None:
    report = no.analyze(h200("jax_scan_pipelined"))
    assert report.total("d2h").n_by_kernel == 8
    left, _ = bandwidth(h200("jax_scan_pipelined"))
    n = report.total("both").n - report.total("both").n_by_kernel
    assert any(f"{n} copies" in text for text in kit.texts(left))
