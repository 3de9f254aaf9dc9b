"""Wheel, click, drag, search, jumps, address, keys and touch: wide and narrow, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nsysoverlap import analyze
from nsysoverlap.cli.formats import render
from nsysoverlap.result.model import Overlap, OverlapReport

from ..tracebuilder import TraceBuilder
from ..traces import h200
from .browserkit import FIRST_LANE, LANE_STEP, Watched, color, css_color, drawn, span
from .pages import measured, page_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

US = 1_000
SCREENS = [
    pytest.param((1400, "light"), id="wide-light"),
    pytest.param((390, "dark"), id="narrow-dark"),
    pytest.param((1400, "dark"), id="wide-dark", marks=pytest.mark.slow),
    pytest.param((390, "light"), id="narrow-light", marks=pytest.mark.slow),
]
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three steps of 400 us on two streams; each H2D half behind the kernel of its step."""
    builder = TraceBuilder()
    for step in range(3):
        at = (1_000 + 400 * step) * US
        builder.nvtx(f"step {step}", at - 20 * US, at + 370 * US)
        builder.nvtx("Thunk:#name=copy-start.1,hlo_op=copy-start.1#", at + 97 * US, at + 99 * US)
        builder.copy(at + 100 * US, at + 300 * US, "h2d", 8 << 20, stream=20)
        builder.kernel(at, at + 200 * US, "matmul_kernel")
        builder.kernel(at + 300 * US, at + 400 * US, "norm_kernel")
        builder.copy(at + 20 * US, at + 80 * US, "d2h", 2 << 20, stream=21)
    return page_of(builder.write(tmp_path_factory.mktemp("steps") / "a.sqlite"))


@pytest.fixture(params=SCREENS)
def watched(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> Iterator[Watched]:
    width, theme = request.param
    one = Watched(browser, tmp_path, theme, width, has_touch=True)
    yield one
    one.context.close()
    assert one.problems == []


def canvas_box(page: Page) -> dict[str, float]:
    """Place of the timeline, brought to the middle of the screen."""
    page.locator("#tl-canvas").evaluate("element => element.scrollIntoView({block: 'center'})")
    box = page.locator("#tl-canvas").bounding_box()
    assert box is not None
    return {name: float(box[name]) for name in ("x", "y", "width", "height")}


def left_of(page: Page) -> int:
    return 78 if page.viewport_size and page.viewport_size["width"] < 560 else 108


def pixel(page: Page, us: float) -> float:
    """Pixel of the canvas at a time of the drawing."""
    start, end = span(page)
    box = page.locator("#tl-canvas").bounding_box()
    assert box is not None
    left = left_of(page)
    return left + ((us - 1_000) * US - start) / (end - start) * (box["width"] - left)


def row_at(page: Page, lane: int) -> float:
    return FIRST_LANE + lane * LANE_STEP + 17


def sums(page: Page) -> Any:
    """The raw sums of the range, in ns."""
    text = page.locator("#tl-sums").get_attribute("data-sums")
    assert text is not None
    return json.loads(text)


def as_report(part: Overlap) -> dict[str, int]:
    """What the page calls the parts of an overlap."""
    return {
        "n": part.n,
        "bytes": part.bytes,
        "estimated": part.bytes_estimated,
        "wall": part.wall_ns,
        "compute": part.hidden_by_compute_ns,
        "comm": part.hidden_by_comm_ns,
        "exposed": part.exposed_ns,
    }


def test_the_wheel_scrolls_the_page_unless_it_is_meant(watched: Watched, source: str) -> None:
    page = watched.open(source)
    box = canvas_box(page)
    whole = span(page)
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, 120)
    page.wait_for_function(f"() => scrollY > {before}")
    assert span(page) == whole
    assert page.locator("#tl-hint").is_visible()
    box = canvas_box(page)
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    before = page.evaluate("scrollY")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    zoomed = span(page)
    assert zoomed[1] - zoomed[0] < 0.7 * (whole[1] - whole[0])
    assert page.evaluate("scrollY") == before
    page.mouse.click(box["x"] + 200, box["y"] + 30)
    page.mouse.wheel(0, -400)
    assert span(page)[1] - span(page)[0] < 0.7 * (zoomed[1] - zoomed[0])
    # Away from it and back, the wheel is the page's again.
    page.mouse.move(box["x"] + 200, box["y"] - 20)
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.wheel(0, 120)
    page.wait_for_function(f"() => scrollY > {before}")


