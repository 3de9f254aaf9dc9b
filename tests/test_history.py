"""The run history: whole runs only, whatever happens to whoever writes it."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nsysoverlap.cli import main
from nsysoverlap.core.errors import ConfigError, NsysOverlapError, UsageError
from nsysoverlap.judge import history_database as database
from nsysoverlap.judge.history_store import (
    content_hash,
    parse_labels,
    read_operations,
    read_runs,
    record,
)
from nsysoverlap.judge.history_tables import VERSION
from nsysoverlap.result.model import OverlapReport
from nsysoverlap.run.analysis import analyze

from .gatekit import control_trace, split_trace, step_trace
from .stepreports import report_of_steps
from .traces import h200

REPO = Path(__file__).parents[1]
DOCS = REPO / "docs" / "history.md"
N_STEPS = 40
REPORT = report_of_steps([(90, 100)] * 4, [(80, 100)] * 4)


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def rows(path: Path, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query, values).fetchall()


def at(day: int) -> datetime:
    return datetime(2025, 1, day, tzinfo=UTC)


def shares(path: Path, values: list[int]) -> Path:
    """A history with one run a value: percent of D2H hidden in each of its steps."""
    for i, value in enumerate(values):
        report = report_of_steps([(value, 100)] * 4)
        record(path, report, f"hash {i}", {"branch": "main"}, now=at(i + 1))
    return path


# What a run becomes.


def test_a_run_is_stored_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    report = analyze(h200("jax_unroll_lhs"))
    run_id = record(db, report, "a hash", {"model": "llama", "branch": "main"}).run_id
    assert [row[0] for row in rows(db, "SELECT id FROM runs")] == [run_id]
    counts = {
        table: rows(db, f"SELECT count(*) FROM {table} WHERE run_id = ?", (run_id,))[0][0]
        for table in ("devices", "steps", "operations", "findings")
    }
    assert counts == {
        "devices": 1,
        "steps": 4,
        "operations": len(report.operations),
        "findings": len(report.findings),
    }
    hidden, wall = rows(db, "SELECT d2h_hidden_by_compute_ns, d2h_wall_ns FROM devices")[0]
    assert (hidden, wall) == (
        report.total("d2h").hidden_by_compute_ns,
        report.total("d2h").wall_ns,
    )
    summed = rows(db, "SELECT sum(h2d_exposed_ns) FROM steps")[0][0]
    assert summed == report.total("h2d").exposed_ns


def test_keys_and_indexes(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    record(db, REPORT, "a", {})
    for table, targets in {
        "devices": {"runs"},
        "steps": {"runs", "devices"},
        "operations": {"runs"},
        "findings": {"runs"},
    }.items():
        assert {row[2] for row in rows(db, f"PRAGMA foreign_key_list({table})")} == targets
        assert rows(db, f"PRAGMA index_list({table})")
    assert rows(db, "PRAGMA foreign_key_check") == []
    plan = rows(db, "EXPLAIN QUERY PLAN SELECT * FROM steps WHERE run_id = 1")
    assert "USING INDEX" in plan[0][3]


def test_what_is_read_is_what_was_stored(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    record(db, REPORT, "a", {"model": "ünï"}, now=at(3))
    (found,) = read_runs(db)
    assert found.labels == {"model": "ünï"}
    assert found.recorded_at == "2025-01-03T00:00:00+00:00"
    assert (found.gpus, found.n_devices, found.n_steps) == ("NVIDIA H200", 2, 4)
    assert found.values["d2h_hidden_share"] == REPORT.total("d2h").hidden_share
    assert found.values["h2d_hidden_share"] is None
    assert found.values["exposed_step_median_ns"] == 20
    assert found.values["step_ns"] == 1000


# Written by version 1, which called a median and a mean by one name: three runs, of which the
# third is micro_hidden with three steps (64,288 ns exposed in all).
FIRST = Path(__file__).parent / "fixtures" / "runs_v1.db"
MEDIANS = [50, 90, 21_184]


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return Path(shutil.copy(FIRST, tmp_path / "runs.db"))


def test_a_history_of_version_1_reads_and_stays_as_it_is(first: Path) -> None:
    found = read_runs(first)
    assert [run.values["exposed_step_median_ns"] for run in found] == MEDIANS
    (operation,) = read_operations(first, 3)
    assert (operation.op, operation.exposed_per_step_ns) == ("step N", round(64_288 / 3))
    assert first.read_bytes() == FIRST.read_bytes()


def test_recording_brings_a_history_of_version_1_up_to_date(first: Path, tmp_path: Path) -> None:
    report = analyze(h200("micro_hidden"))
    record(first, report, "a new hash", {"branch": "main"}, now=at(9))
    record(tmp_path / "new.db", report, "a new hash", {})
    (version,) = rows(first, "PRAGMA user_version")[0]
    assert version == VERSION
    for table in ("runs", "devices", "steps", "operations", "findings"):
        columns = [
            {row[1]: row[2] for row in rows(db, f"PRAGMA table_info({table})")}
            for db in (first, tmp_path / "new.db")
        ]
        assert columns[0] == columns[1]
    assert [run.values["exposed_step_median_ns"] for run in read_runs(first)] == [
        *MEDIANS,
        MEDIANS[-1],
    ]
    assert [len(read_operations(first, i)) for i in (3, 4)] == [1, 1]
    assert read_operations(first, 3)[0].exposed_per_step_ns == 21_429
    assert read_operations(first, 4)[0].exposed_per_step_ns == 21_429
    assert len(read_runs(first, search="main")) == 4


def test_operations_come_back(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    report = analyze(h200("jax_unroll_lhs"))
    run_id = record(db, report, "a", {}).run_id
    key = [(o.op, o.label, o.direction, o.exposed_per_step_ns) for o in report.operations]
    found = read_operations(db, run_id)
    assert [(o.op, o.label, o.direction, o.exposed_per_step_ns) for o in found] == key
    assert [o.overlap.wall_ns for o in found] == [o.overlap.wall_ns for o in report.operations]


# Once, and again.


def test_the_same_traces_are_stored_once(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    first = record(db, REPORT, "a", {"x": "1"})
    again = record(db, REPORT, "a", {"x": "2"})
    assert (first.is_new, again.is_new) == (True, False)
    assert first.run_id == again.run_id
    assert [found.labels for found in read_runs(db)] == [{"x": "1"}]


def test_replacing_leaves_nothing_behind(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    record(db, analyze(h200("jax_unroll_lhs")), "a", {"x": "old"})
    record(db, REPORT, "b", {"x": "other"})
    assert record(db, REPORT, "a", {"x": "new"}, replace=True).is_new
    assert sorted(found.labels["x"] for found in read_runs(db)) == ["new", "other"]
    assert rows(db, "SELECT count(*) FROM steps") == [(16,)]
    assert rows(db, "SELECT count(*) FROM operations") == [(0,)]
    assert rows(db, "PRAGMA foreign_key_check") == []
    assert read_runs(db, search="old") == []
    assert len(read_runs(db, search="new")) == 1


def test_a_run_is_known_by_its_contents(tmp_path: Path) -> None:
    one = step_trace(tmp_path / "a.sqlite", [10])
    two = step_trace(tmp_path / "b.sqlite", [20])
    copy = tmp_path / "c.sqlite"
    copy.write_bytes(one.read_bytes())
    assert content_hash([one, two]) == content_hash([two, copy])
    assert content_hash([one]) != content_hash([two])
    assert content_hash([one]) != content_hash([one, copy])


# Labels.


@pytest.mark.parametrize("texts", [["x"], ["=1"], ["a=1", "a=2"]])
def test_what_is_no_label(texts: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_labels(texts)


def test_labels_may_hold_equals_signs_and_nothing() -> None:
    assert parse_labels(["a=b=c", " d = ", "a=b=c"]) == {"a": "b=c", "d": ""}


def test_runs_are_found_by_label_and_by_words(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    for i, labels in enumerate(
        [{"model": "llama-405b", "branch": "main"}, {"model": "deepseek"}, {'a"b.c': "x y"}]
    ):
        record(db, REPORT, str(i), labels)
    assert len(read_runs(db)) == 3
    assert len(read_runs(db, {"model": "deepseek"})) == 1
    assert len(read_runs(db, {"model": "deep"})) == 0
    assert len(read_runs(db, {"model": "llama-405b", "branch": "main"})) == 1
    assert len(read_runs(db, {'a"b.c': "x y"})) == 1
    for words in ("llama", "llama-405b", "model llama", "LLAMA main"):
        assert len(read_runs(db, search=words)) == 1, words
    for words in ("lama", "llama deepseek", '"', "NOT", "model:llama AND"):
        assert len(read_runs(db, search=words)) <= 1, words


# Files that are something else.


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    trace = step_trace(tmp_path / "t.sqlite", [10])
    before = trace.read_bytes()
    with pytest.raises(ConfigError, match="is a database, but no run history"):
        record(trace, REPORT, "a", {})
    assert trace.read_bytes() == before


def test_a_text_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("something else " * 100)
    with pytest.raises(ConfigError, match="is not a run history"):
        record(path, REPORT, "a", {})
    assert path.read_text().startswith("something else")


def test_a_newer_history_is_refused(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    record(db, REPORT, "a", {})
    rows(db, f"PRAGMA user_version = {VERSION + 1}")
    for call in (lambda: read_runs(db), lambda: record(db, REPORT, "b", {})):
        with pytest.raises(ConfigError, match=r"runs\.db: the run history has version 3"):
            call()


def test_reading_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such database"):
        read_runs(tmp_path / "runs.db")
    with pytest.raises(ConfigError, match="there is no such folder"):
        record(tmp_path / "no" / "runs.db", REPORT, "a", {})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_insert_leaves_no_part_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "runs.db"
    record(db, REPORT, "a", {})
    rows(db, "SELECT 1")
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON steps WHEN new.step = 3 "
            "BEGIN SELECT raise(ABORT, 'disk is full'); END"
        )
    with pytest.raises(NsysOverlapError, match="disk is full"):
        record(db, REPORT, "b", {})
    assert len(read_runs(db)) == 1
    assert rows(db, "SELECT count(*) FROM devices") == [(2,)]


# Killed and crowded writers.

RECORDER = """
import functools, json, os, signal, sqlite3, sys
from nsysoverlap.cli import main
from nsysoverlap.judge import history_database as database
import nsysoverlap.judge.history_store, nsysoverlap.judge.history_tables
import nsysoverlap.run.many, sqlite_utils

