"""Text, Markdown and JSON of hand-made reports, against golden files and their own rules."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise

import pytest

from nsysoverlap import analyze
from nsysoverlap.cli.formats import formats_of, render
from nsysoverlap.core.errors import UsageError
from nsysoverlap.result.model import OverlapReport
from nsysoverlap.show.blocks import Entries, Entry, Paragraph, Table
from nsysoverlap.show.interface import Layout
from nsysoverlap.show.markdown import escape
from nsysoverlap.show.sections import blocks_of as blocks
from nsysoverlap.show.text import blocks_as_text
from nsysoverlap.show.view import View

from .sample_reports import HOSTILE, SAMPLES, hostile, plain, stepped
from .traces import h200

VIEWS = {
    "by_op": View(by="op", findings="none"),
    "by_stream": View(by="stream"),
    "all_findings": View(findings="all"),
    "one_finding": View(findings="late-h2d"),
}
SUFFIX = {"text": "txt", "markdown": "md", "json": "json"}
ANSI = re.compile(r"\x1b\[[0-9;]*m")


# The JSON of 64 devices would be half a megabyte that says nothing new.
GOLDEN = [(n, fmt) for n in SAMPLES for fmt in SUFFIX if (n, fmt) != ("many_devices", "json")]


@pytest.mark.parametrize(("name", "fmt"), GOLDEN)
def test_golden(name: str, fmt: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.{SUFFIX[fmt]}", render(SAMPLES[name](), fmt))


@pytest.mark.parametrize("view", VIEWS)
def test_golden_views(view: str, golden: Callable[[str, str], None]) -> None:
    golden(f"stepped_{view}.txt", render(stepped(), "text", view=VIEWS[view]))


def test_json_holds_everything_in_any_view() -> None:
    everything = render(stepped(), "json")
    assert len(json.loads(everything)["findings"]) == 7
    for view in VIEWS.values():
        assert render(stepped(), "json", view=view) == everything


@pytest.mark.parametrize("fmt", formats_of("report"))
@pytest.mark.parametrize("name", SAMPLES)
def test_output_is_whole_lines_without_escapes(name: str, fmt: str) -> None:
    out = render(SAMPLES[name](), fmt)
    assert out.endswith("\n")
    assert not out.endswith("\n\n")
    assert "\x1b" not in out
    assert not [line for line in out.split("\n") if line != line.rstrip()]
    out.encode("utf-8")


@pytest.mark.parametrize("width", [20, 60, 80, 200])
@pytest.mark.parametrize("by", [None, "op", "stream"])
@pytest.mark.parametrize("name", SAMPLES)
def test_no_cell_is_ever_cut(name: str, by: str | None, width: int) -> None:
    report = SAMPLES[name]()
    out = render(report, "text", width=width, view=View(by=by))
    assert "…" not in out
    lines = out.split("\n")
    for table in (b for b in blocks(report, View(by=by)) if isinstance(b, Table)):
        for row in table.rows:
            numbers = [re.escape(cell) for cell in row[table.n_words :] if cell]
            if numbers:
                together = re.compile(r"(^|\s)" + r"\s+".join(numbers) + r"$")
                assert any(together.search(line) for line in lines), row


@pytest.mark.parametrize("view", [View(), *VIEWS.values()])
@pytest.mark.parametrize("name", SAMPLES)
def test_text_fits_80_columns(name: str, view: View) -> None:
    out = render(SAMPLES[name](), "text", width=80, view=view)
    assert not [line for line in out.split("\n") if len(line) > 80 and "nsysoverlap" not in line]


def test_entries_are_numbered_and_indented_as_their_title() -> None:
    lines = render(stepped(), "text").split("\n")
    at = lines.index("Findings")
    assert lines[at + 1] == (
        "1. mean 119.4 ms a step exposed, gain unknown: Tensors come back right after"
    )
    assert lines[at + 2] == "   they left (round-trip)"
    assert lines[at + 3].startswith("   Only 25.0 %")
    assert lines[at + 4] == "   is 3.1 ms."
    assert lines[at + 5].startswith("   Fix: ")


def test_a_command_stays_on_one_line() -> None:
    out = render(SAMPLES["window"](), "text", width=40)
    assert "  nsysoverlap transfers train.sqlite --config 'my rules.toml' --window" in out
    assert out.endswith("--output copies.csv\n")


@pytest.mark.parametrize("name", SAMPLES)
def test_colour_adds_codes_and_no_words(name: str) -> None:
    report = SAMPLES[name]()
    colored = render(report, "text", color=True)
    assert colored != ANSI.sub("", colored)
    stripped = "\n".join(line.rstrip() for line in ANSI.sub("", colored).split("\n"))
    assert stripped == render(report, "text")


def test_colours_are_readable_on_any_ground() -> None:
    codes = {
        code
        for sample in SAMPLES.values()
        for match in ANSI.findall(render(sample(), "text", color=True))
        for code in match[2:-1].split(";")
    }
    bold, red, green, yellow, cyan = "1", "31", "32", "33", "36"
    assert {bold, red, yellow, cyan} <= codes <= {"0", bold, red, green, yellow, cyan}


def test_environment_does_not_colour_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "33")
    assert render(plain(), "text") == (render(plain(), "text", width=80))
    assert "\x1b" not in render(plain(), "text")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" in render(plain(), "text", color=True)


def test_markup_of_the_trace_is_shown_as_it_is() -> None:
    assert "<b>[red]|ker`nel # *x* __y__" in render(hostile(), "text", width=300)


def markdown_cells(source: str) -> list[str]:
    """Text of every cell and paragraph as CommonMark with GitHub tables shows it."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(source)
    inline = [token for token in tokens if token.type == "inline"]
    return ["".join(child.content for child in token.children or ()) for token in inline]


