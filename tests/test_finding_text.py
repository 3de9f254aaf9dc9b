"""Which findings a report prints, in which order and words."""

from __future__ import annotations

from dataclasses import replace

from nsysoverlap.result.model import Basis, Evidence, Finding, Gain, OverlapReport
from nsysoverlap.show.blocks import Block, Entries, Paragraph
from nsysoverlap.show.say_findings import findings_section
from nsysoverlap.show.view import View

from . import sample_reports as samples

DO_NOT_ADD = "Costs may be for the same time, so they do not add up."


def shown(findings: str, report: OverlapReport | None = None) -> Entries:
    (block,) = findings_section(report or samples.stepped(), View(findings=findings))
    assert isinstance(block, Entries)
    return block


def codes(block: Entries) -> list[str]:
    return [entry.title.rsplit("(", 1)[1].rstrip(")") for entry in block.entries]


def one(finding: Finding, report: OverlapReport | None = None) -> str:
    """Title of the only finding of a report."""
    changed = replace(report or samples.stepped(), findings=(finding,))
    return shown("top", changed).entries[0].title


def test_top_findings_are_warnings_by_cost() -> None:
    block = shown("top")
    assert codes(block) == ["round-trip", "late-h2d", "d2h-tail", "head-of-line", "no-duplex"]
    assert block.note == f"{DO_NOT_ADD} 2 more: --findings all."


def test_a_replayed_gain_stands_beside_exposed_time_and_ranks() -> None:
    dear = Finding("late-h2d", "warning", "Late", "", "", 9_000_000)
    sure = Finding("round-trip", "warning", "Back", "", "", 5_000_000)
    small = replace(sure, gain=Gain(1_000_000, 2_500_000, "without these copies"))
    large = replace(sure, gain=Gain(3_000_000, 3_000_000, "without these copies"))
    report = replace(samples.stepped(), findings=(dear, small, large))
    assert [entry.title for entry in shown("top", report).entries] == [
        "gain 3.0 ms a step (mean 5.0 ms exposed): Back (round-trip)",
        "gain 1.0 to 2.5 ms a step (mean 5.0 ms exposed): Back (round-trip)",
        "mean 9.0 ms a step exposed, gain unknown: Late (late-h2d)",
    ]
    two = replace(report, traces=report.traces * 2, findings=(small,))
    assert shown("top", two).entries[0].title.startswith("gain 1.0 to 2.5 ms a step, this rank ")


def test_what_hiding_costs_is_no_exposed_time() -> None:
    title = one(Finding("hiding-costs-compute", "warning", "Slower", "", "", 2_000_000))
    assert title == "2.0 ms a step: Slower (hiding-costs-compute)"


def test_all_findings_end_with_notes() -> None:
    block = shown("all")
    assert codes(block)[5:] == ["slow-link", "transfer-kernels"]
    assert block.note == DO_NOT_ADD


def test_one_code_and_no_finding() -> None:
    assert codes(shown("late-h2d")) == ["late-h2d"]
    none: list[Block] = []
    assert findings_section(samples.stepped(), View(findings="none")) == none
    assert findings_section(samples.plain(), View(findings="all")) == none
    assert findings_section(samples.stepped(), View(findings="slow")) == [
        Paragraph("There is no finding 'slow' in this report.")
    ]


def test_top_shows_one_example_and_a_code_three() -> None:
    assert shown("top").entries[1].examples == (
        "83.516 to 90.916 ms, copy-start.0.1: H2D of 384.0 MiB",
    )
    assert len(shown("late-h2d").entries[0].examples) == 3
    assert len(shown("all").entries[1].examples) == 3


def test_title_with_cost() -> None:
    finding = Finding("no-duplex", "note", "They take turns.", "", "", 2_500_000)
    assert one(finding) == "mean 2.5 ms a step exposed, gain unknown: They take turns (no-duplex)"
    assert one(replace(finding, cost_ns=0)) == "They take turns (no-duplex)"
    whole = replace(samples.stepped(), basis=Basis())
    assert one(finding, whole) == "2.5 ms exposed, gain unknown: They take turns (no-duplex)"


def test_text_leaves_out_what_is_empty() -> None:
    finding = Finding("x", "note", "T", "", "Do it.")
    block = shown("x", replace(samples.stepped(), findings=(finding,)))
    assert block.entries[0].text == ("Fix: Do it.",)
    block = shown("x", replace(samples.stepped(), findings=(replace(finding, remedy=""),)))
    assert block.entries[0].text == ()


def test_examples_name_their_owner_where_there_is_a_choice() -> None:
    row = Evidence(1_000_000, 2_000_000, "copy-start.1 of 3 B", "copy-start.1", "dev 1", "a.sqlite")
    finding = Finding("x", "note", "T", "D", "R", 0, (row,))

    def example(report: OverlapReport) -> str:
        return shown("x", replace(report, findings=(finding,))).entries[0].examples[0]

    assert example(samples.stepped()) == "1.000 to 2.000 ms: copy-start.1 of 3 B"
    assert example(samples.two_devices()) == "1.000 to 2.000 ms, dev 1: copy-start.1 of 3 B"
    assert example(samples.many_devices()) == (
        "1.000 to 2.000 ms, a.sqlite, dev 1: copy-start.1 of 3 B"
    )


def on(trace: str | None, title: str, cost_ns: int) -> Finding:
    return Finding("x", "warning", title, "D", "R", cost_ns, (Evidence(1, 2, "T", trace=trace),))


def test_top_shows_once_what_ranks_have_alike() -> None:
    found = (
        on("a.sqlite", "3 of 4 D2H", 9),
        on("b.sqlite", "1,203 of 4.5 D2H", 8),
        on("c.sqlite", "3 of 4 D2H", 7),
        # Another direction, and another of one trace, are another finding.
        on("a.sqlite", "3 of 4 H2D", 6),
        on("a.sqlite", "2 of 4 D2H", 5),
        on("b.sqlite", "2 of 4 D2H", 4),
    )
    report = replace(samples.stepped(), findings=found)
    block = shown("top", report)
    assert [(entry.title, entry.text[2:]) for entry in block.entries] == [
        (
            "mean 9 ns a step exposed, gain unknown: 3 of 4 D2H (x)",
            ("The same on 2 more traces, such as b.sqlite: --findings all.",),
        ),
        ("mean 6 ns a step exposed, gain unknown: 3 of 4 H2D (x)", ()),
        (
            "mean 5 ns a step exposed, gain unknown: 2 of 4 D2H (x)",
            ("The same on 1 more trace, such as b.sqlite: --findings all.",),
        ),
    ]
    assert block.note == DO_NOT_ADD
    assert len(shown("all", report).entries) == 6
    unknown = replace(report, findings=(on(None, "T", 2), on(None, "T", 1)))
    assert len(shown("top", unknown).entries) == 2


def test_only_several_costs_could_be_summed() -> None:
    assert shown("late-h2d").note == ""
    free = tuple(replace(finding, cost_ns=0) for finding in samples.findings())
    report = replace(samples.stepped(), findings=(samples.findings()[0], *free))
    assert DO_NOT_ADD not in shown("all", report).note
