"""The page of a folder of ranks: ranks first, shared findings once, open on the worst rank."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from nsysoverlap.cli import main
from nsysoverlap.run.analysis import Options
from nsysoverlap.run.many import analyze_many
from nsysoverlap.show.say_findings import alike

from ..tracebuilder import TraceBuilder
from ..traces import h200
from .browserkit import Watched, span

if TYPE_CHECKING:
    from playwright.sync_api import Browser

US = 1_000
WORST = 5


def rank(path: Path, exposed_us: int) -> Path:
    """Three steps with an H2D of so many us in the stream of compute."""
    builder = TraceBuilder()
    for step in range(3):
        at = (10_000 + 4_000 * step) * US
        builder.nvtx(f"step {step}", at - 20 * US, at + 3_900 * US)
        builder.kernel(at, at + 1_000 * US, "matmul_kernel")
        builder.copy(at + 1_000 * US, at + (1_000 + exposed_us) * US, "h2d", 16 << 20, stream=7)
        builder.kernel(at + (1_002 + exposed_us) * US, at + 3_000 * US, "norm_kernel")
    builder.write(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ranks")
    for i in range(8):
        rank(made / f"rank{i}.sqlite", 900 if i == WORST else 500 + i)
    return made


def page_of_folder(folder: Path, output: Path, *options: str) -> str:
    command = ["report", str(folder), "--format", "html", "-o", str(output), *options]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.stderr
    return output.read_text(encoding="utf-8")


def test_the_first_screen_holds_the_answer(browser: Browser, folder: Path, tmp_path: Path) -> None:
    report, _ = analyze_many(sorted(folder.iterdir()), Options())
    groups = alike(report.findings)
    assert len(groups) < len(report.findings)
    watched = Watched(browser, tmp_path, width=1400)
    page = watched.open(page_of_folder(folder, tmp_path / "made.html"))
    cards = page.locator(".findings > li")
    assert cards.count() == len(groups)
    for seen in (page.locator("h1"), page.locator("#ranks-table tbody tr").first, cards.first):
        box = seen.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 900
    canvas = page.locator("#tl-canvas").bounding_box()
    assert canvas is not None
    assert canvas["y"] < 850
    assert page.locator("#ranks-table tbody tr td").first.inner_text() == f"rank {WORST}"
    assert page.locator("#tl-device").input_value() == str(WORST)
    whole = span(page)
    page.locator("#ranks-table").get_by_role("button", name="rank 2").click()
    assert page.locator("#tl-device").input_value() == "2"
    assert whole[1] - whole[0] > 0
    shared = page.locator(".others").first
    cards.first.locator("summary").first.click()
    shared.locator("summary").click()
    assert shared.locator(".jump").count() == 7
    shared.get_by_role("button", name="rank 1").click()
    assert page.locator("#tl-device").input_value() == "1"
    watched.context.close()
    assert watched.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_many_ranks_stay_on_a_page(
    browser: Browser, tmp_path: Path, width: int, theme: str
) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for i in range(40):
        rank(folder / f"rank{i}.sqlite", 500 + i)
    watched = Watched(browser, tmp_path, theme, width)
    page = watched.open(page_of_folder(folder, tmp_path / "made.html"))
    size = "() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    wide, high = page.evaluate(size)
    assert (wide, high < 9_000) == (width, True)
    header = page.locator("header").bounding_box()
    assert header is not None
    assert header["height"] < 120
    # Least, median and most stand over the rows that scroll below them, which never show through.
    table = page.locator("#ranks-table table")
    seen = table.evaluate(
        """(table) => {
            table.closest(".scroll").scrollIntoView({block: "end"});
            const foot = table.tFoot.getBoundingClientRect(), found = new Set();
            for (let y = Math.ceil(foot.top); y < foot.bottom; y += 0.5)
                found.add(Boolean(document.elementFromPoint(foot.left + 5, y)?.closest("tbody")));
            return [...found];
        }"""
    )
    assert seen == [False]
    borders = table.locator("tfoot td").first.evaluate("(cell) => getComputedStyle(cell).border")
    assert borders.startswith("0px")
    watched.context.close()
    assert watched.problems == []


@pytest.mark.slow
def test_128_ranks_open_at_once(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for i in range(128):
        (folder / f"rank{i}.sqlite").symlink_to(h200("jax_unroll_lhs"))
    source = page_of_folder(folder, tmp_path / "made.html", "--jobs", "2")
    assert len(source.encode()) < 3_000_000
    watched = Watched(browser, tmp_path, width=1400)
    took = []
    for _ in range(3):
        begin = time.monotonic()
        page = watched.open(source)
        assert span(page)[1] > 1_000_000_000
        took.append(time.monotonic() - begin)
    assert min(took) < 2
    watched.context.close()
    assert watched.problems == []