@pytest.mark.parametrize("name", SAMPLES)
def test_markdown_shows_every_word_of_the_report(name: str) -> None:
    report = SAMPLES[name]()
    shown = markdown_cells(render(report, "markdown"))
    for block in blocks(report):
        if isinstance(block, Entries):
            entries = [text for e in block.entries for text in (e.title, *e.text, *e.examples)]
            assert not [text for text in (block.title, *entries, block.note) if text not in shown]
        if isinstance(block, Table):
            assert block.title in shown
            assert not [c for row in (block.columns, *block.rows) for c in row if c not in shown]
            assert not block.note or block.note in shown


def test_markdown_tables_keep_their_shape() -> None:
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark").enable("table")
    for sample in SAMPLES.values():
        report = sample()
        html = markdown.render(render(report, "markdown"))
        tables = [block for block in blocks(report) if isinstance(block, Table)]
        assert html.count("<table>") == len(tables)
        assert html.count("<td") == sum(len(t.rows) * len(t.columns) for t in tables)
        assert "<b>" not in html


@pytest.mark.parametrize(
    "text",
    [
        *("a|b", "`code`", "*x*", "__init__", "a_b_c", "<script>", "[link](x)", "&amp;", "~~x~~"),
        *("\\", "![i](x)", "a\\|b", "void f<int>(float*)"),
    ],
)
def test_markdown_escape_shows_text_as_it_is(text: str) -> None:
    assert markdown_cells(f"| x |\n|--|\n| {escape(text)} |\n")[1] == text


def test_json_reads_back_as_the_same_report() -> None:
    for sample in SAMPLES.values():
        out = render(sample(), "json")
        assert OverlapReport.from_dict(json.loads(out)) == sample()
        assert out.isascii()


def test_json_keeps_the_documented_order() -> None:
    lines = render(plain(), "json").split("\n")
    assert lines[:4] == [
        "{",
        '  "format": "nsysoverlap.report",',
        '  "format_version": 1,',
        '  "generator": "nsysoverlap 0.0.test",',
    ]
    assert HOSTILE in json.loads(render(hostile(), "json"))["traces"][0]["path"]


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no format 'pdf' of `report`") as caught:
        render(plain(), "pdf")
    assert caught.value.hint == "Known formats: text, json, markdown, html."


# Line breaks in tables.

SCOPE = "H2D wrapped_slice (jit(train_step)/transpose(jvp())/while/body/jit(index_in_dim)/slice)"


def cells(text: str, width: int, n_numbers: int = 0) -> list[str]:
    """Lines of the first column of a table with one row."""
    columns = ("operation", *["n"] * n_numbers)
    row = (text, *["123,456"] * n_numbers)
    printed = blocks_as_text([Table("Title", columns, (row,))], Layout(width=width))
    return [line.split("  ")[0].rstrip() for line in printed.splitlines()[3:]]


@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_scopes_break_between_their_parts(width: int) -> None:
    lines = cells(SCOPE, width, 1)
    assert len(lines) > 1
    assert "".join(lines).replace(" ", "") == SCOPE.replace(" ", "")
    assert max(map(len, lines)) <= width
    for line, following in pairwise(lines):
        assert line.endswith("/") or following.startswith("("), lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("nvjet_sm90_tst_128x256_64x4_2x1_v_bz", ["nvjet_sm90_tst_", "128x256_64x4_2x1_v_", "bz"]),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ["aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaa"]),
        ("short words that fit on lines", ["short words that fit", "on lines"]),
    ],
)
def test_words_too_long_for_a_line(text: str, lines: list[str]) -> None:
    printed = blocks_as_text([Table("T", ("kernel", "n"), ((text, "1"),))], Layout(width=23))
    assert [line[:20].rstrip() for line in printed.splitlines()[3:]] == lines


@pytest.mark.parametrize("width", range(20, 60))
def test_no_line_ends_between_a_number_and_its_unit(width: int) -> None:
    said = (
        "Waits 15.6 ms of 2 s a step for 8.00 GiB at 55.3 GB/s, another 0.2 % behind, +0.3 points."
    )
    shown = blocks_as_text(
        [
            Paragraph(said),
            Table("Table", ("", "what"), (("a", said),), note=said, n_words=2),
            Entries("Entries", (Entry("Title", (said,)),)),
        ],
        Layout(width=width),
    )
    assert " ".join(shown.split()).count(said) >= 3
    assert not re.search(r"\d\n\s*(ms|s|GiB|GB/s|%|points)(?!\w)", shown)
    assert all(len(line) <= width for line in shown.splitlines())


def test_headings_are_no_higher_than_their_numbers_ask_for() -> None:
    columns = ("operation", "exposed a step", "n, size", "of it blocking", "behind comm only")
    row = ("copy", "74.0 ms", "12.0 GiB", "1 %", "100.0 %")
    printed = blocks_as_text([Table("Title", columns, (row,))], Layout(width=80))
    assert [line.rstrip() for line in printed.splitlines()[1:4]] == [
        "                                         behind",
        "           exposed         n     of it     comm",
        "operation   a step      size  blocking     only",
    ]


@pytest.mark.parametrize("name", ["jax_scan_lhs", "jax_fsdp2_lhs", "ddp_two_procs", "micro_duplex"])
@pytest.mark.parametrize("by", ["op", "stream", None])
def test_real_reports_fit_80_columns(name: str, by: str | None) -> None:
    text = render(analyze(h200(name)), "text", width=80, view=View("all", by))
    body, _, _ = text.partition("\nNext, in the trace's folder")
    assert max(map(len, body.splitlines())) <= 80
