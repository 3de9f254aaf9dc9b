"""The notebooks run from top to bottom, and the outputs in the repository are those they give.

`pytest tests/test_notebooks.py --update-golden` runs them and writes the outputs anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs the extra [notebook]")
nbclient = pytest.importorskip("nbclient", reason="needs the extra [notebook]")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


class Text(HTMLParser):
    """The text of an HTML output, without style sheets."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._in_style = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self.parts.append(data)


def outputs(notebook: Any) -> list[list[str]]:
    """What each code cell gave: texts by their words, pictures by their kind alone.

    Pixels differ with the version of matplotlib; what plots show has tests of its own.
    """
    return [
        [" ".join(text.split()) for output in cell.outputs for text in _texts(output)]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _texts(output: Any) -> Iterator[str]:
    if output.output_type == "stream":
        yield f"{output.name}: {output.text}"
    elif output.output_type == "error":
        yield f"{output.ename}: {output.evalue}"
    else:
        kinds = output.data
        if "image/png" in kinds:
            yield "picture"
        elif "text/html" in kinds:
            yield " ".join(Text(kinds["text/html"]).parts)
        else:
            yield kinds["text/plain"]


def executed(path: Path) -> Any:
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbclient.NotebookClient(
        notebook,
        timeout=600,
        startup_timeout=600,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    return notebook


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "01_read_a_trace",
        "02_compare_arms",
        "03_gate_and_history",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_those_in_the_repository(path: Path, renewing: bool) -> None:
    actual = executed(path)
    if renewing:
        nbformat.write(actual, path)
    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    assert outputs(kept) == outputs(actual)
    assert any("picture" in cell for cell in outputs(kept))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_ran_in_order_and_hold_no_paths_of_a_machine(path: Path) -> None:
    kept = nbformat.read(path, as_version=4)
    counts = [cell.execution_count for cell in kept.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|work|Users)/", text)
    assert len(text) < 1_500_000


def test_the_first_notebook_takes_ten_cells() -> None:
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    assert sum(cell.cell_type == "code" for cell in notebook.cells) <= 10