def test_zoomed_out_in_full_the_wheel_goes_on_down_the_page(watched: Watched, source: str) -> None:
    page = watched.open(source)
    box = canvas_box(page)
    page.mouse.click(box["x"] + 200, box["y"] + 100)
    before = page.evaluate("scrollY")
    for _ in range(3):
        page.mouse.wheel(0, 300)
    page.wait_for_function(f"() => scrollY > {before}")


def test_a_click_pins_details_that_escape_takes_away(watched: Watched, source: str) -> None:
    page = watched.open(source)
    box = canvas_box(page)
    details = page.locator("#tl-details")
    assert details.is_hidden()
    page.mouse.click(box["x"] + pixel(page, 1_250), box["y"] + row_at(page, 2))
    assert details.locator("p").inner_text() == (
        "copy-start.1: H2D on stream 20, 200.0 µs; 8.0 MiB at 41.9 GB/s; exposed 100.0 µs; "
        "1.100 to 1.300 ms"
    )
    page.mouse.move(box["x"] + 5, box["y"] - 30)
    assert details.is_visible()
    details.get_by_role("button", name="Zoom to it").click()
    start, end = span(page)
    assert (start, end) == pytest.approx((80 * US, 320 * US), abs=1)
    page.locator("#tl-canvas").press("Escape")
    assert details.is_hidden()


def test_a_drag_sums_a_range_up(watched: Watched, source: str) -> None:
    page = watched.open(source)
    box = canvas_box(page)
    y = box["y"] + 30
    page.mouse.move(box["x"] + pixel(page, 1_150), y)
    page.mouse.down()
    page.mouse.move(box["x"] + pixel(page, 1_250), y, steps=3)
    page.mouse.up()
    found = sums(page)
    tolerance = 2 * 1_200 * US / (box["width"] - left_of(page))
    assert found["exact"]
    assert found["h2d"]["wall"] == pytest.approx(100 * US, abs=tolerance)
    assert found["h2d"]["compute"] == pytest.approx(50 * US, abs=tolerance)
    assert found["h2d"]["wall"] == sum(
        found["h2d"][name] for name in ("compute", "comm", "exposed")
    )
    # It started before the range: its bytes belong elsewhere.
    assert (found["h2d"]["n"], found["h2d"]["bytes"], found["kernels"]) == (0, 0, 0)
    assert "(100." in page.locator("#tl-sums p").inner_text()
    page.get_by_role("button", name="Unselect").click()
    assert page.locator("#tl-sums").is_hidden()
    page.locator("#tl-canvas").press("m")
    whole = sums(page)
    assert (whole["h2d"]["n"], whole["d2h"]["bytes"], whole["kernels"]) == (3, 3 * (2 << 20), 6)
    assert page.locator("#tl-sums tbody tr").count() == 3


def test_search_goes_from_match_to_match(watched: Watched, source: str) -> None:
    page = watched.open(source)
    find = page.get_by_label("Find a kernel or operation")
    find.fill("NORM")
    assert page.locator("#tl-said").inner_text() == "3 found; Enter goes to the next."
    find.press("Enter")
    first = span(page)
    assert page.locator("#tl-said").inner_text().startswith("1 of 3: norm_kernel, compute")
    find.press("Enter")
    assert sum(span(page)) > sum(first)
    find.press("Shift+Enter")
    assert span(page) == first
    find.press("Shift+Enter")
    assert page.locator("#tl-said").inner_text().startswith("3 of 3: norm_kernel")
    assert "norm_kernel" in page.locator("#tl-details").inner_text()


