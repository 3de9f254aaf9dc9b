"""Columns as CSV text or as a Parquet file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from typing import Any

from ..core.errors import UsageError
from ..core.formatting import clean_text
from ..core.json_model import keys_of, plain_type

Columns = Mapping[str, Sequence[Any]]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


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
    """A Parquet file of transfers: 64-bit integers, text, doubles and booleans, null for None."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ..run.transfer_table import TransferRow

    types = {str: pa.string(), float: pa.float64(), bool: pa.bool_(), int: pa.int64()}
    schema = pa.schema([(key.name, types[plain_type(key.hint)]) for key in keys_of(TransferRow)])
    buffer = BytesIO()
    pq.write_table(pa.table(dict(columns), schema=schema), buffer)
    return buffer.getvalue()
