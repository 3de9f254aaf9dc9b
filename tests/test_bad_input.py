"""Input that cannot be used: one line that says which file and what to do, and nothing created.

And input that can be read but not trusted: exit code 3, and the report all the same.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nsysoverlap.cli import main
from nsysoverlap.trace import nsys_export as nsys

from .tracebuilder import build
from .traces import h200

DRAWING = """
    dev0 s7  compute: .####....##.
    dev0 s20 h2d:     ...####.....
"""
REPORT_HEADER = b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0.\n\x0bLocal (CLI)"
OLD_NSYS = """#!{python} -IS
import sys
if sys.argv[1] == "--version":
    print("NVIDIA Nsight Systems version 2022.1.3.3-1c7b5f7")
    sys.exit()
print("Exportation error: unknown report version", file=sys.stderr)
sys.exit(1)
"""
COMMANDS = ("report", "transfers", "info", "rules")

Snapshot = dict[str, tuple[int, int, bytes]]


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def snapshot(folder: Path) -> Snapshot:
    """Every file below `folder` with size, time of change and content; folders too."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_size if path.is_file() else 0,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No nsys anywhere, a cache folder of our own; returns the one folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("NSYS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(nsys, "INSTALL_PATTERNS", ())
    return folder


def missing(folder: Path) -> Path:
    return folder / "gone.sqlite"


def missing_report(folder: Path) -> Path:
    return folder / "gone.nsys-rep"


def folder_without_traces(folder: Path) -> Path:
    (folder / "logs").mkdir()
    (folder / "logs" / "run.txt").write_text("x")
    return folder / "logs"


def folder_named_like_an_export(folder: Path) -> Path:
    (folder / "dir.sqlite").mkdir()
    return folder / "dir.sqlite"


def empty(folder: Path) -> Path:
    (folder / "empty.sqlite").touch()
    return folder / "empty.sqlite"


def lfs_pointer(folder: Path) -> Path:
    path = folder / "pointer.sqlite"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 700416\n")
    return path


def lfs_pointer_to_a_report(folder: Path) -> Path:
    return lfs_pointer(folder).rename(folder / "pointer.nsys-rep")


def text_file(folder: Path) -> Path:
    path = folder / "notes.sqlite"
    path.write_text("Step 1: capture a trace.\n" * 50)
    return path


def compressed(folder: Path) -> Path:
    path = folder / "packed.sqlite"
    path.write_bytes(b"\x1f\x8b\x08\x00" + bytes(200))
    return path


def other_database(folder: Path) -> Path:
    path = folder / "music.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE tracks (title TEXT)")
    return path


def truncated(folder: Path) -> Path:
    path = folder / "half.sqlite"
    whole = h200("micro_hidden").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return path


def header_only(folder: Path) -> Path:
    path = folder / "stub.sqlite"
    path.write_bytes(h200("micro_hidden").read_bytes()[:60])
    return path


def corrupt(folder: Path) -> Path:
    """All pages but the first, which holds the list of tables, are overwritten."""
    path = folder / "broken.sqlite"
    content = bytearray(h200("micro_hidden").read_bytes())
    page = int.from_bytes(content[16:18], "big")
    content[page:] = random.Random(5).randbytes(len(content) - page)
    path.write_bytes(content)
    return path


def corrupt_list_of_tables(folder: Path) -> Path:
    path = folder / "broken.sqlite"
    content = bytearray(h200("micro_hidden").read_bytes())
    content[100:2000] = b"\xff" * 1900
    path.write_bytes(content)
    return path


