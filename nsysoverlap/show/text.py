"""The report for people: tables that fit 80 columns and survive a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING

from .blocks import Block, Command, Entries, Entry, Paragraph, Table, with_texts
from .interface import Layout
from .lines import GAP, cells, side_by_side, styled, wrapped
from .sections import blocks_of

if TYPE_CHECKING:
    from .sections import Result

# Readable on dark and on light ground, and never the only signal: the words say it too.
_STYLES = {
    "headline": "bold",
    "alarm": "bold red",
    "error": "bold red",
    "warning": "yellow",
    "note": "cyan",
}
_COMMAND = re.compile(r"^(\s*)::")
"""What begins a line with this, logs of GitHub Actions take for a command."""
_QUANTITY = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|B|[KMGT]iB|[kMGT]B(?:/s)?|points?)(?!\w))")
"""The blank between a number and its unit, at which no line may end."""
_GLUE = "\ue000"
"""Stands for that blank while lines are made; `wrapped` would break at a no-break space."""
_LEAST_WORDS = 12


def paint(result: Result, layout: Layout) -> str:
    """Headline, notes and tables; wider than `layout.width` only where numbers need it."""
    return blocks_as_text(blocks_of(result, layout.view), layout)


def blocks_as_text(printed: Sequence[Block], layout: Layout) -> str:
    """Any blocks as text ending in a newline."""
    lines: list[str] = []
    for block in printed:
        lines += [*_lines(_glued(block), layout), ""]
    text = "\n".join(_COMMAND.sub(r"\1: :", line.rstrip()) for line in lines)
    return text.replace(_GLUE, " ").strip("\n") + "\n"


def _glued(block: Block) -> Block:
    """The block with no blank left between a number and its unit."""
    return with_texts(block, lambda text: _QUANTITY.sub(_GLUE, text))


def _lines(block: Block, layout: Layout) -> Iterator[str]:
    width, color = layout.width, layout.color

    def running(text: str, style: str = "") -> Iterator[str]:
        return (styled(line, style, color) for line in wrapped(text, width))

    if isinstance(block, Command):
        yield from running(f"{block.purpose}:")
        # Never wrapped, so that it can be copied.
        yield styled(f"  {block.line}", "bold", color)
        return
    if isinstance(block, Paragraph):
        yield from running(block.text, _STYLES.get(block.tone, ""))
        return
    yield from running(block.title, "bold")
    if isinstance(block, Entries):
        for number, entry in enumerate(block.entries, 1):
            yield from _entry(number, entry, layout)
        if block.note:
            # A command may stand in it, which must not be torn.
            yield block.note
        return
    yield from _table(block, max(width, _needed_width(block)), color)
    if block.note:
        yield from running(block.note)


def _entry(number: int, entry: Entry, layout: Layout) -> Iterator[str]:
    """The title behind its number, and the rest indented as far as the title."""
    mark = f"{number}. "
    room = max(1, layout.width - len(mark))
    texts = [(entry.title, "bold"), *((text, "") for text in (*entry.text, *entry.examples))]
    for text, style in texts:
        for line in wrapped(_broken(text, room), room):
            yield mark + styled(line, style, layout.color)
            mark = " " * len(mark)


def _without_empty(table: Table) -> Table:
    """The table without columns of numbers in which nothing stands, not even a heading."""
    kept = [
        i
        for i in range(len(table.columns))
        if i < table.n_words or table.columns[i] or any(row[i] for row in table.rows)
    ]
    columns = tuple(table.columns[i] for i in kept)
    return replace(
        table, columns=columns, rows=tuple(tuple(row[i] for i in kept) for row in table.rows)
    )


def _table(table: Table, width: int, color: bool) -> Iterator[str]:
    table = _without_empty(table)
    only_words = table.n_words == len(table.columns)
    rooms = _rooms(table, width)
    rooms += [
        max(cells(text) for text in (*_stacked(table, i), *(row[i] for row in table.rows)))
        for i in range(table.n_words, len(table.columns))
    ]
    if not only_words:
        heads = [
            wrapped(column, room) if i < table.n_words else _stacked(table, i)
            for i, (column, room) in enumerate(zip(table.columns, rooms, strict=True))
        ]
        yield from side_by_side(
            [
                (head, room, i >= table.n_words, "bold")
                for i, (head, room) in enumerate(zip(heads, rooms, strict=True))
            ],
            color,
            low=True,
        )
        yield "─" * (sum(rooms) + GAP * (len(rooms) - 1))
    for row in table.rows:
        words = [
            wrapped(_broken(cell, room), room)
            for cell, room in zip(row[: table.n_words], rooms, strict=False)
        ]
        lines = [*words, *([cell] for cell in row[table.n_words :])]
        yield from side_by_side(
            [
                (lines[i], room, i >= table.n_words, _STYLES.get(row[i], ""))
                for i, room in enumerate(rooms)
            ],
            color,
        )


def _rooms(table: Table, width: int) -> list[int]:
    """Widths of the columns of words: what the numbers leave, the widest giving way first."""
    words = range(table.n_words)
    rooms = [cells(_widest([table.columns[i], *(row[i] for row in table.rows)])) for i in words]
    others = sum(_least(table, i) for i in range(table.n_words, len(table.columns)))
    left = width - others - GAP * (len(table.columns) - 1)
    while sum(rooms) > left and max(rooms) > _LEAST_WORDS:
        rooms[rooms.index(max(rooms))] -= 1
    # A column of characters without width needs room all the same, or it is never printed.
    return [max(1, room) for room in rooms]


def _broken(text: str, room: int) -> str:
    """The text in lines where a word is too long for one: broken at a mark, not anywhere."""
    if max(map(len, text.split()), default=0) <= room:
        return text
    lines = []
    while len(text) > room:
        at = _break(text, room)
        lines.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return "\n".join([*lines, text])


def _break(text: str, room: int) -> int:
    """Where to end a line: between words, else between parts of a path, else after a mark."""
    room = max(1, room)
    for marks in (" ", "/", "_,;:.-=)>"):
        at = max(text.rfind(mark, 0, room) for mark in marks) + 1
        # Further to the left the line is mostly empty, which only a whole word is worth.
        if at > room // 2 or (at and len(text[at:].replace("/", " ").split(" ")[0]) < room):
            return at
    return room


def _stacked(table: Table, i: int) -> list[str]:
    """Lines of a number's header: its parts at commas, and no wider than the numbers need."""
    texts = [*table.columns[i].split(), *(row[i] for row in table.rows)]
    room = max(1, *map(len, texts)) if texts else 1
    lines = []
    for part in table.columns[i].split(", "):
        lines += wrap(part, room, break_long_words=False, break_on_hyphens=False) or [""]
    return lines


def _widest(texts: Sequence[str]) -> str:
    return max(texts, key=cells)


def _least(table: Table, i: int) -> int:
    """Width that column `i` cannot go below: words can wrap down to a dozen, numbers cannot."""
    are_words = i < table.n_words
    header = [table.columns[i]] if are_words else _stacked(table, i)
    widest = cells(_widest([*header, *(row[i] for row in table.rows)]))
    return min(widest, _LEAST_WORDS) if are_words else widest


def _needed_width(table: Table) -> int:
    columns = range(len(table.columns))
    return sum(_least(table, i) + GAP for i in columns) - GAP
