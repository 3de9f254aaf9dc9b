"""Columns: each number of a kind of row once, with its name, unit, meaning and how to take it.

Text tables, HTML cells and the values they sort by, DataFrames, the run history, the metrics of a
gate and the tables of the documentation derive from these entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from enum import Flag, auto
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

from ..core.formatting import NONE
from ..core.limits import Unit
from ..core.records import dataclass

Row = TypeVar("Row")
Owner = TypeVar("Owner")


class Place(Flag):
    """Where a column shows by itself; anywhere else it is asked for by name."""

    NOWHERE = 0
    FRAME = auto()
    """DataFrames and docs/dataframes.md."""
    STORED = auto()
    """The run history."""
    TEXT = auto()
    """The table of a text or Markdown report."""
    PAGE = auto()
    """The full table of an HTML page."""


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column of one kind of row.

    `take` gives the value in base units (ns, bytes, GB/s, share 0..1, text), exact where it is a
    quotient, and None where it is not known. `metric` is what a gate calls it, `more_is_better`
    which way is good; `absent` says why a value can be missing, for a gate to give as reason.
    `show` is the text of a cell where it is not that of the unit. `barred` cells carry a bar on a
    page, as long as their share of the largest.
    """

    name: str
    unit: Unit
    meaning: str
    take: Callable[[Row], Any]
    heading: str = ""
    places: Place = Place.FRAME
    metric: str = ""
    more_is_better: bool | None = None
    absent: str = ""
    show: Callable[[Row], str] | None = None
    barred: bool = False


def at(columns: Iterable[Column[Row]], place: Place) -> tuple[Column[Row], ...]:
    """The columns that show at a place, in order."""
    return tuple(column for column in columns if place in column.places)


def named(columns: Iterable[Column[Row]], *names: str) -> tuple[Column[Row], ...]:
    """Some columns by name, in the order asked for."""
    known = {column.name: column for column in columns}
    return tuple(known[name] for name in names)


def lifted(
    columns: Iterable[Column[Row]],
    part: Callable[[Owner], Row | None],
    prefix: str = "",
    **new: Any,
) -> tuple[Column[Owner], ...]:
    """Columns of a part as columns of what holds it, with `prefix` before their names.

    Where `part` is None so are the values. `new` replaces other fields, such as `heading`.
    """

    def of_part(call: Callable[[Row], Any], nothing: Any) -> Callable[[Owner], Any]:
        def take(owner: Owner) -> Any:
            held = part(owner)
            return nothing if held is None else call(held)

        return take

    return tuple(
        Column(
            **vars(column)
            | {"name": f"{prefix}{column.name}", "take": of_part(column.take, None)}
            | {"show": column.show and of_part(column.show, NONE)}
            | new
        )
        for column in columns
    )


def placed(
    columns: Iterable[Column[Row]], places: Mapping[Place, Collection[str]]
) -> tuple[Column[Row], ...]:
    """The columns, those that are named at further places."""

    def more(name: str) -> Place:
        found = (place for place, names in places.items() if name in names)
        return reduce(or_, found, Place.NOWHERE)

    return tuple(replace(c, places=c.places | more(c.name)) for c in columns)
