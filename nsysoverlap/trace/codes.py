"""Small dense codes for large sparse ids, shared by the threads that read a table."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from ..core.arrays import Int32Array, Int64Array
from ..core.records import dataclass

_TABLE = 1 << 20
"""Values from 0 to below this are looked up in a table, others by binary search."""
_PAIR_BITS = 10
"""Pairs of codes that both have so few bits make a value that the table holds."""


@dataclass(frozen=True)
class _Index:
    """The codes given so far; never changed, so that threads may look things up at any time.

    `known` is sorted, `codes` belong to it. `table` holds the codes of small values, -1 for none.
    """

    known: Int64Array
    codes: Int64Array
    table: Int32Array


class Codes:
    """Gives each distinct int64 value a code 0, 1, 2, ... in order of first appearance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: list[int] = []
        nothing = np.empty(0, np.int64)
        self._index = _Index(nothing, nothing, np.empty(0, np.int32))

    def encode(self, values: Int64Array) -> Int64Array:
        """Codes of `values`, same shape; values not seen before get new codes."""
        if len(values) and (values == values[0]).all():
            # Process, device and context are constant in most blocks.
            return np.full(len(values), self._lookup(values[:1])[0], np.int64)
        return self._lookup(values)

    def find(self, values: Int64Array) -> Int64Array:
        """Codes of `values` (n,), -1 for those not seen before."""
        return _find(self._index, values)

    def values(self) -> Int64Array:
        """The value of each code; shape (n_codes,)."""
        return np.array(self._values, dtype=np.int64)

    def _lookup(self, values: Int64Array) -> Int64Array:
        codes = _find(self._index, values)
        new = codes < 0
        if new.any():
            self._add(np.unique(values[new]))
            codes = _find(self._index, values)
        return codes

    def _add(self, values: Int64Array) -> None:
        with self._lock:
            index = self._index
            fresh = values[~np.isin(values, index.known)]
            first = len(self._values)
            self._values.extend(fresh.tolist())
            known = np.concatenate((index.known, fresh))
            codes = np.concatenate((index.codes, np.arange(first, first + len(fresh))))
            order = np.argsort(known)
            small = (known >= 0) & (known < _TABLE)
            table = np.full(int(known[small].max(initial=-1)) + 1, -1, np.int32)
            table[known[small]] = codes[small]
            self._index = _Index(known[order], codes[order], table)


def _find(index: _Index, values: Int64Array) -> Int64Array:
    """Code of each value, -1 where it has none yet."""
    if not len(values) or not len(index.known):
        return np.full(len(values), -1, np.int64)
    if values.min() >= 0 and values.max() < len(index.table):
        return index.table[values].astype(np.int64)
    at = np.searchsorted(index.known, values)
    at[at == len(index.known)] = 0
    return np.where(index.known[at] == values, index.codes[at], -1)


class TupleCodes:
    """Dense codes for tuples of `width` int64 ids, exact for any values."""

    def __init__(self, width: int) -> None:
        self._columns = [Codes() for _ in range(width)]
        self._pairs = [Codes() for _ in range(width - 1)]

    def encode(self, columns: Sequence[Int64Array]) -> Int32Array:
        """Codes of the rows of `columns`; shape (n,)."""
        coded = [codes.encode(column) for codes, column in zip(self._columns, columns, strict=True)]
        result = coded[0]
        for pair, column in zip(self._pairs, coded[1:], strict=True):
            result = pair.encode(_join(result, column))
        return result.astype(np.int32)

    def tuples(self) -> list[tuple[int, ...]]:
        """The ids behind each code, in code order."""
        values = [codes.values() for codes in self._columns]
        if not self._pairs:
            return [(int(v),) for v in values[0]]
        keys = self._pairs[-1].values()
        parts: list[Int64Array] = []
        for depth in range(len(self._pairs) - 1, -1, -1):
            keys, last = _part(keys)
            parts.append(last)
            if depth:
                keys = self._pairs[depth - 1].values()[keys]
        parts.append(keys)
        columns = [v[p] for v, p in zip(values, reversed(parts), strict=True)]
        return list(zip(*(column.tolist() for column in columns), strict=True))


def _join(first: Int64Array, second: Int64Array) -> Int64Array:
    """One number for each pair of codes; codes count distinct values, so 32 bits hold them."""
    small = (first | second) < 1 << _PAIR_BITS
    if small.all():
        return first << _PAIR_BITS | second
    return np.where(small, first << _PAIR_BITS | second, _TABLE + (first << 32 | second))


def _part(pairs: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The pairs behind the numbers of `_join`."""
    small = pairs < _TABLE
    large = pairs - _TABLE
    first = np.where(small, pairs >> _PAIR_BITS, large >> 32)
    second = np.where(small, pairs & ((1 << _PAIR_BITS) - 1), large & 0xFFFFFFFF)
    return first, second
