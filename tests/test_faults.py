"""What a machine can do to a run: no space, no memory, a kill, files that change meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from benchmarks.generate import generate
from nsysoverlap import analyze, read_trace
from nsysoverlap.cli import main
from nsysoverlap.core.errors import TraceFileError
from nsysoverlap.trace import bulk, pages

from .readerkit import execute
from .tracebuilder import TraceBuilder, build
from .traces import h200

REPO = Path(__file__).parents[1]
LIMITED = """
import resource, sys
from nsysoverlap.cli import main
import nsysoverlap.run.analysis, nsysoverlap.show.sections, nsysoverlap.slim, nsysoverlap.run.many
{limit}
main(sys.argv[1:])
"""
FILE_SIZE = "resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))"
MEMORY = """
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + {0}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
"""
READ_PAGES = pages.read_pages
PAUSED = """
import time
from nsysoverlap.slim.copying import _Copy
strings = _Copy.strings
def and_wait(*arguments):
    strings(*arguments)
    print("busy", file=sys.stderr, flush=True)
    time.sleep(600)
_Copy.strings = and_wait
"""
KILLED = "import os, signal; os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)"


def run(limit: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command in a process with limits that begin once everything is imported."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED.format(limit=limit), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPO,
        timeout=300,
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export that takes some memory to read."""
    return generate(tmp_path_factory.mktemp("large") / "large.sqlite", 60_000)


# No space.


