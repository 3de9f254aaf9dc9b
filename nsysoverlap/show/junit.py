"""The verdict of a gate as JUnit XML: one test case a limit, and one for the traces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from ..core.formatting import clean_text
from ..judge.verdicts import Status, Verdict, Verdicts
from .interface import Layout
from .say_verdicts import headline, loss_sentence, shown_baseline, shown_values, verdict_sentence

SUITE = "nsysoverlap gate"
TRACES = "the traces"
# What XML 1.0 cannot hold even escaped; the text has lost its control characters before.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def paint(result: Verdicts, layout: Layout) -> str:
    """A failed limit is a failure, an inconclusive one an error, so that no CI shows it green.

    A case is named after what is asked for, and not after the limit: a renewed baseline must not
    look like another test.
    """
    names = _names(result.verdicts)
    cases = [_case(name, v, result) for name, v in zip(names, result.verdicts, strict=True)]
    cases.append(_traces(result))
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


def _names(verdicts: Sequence[Verdict]) -> list[str]:
    """A name for each, the same in every run; of several limits on one metric with their place."""
    seen: Counter[str] = Counter()
    names = []
    for verdict in verdicts:
        name = f"{verdict.name} {'against baseline' if verdict.compared else f'{verdict.op} limit'}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def _element(name: str) -> ET.Element:
    attributes = {"name": _xml(name), "classname": "nsysoverlap.gate", "time": "0.000"}
    return ET.Element("testcase", attributes)


def _case(name: str, verdict: Verdict, result: Verdicts) -> ET.Element:
    measured, limit, margin = shown_values(verdict)
    case = _element(name)
    if verdict.status is Status.PASSED:
        ET.SubElement(case, "system-out").text = _xml(verdict_sentence(verdict))
        return case
    lines = [f"measured {measured}", f"limit {verdict.op} {limit}", f"margin {margin}"]
    if verdict.baseline is not None:
        lines.append(f"baseline {shown_baseline(verdict)}")
    lines += [verdict.where, verdict.reason, f"asked for by {verdict.source}"]
    kind = "failure" if verdict.status is Status.FAILED else "error"
    message = verdict_sentence(verdict)
    if verdict.status is not Status.FAILED:
        message = f"{verdict.name}: {verdict.reason or ' '.join(result.blockers[:1])}"
    problem = ET.SubElement(case, kind, {"type": verdict.status.value, "message": _xml(message)})
    problem.text = _xml("; ".join(line for line in lines if line))
    return case


def _traces(result: Verdicts) -> ET.Element:
    """Whether the traces can be trusted: always there, so that no suite is empty and passing."""
    case = _element(TRACES)
    if not result.blockers:
        return case
    error = ET.SubElement(
        case, "error", {"type": "inconclusive", "message": _xml(result.blockers[0])}
    )
    error.text = _xml("; ".join(result.blockers))
    return case


def _summary(result: Verdicts) -> str:
    lost = loss_sentence(result)
    lines = [headline(result) + (f" Lost most: {lost}." if lost else ""), *result.notes]
    return "\n".join(map(_xml, lines))


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", clean_text(text))
