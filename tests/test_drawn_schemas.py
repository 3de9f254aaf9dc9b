"""The decoder of pages gives what SQLite gives, over drawn tables of every width and kind."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nsysoverlap.trace import bulk

from .drawn import drawn
from .test_pages import rows, table_of

SEED = 20_261_201
WIDTHS = (1, 2, 3, 17, 125, 126, 127, 128, 129, 130, 255, 256, 257, 300)
ROWS = 50


def draw(choose: random.Random, path: Path) -> tuple[list[str], list[str]]:
    """A table `t` in a new file; its columns of integers, and those of texts."""
    width = choose.choice(WIDTHS) if choose.random() < 0.5 else choose.randint(1, 300)
    texts = {i for i in range(width) if choose.random() < choose.choice((0.0, 0.1, 0.5))}
    later = choose.choice((0, 0, 0, 1, 3)) if width > 4 else 0
    kinds = [
        "TEXT" if i in texts else choose.choice(("INTEGER", "INTEGER", "")) for i in range(width)
    ]
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA page_size = {choose.choice((512, 1024, 4096, 4096, 8192, 65536))}")
        db.execute(
            f"PRAGMA encoding = '{choose.choice(('UTF-8', 'UTF-8', 'UTF-16le', 'UTF-16be'))}'"
        )
        db.execute(f"PRAGMA auto_vacuum = {choose.choice((0, 0, 1, 2))}")
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        names = [f"c{i}" for i in range(width)]
        declared = [f"{name} {kind}" for name, kind in zip(names, kinds, strict=True)]
        db.execute(f"CREATE TABLE t ({', '.join(declared[: width - later])})")
        small = choose.random() < 0.7
        pools = [[_value(choose, kind, small) for _ in range(60)] for kind in ("INTEGER", "TEXT")]
        for n_columns in {width - later, width}:
            for declaration in declared[width - later : n_columns]:
                default = choose.choice(("", "", " DEFAULT 7")) if "TEXT" not in declaration else ""
                db.execute(f"ALTER TABLE t ADD COLUMN {declaration}{default}")
            marks = ", ".join("?" * (n_columns + 1))
            there = ", ".join(["rowid", *names[:n_columns]])
            n_rows = ROWS // (2 if later else 1)
            columns = [
                choose.choices(pools[kind == "TEXT"], k=n_rows) for kind in kinds[:n_columns]
            ]
            rowids = [_rowid(choose) for _ in range(n_rows)]
            db.executemany(
                f"INSERT OR IGNORE INTO t ({there}) VALUES ({marks})",
                zip(rowids, *columns, strict=True),
            )
        if choose.random() < 0.2:
            db.execute("DELETE FROM t WHERE rowid % 3 = 0")
        db.commit()
    return [n for i, n in enumerate(names) if i not in texts], [f"c{i}" for i in sorted(texts)]


def _rowid(choose: random.Random) -> int | None:
    kind = choose.random()
    if kind < 0.7:
        return None
    return choose.randint(-5, 10**4) if kind < 0.9 else choose.getrandbits(choose.choice((20, 40)))


def _value(choose: random.Random, kind: str, small: bool) -> int | str | None:
    if choose.random() < 0.15:
        return None
    if kind == "TEXT":
        return "ä" * choose.choice((0, 1, 5, 20) if small else (0, 5, 57, 58, 130, 900))
    bits = choose.choice((0, 1, 7, 8, 15, 16, 24, 32, 47, 48, 62))
    return choose.getrandbits(bits) * choose.choice((1, -1)) if bits else choose.randint(0, 1)


def expected(path: Path, integers: list[str], texts: list[str]) -> list[tuple[int, ...]]:
    columns = [f"ifnull({name}, -7)" for name in integers]
    columns += [f"ifnull(length(CAST({name} AS BLOB)), 0)" for name in texts]
    with closing(sqlite3.connect(path)) as db:
        found = db.execute(f"SELECT rowid, {', '.join(columns)} FROM t ORDER BY rowid").fetchall()
    return [tuple(row) for row in found]


def run(n: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Rows that were compared, and schemas of which SQLite had to read any."""
    left: list[int] = []
    real = bulk._read_range

    def counted(*arguments: object) -> object:
        left.append(1)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bulk, "_read_range", counted)
    n_rows = n_left = 0
    for i in range(n):
        choose = random.Random(SEED + i)
        integers, texts = draw(choose, path)
        integers = choose.sample(integers, min(len(integers), 6))
        texts = choose.sample(texts, min(len(texts), 2))
        if not integers and not texts:
            continue
        _, query = table_of(path, " ".join(integers), " ".join(texts))
        left.clear()
        found, wanted = rows(path, query), expected(path, integers, texts)
        assert found == wanted, f"seed {SEED + i}"
        n_rows, n_left = n_rows + len(wanted), n_left + bool(left)
    return n_rows, n_left


def test_drawn_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n_rows, n_left = run(150, tmp_path / "t.sqlite", monkeypatch)
    assert n_rows > 5_000
    # Or nothing of the decoder would be tried.
    assert n_left < 100


@pytest.mark.slow
def test_many_rows_of_many_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n_rows, n_left = run(drawn(24_000), tmp_path / "t.sqlite", monkeypatch)
    print(n_rows, "rows,", n_left, "schemas left to SQLite")
    assert n_rows >= drawn(1_000_000)


@pytest.mark.parametrize("width", [*range(1, 20), *range(120, 136), *range(250, 260), 300])
def test_every_width(width: int, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    names = [f"c{i}" for i in range(width)]
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE TABLE t ({', '.join(f'{name} INTEGER' for name in names)})")
        marks = ", ".join("?" * width)
        for i in range(3):
            db.execute(f"INSERT INTO t VALUES ({marks})", [i * (j - 150) for j in range(width)])
        db.commit()
    wanted = names[:: max(1, width // 4)]
    _, query = table_of(path, " ".join(wanted))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "_read_range", None)
        assert rows(path, query) == expected(path, wanted, [])


@pytest.mark.parametrize("length", [57, 58, 200])
def test_long_texts_leave_nothing_to_sqlite(length: int, tmp_path: Path) -> None:
    """From 58 bytes on the type of a text takes two bytes, in this row or in that."""
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (a INTEGER, b TEXT, c INTEGER)")
        values = [(i, "x" * (length if i % 2 else 3), -(2**i)) for i in range(40)]
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", values)
        db.commit()
    _, query = table_of(path, "a c", "b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "_read_range", None)
        assert rows(path, query) == expected(path, ["a", "c"], ["b"])
