"""No file makes a command run forever, and signals come through while SQLite works."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import struct
import threading
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoverlap.cli import main
from nsysoverlap.core.errors import TraceFileError
from nsysoverlap.core.interrupts import Terminated, interrupts_raised
from nsysoverlap.show.blocks import Table
from nsysoverlap.show.interface import Layout
from nsysoverlap.show.text import blocks_as_text
from nsysoverlap.trace.database import connect, probe, translated_errors
from nsysoverlap.trace.guard import few_rows

from .readerkit import execute
from .traces import h200

ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT {} FROM r"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"


def endless(path: Path, n_bytes: int) -> None:
    with translated_errors("t.sqlite"), closing(connect(path)) as connection:
        connection.guard(n_bytes)
        connection.execute(ENDLESS.format("count(x)")).fetchall()


def test_work_ends_with_what_the_file_is_worth() -> None:
    with pytest.raises(TraceFileError, match="more work than a file of its size could need"):
        endless(h200("micro_hidden"), 1_000)


def test_a_large_file_may_ask_for_more() -> None:
    """Ten million rows are nothing to a gigabyte, and too many for a kilobyte."""
    query = f"SELECT count(x) FROM ({ENDLESS.format('x')} LIMIT 10000000)"
    with closing(connect(h200("micro_hidden"))) as connection:
        connection.guard(1 << 30)
        assert connection.execute(query).fetchone() == (10_000_000,)
        connection.guard(1 << 10)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            connection.execute(query).fetchone()


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_signals_come_through(number: signal.Signals, error: type[BaseException]) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), number))
    timer.start()
    try:
        with pytest.raises(error), interrupts_raised():
            endless(h200("micro_hidden"), 1 << 50)
    finally:
        timer.join()


def test_a_small_table_of_many_rows() -> None:
    with closing(connect(h200("micro_hidden"))) as connection:
        with pytest.raises(TraceFileError, match="more rows than its file can hold"):
            few_rows(connection, ENDLESS.format("x"))
        # Half a megabyte of text is more than a file of a quarter holds.
        with pytest.raises(TraceFileError, match="more rows"):
            few_rows(connection, "SELECT printf('%.*c', 500000, 'x')")
        assert few_rows(connection, "SELECT 1 UNION SELECT 2") == [(1,), (2,)]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE/**/VIRTUAL TABLE {t} USING fts5(a)",
        "CREATE -- x\n VIRTUAL TABLE {t} USING fts5(a)",
    ],
)
@pytest.mark.parametrize("root", [0, 5])
def test_only_true_tables_are_tables(tmp_path: Path, sql: str, root: int) -> None:
    """Whatever the schema says that they are, and wherever their pages should be."""
    path = tmp_path / "t.sqlite"
    shutil.copy(h200("micro_hidden"), path)
    execute(
        path,
        f"DROP TABLE {MEMCPY}",
        f"CREATE TABLE {MEMCPY} (start)",
        "PRAGMA writable_schema = 1",
        f"UPDATE sqlite_master SET rootpage = {root}, sql = ? WHERE name = '{MEMCPY}'",
        values=[sql.format(t=MEMCPY)],
    )
    with closing(connect(path)) as connection:
        assert MEMCPY not in probe(connection, path.name).tables


def test_a_definition_with_comments_is_still_one(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    shutil.copy(h200("micro_hidden"), path)
    execute(path, f"DROP TABLE {MEMCPY}", f"CREATE /* x */ TABLE {MEMCPY} (start, copyKind)")
    with closing(connect(path)) as connection:
        assert MEMCPY in probe(connection, path.name).tables


def bomb(path: Path, table: str, depth: int) -> Path:
    """Pages of a table's tree that all lead to one page below: 200 ** depth times its rows."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        (size,) = db.execute("PRAGMA page_size").fetchone()
        (root,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", [table]
        ).fetchone()
    content = bytearray(path.read_bytes())
    content += content[(root - 1) * size : root * size]
    for _ in range(depth - 1):
        content += interior(size, len(content) // size)
    content[(root - 1) * size : root * size] = interior(size, len(content) // size)
    content[28:32] = struct.pack(">I", len(content) // size)
    path.write_bytes(content)
    return path


def interior(size: int, child: int) -> bytearray:
    page, at, cells = bytearray(size), size, []
    for i in range(200):
        key = bytes([i + 1]) if i < 127 else bytes([0x80 | i + 1 >> 7, i + 1 & 127])
        cell = struct.pack(">I", child) + key
        at -= len(cell)
        page[at : at + len(cell)] = cell
        cells.append(at)
    page[:12] = struct.pack(">BHHHxI", 5, 0, 200, at, child)
    page[12:412] = struct.pack(">200H", *cells)
    return page


@pytest.mark.parametrize("command", ["gate --min-hidden 50", "info", "slim --check"])
@pytest.mark.parametrize("table", ["META_DATA_EXPORT", "StringIds", MEMCPY, "TARGET_INFO_GPU"])
def test_a_tree_that_leads_nowhere_else(tmp_path: Path, table: str, command: str) -> None:
    path = tmp_path / "t.sqlite"
    shutil.copy(h200("jax_unroll_lhs"), path)
    bomb(path, table, 4)
    name, *options = command.split()
    result = CliRunner().invoke(main, [name, str(path), *options])
    # What is left of a table of copies that cannot be read through is no trace to pass.
    assert result.exit_code in ((2, 3) if table == MEMCPY else (2,))


@pytest.mark.parametrize("text", ["\u0301", "\u0301" * 300, "\u200b", "a" * 300])
def test_words_without_width_are_printed(text: str) -> None:
    table = Table("t", (text, text), ((text, text), (text, "x")), n_words=2)
    for width in (1, 2, 20, 80):
        assert blocks_as_text([table], Layout(width, False))
