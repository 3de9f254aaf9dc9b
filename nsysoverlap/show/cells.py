"""Rows as tables: the one way from columns to cells, for text and for pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import takewhile
from statistics import median
from typing import Any

from ..core.formatting import NONE, clean_text, short_kernel
from ..core.limits import Unit, format_cell
from ..result.columns import Column, Row
from .blocks import Cell, Table

MAX_NAME = 120
"""Characters of a name on a page, as of one in the timeline."""


def table_of(
    title: str,
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    note: str = "",
    *,
    name: str = "",
) -> Table:
    """A row each, a column each; `name` makes a table of a page, to sort and to filter.

    Columns of which nothing is known are left out of a page.
    """
    if name:
        columns = [c for c in columns if not rows or any(c.take(row) is not None for row in rows)]
    n_words = len(list(takewhile(lambda column: column.unit is Unit.NAME, columns)))
    body = [tuple(cell(column, row, in_full=bool(name)) for column in columns) for row in rows]
    if name:
        body = [tuple(_barred(columns, body, line)) for line in body]
    headings = tuple(column.heading for column in columns)
    return Table(title, headings, tuple(body), note, n_words, name)


def cell(column: Column[Row], row: Row, *, in_full: bool = False) -> Cell:
    """One cell, with the number to sort by; names at length only `in_full`."""
    value = column.take(row)
    if column.unit is Unit.NAME:
        if in_full and value:
            return Cell(short_kernel(clean_text(value), MAX_NAME))
        return Cell(column.show(row) if column.show else value or NONE)
    text = column.show(row) if column.show else format_cell(value, column.unit)
    return Cell(text, None if value is None else float(value))


def _barred(
    columns: Sequence[Column[Row]], body: Sequence[tuple[Cell, ...]], line: tuple[Cell, ...]
) -> Iterable[Cell]:
    """The cells, those of barred columns with their share of the largest."""
    for i, (column, one) in enumerate(zip(columns, line, strict=True)):
        most = max((other[i].value or 0 for other in body), default=0) if column.barred else 0
        yield Cell(one, one.value, one.value / most) if most and one.value is not None else one


_SUMMARIES: dict[str, Callable[[Sequence[Any]], Any]] = {"median": median, "min": min, "max": max}


def summary_row(name: str, columns: Sequence[Column[Row]], rows: Sequence[Row]) -> tuple[str, ...]:
    """The `median`, `min` or `max` of each column over all rows, behind its name."""
    cells = []
    for column in columns:
        known = [value for row in rows if (value := column.take(row)) is not None]
        value = _SUMMARIES[name]([Fraction(v) for v in known]) if known else None
        cells.append(format_cell(value, column.unit))
    return (name, *cells)


def rest_note(total: int, shown: int) -> str:
    """Where the rows are that a table leaves out."""
    if total == shown:
        return ""
    return f"The {shown} that cost most of {total:,}; all are in the JSON report."
