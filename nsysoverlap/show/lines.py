"""Lines of a fixed width: words wrapped, cells side by side, and styles for terminals.

As `rich` lays text out, which takes as long to load and to do so as a trace takes to be measured;
only the widths of characters that are not one cell wide are asked of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"\s*\S+\s*")
_ONE_CELL = frozenset(map(chr, range(0x20, 0x7F))) | frozenset("µ–…→×·≥≤±─\ue000")
"""Characters known to take one cell each; all others are looked up."""
_CODES = {"bold": "1", "bold red": "1;31", "yellow": "33", "cyan": "36"}
GAP = 2
"""Blanks between columns."""


def cells(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if _ONE_CELL.issuperset(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, none wider than `width` cells and without blanks at its end.

    Words stay whole where they fit into a line; a blank line stays one.
    """
    lines: list[str] = []
    for line in text.expandtabs(8).split("\n"):
        ends = [*_breaks(line, width), len(line)]
        begins = [0, *ends[:-1]]
        lines += [line[begin:end].rstrip() for begin, end in zip(begins, ends, strict=True)]
    return lines


def _breaks(line: str, width: int) -> list[int]:
    """Where a line is to be broken."""
    breaks: list[int] = []
    if cells(line) <= width:
        return breaks
    filled = 0
    for found in _WORD.finditer(line):
        start, word = found.start(), found[0]
        needed = cells(word.rstrip())
        if needed <= width - filled:
            filled += cells(word)
        elif needed > width:
            for part in _chopped(word, width):
                if start:
                    breaks.append(start)
                start, filled = start + len(part), cells(part)
        elif filled and start:
            breaks.append(start)
            filled = cells(word)
    return breaks


def _chopped(word: str, width: int) -> list[str]:
    if _ONE_CELL.issuperset(word):
        return [word[i : i + width] for i in range(0, len(word), width)]
    from rich.cells import chop_cells

    return chop_cells(word, width)


def styled(line: str, style: str, color: bool) -> str:
    """A line in one of the styles of `_CODES`, where there are colours."""
    return f"\x1b[{_CODES[style]}m{line}\x1b[0m" if color and style and line else line


def side_by_side(
    columns: Sequence[tuple[Sequence[str], int, bool, str]], color: bool, low: bool = False
) -> Iterable[str]:
    """The lines of one row of a table.

    Each column is its lines, its width, whether they stand at its right end, and their style. With
    `low` shorter columns end with the longest, else they begin with it.
    """
    height = max(len(lines) for lines, *_ in columns)
    for i in range(height):
        parts = []
        for lines, width, right, style in columns:
            at = i - (height - len(lines) if low else 0)
            text = lines[at] if 0 <= at < len(lines) else ""
            blanks = " " * (width - cells(text))
            text = styled(text, style, color)
            parts.append(blanks + text if right else text + blanks)
        yield (" " * GAP).join(parts).rstrip()