@pytest.mark.parametrize("fmt", ["json", "html", "text"])
def test_no_space_for_a_report(fmt: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("old")
    done = run(FILE_SIZE.format(50), "report", h200("jax_unroll_lhs"), "--format", fmt, "-o", out)
    assert done.returncode == 2, done.stderr
    assert "out: cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert out.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("size", [1, 5_000, 100_000])
def test_no_space_for_a_copy(size: int, tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    done = run(FILE_SIZE.format(size), "slim", h200("jax_unroll_lhs"), out)
    assert done.returncode == 2, done.stderr
    assert "out.sqlite: cannot be written" in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("command", ["report", "transfers"])
def test_a_full_device(command: str) -> None:
    done = run("", command, h200("jax_unroll_lhs"), "-o", "/dev/full")
    assert done.returncode == 2
    assert "full: cannot be written (No space left on device)" in done.stderr


@pytest.mark.parametrize("command", ["report", "transfers", "export", "plot", "slim"])
def test_a_folder_closed_to_us(command: str, open_folder: Path) -> None:
    shutil.copyfile(h200("micro_hidden"), open_folder / "t.sqlite")
    (open_folder / "t.sqlite").chmod(0o644)

    def write(folder: Path) -> Result:
        out = str(folder / "out.png")
        where = [out] if command == "slim" else ["-o", out]
        return CliRunner().invoke(main, [command, str(open_folder / "t.sqlite"), *where])

    # Loads what the command needs while this user may still read it.
    (open_folder / "mine").mkdir()
    assert write(open_folder / "mine").exit_code == 0
    closed = open_folder / "closed"
    closed.mkdir(mode=0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may write anywhere
    try:
        result = write(closed)
    finally:
        os.seteuid(user)
    assert result.exit_code == 2
    assert "out.png: cannot be written (Permission denied)" in result.stderr
    assert os.listdir(closed) == []


@pytest.mark.parametrize("command", ["report", "transfers", "export", "plot"])
def test_killed_while_writing(command: str, tmp_path: Path) -> None:
    out = tmp_path / "out.png"
    out.write_text("old")
    done = run(KILLED, command, h200("micro_hidden"), "-o", out)
    assert done.returncode == -signal.SIGKILL
    assert out.read_text() == "old"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_while_copying(tmp_path: Path, number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-c", LIMITED.format(limit=PAUSED), "slim", h200("micro_hidden")]
    process = subprocess.Popen(
        [*map(str, command), str(tmp_path / "out.sqlite")],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=REPO,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "busy\n"
    assert len(os.listdir(tmp_path)) == 1
    process.send_signal(number)
    _, messages = process.communicate(timeout=300)
    assert process.returncode == code, messages
    assert messages == ""
    assert os.listdir(tmp_path) == []


# No memory.


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [1, 4, 10, 20, 30, 60, 2_000])
@pytest.mark.parametrize("command", [("report", "--format", "json"), ("info",), ("transfers",)])
def test_a_memory_limit(command: tuple[str, ...], megabytes: int, large: Path) -> None:
    done = run(MEMORY.format(megabytes << 20), *command, large)
    if done.returncode == 0:
        assert megabytes >= 20
        return
    assert megabytes < 2_000
    assert done.returncode == 2, done.stderr
    assert "emory" in done.stderr
    assert "bug in nsysoverlap" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


# Files that change.


def test_a_file_replaced_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = tmp_path / "t.sqlite", tmp_path / "other.sqlite"
    shutil.copy(h200("jax_unroll_lhs"), path)
    shutil.copy(h200("micro_hidden"), other)

    def and_replace(*arguments: object) -> object:
        if other.exists():
            other.replace(path)
        return READ_PAGES(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bulk, "read_pages", and_replace)
    with pytest.raises(TraceFileError, match="changed while it was read"):
        read_trace(path)


@pytest.mark.parametrize("size", [0, 4096, 100_000])
def test_a_file_cut_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = tmp_path / "t.sqlite"
    shutil.copyfile(h200("jax_unroll_lhs"), path)

    def and_cut(*arguments: object) -> object:
        os.truncate(path, size)
        return READ_PAGES(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bulk, "read_pages", and_cut)
    with pytest.raises(TraceFileError, match="changed while it was read"):
        read_trace(path)


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    shutil.copyfile(h200("jax_unroll_lhs"), path)
    stop = threading.Event()

    def again_and_again() -> None:
        while not stop.is_set():
            path.unlink(missing_ok=True)
            shutil.copyfile(h200("jax_unroll_lhs"), path)

    thread = threading.Thread(target=again_and_again)
    thread.start()
    expected = analyze(h200("jax_unroll_lhs"), steps="none").total("both")
    try:
        for _ in range(20):
            try:
                found = analyze(path, steps="none").total("both")
            except TraceFileError:
                continue
            assert found == expected
    finally:
        stop.set()
        thread.join()


# Hostile traces.


def test_very_many_tables(tmp_path: Path) -> None:
    path = build(tmp_path / "t.sqlite", "dev0 s7 compute: .##.\ndev0 s20 h2d: ..##")
    with closing(sqlite3.connect(path)) as db:
        # Not created one by one, which takes SQLite minutes; they share the page of another.
        db.execute("PRAGMA writable_schema = ON")
        find = "SELECT rootpage FROM sqlite_master WHERE name = 'StringIds'"
        (page,) = db.execute(find).fetchone()
        names = [f"CUPTI_ACTIVITY_KIND_{i}" for i in range(20_000)]
        db.executemany(
            "INSERT INTO sqlite_master VALUES ('table', ?1, ?1, ?2, ?3)",
            ((name, page, f"CREATE TABLE {name} (a)") for name in names),
        )
        db.commit()
        began = time.process_time()
        with closing(sqlite3.connect(path)) as again:
            again.execute("SELECT count(*) FROM StringIds").fetchone()
        alone_s = time.process_time() - began
    began = time.process_time()
    assert analyze(path).total("h2d").wall_ns == 2_000
    # SQLite's own time with that many tables grows with their square.
    assert time.process_time() - began < 20 * alone_s + 5


NAMES = ['a"; DROP TABLE StringIds; --', "a' OR '1'='1", "]]", "`", "\x1b[31m", "a\nb", "💥", ""]


def test_sql_in_the_names_of_tables_and_columns(tmp_path: Path) -> None:
    path = build(tmp_path / "t.sqlite", "dev0 s7 compute: .##.\ndev0 s20 h2d: ..##")
    for name in NAMES:
        quoted = '"' + name.replace('"', '""') + '"'
        execute(path, f"CREATE TABLE {quoted} ({quoted} INTEGER)")
        if name:
            execute(path, f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN {quoted} INTEGER")
    before = path.read_bytes()
    assert analyze(path).total("h2d").hidden_by_compute_ns == 1_000
    assert path.read_bytes() == before


def test_ranges_nested_a_hundred_thousand_deep(tmp_path: Path) -> None:
    builder, depth = TraceBuilder(), 100_000
    for i in range(depth):
        builder.nvtx(f"level {i % 7}", i, 2 * depth - i)
    for i in range(1_000):
        at = 3_000 + 50 * i
        builder.copy(at, at + 10, "h2d", 8)
        builder.kernel(at + 20, at + 30)
    path = builder.write(tmp_path / "t.sqlite")
    began = time.process_time()
    report = analyze(path, steps="none")
    assert time.process_time() - began < 120
    assert {operation.op[:6] for operation in report.operations} == {"level "}


def test_a_name_of_many_megabytes(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(10, 20, "void " + "a::" * 3_000_000 + "f<" * 10_000)
    builder.copy(15, 30, "h2d", 8)
    builder.nvtx("Thunk:#" + "(" * 5_000_000 + "#", 0, 100)
    path = builder.write(tmp_path / "t.sqlite")
    began = time.process_time()
    assert analyze(path, steps="none").total("h2d").hidden_by_compute_ns == 5
    assert time.process_time() - began < 120


@pytest.mark.parametrize("fmt", ["text", "markdown", "html", "json"])
def test_texts_of_many_megabytes_are_printed_in_part(fmt: str, tmp_path: Path) -> None:
    builder = TraceBuilder()
    for i in range(1, 6):
        at = 10_000 * i
        builder.nvtx("s" * 1_000_000 + str(i), at - 5_000, at + 4_000)
        builder.kernel(at + 1_000, at + 2_000)
        builder.copy(at + 1_500, at + 4_000, "h2d", 8, stream=20)
    path = builder.write(tmp_path / "t.sqlite")
    done = run("", "report", "--by", "op", "--format", fmt, path)
    assert done.returncode == 0, done.stderr
    if fmt != "json":
        assert len(done.stdout) < 1_000_000


def test_ids_at_the_ends_of_their_range(tmp_path: Path) -> None:
    ends = (-(2**63) + 1, -1, 0, 1, 2**31, 2**32, 2**63 - 1)
    builder = TraceBuilder()
    for i, value in enumerate(ends):
        builder.kernel(10 * i, 10 * i + 5, correlation=value % 2**62, stream=abs(value) % 2**62)
        builder.copy(10 * i, 10 * i + 9, "d2h", 8, stream=(i + 1) * 2**40)
    path = builder.write(tmp_path / "t.sqlite")
    for column in ("streamId", "contextId", "correlationId", "graphNodeId"):
        for i, value in enumerate(ends):
            execute(
                path,
                f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {column} = ? WHERE rowid = ?",
                values=(value, i + 1),
            )
    report = analyze(path, steps="none")
    assert report.total("d2h").hidden_by_compute_ns == 5 * len(ends)
    assert np.isfinite(report.total("d2h").hidden_share or 0)
