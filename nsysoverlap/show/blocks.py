"""The plain data a report is printed from: paragraphs, commands, tables and lists of strings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..core.formatting import clean_text


@dataclass(frozen=True)
class Paragraph:
    """Running text. `tone`: headline, alarm (a headline that says inconclusive) or plain."""

    text: str
    tone: str = "plain"


@dataclass(frozen=True)
class Command:
    """A shell command to run next, and what for (a phrase without a stop)."""

    line: str
    purpose: str


class Cell(str):
    """The text of a cell with the number it shows, None where there is none.

    A page sorts by `value`; `bar` is a share 0..1 to draw below the text.
    """

    value: float | None
    bar: float | None

    def __new__(cls, text: str, value: float | None = None, bar: float | None = None) -> Cell:
        """A text is all that other painters see."""
        self = super().__new__(cls, text)
        self.value, self.bar = value, bar
        return self


@dataclass(frozen=True)
class Table:
    """A titled table of strings; every row has as many cells as there are columns.

    The first `n_words` columns hold words and may wrap, the others numbers, which never do.
    `note` is running text to print below. A table with a `name` can be sorted and filtered on a
    page; its cells are `Cell`s where they hold numbers.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    n_words: int = 1
    name: str = ""


@dataclass(frozen=True)
class Entry:
    """One item of a list: a title, running text below it, and examples of a line each."""

    title: str
    text: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entries:
    """A titled list of entries, most important first; `note` is running text to print below."""

    title: str
    entries: tuple[Entry, ...]
    note: str = ""


Block = Paragraph | Command | Table | Entries


@dataclass(frozen=True)
class Section:
    """Blocks that belong together; a page gives them an anchor and, with a title, a heading."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def cleaned_table(table: Table) -> Table:
    """As `cleaned`."""
    result = cleaned(table)
    assert isinstance(result, Table)
    return result


def cleaned(block: Block) -> Block:
    """The block with every string made fit to print (see `clean_text`)."""
    return with_texts(block, clean_text)


def with_texts(block: Block, change: Callable[[str], str]) -> Block:
    """The block with `change` done to every string of it."""

    def each(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            Cell(change(text), text.value, text.bar) if isinstance(text, Cell) else change(text)
            for text in texts
        )

    if isinstance(block, Paragraph):
        return replace(block, text=change(block.text))
    if isinstance(block, Command):
        return Command(change(block.line), change(block.purpose))
    if isinstance(block, Entries):
        entries = tuple(
            Entry(change(entry.title), each(entry.text), each(entry.examples))
            for entry in block.entries
        )
        return Entries(change(block.title), entries, change(block.note))
    return replace(
        block,
        title=change(block.title),
        columns=each(block.columns),
        rows=tuple(each(row) for row in block.rows),
        note=change(block.note),
    )
