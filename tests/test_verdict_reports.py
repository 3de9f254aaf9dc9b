"""Formats of a verdict, read by the programs that will read them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import xmlschema
from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite
from markdown_it import MarkdownIt

from nsysoverlap.cli.formats import formats_of, render
from nsysoverlap.core.errors import UsageError
from nsysoverlap.judge.baseline import Baseline
from nsysoverlap.judge.evaluate import check, judge, judge_nothing
from nsysoverlap.judge.thresholds import build_thresholds
from nsysoverlap.judge.verdicts import Loss, Status, Verdicts

from .sample_reports import HOSTILE, events_lost, no_transfers, plain
from .stepreports import operation, report_of_ranks, report_of_steps

XSD = Path(__file__).parent / "junit.xsd"


def passed() -> Verdicts:
    return check(plain(), ["both.hidden >= 59%", "both.n >= 1"])


def failed() -> Verdicts:
    return check(plain(), ["both.hidden >= 60%", "both.n >= 1", "both.exposed_ms <= 100"])


def unknown() -> Verdicts:
    return check(no_transfers(), ["both.hidden >= 60%"])


def blocked() -> Verdicts:
    return check(events_lost(), ["both.hidden >= 60%"])


def nothing() -> Verdicts:
    return check(plain(), [])


def ranks() -> Verdicts:
    report = report_of_ranks([(90, 100)], [(40, 100)])
    thresholds = build_thresholds({"require": ["both.hidden@worst-rank >= 30%"]})
    return judge(report, thresholds, unreadable=["rank2.sqlite: is damaged."])


def noisy() -> Verdicts:
    """92.1 % of 40 uneven steps against 94.0 % of a baseline, and what lost most."""
    now = report_of_steps([(92 + i % 5 - 2, 100) for i in range(40)])
    then = report_of_steps([(94, 100)] * 40)
    now = replace(now, operations=(operation("copy-start.1", 900), operation("copy-start.2", 5)))
    then = replace(then, operations=(operation("copy-start.1", 100), operation("copy-start.2", 5)))
    thresholds = build_thresholds({"max_drop": "1", "confidence": "95"})
    return judge(now, thresholds, Baseline("main.json", then))


def hostile() -> Verdicts:
    return replace(
        failed(),
        traces=(HOSTILE,),
        notes=(HOSTILE,),
        baseline=HOSTILE,
        verdicts=tuple(replace(v, where=HOSTILE, reason=HOSTILE) for v in failed().verdicts),
        losses=(Loss(HOSTILE, HOSTILE, "d2h", 1, 2_000_000, True),),
    )


SAMPLES: dict[str, Callable[[], Verdicts]] = {
    function.__name__: function
    for function in (passed, failed, unknown, blocked, nothing, ranks, noisy, hostile)
}
EVERY = pytest.mark.parametrize("name", SAMPLES)


# Pages have tests of their own: their style sheet and scripts are no news here.
@EVERY
@pytest.mark.parametrize("fmt", [fmt for fmt in formats_of("gate") if fmt != "html"])
def test_golden(name: str, fmt: str, golden: Callable[[str, str], None]) -> None:
    suffix = {"text": "txt", "markdown": "md", "junit": "xml", "github": "log"}.get(fmt, fmt)
    text = render(SAMPLES[name](), fmt)
    generator = re.sub(r"nsysoverlap \d[\w.+]*", "nsysoverlap 0.0.test", text)
    golden(f"verdict_{name}.{suffix}", generator)


@EVERY
@pytest.mark.parametrize("fmt", formats_of("gate"))
def test_no_format_lets_control_characters_through(name: str, fmt: str) -> None:
    text = render(SAMPLES[name](), fmt)
    assert text.endswith("\n")
    assert "\x1b" not in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x80-\x9f]", text)
    text.encode("utf-8")


@pytest.mark.parametrize("fmt", formats_of("gate"))
def test_every_format_says_the_headline(fmt: str) -> None:
    text = render(noisy(), fmt).replace("%25", "%").replace("&gt;", ">").replace("<wbr>", "")
    plain_text = " ".join(text.split()).replace("\\", "")
    assert "d2h.hidden is 92.0 % (91.5-92.4, n = 40) against 94.0 % (n = 40)" in plain_text
    assert "copy-start.1" in text


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="no format 'xml' of `gate`"):
        render(passed(), "xml")


# JUnit.


def cases(text: str) -> Iterator[TestCase]:
    for suite in JUnitXml.fromstring(text.encode()):
        assert isinstance(suite, TestSuite)
        yield from suite


@EVERY
def test_junit_is_valid(name: str) -> None:
    xmlschema.XMLSchema(str(XSD)).validate(StringIO(render(SAMPLES[name](), "junit")))


def test_the_schema_refuses_what_is_no_junit() -> None:
    schema = xmlschema.XMLSchema(str(XSD))
    good = render(failed(), "junit")
    for wrong in (
        good.replace(' tests="4"', ""),
        good.replace("<failure", "<fail").replace("</failure", "</fail"),
        good.replace(' classname="nsysoverlap.gate"', ""),
    ):
        assert not schema.is_valid(StringIO(wrong))


@EVERY
def test_junit_is_read_by_a_parser(name: str) -> None:
    result = SAMPLES[name]()
    found = list(cases(render(result, "junit")))
    kinds = {
        Status.PASSED: [],
        Status.FAILED: [Failure],
        Status.INCONCLUSIVE: [Error],
    }
    assert [[type(r) for r in case.result] for case in found] == [
        *(kinds[verdict.status] for verdict in result.verdicts),
        [Error] if result.blockers else [],
    ]


@EVERY
def test_junit_is_green_only_for_what_passed(name: str) -> None:
    result = SAMPLES[name]()
    xml = JUnitXml.fromstring(render(result, "junit").encode())
    assert xml.tests > 0
    assert (xml.failures + xml.errors == 0) == result.passed


def test_junit_says_what_was_measured() -> None:
    (case, *_) = cases(render(failed(), "junit"))
    assert case.name == "both.hidden >= limit"
    (problem,) = case.result
    assert problem.message == "both.hidden is 59.5 %; the limit is >= 60.0 %."
    assert "margin -0.5 points" in (problem.text or "")
    *_, met, _, traces = cases(render(failed(), "junit"))
    assert (met.name, met.result, met.system_out) == (
        *("both.n >= limit", []),
        "both.n is 256; the limit is >= 1.",
    )
    assert (traces.name, traces.result) == ("the traces", [])


def test_a_renewed_baseline_is_no_other_test() -> None:
    """The same questions with other limits, met and not, and without a trace: the same cases."""
    then = [report_of_steps([(share, 100)] * 5) for share in (94, 60)]
    thresholds = [
        build_thresholds({"max_drop": "1", "max_exposed_growth": "5", "require": [a, b]})
        for a, b in (
            ("both.hidden >= 90%", "both.hidden >= 10%"),
            ("both.hidden >= 1%", "both.hidden >= 2%"),
        )
    ]
    results = [
        judge(report_of_steps([(92, 100)] * 5), asked, Baseline("main.json", report))
        for asked, report in zip(thresholds, then, strict=True)
    ]
    assert [result.status for result in results] == [Status.FAILED, Status.PASSED]
    names = [[case.name for case in cases(render(result, "junit"))] for result in results]
    assert (
        names[0]
        == names[1]
        == [
            "both.hidden >= limit",
            "both.hidden >= limit (2)",
            "d2h.hidden against baseline",
            "both.hidden against baseline",
            "both.exposed_ms@step-median against baseline",
            "the traces",
        ]
    )
    absolute = build_thresholds({"max_exposed_ms": "5", "min_hidden": "90"})
    with_trace = judge(report_of_steps([(92, 100)] * 5), absolute)
    without = judge_nothing(absolute, "rank0.sqlite: no such file.")
    for one, other in zip(
        *(list(cases(render(result, "junit"))) for result in (with_trace, without)), strict=True
    ):
        assert one.name == other.name
        assert [type(r) for r in other.result] == [Error]
        assert "rank0.sqlite: no such file." in (other.result[0].message or "")


# Markdown.


@EVERY
def test_markdown_renders(name: str) -> None:
    result = SAMPLES[name]()
    html = MarkdownIt("commonmark").enable("table").render(render(result, "markdown"))
    assert html.startswith("<p><strong>")
    assert html.count("<table>") == bool(result.verdicts) + bool(result.losses)
    if result.verdicts:
        body = html.split("<tbody>")[1].split("</tbody>")[0]
        assert body.count("<tr>") == len(result.verdicts)
        assert len(re.findall("<td", body)) % len(result.verdicts) == 0
    assert "<b>" not in html.replace("<body", "")
    assert "<script" not in html


def test_markdown_shows_text_as_it_is() -> None:
    html = MarkdownIt("commonmark").enable("table").render(render(hostile(), "markdown"))
    assert "*x* __y__" in html
    assert "~~z~~" in html


# GitHub.


@EVERY
def test_github_commands_are_one_line_each(name: str) -> None:
    result = SAMPLES[name]()
    lines = render(result, "github").splitlines()
    unmet = [v for v in result.verdicts if v.status is not Status.PASSED]
    warnings = [note for note in result.notes if note.startswith("Warning: ")]
    assert len(lines) == 1 + len(unmet) + bool(result.losses) + len(warnings)
    for line in lines:
        assert re.fullmatch(r"::(notice|warning|error) title=[^:,\r\n]+::.+", line)
        assert not re.search(r"%(?!25|0A|0D|3A|2C)", line)
    assert lines[0].startswith("::notice") == result.passed


# JSON.


@EVERY
def test_json_holds_everything(name: str) -> None:
    result = SAMPLES[name]()
    values = json.loads(render(result, "json"))
    assert values["format"] == "nsysoverlap.verdict"
    assert values["format_version"] == 2
    assert values["status"] == result.status
    assert len(values["verdicts"]) == len(result.verdicts)
    for found, verdict in zip(values["verdicts"], result.verdicts, strict=True):
        assert (found["metric"], found["status"]) == (verdict.metric.name, verdict.status)
        if verdict.measured is None:
            assert found["measured"] is found["margin"] is None
        else:
            assert found["measured"] == pytest.approx(float(verdict.measured))
