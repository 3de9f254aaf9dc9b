"""A trace tells the same whenever it was recorded, also where its times are below zero."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nsysoverlap.run.analysis import analyze

from .traces import h200, h200_names


def shifted(source: Path, target: Path, shift_ns: int) -> Path:
    """A copy exported with a time shift; rows without times keep their zeros."""
    shutil.copyfile(source, target)
    with closing(sqlite3.connect(target)) as connection, connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for table in tables:
            columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            if "start" in columns and "end" in columns:
                connection.execute(
                    f'UPDATE "{table}" SET start = start + ?, "end" = "end" + ? WHERE start != 0',
                    (shift_ns, shift_ns),
                )
        # As nsys notes it: the length of the collection is counted from there.
        connection.execute(
            "UPDATE META_DATA_EXPORT SET value = ? WHERE name = 'EXPORT_CONFIG_TIME_SHIFT'",
            (str(shift_ns),),
        )
    return target


def differences(a: Any, b: Any, shift_ns: int, where: str = "") -> Iterator[str]:
    """Places at which two reports differ by more than the time base."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a.keys() | b.keys():
            yield from differences(a.get(key), b.get(key), shift_ns, f"{where}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from differences(x, y, shift_ns, f"{where}[{i}]")
    elif not _same(a, b, shift_ns, text=where.endswith(".text")):
        yield f"{where}: {a!r} became {b!r}"


def _same(a: Any, b: Any, shift_ns: int, *, text: bool) -> bool:
    if text:
        return _instants(a) == _instants(b)
    return bool(a == b) or (type(a) is type(b) is int and b - a == shift_ns)


def _instants(text: str) -> str:
    """A text in which only the times it names are left out."""
    return re.sub(r"-?\d+\.\d{3}( ms)?", "T", text)


@pytest.mark.parametrize("shift_ns", [1_700_000_000_000_000_000, -(10**12)])
@pytest.mark.parametrize("name", h200_names())
def test_nothing_but_the_times_move(name: str, shift_ns: int, tmp_path: Path) -> None:
    source = h200(name)
    moved = shifted(source, tmp_path / source.name, shift_ns)
    before, after = (analyze(path).to_dict() for path in (source, moved))
    assert list(differences(before, after, shift_ns)) == []
    # Without its events, a trace has no device to measure.
    assert bool(before["devices"]) != (name == "jax_fsdp2_events_lost")
