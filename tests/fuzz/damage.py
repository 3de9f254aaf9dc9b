"""Turn bytes into a damaged export, and hold what is made of it against what is promised.

The same bytes always do the same damage, so a failure is kept as the bytes that caused it.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from nsysoverlap import read_trace
from nsysoverlap.cli.formats import render
from nsysoverlap.core.errors import NsysOverlapError
from nsysoverlap.run.analysis import Options, analyze_trace
from nsysoverlap.run.transfer_table import transfer_rows
from nsysoverlap.slim import slim_trace
from nsysoverlap.steps.plan import StepSpec

from ..casekit import Scene
from ..readerkit import assert_same, everything, read_through_sqlite, sound
from ..tracebuilder import TraceBuilder

VALUES: tuple[object, ...] = (
    *(None, 0, 1, -1, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63), 255, 7),
    *(0.5, 1e300, float("inf"), "", " ", "12", "x" * 5000, "\x00", "'; DROP TABLE t; --", "\u202e"),
    *(b"", b"\xff\xfe", b"\x00" * 99, "step 1", "Thunk:#hlo_op=a(", "XlaModule:#hlo_module=m#"),
)
COLUMNS = (
    "start",
    '"end"',
    "streamId",
    "correlationId",
    "globalPid",
    "deviceId",
    "bytes",
    "copyKind",
)
MAX_CHANGES = 40


def bases() -> list[TraceBuilder]:
    """Traces with something in every table that is read, waits between streams among them."""
    scene = Scene()
    for step in range(3):
        at = 1_000 * step
        scene.label(f"step {step}", at, at + 900)
        scene.label("Thunk:#hlo_op=copy-start.1#", at + 1, at + 9)
        scene.run("h2d", 20, at + 2, at + 100, at + 300)
        scene.record(20, at + 10, step)
        scene.wait(7, at + 11, step)
        scene.run("compute", 7, at + 12, at + 310, at + 800)
        scene.run("d2h", 21, at + 13, at + 400, at + 900, graph=step == 2)
    return [everything(), scene.builder]


class Bytes:
    """Numbers out of bytes, zeros once they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def below(self, limit: int) -> int:
        """A number below `limit`, of as many bytes as that takes."""
        size = max(1, (limit.bit_length() + 7) // 8)
        part = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(part, "little") % limit


def damage(data: bytes, exports: list[bytes], path: Path) -> Path:
    """Write one of the exports to `path`, damaged as the bytes say."""
    numbers = Bytes(data)
    content = bytearray(exports[numbers.below(len(exports))])
    kind = numbers.below(4)
    if kind == 0:
        for _ in range(MAX_CHANGES):
            if numbers:
                content[numbers.below(len(content))] = numbers.below(256)
    elif kind == 1:
        del content[numbers.below(len(content)) :]
    path.write_bytes(bytes(content))
    if kind >= 2:
        try:
            with closing(sqlite3.connect(path)) as db:
                db.execute("PRAGMA synchronous = OFF")
                for _ in range(MAX_CHANGES):
                    if numbers:
                        _change(db, numbers)
                db.commit()
        except sqlite3.Error:
            # A change that SQLite refuses is none.
            pass
    return path


def _change(db: sqlite3.Connection, numbers: Bytes) -> None:
    """One change that a third party might make to a table."""
    names = [
        str(name)
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
    ]
    if not names:
        return
    table = names[numbers.below(len(names))]
    columns = [str(row[1]) for row in db.execute(f'PRAGMA table_info("{table}")')]
    column = columns[numbers.below(len(columns))]
    value = VALUES[numbers.below(len(VALUES))]
    what = numbers.below(8)
    if what < 3:
        db.execute(f'CREATE TABLE "new" AS SELECT * FROM "{table}"')
        db.execute(f'UPDATE "new" SET "{column}" = ? WHERE rowid % 3 = ?', (value, what))
        db.execute(f'DROP TABLE "{table}"')
        db.execute(f'ALTER TABLE "new" RENAME TO "{table}"')
    elif what == 3:
        # Limited, for forty times twice the rows would fill any disk.
        db.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" LIMIT 500')
    elif what == 4:
        db.execute(f'DELETE FROM "{table}" WHERE rowid % 2')
    elif what == 5 and len(columns) > 1:
        db.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    elif what == 6:
        db.execute(f'DROP TABLE "{table}"')
    else:
        number = numbers.below(2**32) - 2**31
        db.execute(f'UPDATE "{table}" SET "{column}" = "{column}" + ?', (number,))


def _refused(error: NsysOverlapError) -> str:
    # One line, and nothing in it that could upset a terminal.
    assert error.message.isprintable(), error.message
    assert "bug in nsysoverlap" not in str(error)
    return "error"


def _copied(path: Path) -> str:
    """A copy to share gives the same report, or there is none; see `slim_trace`."""
    target = path.with_name("slim.sqlite")
    try:
        slim_trace(path, target, Options())
    except NsysOverlapError as error:
        assert not target.exists()
        return _refused(error)
    target.unlink()
    return "copy"


def check(path: Path) -> str:
    """Read, measure and print an export; returns how that ended.

    Anything but a report and an error of ours comes out as it is.
    """
    outcomes = []
    for steps in ("auto", "none"):
        try:
            trace = read_trace(path)
            if steps == "auto" and sound(path):
                assert_same(trace, read_through_sqlite(path))
            report = analyze_trace(trace, Options(steps=StepSpec(steps)))
        except NsysOverlapError as error:
            outcomes.append(_refused(error))
            continue
        text = render(report, "text")
        assert all(char.isprintable() or char == "\n" for char in text)
        json.loads(render(report, "json"))
        render(report, "markdown")
        for device in report.devices:
            start, end = device.window_ns
            assert device.time_budget.total_ns <= max(0, end - start)
        transfer_rows(trace, Options())
        outcomes.append("report" if report.conclusive else "inconclusive")
    outcomes.append(_copied(path))
    return " ".join(outcomes)
