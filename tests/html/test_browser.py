"""The page in a real browser: draws, sorts, filters, zooms, jumps, and talks to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from matplotlib.image import imread

from nsysoverlap import analyze
from nsysoverlap.cli.formats import render
from nsysoverlap.core.palette import COLORS, ON_DARK

from ..hostile import HOSTILE_NAMES, hostile_trace
from ..tracebuilder import TraceBuilder, build
from ..traces import h200
from .browserkit import (
    FIRST_LANE,
    LANE_LEFT,
    LANE_STEP,
    Watched,
    at,
    color,
    column,
    css_color,
    drawn,
    rgb,
    span,
)
from .pages import measured, page_of
from .test_page import many_steps

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def watched(browser: Browser, tmp_path: Path) -> Iterator[Watched]:
    one = Watched(browser, tmp_path)
    yield one
    one.context.close()
    assert one.problems == []
    outside = [url for url in one.requests if url != (tmp_path / "report.html").as_uri()]
    assert [url for url in outside if not url.startswith("data:")] == []
    assert one.requests


@pytest.fixture(scope="module")
def unrolled() -> str:
    return page_of(h200("jax_unroll_lhs"))


@pytest.mark.parametrize(("system", "colors"), [("light", COLORS), ("dark", ON_DARK)])
def test_colours_mean_what_they_mean_in_plots(
    browser: Browser, tmp_path: Path, unrolled: str, system: str, colors: dict[str, str]
) -> None:
    page = Watched(browser, tmp_path, system).open(unrolled)
    for kind in ("compute", "d2h", "h2d", "other"):
        assert css_color(page, f"#tl-legend .{kind}")[:3] == rgb(colors[kind])
    page.context.close()


def test_the_page_renders(watched: Watched, unrolled: str) -> None:
    page = watched.open(unrolled)
    assert page.locator("h1").inner_text().startswith("59.5\u00a0% of 477.6\u00a0ms of host")
    findings = analyze(h200("jax_unroll_lhs")).findings
    assert page.locator(".findings > li").count() == len(findings) > 1
    assert page.locator(".chart [role=img]").count() == 3
    assert page.locator("#tl-canvas").bounding_box() is not None
    start, end = span(page)
    assert start <= 0 < 1_233_000_000 < end


def test_operations_sort_by_what_they_hold(watched: Watched, unrolled: str) -> None:
    table = watched.open(unrolled).locator("#operations-table table")
    operations = analyze(h200("jax_unroll_lhs")).operations
    exposed = table.get_by_role("button", name="exposed", exact=True)
    names = [f"{operation.direction.upper()} {operation.op}" for operation in operations]
    assert column(table, 0) == names
    exposed.click()
    assert column(table, 0)[0] == names[0]
    assert table.locator("th").nth(5).get_attribute("aria-sort") == "descending"
    exposed.click()
    least = min(operations, key=lambda operation: operation.overlap.exposed_ns)
    assert column(table, 0)[0] == names[operations.index(least)]
    assert table.locator("th").nth(5).get_attribute("aria-sort") == "ascending"
    table.get_by_role("button", name="operation").click()
    names = column(table, 0)
    assert names.index("D2H copy-start.2.0") < names.index("D2H copy-start.10.0")
    assert table.locator("th").nth(5).get_attribute("aria-sort") == "none"


def test_operations_filter(watched: Watched, unrolled: str) -> None:
    page = watched.open(unrolled)
    table = page.locator("#operations-table table")
    page.get_by_label("Filter operations").fill("D2H start.1")
    assert all(name.startswith("D2H copy-start.1") for name in column(table, 0))
    shown = len(column(table, 0))
    assert 0 < shown < 16
    assert page.locator("#operations-table output").inner_text() == f"{shown} of 16 rows"
    page.get_by_label("Filter operations").fill("")
    assert len(column(table, 0)) == 16


def test_ctrl_wheel_zooms_around_the_pointer_and_shift_drag_pans(
    watched: Watched, unrolled: str
) -> None:
    page = watched.open(unrolled)
    canvas = page.locator("#tl-canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    middle = box["x"] + LANE_LEFT + (box["width"] - LANE_LEFT) / 2
    before = span(page)
    page.mouse.move(middle, box["y"] + 100)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -600)
    page.keyboard.up("Control")
    zoomed = span(page)
    assert zoomed[1] - zoomed[0] < (before[1] - before[0]) * 0.6
    assert sum(zoomed) / 2 == pytest.approx(sum(before) / 2, abs=(before[1] - before[0]) * 0.02)
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(middle + 200, box["y"] + 100, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    panned = span(page)
    assert panned[0] < zoomed[0]
    assert panned[1] - panned[0] == pytest.approx(zoomed[1] - zoomed[0], rel=0.01)


def test_the_keyboard_does_all_that_the_mouse_does(watched: Watched, unrolled: str) -> None:
    page = watched.open(unrolled)
    canvas = page.locator("#tl-canvas")
    canvas.focus()
    whole = span(page)
    canvas.press("+")
    zoomed = span(page)
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 2, rel=0.01)
    canvas.press("ArrowRight")
    assert span(page)[0] > zoomed[0]
    canvas.press("ArrowLeft")
    assert span(page)[0] == pytest.approx(zoomed[0], abs=1000)
    canvas.press("0")
    assert span(page) == whole
    canvas.press("n")
    said = page.locator("#tl-said").inner_text()
    assert said.startswith("D2H exposed 1.2 ms from 89.669 to 90.918 ms, copy-start")
    first = span(page)
    canvas.press("n")
    assert sum(span(page)) > sum(first)
    canvas.press("p")
    assert page.locator("#tl-said").inner_text() == said
    canvas.press("]")
    assert page.locator("#tl-said").inner_text().startswith("step 1: ")
    step = analyze(h200("jax_unroll_lhs")).devices[0].steps[1]
    origin = 16_627_857
    assert span(page) == (step.start_ns - origin, step.end_ns - origin)


def test_tab_reaches_every_control(watched: Watched, unrolled: str) -> None:
    page = watched.open(unrolled)
    seen = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate(
                "() => document.activeElement.id || document.activeElement.className"
                " || document.activeElement.textContent.trim()"
            )
        )
    assert {"skip", "theme", "jump", "tl-step", "tl-find", "tl-canvas"} <= seen
    assert {"operations-filter", "steps-filter", "exposed ▶", "exposed"} <= seen


def test_hover_shows_the_activity(watched: Watched, tmp_path: Path) -> None:
    drawing = """
        dev0 s7  compute:         ####......
        dev0 s20 bytes=4096 h2d:  ..######..
    """
    page = watched.open(page_of(build(tmp_path / "a.sqlite", drawing)))
    canvas = page.locator("#tl-canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    x, y = at(page, box["width"], 5_000), FIRST_LANE + 2 * LANE_STEP + 17
    tip = page.locator("#tl-tip")
    assert tip.is_hidden()
    page.mouse.move(box["x"] + x, box["y"] + y)
    assert tip.inner_text().splitlines() == [
        "cudaMemcpyAsync",
        "H2D on stream 20, 6.0 µs",
        "4.0 KiB at 0.7 GB/s",
        "exposed 4.0 µs",
        "0.002 to 0.008 ms",
    ]
    page.mouse.move(box["x"] + x, box["y"] + FIRST_LANE + 17)
    assert tip.is_hidden()


def test_exposed_parts_are_drawn_where_they_are(watched: Watched, tmp_path: Path) -> None:
    drawing = """
        dev0 s7  compute: ####......
        dev0 s20 h2d:     ..######..
    """
    page = watched.open(page_of(build(tmp_path / "a.sqlite", drawing)))
    width = page.locator("#tl-canvas").evaluate("canvas => canvas.clientWidth")
    top = FIRST_LANE + 2 * LANE_STEP
    hidden, transfer = css_color(page, "#tl-legend .h2d"), rgb(COLORS["exposed"])
    rows = range(top + 1, top + 9)
    assert {color(page, at(page, width, 3_900), y) for y in rows} == {hidden}
    exposed = {color(page, at(page, width, 7_500), y)[:3] for y in rows}
    assert hidden[:3] not in exposed
    assert len(exposed) > 2
    assert transfer in exposed
    compute = css_color(page, "#tl-legend .compute")
    assert color(page, at(page, width, 3_500), FIRST_LANE + 3) == compute
    assert color(page, at(page, width, 4_500), FIRST_LANE + 3) != compute


def test_a_click_on_evidence_jumps_to_it(watched: Watched) -> None:
    page = watched.open(page_of(h200("jax_fsdp2_lhs")))
    report = analyze(h200("jax_fsdp2_lhs"))
    row = report.findings[0].evidence[0]
    origin = min(
        device.window_ns[0] for device in analyze(h200("jax_fsdp2_lhs"), steps="none").devices
    )
    page.locator(".jump").first.click()
    start, end = span(page)
    assert start < row.start_ns - origin < row.end_ns - origin < end
    assert end - start < 5 * (row.end_ns - row.start_ns)
    labels = [device.label for device in report.devices]
    assert page.locator("#tl-canvas").get_attribute("data-device") == str(
        labels.index(row.device or "")
    )
    assert page.locator("#tl-device").input_value() == str(labels.index(row.device or ""))
    said = page.locator("#tl-said").inner_text().replace("\u00a0", " ")
    assert row.text in said
    assert page.evaluate("() => document.activeElement.id") == "tl-canvas"
    box = page.locator("#tl-canvas").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 900
    page.get_by_role("button", name="← Back").click()
    first = page.locator(".jump").first
    assert first.evaluate("element => element === document.activeElement")


@pytest.mark.parametrize("system", ["light", "dark"])
def test_themes(browser: Browser, tmp_path: Path, unrolled: str, system: str) -> None:
    watched = Watched(browser, tmp_path, system)
    page = watched.open(unrolled)
    button = page.locator("#theme")

    def brightness() -> int:
        drawn(page)
        canvas = color(page, 5, 80)
        ground = css_color(page, "body")
        assert canvas == ground
        return sum(ground[:3])

    as_system = brightness()
    assert (as_system > 380) == (system == "light")
    button.click()
    assert button.inner_text() == "Theme: light"
    assert brightness() > 600
    button.click()
    assert brightness() < 200
    page.reload()
    assert button.inner_text() == "Theme: dark"
    assert brightness() < 200
    watched.context.close()
    assert watched.problems == []


def test_hostile_names_do_nothing(watched: Watched, tmp_path: Path) -> None:
    page = watched.open(page_of(hostile_trace(tmp_path / "a.sqlite")))
    assert HOSTILE_NAMES[0] in page.locator("#operations-table").inner_text()
    canvas = page.locator("#tl-canvas")
    canvas.focus()
    for _ in range(6):
        canvas.press("n")
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0
    overflow = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0


@pytest.mark.parametrize(("n", "devices"), [(2_000, 1), (4, 64)])
def test_large_reports_stay_legible(watched: Watched, n: int, devices: int) -> None:
    page = watched.open(render(many_steps(n, devices), "html"))
    overflow = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0
    bars = page.locator(".step-chart .column i")
    assert 0 < bars.count() <= 120 * 6
    box = bars.first.bounding_box()
    assert box is not None
    assert box["width"] > 3


@pytest.mark.parametrize("name", ["micro_graph_graph", "micro_managed", "jax_fsdp2_events_lost"])
def test_traces_without_transfers(watched: Watched, name: str) -> None:
    page = watched.open(page_of(h200(name)))
    assert page.locator("h1").inner_text()
    if page.locator("#tl-canvas").count():
        page.locator("#tl-canvas").press("n")
        assert page.locator("#tl-said").inner_text() == "Nothing is exposed on this device."


def test_a_narrow_screen(watched: Watched, unrolled: str) -> None:
    page = watched.open(unrolled)
    page.set_viewport_size({"width": 400, "height": 800})
    overflow = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0


def test_a_table_that_goes_on_beyond_the_edge_has_a_shadow_there(
    watched: Watched, unrolled: str
) -> None:
    page = watched.open(unrolled)
    page.set_viewport_size({"width": 390, "height": 800})
    table = page.locator("#operations .scroll")

    def edges() -> tuple[bool, bool]:
        """Whether the ground is shaded at the left and at the right edge, below the heading."""
        data = table.screenshot()
        row = imread(BytesIO(data), format="png")[-3, :, :3]
        ground = [channel / 255 for channel in css_color(page, "body")[:3]]
        return tuple(bool(abs(row[x] - ground).max() > 0.1) for x in (1, -2))  # type: ignore[return-value]

    assert edges() == (False, True)
    table.evaluate("element => { element.scrollLeft = 60; }")
    assert edges() == (True, True)
    table.evaluate("element => { element.scrollLeft = element.scrollWidth; }")
    assert edges() == (True, False)


def test_merged_blocks_say_what_they_hold(watched: Watched) -> None:
    report, timeline = measured(h200("jax_unroll_lhs"), most=200)
    page = watched.open(render(report, "html", timeline=timeline))
    note = page.locator("#tl-merged").inner_text()
    assert "compute 1,128 activities in " in note
    canvas = page.locator("#tl-canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    tips = set()
    for i in range(40):
        page.mouse.move(box["x"] + LANE_LEFT + 20 + i * 20, box["y"] + FIRST_LANE + 17)
        tips.add(page.locator("#tl-tip").inner_text())
    assert any("activities, the longest " in tip and "busy " in tip for tip in tips)


def test_merged_blocks_are_hatched_as_high_as_they_were_exposed(
    watched: Watched, tmp_path: Path
) -> None:
    drawing = """
        dev0 s7  compute: ####....############
        dev0 s20 h2d:     AAAABBBBCCCCDDDDEEEE
    """
    report, timeline = measured(build(tmp_path / "a.sqlite", drawing), most=3)
    page = watched.open(render(report, "html", timeline=timeline))
    width = page.locator("#tl-canvas").evaluate("canvas => canvas.clientWidth")
    top, x = FIRST_LANE + 2 * LANE_STEP, at(page, width, 10_000)
    hidden = css_color(page, "#tl-legend .h2d")
    solid = [y for y in range(34) if color(page, x, top + y) == hidden]
    # One of five parts was exposed: the lowest 7 of 34 pixels.
    assert solid == list(range(len(solid)))
    assert 26 <= len(solid) <= 28


def hatched(page: Page, top: int) -> float:
    """Share of what is drawn of the H2D lane that is hatched: more red than blue, as H2D is not."""
    script = """([top, height, left]) => {
        const canvas = document.getElementById("tl-canvas");
        const ratio = canvas.width / canvas.clientWidth;
        const pen = canvas.getContext("2d");
        const [x, y, wide, high] = [left, top, canvas.clientWidth - left, height].map(
            (value) => Math.round(value * ratio));
        return [wide, ...pen.getImageData(x, y, wide, high).data];
    }"""
    values: list[int] = page.evaluate(script, [top, 34, LANE_LEFT])
    wide = values.pop(0)
    pixels = [tuple(values[i : i + 3]) for i in range(0, len(values), 4)]
    ground = css_color(page, "body")[:3]
    drawn = [i for i in range(wide) if pixels[(34 - 1) * wide + i] != ground]
    red = sum(
        pixels[row * wide + i][0] > pixels[row * wide + i][2] for i in drawn for row in range(34)
    )
    return red / (34 * len(drawn))


@pytest.mark.parametrize("exposed", [1, 5, 19])
@pytest.mark.parametrize("copies", [1, 400], ids=["one copy", "many copies"])
def test_slivers_look_no_more_exposed_than_they_are(
    watched: Watched, tmp_path: Path, exposed: int, copies: int
) -> None:
    """400 times 20 us on about 1,100 pixels: the exposed part of each is thinner than any line."""
    builder = TraceBuilder()
    for i in range(400):
        builder.kernel(20_000 * i + 1_000 * exposed, 20_000 * (i + 1), stream=7)
    for i in range(copies):
        length = 8_000_000 // copies
        builder.copy(i * length, (i + 1) * length, "h2d", 4096, stream=20)
    page = watched.open(page_of(builder.write(tmp_path / "a.sqlite")))
    drawn(page)
    assert hatched(page, FIRST_LANE + 2 * LANE_STEP) == pytest.approx(exposed / 20, abs=0.06)


def test_long_names_of_devices_fit_beside_their_bars(watched: Watched) -> None:
    report = analyze(h200("micro_hidden"))
    (device,) = report.devices
    quadro = replace(device.gpu, name="Quadro GP100 with Max-Q Design")
    named = replace(report, devices=(replace(device, gpu=quadro),))
    page = watched.open(render(named, "html"))
    label = page.locator("#budget-chart .bar-label")
    assert label.inner_text().startswith("Quadro GP100")
    cut = "element => element.scrollWidth > element.clientWidth"
    assert not label.evaluate(cut)
    assert not page.locator("#budget-chart .bar-row").evaluate(cut)
