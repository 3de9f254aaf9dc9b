"""Traces published by others: read, measured, and equal to plain SQL. Skipped without them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nsysoverlap import analyze

from .traces import h200, h200_names, programs, public_traces

KINDS = {"h2d": (1, 3), "d2h": (2, 4), "unified_h2d": (11,), "unified_d2h": (12,)}
OURS = (*h200_names(), *programs())
EVERY_TRACE = [*public_traces(), *(pytest.param(h200(name), id=name) for name in OURS)]


def plain_sql(path: Path, kinds: tuple[int, ...]) -> tuple[int, int, int]:
    """n, bytes and summed duration of the copies of some kinds, without staged peer copies."""
    marks = ",".join(map(str, kinds))
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
        names = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        if "CUPTI_ACTIVITY_KIND_MEMCPY" not in names:
            return 0, 0, 0
        row = db.execute(
            "SELECT count(*), ifnull(sum(bytes), 0), ifnull(sum(end - start), 0) "
            f"FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind IN ({marks}) "
            "AND NOT (copyKind IN (1, 2) AND srcKind = 2 AND dstKind = 2)"
        ).fetchone()
        return int(row[0]), int(row[1]), int(row[2])


@pytest.mark.parametrize("path", EVERY_TRACE)
@pytest.mark.parametrize("direction", KINDS)
def test_transfers_equal_plain_sql(path: Path, direction: str) -> None:
    report = analyze(path, steps="none")
    total = report.total(direction)
    copies = (total.n - total.n_by_kernel, total.bytes, total.copy_ns)
    assert copies == plain_sql(path, KINDS[direction])
    if not total.n_by_kernel:
        assert total.busy_ns == total.copy_ns


@pytest.mark.parametrize("path", EVERY_TRACE)
def test_every_device_adds_up(path: Path) -> None:
    for device in analyze(path, steps="none").devices:
        start, end = device.window_ns
        assert device.time_budget.total_ns == end - start > 0
