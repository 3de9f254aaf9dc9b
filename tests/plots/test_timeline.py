"""The timeline shows the drawing it was made from, to the nanosecond."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

import nsysoverlap as no
from nsysoverlap.core.errors import UsageError
from nsysoverlap.core.palette import COLORS
from nsysoverlap.draw.pixels import PixelColumns
from nsysoverlap.draw.plot_cases import options_for, subject
from nsysoverlap.draw.plot_timeline import PLAIN, TALL
from nsysoverlap.draw.scene import timeline_scene
from nsysoverlap.draw.style import EXPOSED_HATCH
from tests.tracebuilder import TraceBuilder, draw
from tests.traces import h200

from . import kit

PICTURE = """
    dev0 s7  compute: .####....##....
    dev0 s9  comm:    .........##....
    dev0 s20 h2d:     ...#######.....     # hidden 2 of 7, and 1 behind comm
    dev0 s21 d2h:     ............##.     # hidden 0 of 2
    dev0 s22 memset:  ......#........
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return kit.drawn(tmp_path / "drawn.sqlite", PICTURE)


def timeline(path: Path, **options: object) -> Axes:
    with kit.canvas() as (ax,):
        return no.plot_timeline(path, ax=ax, **options)  # type: ignore[arg-type]


def test_lanes_hold_what_was_drawn(path: Path) -> None:
    ax = timeline(path)
    assert kit.spans(ax, "compute") == [(1, 5), (9, 11)]
    assert kit.spans(ax, "comm") == [(9, 11)]
    assert kit.spans(ax, "h2d") == [(3, 5), (9, 10)]
    assert kit.spans(ax, "exposed") == [(5, 9), (12, 14)]
    assert kit.spans(ax, "other") == [(6, 7)]
    assert kit.spans(ax, "d2h") == []


def test_each_bar_lies_in_the_lane_of_its_label(path: Path) -> None:
    ax = timeline(path)
    lanes = {t.get_text(): y for t, y in zip(ax.get_yticklabels(), ax.get_yticks(), strict=True)}
    assert list(lanes) == ["compute", "comm", "D2H", "H2D", "other"]
    for part, lane in (("compute", "compute"), ("comm", "comm"), ("h2d", "H2D")):
        for _, _, high, low in kit.boxes(ax, part):
            assert (low + high) / 2 == pytest.approx(lanes[lane])
            assert low - high == pytest.approx(PLAIN)
    middles = [(low + high) / 2 for _, _, high, low in kit.boxes(ax, "exposed")]
    assert middles == pytest.approx([lanes["H2D"], lanes["D2H"]])


def test_exposed_bars_differ_in_more_than_colour(path: Path) -> None:
    ax = timeline(path)
    looks = {patch.get_label(): patch for patch in ax.patches}
    exposed, hidden = looks["exposed"], looks["h2d"]
    assert exposed.get_hatch() == EXPOSED_HATCH
    assert not hidden.get_hatch()
    assert exposed.get_linewidth() > hidden.get_linewidth() == 0
    assert TALL > PLAIN
    assert COLORS["exposed"] not in {COLORS[part] for part in COLORS if part != "exposed"}


def test_axes_span_the_measured_time_in_ms(path: Path) -> None:
    ax = timeline(path)
    assert ax.get_xlim() == pytest.approx((0.001, 0.014))
    assert ax.get_ylim() == (5, 0)
    assert ax.get_xlabel() == "trace time (ms)"


def test_the_title_is_what_the_report_says(path: Path) -> None:
    report = no.analyze(path)
    assert (report.total("h2d").exposed_ns, report.total("d2h").exposed_ns) == (4_000, 2_000)
    ax = timeline(path)
    assert kit.title(ax) == "H2D exposed 4.0 µs, D2H 2.0 µs"
    assert "drawn.sqlite · H200 dev 0, pid 1000 · whole trace" in kit.texts(ax)


def test_each_lane_says_its_numbers(path: Path) -> None:
    shown = kit.texts(timeline(path))
    assert "4.0 µs of 7.0 µs exposed" in shown
    assert "2.0 µs of 2.0 µs exposed" in shown
    assert "46.2 % of the time" in shown


