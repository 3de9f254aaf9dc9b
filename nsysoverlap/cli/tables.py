"""Columns as CSV text or as a Parquet file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from ..core.errors import UsageError
from ..core.formatting import clean_text

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, Sequence[Any]]

TEXT_COLUMNS = frozenset({"direction", "src_kind", "dst_kind", "top_hiding_kernel"})
FLOAT_COLUMNS = frozenset({"gb_per_s"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
BOOL_COLUMNS = frozenset({"by_kernel"})


def to_csv(columns: Columns) -> str:
    """A header line and one line a row: nothing for None, rates with three decimals."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    cells = [[_cell(value) for value in values] for values in columns.values()]
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()


def _cell(value: object) -> str | int:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return value
        case float():
            return f"{value:.3f}"
    text = clean_text(str(value))
    # A spreadsheet would take it for a formula.
    return f"'{text}" if text.startswith(_FORMULA) else text


def require_pyarrow() -> None:
    """Raise `UsageError` unless Parquet can be written here."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed.",
            "Run: pip install pyarrow",
        ) from error


def to_parquet(columns: Columns) -> bytes:
    """A Parquet file: 64-bit integers, text, doubles and booleans, null for None."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, _arrow_type(name)) for name in columns])
    buffer = BytesIO()
    pq.write_table(pa.table(dict(columns), schema=schema), buffer)
    return buffer.getvalue()


def _arrow_type(name: str) -> pa.DataType:
    import pyarrow as pa

    if name in TEXT_COLUMNS:
        return pa.string()
    if name in FLOAT_COLUMNS:
        return pa.float64()
    return pa.bool_() if name in BOOL_COLUMNS else pa.int64()
