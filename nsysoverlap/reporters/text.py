"""The report for people: rich tables that fit 80 columns and survive a pipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from ..blocks import Block, Command, Entries, Entry, Paragraph, Table
from ..report import OverlapReport
from ..sections.report import blocks
from .interface import Layout

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

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
_GAP = 2
_LEAST_WORDS = 12


def render_text(report: OverlapReport, layout: Layout) -> str:
    """Headline, notes and tables; wider than `layout.width` only where numbers need it."""
    return blocks_as_text(blocks(report, layout.view), layout)


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
            _print_block(console, block, layout.width)
            console.print()
    # Rich pads cells with blanks; a pipe does not need them.
    lines = [_COMMAND.sub(r"\1: :", line.rstrip()) for line in capture.get().split("\n")]
    return "\n".join(lines).strip("\n") + "\n"


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
    console.print(_rich_table(block))
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
    grid.add_row(Text(f"{number}."), Text(entry.title, style="bold"))
    for text in (*entry.text, *entry.examples):
        grid.add_row("", Text(text))
    console.print(grid)


def _rich_table(table: Table) -> RichTable:
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
    for i, column in enumerate(table.columns):
        if i < table.n_words:
            rich_table.add_column(Text(column), overflow="fold", min_width=_width(table, i))
        else:
            header = Text(_stacked(column), justify="right")
            rich_table.add_column(header, justify="right", no_wrap=True)
    for row in table.rows:
        rich_table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    return rich_table


def _stacked(header: str) -> str:
    """A header of several words on as many lines, so that numbers set the width."""
    return header.replace(" ", "\n")


def _width(table: Table, i: int) -> int:
    """Width that column `i` cannot go below: words can wrap down to a dozen, numbers cannot."""
    from rich.cells import cell_len

    are_words = i < table.n_words
    header = [table.columns[i]] if are_words else _stacked(table.columns[i]).split("\n")
    widest = max(cell_len(cell) for cell in (*header, *(row[i] for row in table.rows)))
    # Rich narrows all columns of words to one level, so the least must be the same for each.
    return min(widest, _LEAST_WORDS) if are_words else widest


def _needed_width(table: Table) -> int:
    columns = range(len(table.columns))
    return sum(_width(table, i) + _GAP for i in columns) - _GAP
