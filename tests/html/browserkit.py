"""A page in a real browser, watched: pixels of its timeline, what it shows, what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .conftest import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

LANE_LEFT, FIRST_LANE, LANE_STEP = 108, 52, 42
"""Pixels: where the lanes begin, and how far one is below the other."""


class Watched:
    """Pages of one test; whatever went wrong or left the page is kept."""

    def __init__(
        self,
        browser: Browser,
        folder: Path,
        theme: str = "light",
        width: int = 1200,
        **more: Any,
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if theme == "dark" else "light",
            **more,
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.folder = folder
        self.problems: list[str] = []
        self.requests: list[str] = []

    def open(self, source: str) -> Page:
        path = self.folder / "report.html"
        path.write_text(source, encoding="utf-8")
        page = self.context.new_page()
        page.on("console", lambda message: self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())
        return page


def drawn(page: Page) -> None:
    """Wait until what was asked for so far is drawn; frames come in the order of asking."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")


def span(page: Page) -> tuple[int, int]:
    """What the timeline shows, in ns from its first activity."""
    drawn(page)
    canvas = page.locator("#tl-canvas")
    values = [canvas.get_attribute(f"data-{name}") for name in ("from", "to")]
    start, end = (int(value) for value in values if value is not None)
    return start, end


def color(page: Page, x: float, y: float) -> tuple[int, ...]:
    """The colour of the canvas at a point in CSS pixels."""
    script = """([x, y]) => {
        const canvas = document.getElementById("tl-canvas");
        const ratio = canvas.width / canvas.clientWidth;
        const pixel = document.createElement("canvas").getContext("2d");
        pixel.drawImage(canvas, -Math.round(x * ratio), -Math.round(y * ratio));
        return [...pixel.getImageData(0, 0, 1, 1).data];
    }"""
    return tuple(page.evaluate(script, [x, y]))


def css_color(page: Page, selector: str) -> tuple[int, ...]:
    """Background of an element, as `color` gives it."""
    script = """(selector) => {
        const pen = document.createElement("canvas").getContext("2d");
        pen.fillStyle = getComputedStyle(document.querySelector(selector)).backgroundColor;
        pen.fillRect(0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data];
    }"""
    return tuple(page.evaluate(script, selector))


def rgb(color: str) -> tuple[int, ...]:
    """`#rrggbb` as numbers."""
    return tuple(bytes.fromhex(color.removeprefix("#")))


def at(page: Page, width: float, ns: int) -> float:
    """Pixel of a time on the canvas."""
    start, end = span(page)
    return LANE_LEFT + (ns - start) / (end - start) * (width - LANE_LEFT)


def column(table: Locator, i: int) -> list[str]:
    """Shown texts of one column."""
    cells = table.locator(f"tbody tr:not([hidden]) td:nth-child({i + 1})")
    return [text.strip() for text in cells.all_inner_texts()]
