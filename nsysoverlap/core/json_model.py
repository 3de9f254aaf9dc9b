"""Dataclasses as JSON: what annotations say beyond the type, and values as plain data.

Every JSON output is a dataclass whose fields are the keys. `json_codec` reads such data back and
makes the schema, both from the annotations; only that needs msgspec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from .._version import __version__
from .records import dataclass

T = TypeVar("T")


class Limits(NamedTuple):
    """Bounds of a number: at least `ge`, above `gt`, at most `le`."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None


class OneOf(NamedTuple):
    """The texts that a text may be."""

    texts: tuple[str, ...]


class Mark:
    """What a field is in JSON; told apart by identity, which costs less than an enum's hash."""


INLINE = Mark()
"""The keys of the dataclass stand among its owner's."""
UNSEEN = Mark()
"""No key; `restored` of the class makes up for it."""
LATER = Mark()
"""A key that files of the first version lack; the default stands for it."""
ORDERED = Mark()
"""A start and an end that is not before it."""
END = Mark()
"""Not before `start_ns` of the same object."""

Count = Annotated[int, Limits(ge=0)]
Share = Annotated[float, Limits(ge=0, le=1)]
GbPerS = Annotated[float, Limits(gt=0)]
Severity = Annotated[str, OneOf(("error", "warning", "note"))]
Span = Annotated[tuple[int, int], ORDERED]
End = Annotated[int, END]
Inline = Annotated[T, INLINE]
Unseen = Annotated[T, UNSEEN]
Later = Annotated[T, LATER]
"""For a field with a default, or a property, that was added after the first release."""


@dataclass(frozen=True)
class Document:
    """A whole JSON file. `json_format` is the name and version that it begins with."""

    json_format: ClassVar[tuple[str, int]]
    generator: str = field(default=f"nsysoverlap {__version__}", kw_only=True)


class Key(NamedTuple):
    """One key of an object: a field of the dataclass, or a property that `json_last` names."""

    name: str
    hint: Any
    marks: frozenset[Mark]
    is_field: bool


_AS_THEY_ARE = frozenset((str, int, float, bool, type(None)))


@cache
def keys_of(cls: type) -> tuple[Key, ...]:
    """The keys of a dataclass in JSON order.

    A class variable `json_last` names fields and properties that come after all others.
    """
    hints, own = get_type_hints(cls, include_extras=True), [f.name for f in fields(cls)]
    last = getattr(cls, "json_last", ())
    keys = []
    for name in (*(name for name in own if name not in last), *last):
        hint = hints[name] if name in own else _returned(cls, name)
        extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        marks = frozenset(extra for extra in extras if isinstance(extra, Mark))
        if UNSEEN not in marks:
            keys.append(Key(name, hint, marks, name in own))
    return tuple(keys)


def _returned(cls: type, name: str) -> Any:
    return get_type_hints(getattr(cls, name).fget, include_extras=True)["return"]


def plain_type(hint: Any) -> Any:
    """The type of a value that is there: without limits and without None."""
    if get_origin(hint) is Annotated:
        return plain_type(get_args(hint)[0])
    return plain_type(get_args(hint)[0]) if get_args(hint) else hint


def head_of(cls: type) -> dict[str, Any]:
    """What an object of a `Document` class begins with; nothing for other classes."""
    if not issubclass(cls, Document):
        return {}
    name, version = cls.json_format
    return {"format": name, "format_version": version}


@cache
def _layout(cls: type) -> tuple[tuple[str, bool], ...]:
    """Names of the keys, and whether the value's own keys stand in its place."""
    return tuple((key.name, INLINE in key.marks) for key in keys_of(cls))


def plain(value: Any) -> Any:
    """A dataclass, and whatever is in it, as dicts, lists, texts, numbers and None."""
    cls: Any = type(value)
    if cls in _AS_THEY_ARE:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    shown = head_of(cls)
    for name, inline in _layout(cls):
        inner = getattr(value, name)
        if type(inner) not in _AS_THEY_ARE:
            inner = plain(inner)
        if inline:
            shown |= inner
        else:
            shown[name] = inner
    return shown
