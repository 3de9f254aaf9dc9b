"""Traces edited to fool the gate: the table of docs/gate.md says what is right for each."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nsysoverlap.cli import main

from .readerkit import KERNEL, MEMCPY, RUNTIME, execute
from .test_guard import bomb
from .traces import h200

PAGE = Path(__file__).parents[1] / "docs" / "gate.md"
GPU_TABLES = (KERNEL, MEMCPY, "CUPTI_ACTIVITY_KIND_MEMSET")
COPYING = "nameId IN (SELECT id FROM StringIds WHERE value LIKE 'cu%Memcpy%Async%')"
MIDDLE = f'(SELECT (min(start) + max("end")) / 2 FROM {KERNEL})'


def table() -> dict[str, tuple[int, str]]:
    """Case -> exit code and what is said, as the page has it."""
    section = PAGE.read_text(encoding="utf-8").split("## Cases")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row] for row in rows[1:] if not row[0].startswith("---")]
    return {name: (int(code), said) for name, code, said in cells}


def copied(at: Path, name: str = "jax_unroll_lhs", to: str = "t.sqlite") -> Path:
    shutil.copy(h200(name), at / to)
    (at / to).chmod(0o644)
    return at / to


def cut(at: Path, *statements: str, name: str = "jax_unroll_lhs") -> Path:
    return execute(copied(at, name), *statements)


def gate(path: Path, *options: object) -> Result:
    words = options or ("--min-hidden", 50)
    return CliRunner().invoke(main, ["gate", str(path), *map(str, words)])


def columns_128(at: Path) -> Result:
    path = copied(at)
    with closing(sqlite3.connect(path)) as db:
        known = db.execute(f"PRAGMA table_info({MEMCPY})").fetchall()
        extra = [f"x{i}" for i in range(128 - len(known))]
        declared = ", ".join([f'"{c[1]}" {c[2]}' for c in known] + [f"{x} INTEGER" for x in extra])
        names = ", ".join(f'"{c[1]}"' for c in known)
        db.execute(f"CREATE TABLE n ({declared})")
        sevens = ", ".join("7" for _ in extra)
        db.execute(f"INSERT INTO n SELECT {names}, {sevens} FROM {MEMCPY} ORDER BY rowid")
        db.execute(f"DROP TABLE {MEMCPY}")
        db.execute(f"ALTER TABLE n RENAME TO {MEMCPY}")
        db.commit()
    return gate(path)


def lost_process(at: Path) -> Result:
    gone = [f"DELETE FROM {t} WHERE globalPid = 281760625590272" for t in GPU_TABLES]
    return gate(cut(at, *gone, name="ddp_two_procs"), "--min-hidden", 90)


def half(at: Path, which: str) -> Result:
    return gate(
        cut(
            at,
            *(f"DELETE FROM {t} WHERE start {which} {MIDDLE}" for t in GPU_TABLES[1:]),
            f"DELETE FROM {KERNEL} WHERE start {which} {MIDDLE}",
        ),
        "--min-hidden",
        20,
    )


def same_ranks(at: Path, *options: object) -> Result:
    (at / "r").mkdir()
    for rank in (0, 1, 3):
        copied(at / "r", to=f"rank{rank}.sqlite")
    return gate(at / "r", "--min-hidden", 50, "--require-transfers", "1GiB", *options)


def stale(at: Path) -> Result:
    (at / "s").mkdir()
    path = copied(at / "s", to="train.sqlite")
    two_days_ago = path.stat().st_mtime - 172_800
    os.utime(path, (two_days_ago, two_days_ago))
    (at / "s" / "train.nsys-rep").write_bytes(bytes(200))
    return gate(at / "s")


def other_rules(at: Path) -> Result:
    path, baseline, rules = copied(at), at / "b.json", at / "r.toml"
    rules.write_text('[[rule]]\npattern = "nvjet"\nrole = "comm"\n')
    assert gate(path, "--config", rules, "--write-baseline", baseline).exit_code == 0
    return gate(path, "--baseline", baseline)


def zero_width(at: Path) -> Result:
    path = cut(
        at,
        "DELETE FROM META_DATA_CAPTURE",
        "DELETE FROM META_DATA_EXPORT",
        "INSERT INTO META_DATA_CAPTURE VALUES ('CAPTURE_EVENT_TYPE', char(769))",
    )
    return CliRunner().invoke(main, ["info", str(path)])


def slimmed(at: Path) -> Result:
    flags = 'XLA_FLAGS="--xla_dump_to=/home/alice/My Merger Acme Plan/dump"'
    path = cut(
        at,
        f"INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_1:ENVIRONMENT_VARIABLE', '{flags}')",
        "INSERT INTO META_DATA_CAPTURE VALUES "
        "('/home/alice/x:ENVIRONMENT_VARIABLE', 'JAX_PLATFORMS=\"cuda\"')",
        "INSERT INTO DIAGNOSTIC_EVENT (timestamp, timestampType, source, severity, text) VALUES "
        "(0, 0, 0, 2, 'Cannot open ''C:\\Users\\alice\\Merger Acme Plan\\r.nsys-rep''')",
    )
    result = CliRunner().invoke(main, ["slim", str(path), str(at / "out.sqlite")])
    content = (at / "out.sqlite").read_bytes()
    assert b"Acme" not in content
    assert b"alice" not in content
    return result


def message(at: Path, severity: object, text: str) -> Result:
    path = copied(at)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE DIAGNOSTIC_EVENT")
        db.execute("CREATE TABLE DIAGNOSTIC_EVENT (severity, text)")
        db.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (?, ?)", (severity, text))
        db.commit()
    return gate(path)


def virtual(at: Path) -> Result:
    numbers = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"
    columns = 'x AS rowid, x AS start, x AS "end", x AS bytes, x AS copyKind'
    hidden = "replace(sql, 'CREATE VIRTUAL', 'CREATE/**/VIRTUAL')"
    return gate(
        cut(
            at,
            f"DROP TABLE {MEMCPY}",
            f"CREATE VIEW v AS {numbers} SELECT {columns} FROM r",
            f'CREATE VIRTUAL TABLE {MEMCPY} USING fts5(start, "end", bytes, copyKind, content=v)',
            "PRAGMA writable_schema = 1",
            f"UPDATE sqlite_master SET sql = {hidden} WHERE name = '{MEMCPY}'",
        )
    )


CASES: dict[str, Callable[[Path], Result]] = {
    "01 columns": columns_128,
    "02 A": lambda at: gate(cut(at, f"DELETE FROM {MEMCPY} WHERE copyKind = 1")),
    "02 B": lambda at: gate(
        cut(at, f"DELETE FROM {MEMCPY} WHERE start > {MIDDLE}"), "--max-exposed-ms", 30
    ),
    "02 C": lost_process,
    "02 one copy lost": lambda at: gate(cut(at, f"DELETE FROM {MEMCPY} WHERE rowid = 100")),
    "02 the second half": lambda at: half(at, ">"),
    "02 half of the kernels": lambda at: gate(
        cut(at, f"DELETE FROM {KERNEL} WHERE rowid % 2"), "--max-exposed-ms", 1_000
    ),
    "02 the first half": lambda at: half(at, "<"),
    "03 D": lambda at: gate(
        cut(at, f'UPDATE {MEMCPY} SET "end" = start WHERE copyKind = 1 AND bytes > 1000000')
    ),
    "03 D2": lambda at: gate(
        cut(at, f'UPDATE {MEMCPY} SET "end" = start + 1 WHERE copyKind = 1 AND bytes > 1000000')
    ),
    "03 copies twice": lambda at: gate(cut(at, f"INSERT INTO {MEMCPY} SELECT * FROM {MEMCPY}")),
    "03 E": same_ranks,
    "03 E2": lambda at: same_ranks(at, "--ranks", 4),
    "03 F": stale,
    "03 G": other_rules,
    "05 bomb": lambda at: gate(bomb(copied(at), "META_DATA_EXPORT", 4)),
    "06 zero-width settings in `info`": zero_width,
    "07 slim": slimmed,
    "10 a message of lost events at severity 3": lambda at: message(
        at, 3, "CUPTI buffer overflow: 120000 GPU events were dropped"
    ),
    "10 the same word at severity null": lambda at: message(
        at, None, "Error when processing events: x"
    ),
    "11 virtual": virtual,
    "12 synchronous copies": lambda at: gate(
        cut(
            at,
            f"UPDATE {RUNTIME} SET nameId = (SELECT max(id) + 1 FROM StringIds) WHERE {COPYING}",
            "INSERT INTO StringIds SELECT max(id) + 1, 'cudaMemcpy_v3020' FROM StringIds",
            f"DELETE FROM {MEMCPY} WHERE copyKind = 1",
        )
    ),
    "13 H2D copies called": lambda at: gate(
        cut(at, f"UPDATE {MEMCPY} SET copyKind = 8 WHERE copyKind = 1")
    ),
    "14 kernels of the other GPU": lambda at: gate(
        cut(at, f"UPDATE {KERNEL} SET deviceId = 0", name="jax_fsdp2_lhs")
    ),
    "15 H2D copies cut to half": lambda at: gate(
        cut(at, f'UPDATE {MEMCPY} SET "end" = (start + "end") / 2 WHERE copyKind = 1')
    ),
    "16 one kernel": lambda at: gate(
        cut(
            at,
            f'UPDATE {KERNEL} SET "end" = (SELECT max("end") FROM {KERNEL}) WHERE rowid = 15',
            "DROP TABLE ANALYSIS_DETAILS",
            name="jax_fsdp2_lhs",
        )
    ),
    "17 kernels 20 ms earlier": lambda at: gate(
        cut(
            at,
            f'UPDATE {KERNEL} SET start = start - 20000000, "end" = "end" - 20000000',
            "DROP TABLE ANALYSIS_DETAILS",
            name="jax_fsdp2_lhs",
        )
    ),
    "18 calls of copies": lambda at: gate(
        cut(
            at,
            f"DELETE FROM {RUNTIME} WHERE {COPYING}",
            f"DELETE FROM {MEMCPY} WHERE copyKind = 1",
        )
    ),
    "19 copies whose calls": lambda at: gate(
        cut(
            at,
            f"UPDATE {RUNTIME} SET correlationId = 0 WHERE {COPYING}",
            f"DELETE FROM {MEMCPY} WHERE copyKind = 1",
        )
    ),
    "20 half of the steps unmarked": lambda at: gate(
        cut(at, f"DELETE FROM NVTX_EVENTS WHERE start < {MIDDLE}")
    ),
    "no CUDA API calls at all": lambda at: gate(
        cut(at, "DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME"), "--steps", "none", "--min-hidden", 50
    ),
    "an option of one value given twice": lambda at: gate(
        copied(at), "--min-hidden", 10, "--min-hidden", 90
    ),
}


def test_every_case_of_the_table_is_tried() -> None:
    names = [name for name in table() if sum(_is(name, case) for case in CASES) != 1]
    assert names == []
    assert len(table()) == len(CASES)


def _is(name: str, case: str) -> bool:
    return name == case or name.startswith((f"{case}:", f"{case} "))


@pytest.mark.parametrize("case", CASES)
def test_a_case(case: str, tmp_path: Path) -> None:
    (expected,) = (found for name, found in table().items() if _is(name, case))
    code, said = expected
    result = CASES[case](tmp_path)
    text = " ".join(f"{result.stdout} {result.stderr}".split())
    assert (result.exit_code, said in text) == (code, True), text


@pytest.mark.parametrize("limit", [90, 59])
def test_the_whole_trace_is_judged_by_its_numbers(tmp_path: Path, limit: int) -> None:
    assert gate(copied(tmp_path), "--min-hidden", limit).exit_code == (limit == 90)
