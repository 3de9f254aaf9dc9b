"""The report for people: rich tables that fit 80 columns and survive a pipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from textwrap import wrap
from typing import TYPE_CHECKING

from .blocks import Block, Command, Entries, Entry, Paragraph, Table, with_texts
from .interface import Layout
from .sections import blocks_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

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
"""Stands for that blank while lines are made; rich would break at a no-break space."""
_GAP = 2
_LEAST_WORDS = 12


def paint(result: Result, layout: Layout) -> str:
    """Headline, notes and tables; wider than `layout.width` only where numbers need it."""
    return blocks_as_text(blocks_of(result, layout.view), layout)


def blocks_as_text(printed: Sequence[Block], layout: Layout) -> str:
    """Any blocks as text ending in a newline."""
    from rich.console import Console

    console = Console(
        file=StringIO(),
        width=layout.width,
        force_terminal=layout.color,
        color_system="standard" if layout.color else None,
        no_color=not layout.color,
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as capture:
        for block in printed:
            _print_block(console, _glued(block), layout.width)
            console.print()
    # Rich pads cells with blanks; a pipe does not need them.
    printed_text = capture.get().replace(_GLUE, " ")
    lines = [_COMMAND.sub(r"\1: :", line.rstrip()) for line in printed_text.split("\n")]
    return "\n".join(lines).strip("\n") + "\n"


def _glued(block: Block) -> Block:
    """The block with no blank left between a number and its unit."""
    return with_texts(block, lambda text: _QUANTITY.sub(_GLUE, text))


def _print_block(console: Console, block: Block, width: int) -> None:
    from rich.text import Text

    if isinstance(block, Command):
        console.print(Text(f"{block.purpose}:"))
        # Never wrapped, so that it can be copied.
        console.print(Text(f"  {block.line}", style="bold"), soft_wrap=True)
        return
    if isinstance(block, Paragraph):
        console.print(Text(block.text, style=_STYLES.get(block.tone, "")))
        return
    console.print(Text(block.title, style="bold"))
    if isinstance(block, Entries):
        for number, entry in enumerate(block.entries, 1):
            _print_entry(console, number, entry)
        if block.note:
            # A command may stand in it, which must not be torn.
            console.print(Text(block.note), soft_wrap=True)
        return
    console.width = max(width, _needed_width(block))
    console.print(_rich_table(block, console.width))
    console.width = width
    if block.note:
        console.print(Text(block.note))


def _print_entry(console: Console, number: int, entry: Entry) -> None:
    """The title behind its number, and the rest indented as far as the title."""
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    room = console.width - len(f"{number}.") - 1
    grid.add_row(Text(f"{number}."), Text(_broken(entry.title, room), style="bold"))
    for text in (*entry.text, *entry.examples):
        grid.add_row("", Text(_broken(text, room)))
    console.print(grid)


def _rich_table(table: Table, width: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    only_words = table.n_words == len(table.columns)
    rich_table = RichTable(
        box=None if only_words else box.SIMPLE_HEAD,
        show_header=not only_words,
        show_edge=False,
        pad_edge=False,
        # A box puts one blank of its own between columns.
        padding=(0, _GAP if only_words else _GAP - 1, 0, 0),
        header_style="bold",
    )
    rooms = _rooms(table, width)
    for i, column in enumerate(table.columns):
        if i < table.n_words:
            rich_table.add_column(Text(column), overflow="fold", width=rooms[i])
        else:
            header = Text("\n".join(_stacked(table, i)), justify="right")
            rich_table.add_column(header, justify="right", no_wrap=True)
    for row in table.rows:
        words = (_broken(cell, room) for cell, room in zip(row, rooms, strict=False))
        cells = (*words, *row[table.n_words :])
        rich_table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
    return rich_table


def _rooms(table: Table, width: int) -> list[int]:
    """Widths of the columns of words: what the numbers leave, the widest giving way first."""
    from rich.cells import cell_len

    words = range(table.n_words)
    rooms = [cell_len(_widest([table.columns[i], *(row[i] for row in table.rows)])) for i in words]
    others = sum(_least(table, i) for i in range(table.n_words, len(table.columns)))
    left = width - others - _GAP * (len(table.columns) - 1)
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
    from rich.cells import cell_len

    return max(texts, key=cell_len)


def _least(table: Table, i: int) -> int:
    """Width that column `i` cannot go below: words can wrap down to a dozen, numbers cannot."""
    from rich.cells import cell_len

    are_words = i < table.n_words
    header = [table.columns[i]] if are_words else _stacked(table, i)
    widest = cell_len(_widest([*header, *(row[i] for row in table.rows)]))
    return min(widest, _LEAST_WORDS) if are_words else widest


def _needed_width(table: Table) -> int:
    columns = range(len(table.columns))
    return sum(_least(table, i) + _GAP for i in columns) - _GAP