def test_rows_jump_and_come_back(watched: Watched, source: str) -> None:
    page = watched.open(source)
    whole = span(page)
    back = page.locator("#tl-back")
    assert back.is_hidden()
    for row in (
        page.locator("#operations-table").get_by_role("button", name="H2D copy-start.1"),
        page.locator("#kernels-table").get_by_role("button", name="norm_kernel"),
        page.locator("#steps-table td .jump").nth(1),
    ):
        row.evaluate("element => element.scrollIntoView({block: 'center'})")
        row.click()
        assert span(page) != whole
        canvas = page.locator("#tl-canvas").bounding_box()
        assert canvas is not None
        assert 0 <= canvas["y"] < 600
        back.click()
        assert row.evaluate("element => element === document.activeElement")
        box = row.bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 900
        assert back.is_hidden()
        page.locator("#tl-canvas").press("0")


def test_the_browsers_back_undoes_a_jump(watched: Watched, source: str) -> None:
    page = watched.open(source)
    whole = span(page)
    page.locator("#steps-table td .jump").nth(1).click()
    assert span(page) == (400 * US, 800 * US)
    page.wait_for_function("() => location.hash.startsWith('#t=0,1400000,1800000')")
    page.go_back()
    drawn(page)
    page.wait_for_function("() => !location.hash")
    assert span(page) == whole


def test_the_address_keeps_what_is_shown(watched: Watched, source: str) -> None:
    page = watched.open(source)
    box = canvas_box(page)
    assert page.evaluate("location.hash") == ""
    page.mouse.click(box["x"] + pixel(page, 1_250), box["y"] + row_at(page, 2))
    page.get_by_role("checkbox", name="streams").check()
    page.locator("#tl-step").select_option(label="step 1")
    wanted = "#t=0,1400000,1800000&s=1400000,1800000&p=h2d,1100000&r=streams"
    page.wait_for_function(f"() => location.hash === '{wanted}'")
    page.reload()
    assert span(page) == (400 * US, 800 * US)
    assert page.get_by_role("checkbox", name="streams").is_checked()
    assert page.locator("#tl-details").inner_text().startswith("copy-start.1: H2D on stream 20")
    assert sums(page)["h2d"]["wall"] == 200 * US
    top = canvas_box(page)["y"]
    assert 0 <= top < 900


@pytest.mark.parametrize(
    "fragment", ["#t=", "#t=9,1,2", "#t=0,a,b", "#t=0,5,5", "#t=-1,0,9", "#operations", "#t=0,1"]
)
def test_an_unsound_address_shows_all(browser: Browser, tmp_path: Path, source: str,
                                      fragment: str) -> None:  # fmt: skip
    watched = Watched(browser, tmp_path)
    page = watched.open(source)
    whole = span(page)
    page.goto(page.url.split("#")[0] + fragment)
    page.reload()
    assert span(page) == whole
    watched.context.close()
    assert watched.problems == []


def test_keys_of_perfetto(watched: Watched, source: str) -> None:
    page = watched.open(source)
    canvas = page.locator("#tl-canvas")
    canvas.focus()
    whole = span(page)
    canvas.press("w")
    near = span(page)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2, rel=0.01)
    canvas.press("d")
    assert span(page)[0] > near[0]
    canvas.press("a")
    assert span(page)[0] == pytest.approx(near[0], abs=1000)
    canvas.press("s")
    assert span(page) == pytest.approx(whole, abs=1000)
    box = canvas_box(page)
    page.mouse.move(box["x"] + pixel(page, 1_100), box["y"] + 100)
    canvas.press("w")
    start, end = span(page)
    before = (1_100 * US - 1_000 * US - whole[0]) / (whole[1] - whole[0])
    assert (100 * US - start) / (end - start) == pytest.approx(before, abs=0.01)
    canvas.press("/")
    assert page.evaluate("document.activeElement.id") == "tl-find"


