"""Names for the numpy arrays that columns are made of."""

from __future__ import annotations

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


def _narrow(
    values: NDArray[np.signedinteger[Any]], *types: type[np.signedinteger[Any]]
) -> NDArray[np.signedinteger[Any]]:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for kind in types:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind, copy=False)
    return values
