"""Names for the numpy arrays that columns are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
UInt8Array = NDArray[np.uint8]
BoolArray = NDArray[np.bool_]
CodeArray = NDArray[np.signedinteger[Any]]
"""Small dense codes: int16 where all fit, else int32."""
IdArray = NDArray[np.signedinteger[Any]]
"""Ids as the profiler gave them: int32 where all fit, else int64."""


def narrow_codes(codes: NDArray[np.signedinteger[Any]]) -> CodeArray:
    """Codes in the smallest type that holds them; shape (n,), as given."""
    return _narrow(codes, np.int16, np.int32)


def narrow_ids(ids: Int64Array) -> IdArray:
    """Ids (n,) in half the size where that holds them, as CUPTI's own ids usually do."""
    return _narrow(ids, np.int32)


def rows_by_key(keys: NDArray[np.signedinteger[Any]]) -> Iterator[tuple[int, Int64Array]]:
    """Each key, rising, and its rows (m,), rising: one pass over keys (n,), however many differ."""
    order = np.argsort(keys, kind="stable")
    rising = keys[order]
    first = np.flatnonzero(np.append(True, rising[1:] != rising[:-1])) if len(keys) else order
    ends = [*first[1:].tolist(), len(keys)]
    for begin, end in zip(first.tolist(), ends if len(keys) else (), strict=True):
        yield int(rising[begin]), order[begin:end]


def _narrow(
    values: NDArray[np.signedinteger[Any]], *types: type[np.signedinteger[Any]]
) -> NDArray[np.signedinteger[Any]]:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for kind in types:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind, copy=False)
    return values
