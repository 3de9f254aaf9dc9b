"""Join blocks of rows as they come, so that no row is held twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_GROWTH = 1.05
"""Little, for what grows too far counts as used: numpy fills it."""
_FIRST_ROWS = 1 << 16


def join(blocks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Columns of all blocks, one after the other; {} where there is no block.

    Columns of one block may differ in length, those of one name must be of one type.
    """
    columns: dict[str, _Column] = {}
    for block in blocks:
        for name, values in block.items():
            if name not in columns:
                columns[name] = _Column(values.dtype)
            columns[name].append(values)
    return {name: column.finish() for name, column in columns.items()}


class _Column:
    """An array that grows in place: the system moves large ones without copying them."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._values = np.empty(_FIRST_ROWS, dtype)
        self._n = 0

    def append(self, values: Any) -> None:
        n = self._n + len(values)
        if n > len(self._values):
            # No one else has seen the array yet.
            self._values.resize(int(n * _GROWTH), refcheck=False)
        self._values[self._n : n] = values
        self._n = n

    def finish(self) -> Any:
        self._values.resize(self._n, refcheck=False)
        return self._values
