"""Pages of a gate, a comparison, a history: whole, escaped, complete, in the text's order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from nsysoverlap.cli import main
from nsysoverlap.cli.formats import render
from nsysoverlap.core.formatting import NONE
from nsysoverlap.judge.comparison import compare
from nsysoverlap.judge.evaluate import check
from nsysoverlap.judge.history_store import Trend, read_runs, record
from nsysoverlap.run.analysis import Options
from nsysoverlap.run.many import analyze_many
from nsysoverlap.show.blocks import Paragraph, Table
from nsysoverlap.show.sections import blocks_of, sections_of

from ..sample_reports import SAMPLES, hostile, stepped
from ..tracebuilder import draw
from ..traces import h200
from .pages import Page
from .test_page import NETWORK

if TYPE_CHECKING:
    from nsysoverlap.show.sections import Result


def results(folder: Path) -> dict[str, Result]:
    """One of each kind, with names that try to be markup."""
    db = folder / "runs.db"
    for i in range(2):
        record(db, stepped(), f"hash {i}", {"branch": "<script>alert(1)</script>"})
    return {
        "gate": check(hostile(), ["both.hidden >= 90%", "h2d.hidden >= 1%"]),
        "compare": compare(stepped(), hostile(), ("<b>a", "b")),
        "history": Trend("runs.db", tuple(read_runs(db))),
    }


@pytest.mark.parametrize("kind", ["gate", "compare", "history"])
def test_pages_say_all_that_the_text_says(kind: str, tmp_path: Path) -> None:
    result = results(tmp_path)[kind]
    source = render(result, "html")
    page = Page(source)
    assert page.unbalanced == []
    assert not NETWORK.findall(source)
    assert page.of("b") == []
    assert len(page.of("script")) == 1
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert {a["href"] for a in page.of("a")} <= {f"#{name}" for name in ids}
    shown = re.sub(r"[\s`]", "", page.shown)
    for block in blocks_of(result):
        said = [block.text] if isinstance(block, Paragraph) else []
        if isinstance(block, Table):
            said = [block.title, block.note, *(cell for row in block.rows for cell in row)]
        for text in said:
            assert re.sub(r"[\s`]", "", text) in shown


def links(source: str) -> list[str]:
    return [(a["href"] or "").removeprefix("#") for a in Page(source).of("a")][1:]


@pytest.mark.parametrize("name", SAMPLES)
def test_sections_of_a_page_come_in_the_order_of_the_text(name: str) -> None:
    report = SAMPLES[name]()
    order = [section.name for section in sections_of(report) if section.title]
    there = links(render(report, "html"))
    assert there == [section for section in order if section in there]
    holding = {section.name for section in sections_of(report) if section.title and section.blocks}
    assert holding <= set(there)


def test_the_page_of_two_ranks_shows_ranks_first(tmp_path: Path) -> None:
    paths = [tmp_path / f"rank{i}.sqlite" for i in range(2)]
    for i, path in enumerate(paths):
        copy = "#" * (6 + i)
        draw(f"dev0 s7 compute: #########.....\ndev0 s20 d2h: .....{copy}").write(path)
    report, errors = analyze_many(paths, Options())
    assert not errors
    source = render(report, "html")
    assert links(source)[:2] == ["summary", "ranks"]
    (ranks,) = [s for s in sections_of(report) if s.name == "ranks"]
    (table,) = ranks.blocks
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows][-2:] == ["rank 0", "rank 1"]
    page = source[source.index('<section id="ranks"') : source.index('<section id="transfers"')]
    page = page.replace("\u00a0", " ")
    # Nothing is known of H2D: a page has no such column.
    assert all(cell in page for row in table.rows for cell in row if cell != NONE)


def test_a_page_of_a_gate_without_a_timeline_carries_no_code_for_one() -> None:
    source = render(check(stepped(), ["both.hidden >= 1%"]), "html")
    assert "Timeline controls" not in source
    assert len(source) < 25_000


@pytest.mark.parametrize("command", ["gate", "compare", "history"])
def test_the_command_writes_a_page(command: str, tmp_path: Path) -> None:
    trace, db = str(h200("micro_hidden")), tmp_path / "runs.db"
    record(db, stepped(), "a hash", {})
    arguments = {
        "gate": [trace, "--min-hidden", "1"],
        "compare": [trace, trace],
        "history": ["--db", str(db)],
    }
    run = CliRunner().invoke(main, [command, *arguments[command], "--format", "html"])
    assert run.exit_code == 0, run.output
    assert run.stdout.startswith("<!DOCTYPE html>")
    assert Page(run.stdout).unbalanced == []
