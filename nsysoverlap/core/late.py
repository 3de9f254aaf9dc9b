"""What methods of results ask of rooms further right: tables for pandas, HTML for notebooks.

A result knows nothing of what is built on it. Its methods ask here by name, and the package, which
knows where everything is, answers; so imports go one way, inside functions too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_finders: list[Callable[[str], Callable[..., Any]]] = []


def find_late_with(finder: Callable[[str], Callable[..., Any]]) -> None:
    """Have `finder` import what is asked for; `nsysoverlap/__init__` calls this, once."""
    _finders[:] = [finder]


def late(name: str) -> Callable[..., Any]:
    """The function of that name, imported now. Raises `KeyError` for a name nobody knows."""
    (finder,) = _finders
    return finder(name)
