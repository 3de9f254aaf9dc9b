"""A value of a JSON report and its place in it, read with suspicion."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core.errors import ConfigError

HINT = "Give a file written by `nsysoverlap report --format json`."

T = TypeVar("T")


@dataclass(frozen=True)
class Node:
    """A value of the report together with its place, for messages."""

    value: Any
    where: str

    def __getitem__(self, key: str) -> Node:
        if not isinstance(self.value, Mapping):
            raise self.wrong("an object")
        if key not in self.value:
            raise ConfigError(f"{self.where} lacks {key!r}.", HINT)
        return Node(self.value[key], f"{self.where}.{key}")

    def later(self, key: str) -> Node:
        """The value of a key that reports of earlier versions lack; None where it is missing."""
        return (
            self[key]
            if not isinstance(self.value, Mapping) or key in self.value
            else Node(None, f"{self.where}.{key}")
        )

    def wrong(self, wanted: str) -> ConfigError:
        """The error for a value that is not `wanted`."""
        shown = repr(self.value)
        return ConfigError(f"{self.where} should be {wanted}, not {shown[:60]}.", HINT)

    def integer(self, least: int | None = None) -> int:
        """A whole number, not below `least`."""
        value = self.value
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong("an integer")
        if not -(2**63) <= value < 2**63:
            raise self.wrong("an integer of 64 bits")
        if least is not None and value < least:
            raise self.wrong(f"at least {least}")
        return value

    def number(self) -> float:
        """A finite number."""
        if isinstance(self.value, float) and math.isfinite(self.value):
            return self.value
        return float(self.integer())

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            raise self.wrong("a string")
        return self.value

    def count(self) -> int:
        """A whole number that is not negative."""
        return self.integer(0)

    def choice(self, options: Collection[str]) -> str:
        """One of some strings."""
        if self.text() not in options:
            *first, last = options
            raise self.wrong(f"{', '.join(first)} or {last}")
        return self.text()

    def optional(self, read: Callable[[Node], T]) -> T | None:
        """None, or what `read` makes of the value."""
        return None if self.value is None else read(self)

    def each(self, read: Callable[[Node], T]) -> tuple[T, ...]:
        """What `read` makes of every item of a list."""
        if not isinstance(self.value, list | tuple):
            raise self.wrong("a list")
        items = (Node(item, f"{self.where}[{i}]") for i, item in enumerate(self.value))
        return tuple(read(item) for item in items)

    def pair(self, read: Callable[[Node], T]) -> tuple[T, T]:
        """What `read` makes of a list of two."""
        items = self.each(read)
        if len(items) != 2:
            raise self.wrong("a list of two")
        return items[0], items[1]

    def mapping(self, read: Callable[[Node], T]) -> dict[str, T]:
        """What `read` makes of every value of an object."""
        if not isinstance(self.value, Mapping):
            raise self.wrong("an object")
        return {str(key): read(self[key]) for key in self.value}

    def optional_text(self) -> str | None:
        """A string or None."""
        return self.optional(Node.text)

    def optional_integer(self) -> int | None:
        """A whole number or None."""
        return self.optional(Node.integer)

    def optional_number(self) -> float | None:
        """A finite number or None."""
        return self.optional(Node.number)
