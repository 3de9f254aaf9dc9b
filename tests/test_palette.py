"""One meaning a colour, wherever it is drawn."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import nsysoverlap
from nsysoverlap.cli.formats import render
from nsysoverlap.core.palette import COLORS, ON_DARK
from nsysoverlap.draw.plot_history import draw_history
from nsysoverlap.draw.style import GRID, INK, SOFT_INK
from nsysoverlap.judge.history_store import read_runs, record

from .sample_reports import plain, stepped

PACKAGE = Path(nsysoverlap.__file__).parent


def test_no_other_place_knows_these_colours() -> None:
    known = {*COLORS.values(), *ON_DARK.values()} - {COLORS["idle"]}
    files = [p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".css", ".js", ".j2")]
    users = {p.name for p in files for color in known if color in p.read_text(encoding="utf-8")}
    assert users == {"palette.py"}


def test_the_page_takes_its_colours_from_here() -> None:
    source = render(plain(), "html")
    for kind, dark in ON_DARK.items():
        name = "transfer" if kind == "exposed" else kind
        assert re.findall(rf"--{name}: (.*?);", source) == [f"light-dark({COLORS[kind]}, {dark})"]


def luminance(color: str) -> float:
    parts = [part / 255 for part in bytes.fromhex(color.removeprefix("#"))]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_on_colours_is_legible(theme: int) -> None:
    css = (PACKAGE / "show/templates/page.css").read_text(encoding="utf-8")
    for kind in ON_DARK:
        name = "on-deep" if kind in ("h2d", "opaque") else "on-fill"
        (pair,) = re.findall(rf"--{name}: light-dark\((.*?), (.*?)\)", css)
        ground = (COLORS, ON_DARK)[theme][kind]
        light, dark = sorted([luminance(pair[theme]), luminance(ground)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, kind


def test_the_trend_is_drawn_in_them(tmp_path: Path) -> None:
    for i in range(2):
        record(tmp_path / "runs.db", stepped(), f"hash {i}", {})
    root = ET.fromstring(draw_history(read_runs(tmp_path / "runs.db"), "svg"))
    styles = [element.get("style") or "" for element in root.iter() if "line2d" not in element.tag]
    strokes = {found for style in styles for found in re.findall(r"stroke: (#[0-9a-f]{6})", style)}
    assert {COLORS["h2d"], COLORS["d2h"], COLORS["exposed"]} <= strokes
    # Those three, and ink and grid of axes.
    assert len(strokes - {INK, SOFT_INK, GRID}) == 3


def test_the_trend_names_no_more_runs_than_fit(tmp_path: Path) -> None:
    record(tmp_path / "runs.db", stepped(), "hash", {})
    runs = read_runs(tmp_path / "runs.db")
    for n, named in ((9, 9), (29, 6), (100, 10)):
        root = ET.fromstring(draw_history(runs * n, "svg"))
        ids = [element.get("id") or "" for element in root.iter()]
        # Both axes have them, one labels them.
        assert sum(name.startswith("xtick_") for name in ids) == 2 * named