def test_a_window_is_drawn_as_asked(path: Path) -> None:
    ax = timeline(path, window=no.parse_window("4us:10us"))
    assert ax.get_xlim() == pytest.approx((0.004, 0.010))
    assert kit.spans(ax, "exposed") == [(5, 9)]
    assert kit.spans(ax, "compute") == [(4, 5), (9, 10)]
    assert kit.title(ax) == "H2D exposed 4.0 µs"
    assert "drawn.sqlite · H200 dev 0, pid 1000 · window 0.004 to 0.01 ms" in kit.texts(ax)


def test_a_window_open_to_one_side_ends_with_the_activity(path: Path) -> None:
    ax = timeline(path, window=no.parse_window("9us:"))
    assert ax.get_xlim() == pytest.approx((0.009, 0.014))
    assert "drawn.sqlite · H200 dev 0, pid 1000 · window 0.009 to end" in kit.texts(ax)


def test_a_window_without_activity_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="no GPU activity in window"):
        timeline(path, window=no.parse_window("1s:2s"))


def test_a_window_and_a_step_are_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="together"):
        timeline(path, window=no.parse_window("0us:9us"), step=0)


def test_steps_have_borders_and_numbers(tmp_path: Path) -> None:
    ax = timeline(kit.many_steps(tmp_path / "steps.sqlite", 3))
    (borders,) = [c for c in ax.collections if c.get_label() == "step border"]
    at = [round(np.asarray(path.vertices)[0, 0] * 1e3) for path in borders.get_paths()]
    assert at == [1000, 1010, 1020, 1030]
    assert [text for text in kit.texts(ax) if text.startswith("step ")] == [
        "step 0",
        "step 1",
        "step 2",
    ]
    assert kit.title(ax) == "D2H exposed 2.0 µs in the mean step"


def test_one_step_fills_the_axes(tmp_path: Path) -> None:
    ax = timeline(kit.many_steps(tmp_path / "steps.sqlite", 3), step=1)
    assert ax.get_xlim() == pytest.approx((1.010, 1.020))
    assert kit.spans(ax, "exposed") == [(1018, 1020)]
    assert kit.title(ax) == "D2H exposed 2.0 µs in step 1"


def test_a_step_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="step 7 is not among its 3 steps"):
        timeline(kit.many_steps(tmp_path / "steps.sqlite", 3), step=7)


def test_a_window_shows_the_borders_of_the_steps_in_it(tmp_path: Path) -> None:
    path = kit.many_steps(tmp_path / "steps.sqlite", 5)
    ax = timeline(path, window=no.parse_window("1.015ms:1.035ms"))
    assert [t for t in kit.texts(ax) if t.startswith("step ")] == ["step 1", "step 2", "step 3"]


def test_of_many_steps_some_are_numbered_and_it_is_said(tmp_path: Path) -> None:
    ax = timeline(kit.many_steps(tmp_path / "steps.sqlite", 2_000))
    numbered = [text for text in kit.texts(ax) if text.startswith("step ")]
    assert numbered[:3] == ["step 0", "step 200", "step 400"]
    assert (
        "what is shorter than 26.7 µs is as high as the share of the time that it fills; "
        "borders of every 50th step"
    ) in kit.texts(ax)


def test_bytes_on_the_host_rise_and_fall(tmp_path: Path) -> None:
    path = tmp_path / "relief.sqlite"
    draw(
        """
        dev0 s7  compute:          ##############
        dev0 s20 bytes=4096 d2h:   .##...........
        dev0 s21 bytes=4096 h2d:   ........##....
        """
    ).write(path)
    ax = timeline(path)
    (curve,) = [line for line in ax.get_lines() if line.get_label() == "on the host"]
    x, y = np.asarray(curve.get_xdata(), float), np.asarray(curve.get_ydata(), float)
    assert (x * 1e3).round().tolist() == [0, 3, 8, 14]
    assert (y == y.max()).tolist() == [True, False, True, True]
    assert "up to 4.0 KiB" in kit.texts(ax)


def test_a_trace_far_from_zero_has_short_ticks(tmp_path: Path) -> None:
    draw(PICTURE, t0=1_700_000_000_000_000_001).write(tmp_path / "late.sqlite")
    ax = timeline(tmp_path / "late.sqlite")
    assert ax.get_xlim() == pytest.approx((0, 0.013))
    assert ax.get_xlabel() == "ms after 1700000000000.001001 ms of trace time"
    assert kit.spans(ax, "exposed") == [(4, 8), (11, 13)]


