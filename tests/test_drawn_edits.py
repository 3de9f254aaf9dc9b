"""No gate passes on a real trace that lost rows beyond the limits, or holds impossible times.

What is lost is counted here once more, from the file itself.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from nsysoverlap.core.errors import TraceFileError
from nsysoverlap.judge.evaluate import check
from nsysoverlap.judge.verdicts import Status
from nsysoverlap.run.analysis import analyze

from .drawn import drawn
from .readerkit import KERNEL, MEMCPY, MEMSET
from .traces import h200

SMALL = ("micro_hidden", "micro_serial", "micro_duplex", "micro_samedir", "micro_pageable")
LARGE = ("ddp_two_procs", "jax_unroll_lhs", "jax_scan_lhs", "jax_capture_prefetch", "jax_fsdp2_lhs")
SEED = 20_261_201
LAUNCH = re.compile(r"cu(da)?Launch(Cooperative)?Kernel")
COPY = re.compile(r"cu(da)?Memcpy\w*Async")
ALWAYS_MET = ("both.n >= 0", "both.exposed_ms <= 3600s", "both.wall_ms >= 0")

Db = sqlite3.Connection
Edit = Callable[[Db, random.Random], bool]
"""Changes the trace; True where what it leaves is impossible."""


def tables(db: Db) -> list[str]:
    there = {str(name) for (name,) in db.execute("SELECT name FROM sqlite_master")}
    return [name for name in (KERNEL, MEMCPY, MEMSET) if name in there]


def span(db: Db, table: str) -> tuple[int, int]:
    low, high = db.execute(f'SELECT min(start), max("end") FROM {table}').fetchone()
    return low or 0, high or 1


def single_rows(db: Db, choose: random.Random) -> bool:
    table = choose.choice(tables(db))
    rows = [row for (row,) in db.execute(f"SELECT rowid FROM {table}")]
    gone = choose.sample(rows, min(len(rows), choose.choice((1, 1, 2, 5, 50))))
    db.executemany(f"DELETE FROM {table} WHERE rowid = ?", [(row,) for row in gone])
    return False


def whole_table(db: Db, choose: random.Random) -> bool:
    db.execute(f"{choose.choice(('DELETE FROM', 'DROP TABLE'))} {choose.choice(tables(db))}")
    return False


def whole_process(db: Db, choose: random.Random) -> bool:
    processes = [pid for (pid,) in db.execute(f"SELECT DISTINCT globalPid FROM {KERNEL}")]
    pid = choose.choice(processes)
    for table in tables(db):
        db.execute(f"DELETE FROM {table} WHERE globalPid = ?", (pid,))
    return False


def span_of_time(db: Db, choose: random.Random) -> bool:
    low, high = span(db, KERNEL)
    begin = choose.randint(low, high)
    end = min(high, begin + int((high - low) * choose.choice((0.01, 0.1, 0.3, 1.0))))
    for table in choose.choice(([choose.choice(tables(db))], tables(db))):
        db.execute(f"DELETE FROM {table} WHERE start BETWEEN ? AND ?", (begin, end))
    return False


def one_kind(db: Db, choose: random.Random) -> bool:
    db.execute(f"DELETE FROM {MEMCPY} WHERE copyKind = ?", (choose.choice((1, 2, 8)),))
    return False


def some_of(db: Db, table: str, choose: random.Random, condition: str = "1") -> list[tuple[int]]:
    rows = db.execute(f"SELECT rowid FROM {table} WHERE {condition}").fetchall()
    return choose.sample(rows, min(len(rows), choose.choice((1, 3, 20))))


def no_length(db: Db, choose: random.Random) -> bool:
    # As little as no link can do: 100 kB in 1 ns are 100 TB/s.
    rows = some_of(db, MEMCPY, choose, "bytes > 100000 AND copyKind IN (1, 2)")
    took = choose.randint(0, 1)
    db.executemany(f'UPDATE {MEMCPY} SET "end" = start + {took} WHERE rowid = ?', rows)
    return bool(rows)


def twice(db: Db, choose: random.Random) -> bool:
    table = choose.choice([t for t in tables(db) if t != MEMSET])
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    rows = some_of(db, table, choose, "graphNodeId IS NULL" if "graphNodeId" in columns else "1")
    db.executemany(f"INSERT INTO {table} SELECT * FROM {table} WHERE rowid = ?", rows)
    return bool(rows)


def outside(db: Db, choose: random.Random) -> bool:
    table = choose.choice(tables(db))
    rows = some_of(db, table, choose)
    by = choose.choice((-(10**12), 10**12))
    db.executemany(
        f'UPDATE {table} SET start = start + {by}, "end" = "end" + {by} WHERE rowid = ?', rows
    )
    there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'ANALYSIS_DETAILS'").fetchone()
    return bool(rows and there)


EDITS: tuple[Edit, ...] = (
    *(single_rows, whole_table, whole_process, span_of_time, one_kind),
    *(no_length, twice, outside),
)


def loss(path: Path) -> bool:
    """Whether more is lost than the limits allow, by plain Python over the file."""
    with closing(sqlite3.connect(path)) as db:
        names = dict(db.execute("SELECT id, value FROM StringIds"))
        calls = db.execute(
            'SELECT start, "end", globalTid, correlationId, nameId '
            "FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start"
        ).fetchall()
        ids: dict[int, set[int]] = defaultdict(set)
        first: dict[int, int] = {}
        for table in tables(db):
            for pid, correlation, start in db.execute(
                f"SELECT globalPid, correlationId, start FROM {table}"
            ):
                ids[pid].add(correlation)
                first[pid] = min(first.get(pid, start), start)
    asked: dict[int, list[tuple[int, bool, bool]]] = defaultdict(list)
    last: dict[int, int] = {}
    for start, end, tid, correlation, name_id in calls:
        pid, name = tid & ~0xFFFFFF, names[name_id]
        found = correlation in ids[pid]
        if found:
            last[pid] = max(last.get(pid, start), start)
        is_copy = bool(COPY.match(name))
        if (is_copy and end - start >= 1_000) or LAUNCH.match(name):
            asked[pid].append((start, is_copy, found))
    return any(_lost(asked[pid], first.get(pid), last.get(pid)) for pid in asked)


def _lost(calls: Sequence[tuple[int, bool, bool]], first: int | None, last: int | None) -> bool:
    if first is None or last is None:
        return bool(calls)
    between = [call for call in calls if first <= call[0] <= last]
    kernels = [found for _, is_copy, found in between if not is_copy]
    return (
        any(is_copy and not found for _, is_copy, found in between)
        or kernels.count(False) > 0.001 * len(kernels)
        or sum(start > max(last, first - 1) for start, _, _ in calls) > 0.05 * len(calls)
    )


def try_edit(seed: int, folder: Path) -> str:
    """Edit a trace as the seed says; what became of the gate, and whether it had to stop."""
    choose = random.Random(seed)
    name = choose.choice(LARGE if choose.random() < 0.3 else SMALL)
    edit = choose.choice(EDITS)
    path = folder / "t.sqlite"
    path.write_bytes(h200(name).read_bytes())
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA journal_mode = OFF")
        impossible = edit(db, choose)
        db.commit()
    must_stop = impossible or loss(path)
    try:
        status = check(analyze(path, steps="none"), ALWAYS_MET).status
    except TraceFileError:
        status = Status.INCONCLUSIVE
    if must_stop:
        assert status is not Status.PASSED, f"seed {seed}: {edit.__name__} of {name} passed"
    return f"{edit.__name__} {'must stop' if must_stop else 'may pass'}: {status.value}"


def run(n: int, folder: Path) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for i in range(n):
        found[try_edit(SEED + i, folder)] += 1
    return dict(sorted(found.items()))


def test_drawn_edits(tmp_path: Path) -> None:
    found = run(60, tmp_path)
    assert sum(n for what, n in found.items() if "must stop" in what) > 20
    assert sum(n for what, n in found.items() if "may pass: pass" in what) > 3


@pytest.mark.slow
def test_many_drawn_edits(tmp_path: Path) -> None:
    found = run(drawn(2_000), tmp_path)
    print(found)
    assert all(f"{edit.__name__} must stop: inconclusive" in found for edit in EDITS)
