"""The verdict of a gate as JUnit XML: one test case a limit."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from ..core.formatting import clean_text
from ..judge.verdicts import Status, Verdict, Verdicts
from .interface import Layout
from .say_verdicts import headline, loss_sentence, shown_baseline, shown_values

SUITE = "nsysoverlap gate"
# What XML 1.0 cannot hold even escaped; the text has lost its control characters before.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def paint(result: Verdicts, layout: Layout) -> str:
    """A failed limit is a failure, an inconclusive one an error, so that no CI shows it green."""
    cases = [_case(verdict, result) for verdict in result.verdicts]
    if result.blockers:
        # Listed apart, so that a gate without limits is no empty, passing suite.
        cases.append(_blocked(result))
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
    }
    root = ET.Element("testsuites", {"name": SUITE, "time": "0.000", **counts})
    suite = ET.SubElement(
        root, "testsuite", {"name": SUITE, "time": "0.000", "skipped": "0", **counts}
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("status", result.status.value),
        ("traces", ", ".join(result.traces)),
        ("basis", result.basis),
        ("baseline", result.baseline or ""),
    ):
        ET.SubElement(properties, "property", {"name": name, "value": _xml(value)})
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = _summary(result)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _case(verdict: Verdict, result: Verdicts) -> ET.Element:
    measured, limit, margin = shown_values(verdict)
    name = f"{verdict.name} {verdict.op} {limit}"
    case = ET.Element(
        "testcase", {"name": _xml(name), "classname": "nsysoverlap.gate", "time": "0.000"}
    )
    if verdict.status is Status.PASSED:
        return case
    lines = [f"measured {measured}", f"limit {verdict.op} {limit}", f"margin {margin}"]
    if verdict.baseline is not None:
        lines.append(f"baseline {shown_baseline(verdict)}")
    lines += [verdict.where, verdict.reason, f"asked for by {verdict.source}"]
    kind = "failure" if verdict.status is Status.FAILED else "error"
    message = verdict.reason or (result.blockers[0] if result.blockers else f"is {measured}")
    problem = ET.SubElement(
        case, kind, {"type": verdict.status.value, "message": _xml(f"{verdict.name}: {message}")}
    )
    problem.text = _xml("; ".join(line for line in lines if line))
    return case


def _blocked(result: Verdicts) -> ET.Element:
    case = ET.Element(
        "testcase",
        {"name": "the traces", "classname": "nsysoverlap.gate", "time": "0.000"},
    )
    error = ET.SubElement(
        case, "error", {"type": "inconclusive", "message": _xml(result.blockers[0])}
    )
    error.text = _xml("; ".join(result.blockers))
    return case


def _summary(result: Verdicts) -> str:
    lost = loss_sentence(result)
    return _xml(headline(result) + (f" Lost most: {lost}." if lost else ""))


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", clean_text(text))