def test_two_devices_are_named_and_averaged(tmp_path: Path) -> None:
    path = kit.drawn(
        tmp_path / "two.sqlite",
        """
        dev0 s7  compute: ####....
        dev0 s20 h2d:     ....####
        dev1 s7  compute: ########
        dev1 s20 h2d:     ....####
        """,
    )
    ax = timeline(path)
    assert kit.title(ax) == "H2D exposed 2.0 µs"
    shown = kit.texts(ax)
    assert {"H200 dev 0, pid 1000", "H200 dev 1, pid 1000"} <= set(shown)
    assert "two.sqlite · 2 devices · whole trace · exposed: mean of the devices" in shown
    one = timeline(path, devices=[1])
    assert kit.title(one) == "H2D exposed nothing"
    assert kit.spans(one, "exposed") == []


def test_a_device_that_is_not_there(path: Path) -> None:
    with pytest.raises(UsageError, match="there is no device 3"):
        timeline(path, devices=[3])


def test_opaque_graphs_are_not_called_free_of_transfers() -> None:
    ax = timeline(h200("jax_scan_pipelined_graph_level"))
    assert kit.title(ax).startswith("Not known: ")
    assert "opaque" in kit.texts(ax)


def test_events_lost_leave_nothing_to_draw() -> None:
    with pytest.raises(UsageError, match="no GPU activity to draw"):
        timeline(h200("jax_fsdp2_events_lost"))


@pytest.mark.parametrize("name", ["jax_unroll_lhs", "jax_fsdp2_lhs", "jax_scan_lhs"])
def test_bars_of_real_traces_hold_the_exposed_time_of_the_report(name: str) -> None:
    report = no.analyze(h200(name))
    scene = timeline_scene(subject(h200(name), options_for(None, None, "auto", None)))
    columns = PixelColumns(scene.start_ns, scene.end_ns)
    device = scene.devices[0]
    drawn_ns = dict.fromkeys(("h2d", "d2h"), 0.0)
    for lane in device.lanes:
        if lane.kind in drawn_ns:
            bars = columns.bars(device.exposed(lane))
            drawn_ns[lane.kind] = (bars.share * (bars.end_ns - bars.start_ns)).sum()
    for direction, ns in drawn_ns.items():
        assert ns == pytest.approx(getattr(report.devices[0], direction).exposed_ns)


@pytest.mark.parametrize("exposed", [1, 5, 19])
@pytest.mark.parametrize("copies", [1, 400], ids=["one copy", "many copies"])
def test_slivers_look_no_more_exposed_than_they_are(
    tmp_path: Path, exposed: int, copies: int
) -> None:
    """As a test of the page: 400 times 20 us, of which so many parts of 20 are exposed."""
    builder = TraceBuilder()
    for i in range(400):
        builder.kernel(20_000 * i + 1_000 * exposed, 20_000 * (i + 1), stream=7)
    for i in range(copies):
        length = 8_000_000 // copies
        builder.copy(i * length, (i + 1) * length, "h2d", 4096, stream=20)
    builder.write(tmp_path / "a.sqlite")
    ax = timeline(tmp_path / "a.sqlite")
    area = sum((right - left) * (low - high) for left, right, high, low in kit.boxes(ax, "exposed"))
    assert area / (8 * TALL) == pytest.approx(exposed / 20, abs=0.02)


def test_a_thin_exposure_is_no_wide_line_of_full_height(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 5_000_000)
    builder.kernel(5_002_000, 10_000_000)
    builder.copy(4_000_000, 6_000_000, "h2d", 4096, stream=20)
    builder.write(tmp_path / "a.sqlite")
    (box,) = kit.boxes(timeline(tmp_path / "a.sqlite"), "exposed")
    left, right, high, low = box
    # 2 us of a column of 10 ms / 1500.
    assert right - left == pytest.approx(10 / 1500, rel=1e-3)
    assert low - high == pytest.approx(TALL * 2 / (10_000 / 1500), rel=1e-2)