def touch(session: CDPSession, kind: str, *points: tuple[float, float]) -> None:
    """Fingers on the screen, as the browser's own protocol sends them."""
    named = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)]
    session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": named})


def test_fingers_pan_zoom_pin_and_select(watched: Watched, source: str) -> None:
    page = watched.open(source)
    box = canvas_box(page)
    x, y = box["x"] + 180, box["y"] + 100
    session = page.context.new_cdp_session(page)
    whole = span(page)
    touch(session, "touchStart", (x, y), (x + 40, y))
    touch(session, "touchMove", (x - 20, y), (x + 60, y))
    touch(session, "touchMove", (x - 40, y), (x + 80, y))
    touch(session, "touchEnd")
    near = span(page)
    assert near[1] - near[0] < 0.6 * (whole[1] - whole[0])
    touch(session, "touchStart", (x, y))
    for i in range(1, 5):
        touch(session, "touchMove", (x - 12 * i, y))
    touch(session, "touchEnd")
    assert span(page)[0] > near[0]
    assert span(page)[1] - span(page)[0] == pytest.approx(near[1] - near[0], rel=0.01)
    page.locator("#tl-canvas").press("0")
    page.touchscreen.tap(box["x"] + pixel(page, 1_250), box["y"] + row_at(page, 2))
    assert page.locator("#tl-details").inner_text().startswith("copy-start.1")
    still = span(page)
    touch(session, "touchStart", (x, y))
    page.wait_for_timeout(550)
    touch(session, "touchMove", (x + 30, y))
    touch(session, "touchMove", (x + 60, y))
    touch(session, "touchEnd")
    assert span(page) == still
    assert page.locator("#tl-sums").is_visible()


def test_rows_of_streams_and_of_the_host(watched: Watched, source: str) -> None:
    page = watched.open(source)
    high = canvas_box(page)["height"]
    page.get_by_role("checkbox", name="streams").check()
    drawn(page)
    taller = canvas_box(page)["height"]
    assert taller - high == 5 + 3 * 21
    page.get_by_role("checkbox", name="NVTX and launches").check()
    drawn(page)
    box = canvas_box(page)
    # Two depths of ranges, and the calls.
    assert box["height"] - taller == 3 * 21
    tips = []
    for row in range(6):
        page.mouse.move(box["x"] + pixel(page, 1_150), box["y"] + high + 4 + 21 * row + 9)
        tips.append(page.locator("#tl-tip").text_content())
    assert (tips[0] or "").startswith("matmul_kernel\ncompute on stream 7")
    assert (tips[1] or "").startswith("copy-start.1\nH2D on stream 20")
    assert (tips[3] or "").startswith("step 0\nNVTX of thread")


def test_bytes_on_the_host_and_rates_have_rows(watched: Watched) -> None:
    page = watched.open(page_of(h200("jax_unroll_lhs")))
    box = canvas_box(page)
    page.locator("#tl-canvas").press("]")
    box = canvas_box(page)
    device = analyze(h200("jax_unroll_lhs")).devices[0]
    names = page.evaluate("() => document.getElementById('tl-canvas').clientHeight")
    assert names == FIRST_LANE + 6 * LANE_STEP - 8 + 4
    h2d = next(s for s in device.steps if s.index == 1)
    page.mouse.move(box["x"] + 200, box["y"] + 30)
    assert h2d.h2d.gb_per_s is not None
    seen = {
        color(page, x, row_at(page, 5) + 12)
        for x in range(left_of(page) + 2, int(box["width"]) - 4, 2)
    }
    assert {css_color(page, "#tl-legend .h2d"), css_color(page, "#tl-legend .d2h")} <= seen
    dark = css_color(page, "body")
    levels = {color(page, x, row_at(page, 4) + 15) for x in range(120, int(box["width"]) - 4)}
    assert levels - {dark}