# However slow the machine: ten writers get their turn.
database.PATIENCE_S = 600

class Mortal(sqlite3.Connection):
    left = None

    def __init__(self, path, *args, **options):
        super().__init__(path, *args, **options)
        if Mortal.left is not None and path.endswith("mode=rwc"):
            self.set_trace_callback(Mortal.count)

    @staticmethod
    def count(statement):
        Mortal.left -= 1
        if Mortal.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

def store(db, traces, dies_at):
    Mortal.left = dies_at
    sqlite3.connect = functools.partial(sqlite3.connect, factory=Mortal)
    for trace in traces:
        try:
            main(["record", trace, "--db", db, "--label", "t=" + trace], standalone_mode=False)
        except SystemExit:
            pass
        say("stored")

# In one piece: a process killed between a line and its end would spoil the next one's line.
def say(text):
    os.write(1, (text + "\\n").encode())

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        store(*json.loads(line))
        os._exit(0)
    say("ended " + str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
"""


class Recorder:
    """Processes that call `record` for one trace after the other, started without importing."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RECORDER],
            cwd=REPO,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start(self, db: Path, traces: list[Path], dies_at: int | None = None) -> None:
        """Let a process record the traces, and be killed at the SQL statement of that number."""
        assert self.process.stdin is not None
        line = json.dumps([str(db), [str(trace) for trace in traces], dies_at])
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def wait(self) -> tuple[int, int]:
        """How many traces the process said to have stored, and its exit code."""
        assert self.process.stdout is not None
        for n, line in enumerate(self.process.stdout):
            if line.startswith("ended"):
                return n, int(line.split()[1])
        raise AssertionError("the recorder is gone")

    def close(self) -> None:
        self.process.communicate()


def whole_runs(db: Path) -> int:
    """Number of runs, after checking that the file is sound and each run complete."""
    assert rows(db, "PRAGMA integrity_check") == [("ok",)]
    assert rows(db, "PRAGMA foreign_key_check") == []
    found = rows(
        db,
        "SELECT (SELECT count(*) FROM devices WHERE run_id = runs.id),"
        " (SELECT count(*) FROM steps WHERE run_id = runs.id),"
        " (SELECT count(*) FROM operations WHERE run_id = runs.id),"
        " (SELECT count(*) FROM runs_fts WHERE rowid = runs.id) FROM runs",
    )
    assert set(found) <= {(1, N_STEPS, 1, 1)}
    return len(found)


@pytest.mark.slow
def test_killing_a_writer_leaves_whole_runs_only(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    traces = [step_trace(tmp_path / f"{i}.sqlite", [i] * N_STEPS) for i in range(60)]
    chance = random.Random(7)
    interrupted, before = 0, 0
    recorder = Recorder()
    for i in range(50):
        # A new file now and then: creating the tables must be safe to kill as well.
        if i % 10 == 0:
            db, before = tmp_path / f"runs{i}.db", 0
        # The tables take about 110 statements, a run about 50.
        recorder.start(db, traces[before : before + 5], dies_at=chance.randrange(1, 200))
        said, code = recorder.wait()
        assert code == -signal.SIGKILL
        if db.exists():
            interrupted += db.with_name(f"{db.name}-journal").exists()
            empty = not rows(db, "SELECT 1 FROM sqlite_master LIMIT 1")
            after = 0 if empty else whole_runs(db)
            assert after >= before + said, "what was said to be stored is"
            before = after
    recorder.close()
    assert before > 0
    assert interrupted > 10, "too few kills came while a run was being written"


@pytest.mark.slow
def test_ten_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    traces = [step_trace(tmp_path / f"{i}.sqlite", [i] * N_STEPS) for i in range(40)]
    # Each trace goes to two writers: whoever comes second finds it there.
    writers = [Recorder() for _ in range(10)]
    for i, writer in enumerate(writers):
        writer.start(db, traces[4 * i : 4 * i + 4] + traces[:4])
    for writer in writers:
        assert writer.wait() == (8, 0)
        writer.close()
    assert whole_runs(db) == 40
    assert len({run.content_hash for run in read_runs(db)}) == 40


@contextmanager
def held(db: Path, how: str) -> Iterator[None]:
    """Another program that keeps the database for itself, or reads it for long."""
    with closing(sqlite3.connect(db, isolation_level=None)) as other:
        other.execute(how)
        other.execute("SELECT count(*) FROM runs").fetchall()
        yield


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("record {t} --db {db}", "BEGIN EXCLUSIVE"),
        ("record {t} --db {db}", "BEGIN IMMEDIATE"),
        ("record {t} --db {db}", "BEGIN"),
        ("history --db {db}", "BEGIN EXCLUSIVE"),
        ("gate {t} --history {db}", "BEGIN EXCLUSIVE"),
    ],
)
def test_a_database_that_others_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, how: str
) -> None:
    monkeypatch.setattr(database, "QUIET_S", 0.1)
    monkeypatch.setattr(database, "PATIENCE_S", 1.0)
    db = drawn_history(tmp_path, [90])
    trace = step_trace(tmp_path / "t.sqlite", [80] * N_STEPS)
    with held(db, how):
        result = run(*command.format(t=trace, db=db).split())
    waiting = f"Waiting for {db.name}, which another program holds; up to 1 s."
    end = f"Error: {db.name}: another program has held the database for 1 s. Close it, then"
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [waiting, f"{end} try again."]
    assert len(read_runs(db)) == 1


