"""docs/dataframes.md names every column of every table with its dtype."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from nsysoverlap import read_trace
from nsysoverlap.result.model import TableName

from . import sample_reports as samples
from .traces import h200

PAGE = (Path(__file__).parents[1] / "docs" / "dataframes.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
TABLES: tuple[TableName, ...] = get_args(TableName)


def listed(section: str) -> dict[str, str]:
    """Column (a pattern where it stands for several) and dtype of each row of a section."""
    return dict(re.findall(r"^\| (?!column)([\w*]+) \| (\w+) \|", SECTIONS[section], re.MULTILINE))


def expected(section: str) -> dict[str, str]:
    """What the page says, with the columns of `devices` from `n` on repeated where it says so."""
    columns = listed(section)
    measured = list(listed("devices").items())
    first = [name for name, _ in measured].index("n")
    for prefix in re.findall(r"`(h2d_|d2h_|both_)`", SECTIONS[section]):
        columns |= {f"{prefix}{name}": dtype for name, dtype in measured[first:]}
    return columns


def dtypes(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in frame.dtypes.items()}


@pytest.mark.parametrize("table", TABLES)
def test_each_column_of_a_report_table_is_listed_with_its_dtype(table: TableName) -> None:
    actual, said = dtypes(samples.stepped().to_frame(table)), expected(table)
    for column, dtype in actual.items():
        (pattern,) = [name for name in said if fnmatch.fnmatchcase(column, name)]
        assert said[pattern] == dtype, column
    for pattern in said:
        assert any(fnmatch.fnmatchcase(column, pattern) for column in actual), pattern


def test_each_column_of_the_activities_is_listed_with_its_dtype() -> None:
    assert listed("activities") == dtypes(read_trace(h200("micro_duplex")).activities)


def test_each_column_of_the_transfers_is_listed_with_its_dtype() -> None:
    assert listed("transfers") == dtypes(read_trace(h200("micro_duplex")).transfers())


def test_the_page_has_a_section_for_each_table() -> None:
    assert tuple(SECTIONS) == (*TABLES, "activities", "transfers")
