"""Single values of small tables: third parties turn integers into text, and text into bytes."""

from __future__ import annotations

import re

_INTEGER = re.compile(r"\s*-?\d{1,19}\s*", re.ASCII)
_INT64 = range(-(2**63), 2**63)


def integer(value: object) -> int | None:
    """The integer that a value holds in whatever type; None where it holds none."""
    if isinstance(value, str):
        value = int(value) if _INTEGER.fullmatch(value) else None
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and value in _INT64 else None


def file_label(name: str) -> str:
    """The name of a file as text that can be written anywhere: bytes that are no UTF-8 are ?."""
    return name.encode("utf-8", "replace").decode("utf-8")


def text(value: object) -> str | None:
    """A value of whatever type as text; None where it is empty or none."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return None if value is None else str(value) or None