def test_nothing_overflows_and_no_word_breaks_inside(watched: Watched) -> None:
    page = watched.open(page_of(h200("jax_fsdp2_lhs")))
    page.evaluate(
        "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"
    )
    assert page.evaluate(OVERFLOW) <= 0
    header = page.locator("header").bounding_box()
    assert header is not None
    assert header["height"] < 120
    broken = """() => {
        const found = [], range = document.createRange();
        const all = document.querySelector("main");
        const walker = document.createTreeWalker(all, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const node = walker.currentNode, text = node.data;
            if (!text.trim() || !node.parentElement.getClientRects().length) continue;
            let line = null;
            for (let i = 0; i < text.length; i++) {
                range.setStart(node, i);
                range.setEnd(node, i + 1);
                const box = range.getBoundingClientRect();
                if (!box.width) continue;
                const below = line !== null && box.top > line + 4;
                if (below && /\\w/.test(text[i]) && /[a-zA-Z0-9]/.test(text[i - 1])) {
                    found.push(text.slice(Math.max(i - 12, 0), i) + "|" + text.slice(i, i + 12));
                }
                line = box.top;
            }
        }
        return found;
    }"""
    assert page.evaluate(broken) == []
    for name in ("#split-chart", "#budget-chart", ".step-chart"):
        box = page.locator(name).first.bounding_box()
        size = page.viewport_size
        assert box is not None
        assert size is not None
        assert size["width"] - 90 < box["width"] <= size["width"]
        inside = "e => [...e.querySelectorAll('*')].every((one) => one.scrollWidth <= 1400)"
        assert page.locator(name).first.evaluate(inside)


def test_no_table_scrolls_sideways_on_a_wide_screen(browser: Browser, tmp_path: Path) -> None:
    watched = Watched(browser, tmp_path, width=1400)
    page = watched.open(page_of(h200("jax_fsdp2_lhs")))
    wide = """() => [...document.querySelectorAll(".scroll")].filter(
        (one) => one.scrollWidth > one.clientWidth + 1).length"""
    assert page.evaluate(wide) == 0
    watched.context.close()


def steps_alike(page: Page, report: OverlapReport) -> int:
    """How many steps the page sums up as the report does, to the ns; every one is compared."""
    compared = 0
    for i, device in enumerate(report.devices):
        if len(report.devices) > 1:
            page.locator("#tl-device").select_option(str(i))
        for place, step in enumerate(device.steps):
            page.locator("#tl-step").select_option(str(place))
            found = sums(page)
            assert found["exact"]
            for name in ("h2d", "d2h", "both"):
                assert found[name] == as_report(getattr(step, name)), (i, place, name)
            assert found["busy"] == step.time_budget.compute_ns
            compared += 1
    return compared


@pytest.mark.parametrize("most", [100_000, 300], ids=["each activity", "merged"])
@pytest.mark.parametrize("name", ["jax_unroll_lhs", "jax_fsdp2_lhs", "jax_scan_pipelined"])
def test_a_step_comes_to_what_the_report_says(
    browser: Browser, tmp_path: Path, name: str, most: int
) -> None:
    report, timeline = measured(h200(name), most=most)
    watched = Watched(browser, tmp_path)
    page = watched.open(render(report, "html", timeline=timeline))
    assert steps_alike(page, report) == sum(len(device.steps) for device in report.devices) > 0
    if most == 300:
        page.locator("#tl-canvas").press("0")
        page.locator("#tl-canvas").press("w")
        page.locator("#tl-canvas").press("m")
        assert not sums(page)["exact"]
        assert "not exact" in page.locator("#tl-sums").inner_text()
    watched.context.close()
    assert watched.problems == []