def test_a_database_that_others_hold_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = drawn_history(tmp_path, [90])
    trace = step_trace(tmp_path / "t.sqlite", [80] * N_STEPS)
    said = []
    with closing(sqlite3.connect(db, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(database, "QUIET_S", 0.1)

        def told(line: str) -> None:
            said.append(line)
            other.execute("COMMIT")

        assert record(db, analyze(trace), "new", {}, told=told).is_new
    assert len(said) == 1
    assert len(read_runs(db)) == 2


def test_a_reader_does_not_stop_readers(tmp_path: Path) -> None:
    db = drawn_history(tmp_path, [90])
    with held(db, "BEGIN"):
        result = run("history", "--db", db)
    assert (result.exit_code, result.stderr) == (0, "")


# The commands.


def test_record_and_history(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    for i, hidden in enumerate((90, 80)):
        trace = step_trace(tmp_path / f"{i}.sqlite", [hidden] * 4)
        result = run("record", trace, "--db", db, "--label", f"night={i}")
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == f"Recorded as run {i + 1} in {db}\n"
    assert "Already there as run 2" in run("record", trace, "--db", db).stderr
    text = run("history", "--db", db).stdout
    assert text.startswith("2 runs; the latest hid 80.0 % of its transfer time behind compute.")
    assert "night=0" in text
    assert "90.0 %" in text
    assert "night=0" not in run("history", "--db", db, "--last", "1").stdout
    assert "night=1" not in run("history", "--db", db, "--label", "night=0").stdout
    values = json.loads(run("history", "--db", db, "--format", "json").stdout)
    assert [found["values"]["d2h_hidden_share"] for found in values["runs"]] == [0.9, 0.8]
    assert "| 2 |" in run("history", "--db", db, "--format", "markdown").stdout
    assert run("history", "--db", db, "--search", "zebra").stdout == "No runs in runs.db match.\n"


def test_history_says_where_the_latest_run_lies(tmp_path: Path) -> None:
    db = shares(tmp_path / "runs.db", [90, 91, 92, 93, 94, 80])
    text = " ".join(run("history", "--db", db).stdout.split())
    assert "80.0 % of its transfer time behind compute, below the range of the 5 before" in text
    assert "(90.0 % to 94.0 %, median 92.0 %)" in text


@pytest.mark.parametrize(
    ("values", "empty", "said"),
    [
        ([90], 0, "1 run; the latest hid 90.0 % of its transfer time behind compute. To compare it "
         "takes 5 runs with transfers before it; 0 are shown."),
        ([90, 80], 0, "2 runs; the latest hid 80.0 % of its transfer time behind compute. To "
         "compare it takes 5 runs with transfers before it; 1 is shown."),
        ([90, 80], 1, "3 runs; the latest, run 3, moved nothing; the last that did, run 2, hid "
         "80.0 % of its transfer time behind compute. To compare it takes 5 runs"),
        ([90, 91, 92, 93, 94, 80], 2, "8 runs; the latest, run 8, moved nothing; the last that "
         "did, run 6, hid 80.0 % of its transfer time behind compute, below the range of the 5 "
         "with transfers before it (90.0 % to 94.0 %, median 92.0 %)."),
        ([], 2, "2 runs, none with host transfers."),
    ],
)  # fmt: skip
def test_history_names_a_latest_run_that_moved_nothing(
    tmp_path: Path, values: list[int], empty: int, said: str
) -> None:
    db = shares(tmp_path / "runs.db", values)
    for i in range(empty):
        report = analyze(control_trace(tmp_path / f"{i}.sqlite"))
        record(db, report, f"empty {i}", {}, now=at(20 + i))
    assert said in " ".join(run("history", "--db", db).stdout.split())


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_history_draws_the_trend(tmp_path: Path, suffix: str, magic: bytes) -> None:
    db = shares(tmp_path / "runs.db", [90, 91, 80])
    plot = tmp_path / f"trend.{suffix}"
    assert run("history", "--db", db, "--plot", plot).exit_code == 0
    assert plot.read_bytes().startswith(magic)


def test_history_refuses_other_pictures(tmp_path: Path) -> None:
    db = shares(tmp_path / "runs.db", [90])
    result = run("history", "--db", db, "--plot", tmp_path / "trend.bmp")
    assert result.exit_code == 2
    assert "Use png, svg, pdf." in result.stderr
    assert run("history", "--db", db, "--plot", db).exit_code == 2


@pytest.mark.parametrize("name", ["jax_fsdp2_events_lost", "micro_graph_graph"])
def test_what_cannot_be_trusted_is_not_stored(tmp_path: Path, name: str) -> None:
    db = tmp_path / "runs.db"
    result = run("record", h200(name), "--db", db)
    assert result.exit_code == 3
    assert result.stderr.startswith("Inconclusive: ")
    assert not db.exists()


def test_a_run_with_a_broken_rank_is_not_stored(tmp_path: Path) -> None:
    step_trace(tmp_path / "rank0.sqlite", [90])
    (tmp_path / "rank1.sqlite").write_text("broken")
    result = run("record", tmp_path, "--db", tmp_path / "runs.db")
    assert result.exit_code == 3
    assert "rank1.sqlite" in result.stderr


def test_a_trace_is_never_the_database(tmp_path: Path) -> None:
    trace = step_trace(tmp_path / "t.sqlite", [90])
    assert run("record", trace, "--db", trace).exit_code == 2


# Gate against history.


def gate(trace: Path, db: Path, *args: str) -> tuple[int, dict[str, Any]]:
    result = run("gate", trace, "--history", db, "--format", "json", *args)
    assert result.exit_code in (0, 1, 3), result.output
    return result.exit_code, json.loads(result.stdout)


def drawn_history(tmp_path: Path, values: list[int]) -> Path:
    """As `shares`, from traces, so that everything matches what a gate measures."""
    db = tmp_path / "runs.db"
    for i, value in enumerate(values):
        trace = step_trace(tmp_path / f"night{i}.sqlite", [value] * 4)
        # The kernel name differs by nothing; a distinct step count keeps contents apart.
        record(db, analyze(trace), f"hash {i}", {"branch": "main"}, now=at(i + 1))
    return db


@pytest.mark.parametrize(
    ("hidden", "args", "code"),
    [
        (90, (), 0),
        (88, (), 0),
        (86, (), 0),
        (85, (), 1),
        (86, ("--max-drop", "5"), 0),
        (86, ("--max-drop", "3"), 1),
        (90, ("--label", "branch=main"), 0),
        (90, ("--label", "branch=dev"), 3),
        (90, ("--last", "5"), 0),
        (90, ("--last", "4"), 3),
        (90, ("--last", "4", "--max-drop", "5"), 0),
        (86, ("--max-exposed-growth", "30"), 1),
        (86, ("--max-exposed-growth", "50"), 0),
        (86, ("--max-drop", "1", "--confidence", "95"), 1),
        (90, ("--max-drop", "2", "--confidence", "95"), 0),
    ],
)
def test_gate_against_history(
    tmp_path: Path, hidden: int, args: tuple[str, ...], code: int
) -> None:
    # Median 90, median absolute deviation 1: three standard deviations are 4.4 points.
    db = drawn_history(tmp_path, [89, 89, 90, 90, 90, 91, 91])
    trace = step_trace(tmp_path / "now.sqlite", [hidden] * 6)
    assert gate(trace, db, *args)[0] == code


def test_the_spread_of_runs_is_shown(tmp_path: Path) -> None:
    db = drawn_history(tmp_path, [88, 89, 90, 90, 91, 92])
    _, values = gate(step_trace(tmp_path / "now.sqlite", [90] * 4), db)
    verdict = values["verdicts"][0]
    assert values["baseline"] == "6 runs of runs.db"
    assert verdict["baseline"] == pytest.approx(0.9)
    assert verdict["baseline_spread"] == pytest.approx({"low": 0.885, "high": 0.915, "n": 6})


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    trace = step_trace(tmp_path / "now.sqlite", [50] * 4)
    db = tmp_path / "runs.db"
    assert run("record", trace, "--db", db).exit_code == 0
    code, values = gate(trace, db, "--max-drop", "1")
    assert code == 3
    assert "No earlier run matches (1 x " in values["verdicts"][0]["reason"]


def test_runs_on_other_gpus_or_over_other_bases_do_not_match(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    other = step_trace(tmp_path / "other.sqlite", [99] * 4, gpu="NVIDIA GB200")
    for trace in (other, split_trace(tmp_path / "s.sqlite", d2h=(99, 100))):
        assert run("record", trace, "--db", db).exit_code == 0
    assert run("record", control_trace(tmp_path / "c.sqlite"), "--db", db).exit_code == 0
    code, _ = gate(step_trace(tmp_path / "now.sqlite", [50] * 4), db, "--max-drop", "1")
    assert code == 3


def test_what_lost_most_against_the_latest_run_is_named(tmp_path: Path) -> None:
    db = drawn_history(tmp_path, [90] * 6)
    code, values = gate(step_trace(tmp_path / "now.sqlite", [50] * 4), db)
    assert code == 1
    assert [loss["op"] for loss in values["losses"]] == ["d2h-copy-start.1"]


# Documentation, and other programs.


def documented_queries() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


def test_documented_queries_answer(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    for i, name in enumerate(("jax_unroll_lhs", "jax_unroll_nolhs")):
        labels = {"model": "llama-405b", "branch": f"b{i}"}
        record(db, analyze(h200(name)), str(i), labels, now=at(i + 1))
    trend, lost, found = (rows(db, query) for query in documented_queries())
    assert [row[2] for row in trend] == ["b1", "b0"]
    assert trend[0][3] < trend[1][3]
    assert len(lost) == 10
    assert lost[0][2] > 1
    assert found
    assert all(one[3] >= two[3] for one, two in pairwise(found))


def test_documented_tables_are_those_there_are(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    record(db, REPORT, "a", {})
    tables = {
        row[0]
        for row in rows(db, "SELECT name FROM sqlite_master WHERE type = 'table'")
        if not row[0].startswith(("runs_fts", "sqlite_"))
    }
    assert tables == set(re.findall(r"^\| `(\w+)` \|", DOCS.read_text("utf-8"), re.MULTILINE))


def test_datasette_opens_it(tmp_path: Path) -> None:
    pytest.importorskip("datasette")
    db = tmp_path / "runs.db"
    record(db, REPORT, "a", {"model": "llama"})
    for path in ("/runs/runs.json?_shape=array", "/runs/runs.json?_shape=array&_search=llama"):
        shown = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "datasette", str(db), "--get", path],
            capture_output=True,
            text=True,
            check=True,
        )
        assert [row["content_hash"] for row in json.loads(shown.stdout)] == ["a"]


def test_datasette_says_what_columns_mean_and_answers_the_questions(tmp_path: Path) -> None:
    pytest.importorskip("datasette")
    db, described = tmp_path / "runs.db", DOCS.parent / "datasette.json"
    record(db, REPORT, "a", {"model": "llama"})
    columns = json.loads(described.read_text())["databases"]["runs"]["tables"]
    for table, known in columns.items():
        there = {row[1] for row in rows(db, f"PRAGMA table_info({table})")}
        assert set(known["columns"]) <= there, table

    def get(path: str) -> str:
        command = [sys.executable, "-W", "ignore", "-m", "datasette", str(db)]
        command += ["--metadata", str(described), "--get", path]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    page = get("/runs/operations")
    assert "exposed time of the mean step" in page
    (answer,) = json.loads(get("/runs/hidden_share.json?_shape=array"))
    assert answer["percent_hidden"] == round(100 * (REPORT.total("both").hidden_share or 0), 1)


def test_a_report_of_nothing_is_a_row_without_values(tmp_path: Path) -> None:
    db = tmp_path / "runs.db"
    record(db, OverlapReport((), (), ()), "a", {})
    (found,) = read_runs(db)
    assert set(found.values.values()) == {None}