def write_ahead_log(folder: Path) -> Path:
    """As a killed writer leaves it: pages that only the log holds."""
    source = build(folder / "source.sqlite", DRAWING)
    with closing(sqlite3.connect(source)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 1")
        db.commit()
        for suffix in ("", "-wal"):
            shutil.copy(f"{source}{suffix}", folder / f"open.sqlite{suffix}")
    source.unlink()
    assert (folder / "open.sqlite-wal").stat().st_size > 0
    return folder / "open.sqlite"


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.sqlite")
    return folder / "pipe.sqlite"


def report_without_nsys(folder: Path) -> Path:
    path = folder / "run 1.nsys-rep"
    path.write_bytes(REPORT_HEADER + bytes(500))
    return path


Case = Callable[[Path], Path]
CASES: dict[Case, tuple[str, str]] = {
    missing: ("no such file", "Check the path"),
    missing_report: ("does not exist", "Check the path"),
    folder_without_traces: ("holds no traces", "Give a folder of exports"),
    folder_named_like_an_export: ("holds no traces", "Give a folder of exports"),
    empty: ("is empty", "again"),
    lfs_pointer: ("Git LFS pointer", "git lfs pull"),
    lfs_pointer_to_a_report: ("Git LFS pointer", "git lfs pull"),
    text_file: ("is a text file", "nsys export --type sqlite"),
    compressed: ("is compressed", "Decompress it"),
    other_database: ("not an nsys export (tables: tracks)", "nsys export --type sqlite"),
    truncated: ("is truncated", "again"),
    header_only: ("cut off inside its header", "again"),
    corrupt: ("damaged", "again"),
    corrupt_list_of_tables: ("damaged", "again"),
    write_ahead_log: ("write-ahead log (open.sqlite-wal)", "wal_checkpoint"),
    pipe: ("not a regular file", "nsys export --type sqlite"),
    report_without_nsys: ("no nsys was found", "run: nsys export --type sqlite --output "),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_unusable(tmp_path: Path, case: Case, command: str) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    path = case(folder)
    before = snapshot(tmp_path) if case is not pipe else {}
    result = run(command, path)
    _check_refusal(result, path.name, *CASES[case])
    if case is not pipe:
        assert snapshot(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == ["bin", "runs"]


def _check_refusal(result: Result, file_name: str, what: str, remedy: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert file_name in line
    assert what in line
    assert remedy in line


def test_nothing_is_written_where_nothing_can_be_read(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    result = run("report", text_file(tmp_path), "--format", "json", "-o", target)
    assert result.exit_code == 2
    assert target.read_text() == "old"


def test_open_writer(tmp_path: Path) -> None:
    """While another program writes: refused, and neither its log nor its index is touched."""
    path = build(tmp_path / "live.sqlite", DRAWING)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 1")
        db.commit()
        before = snapshot(tmp_path)
        _check_refusal(run("report", path), "live.sqlite", "write-ahead log", "Close the program")
        assert snapshot(tmp_path) == before
    # Closing moved the log into the file.
    assert run("report", path).exit_code == 0


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("suffix", [".sqlite", ".nsys-rep"])
def test_no_read_permission(open_folder: Path, suffix: str, command: str) -> None:
    path = build(open_folder / f"secret{suffix}", DRAWING)
    # Loads what the command needs while this user may still read it.
    assert run(command, build(open_folder / "mine.sqlite", DRAWING)).exit_code == 0
    path.chmod(0)
    before = sorted(os.listdir(open_folder))
    users = os.getresuid()
    if users[1] == 0:
        os.setresuid(
            65534, 65534, 0
        )  # root may read everything, and some checks ask for the real user
    try:
        result = run(command, path)
    finally:
        os.setresuid(*users)
    _check_refusal(result, path.name, "permission", "chmod")
    assert sorted(os.listdir(open_folder)) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_report_newer_than_nsys(tmp_path: Path, bare_machine: Path, command: str) -> None:
    script = bare_machine / "nsys"
    script.write_text(OLD_NSYS.format(python=sys.executable))
    script.chmod(0o755)
    folder = tmp_path / "runs"
    folder.mkdir()
    path = report_without_nsys(folder)
    result = run(command, path)
    _check_refusal(
        result,
        "run 1.nsys-rep",
        "written by nsys 2023.4.4.54, which is newer than the nsys found here (2022.1.3.3)",
        "With nsys 2023.4.4.54 or newer",
    )
    assert os.listdir(folder) == ["run 1.nsys-rep"]
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_folder_is_read_for_its_reports(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    report_without_nsys(folder)
    result = run("report", folder)
    _check_refusal(result, "run 1.nsys-rep", "no nsys was found", "run: nsys export")


@pytest.mark.parametrize("seed", range(30))
def test_any_damage_is_survived(tmp_path: Path, seed: int) -> None:
    """A page of noise anywhere: refused with one line, or it was in no page that matters."""
    chance = random.Random(seed)
    content = bytearray(h200("micro_serial").read_bytes())
    page = int.from_bytes(content[16:18], "big")
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(100, len(content) - page)
        content[at : at + page] = chance.randbytes(page)
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(content)
    result = run("report", path)
    assert result.exit_code in (0, 2, 3)
    assert "Internal error" not in result.stderr
    if result.exit_code == 2:
        _check_refusal(result, "damaged.sqlite", "damaged", "again")
    else:
        assert "damaged.sqlite" in result.stdout


@pytest.mark.parametrize("part", [0.001, 0.01, 0.1, 0.3, 0.7, 0.9, 0.999])
def test_any_truncation_is_noticed(tmp_path: Path, part: float) -> None:
    whole = h200("micro_serial").read_bytes()
    path = tmp_path / "cut.sqlite"
    path.write_bytes(whole[: int(len(whole) * part)])
    _check_refusal(run("report", path), "cut.sqlite", "t", "again")


# Read, and yet not to be trusted.


def no_gpu_activity(folder: Path) -> Path:
    path = folder / "idle.sqlite"
    return build(path, "dev0 s7 compute: #", drop_tables=["CUPTI_ACTIVITY_KIND_KERNEL"])


def nothing_at_all(folder: Path) -> Path:
    tables = ["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"]
    return build(folder / "none.sqlite", "dev0 s7 compute: #", drop_tables=tables)


def real(name: str) -> Case:
    return lambda _: h200(name)


INCONCLUSIVE = [
    (no_gpu_activity, "no-gpu-activity"),
    (nothing_at_all, "no-gpu-activity"),
    (real("jax_fsdp2_events_lost"), "events-lost"),
    (real("micro_graph_graph"), "graph-opaque"),
    (real("jax_scan_pipelined_graph_level"), "graph-opaque"),
]


@pytest.mark.parametrize("to_file", [False, True])
@pytest.mark.parametrize("fmt", ["text", "json", "markdown"])
@pytest.mark.parametrize(
    ("case", "code"),
    INCONCLUSIVE,
    ids=["no-gpu-rows", "no-rows", "events-lost", "micro-graph", "jax-graph"],
)
def test_inconclusive(tmp_path: Path, case: Case, code: str, fmt: str, to_file: bool) -> None:
    path = case(tmp_path)
    target = tmp_path / "out"
    where: list[str | Path] = ["-o", target] if to_file else []
    result = run("report", path, "--format", fmt, *where)
    assert result.exit_code == 3
    assert result.stderr == (f"Wrote {target}\n" if to_file else "")
    written = target.read_text() if to_file else result.stdout
    if fmt == "json":
        report = json.loads(written)
        errors = [entry["code"] for entry in report["health"] if entry["severity"] == "error"]
        assert code in errors
        assert report["totals"]["time_budget"].keys() >= {"compute_ns", "idle_ns"}
    else:
        assert "Inconclusive: " in written.splitlines()[0]
        assert path.name in written
        assert "nsysoverlap info" in written


def test_healthy_trace_without_transfers_is_no_failure() -> None:
    result = run("report", h200("jax_unroll_save"), "--format", "json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    notes = [entry for entry in report["health"] if entry["code"] == "no-transfers"]
    assert [entry["severity"] for entry in notes] == ["note"]
    assert report["totals"]["both"]["hidden_share"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["report", "/"], "/: the folder holds no traces"),
        (["gate", "--baseline", "."], ".: the baseline cannot be read (Is a directory)."),
        (["gate", "--config", "."], ".: the configuration cannot be read (Is a directory)."),
        (["gate", "--history", "."], ".: the database cannot be opened."),
    ],
)
def test_a_folder_without_a_name_of_its_own_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = [] if options[0] == "report" else [build(tmp_path / "t.sqlite", DRAWING)]
    result = run(*options, *trace)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {said}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--steps", ""], "--steps is empty; is a variable not set?"),
        (["--step", "9" * 5000], "is no step. Write --step 3, or --step 3:5."),
        (["--step", f"0:{'9' * 5000}"], "is no step. Write --step 3, or --step 3:5."),
    ],
)
def test_steps_that_are_none(tmp_path: Path, options: list[str], said: str) -> None:
    result = run("report", build(tmp_path / "t.sqlite", DRAWING), *options)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert said in result.stderr


def test_a_path_longer_than_sqlite_opens(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["d" * 200] * 3)
    folder.mkdir(parents=True)
    result = run("report", shutil.move(build(tmp_path / "t.sqlite", DRAWING), folder))
    assert result.exit_code == 2
    assert "Error: t.sqlite: its path has " in result.stderr
    assert "more than SQLite can open (504). Move the file to" in result.stderr
