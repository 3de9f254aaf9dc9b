"""Pages to test: of real traces, of drawings, of hand-made reports."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from nsysoverlap.cli.formats import render
from nsysoverlap.draw.timeline import Timeline
from nsysoverlap.draw.timeline_blocks import MAX_BLOCKS, TimelineBuilder, timelines_of
from nsysoverlap.result.model import OverlapReport
from nsysoverlap.run.analysis import Options, analyze_trace
from nsysoverlap.steps.plan import StepSpec
from nsysoverlap.trace.load import read_trace

VOID = {"meta", "link", "input", "br", "img", "hr", "wbr"}


def measured(
    path: Path, steps: str = "auto", most: int = MAX_BLOCKS
) -> tuple[OverlapReport, Timeline]:
    """Report and timeline of one trace."""
    builder = TimelineBuilder()
    options = Options(steps=StepSpec(steps))
    report = analyze_trace(
        read_trace(path), options, lambda found: builder.add(timelines_of(found))
    )
    return report, builder.build(most)


def page_of(path: Path, steps: str = "auto") -> str:
    """The page of one trace."""
    report, timeline = measured(path, steps)
    return render(report, "html", timeline=timeline)


class Page(HTMLParser):
    """A page taken apart: elements, their attributes and all text that is shown."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.unbalanced: list[str] = []
        self._open: list[str] = []
        self._joined = False
        self.feed(source)
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        # A place to break is no space.
        self._joined = tag == "wbr" and bool(self.text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.unbalanced.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            self.scripts.append(data)
        elif inside != "style" and self._joined:
            self.text[-1] += data
        elif inside != "style":
            self.text.append(data)
        self._joined = False

    @property
    def shown(self) -> str:
        """All text, with runs of white space as one space."""
        return " ".join(" ".join(self.text).split())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of all elements of one name."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def data(self) -> Any:
        """The data of the timeline."""
        return json.loads(self.scripts[0])
