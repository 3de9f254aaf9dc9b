"""`nsysoverlap.nsys`: finding nsys, exporting reports through it, and what can go wrong.

The fake nsys is a real executable that notes each call. Where a real nsys is at hand (the
variable NSYSOVERLAP_REAL_NSYS, NSYS, or PATH), the last tests profile a small program with it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nsysoverlap.core.errors import ExportError
from nsysoverlap.trace import nsys_export as nsys

REPO = Path(__file__).parents[1]
HEADER = b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0.\n\x0bLocal (CLI)"

# What the fake does once it has been asked to export to `output`.
WRITES = """
db = sqlite3.connect(output)
db.execute("CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT)")
db.commit()
db.close()
"""
FAILS = """
open(output, "w").write("half")
open(output + "-journal", "w").write("half")
print(f"Processing 9 events: [5%  ]\\rExportation error: Cannot read {source} here.",
      file=sys.stderr)
print("See the manual.", file=sys.stderr)
sys.exit(1)
"""
# As nsys 2023.4.4 does it, exit status included.
FINDS_DISK_FULL = """
open(output, "w")
print("[QuadDCommon::tag_message*] = database or disk is full", file=sys.stderr)
"""
FAKE = """#!{python} -IS
import sqlite3, sys, time
with open({calls!r}, "a") as calls:
    calls.write(sys.argv[1] + "\\n")
if sys.argv[1] == "--version":
    print("NVIDIA Nsight Systems version {version}-234433681190v0")
    sys.exit()
assert sys.argv[1:5] == ["export", "--type", "sqlite", "--output"], sys.argv
output, source = sys.argv[5:]
{body}
"""

FakeNsys = Callable[..., Path]


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No nsys anywhere, and a cache directory of our own; returns the one folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("NSYS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(nsys, "INSTALL_PATTERNS", ())
    return folder


@pytest.fixture
def fake_nsys(tmp_path: Path, bare_machine: Path) -> FakeNsys:
    def make(body: str = WRITES, version: str = "2023.4.4.54", path: Path | None = None) -> Path:
        script = path or bare_machine / "nsys"
        script.parent.mkdir(parents=True, exist_ok=True)
        calls = str(tmp_path / "calls")
        script.write_text(
            FAKE.format(python=sys.executable, calls=calls, version=version, body=body)
        )
        script.chmod(0o755)
        return script

    return make


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "runs" / "rank 0.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(HEADER + bytes(500))
    return path


def exports_run(tmp_path: Path) -> int:
    calls = tmp_path / "calls"
    return calls.read_text().split().count("export") if calls.exists() else 0


def cached_files(tmp_path: Path) -> list[str]:
    """Everything under the cache directory that is not a folder."""
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


def refusal(report: Path, cache_dir: Path | None = None) -> ExportError:
    """The error of an export that must fail, checked to be one line that names no folder."""
    with pytest.raises(ExportError) as caught:
        nsys.export_report(report, cache_dir=cache_dir)
    error = caught.value
    assert "\n" not in error.message + error.hint
    assert str(report.parent) not in error.message
    assert error.hint
    return error


# Finding nsys.


def test_no_nsys_anywhere() -> None:
    assert nsys.find_nsys() is None


def test_variable_wins_over_path_wins_over_installs(
    tmp_path: Path, fake_nsys: FakeNsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = fake_nsys(path=tmp_path / "opt" / "2025.3.1" / "host" / "nsys")
    monkeypatch.setattr(nsys, "INSTALL_PATTERNS", (str(tmp_path / "opt/*/host/nsys"),))
    assert nsys.find_nsys() == installed
    on_path = fake_nsys()
    assert nsys.find_nsys() == on_path
    named = fake_nsys(path=tmp_path / "mine" / "my-nsys")
    monkeypatch.setenv("NSYS", str(named))
    assert nsys.find_nsys() == named


def test_newest_install_wins_by_number_not_by_letter(
    tmp_path: Path, fake_nsys: FakeNsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("compute/2025.3.1", "systems/2025.10.2", "compute/2024.6.1"):
        fake_nsys(path=tmp_path / version / "nsys")
    unusable = fake_nsys(path=tmp_path / "compute/2026.1.0" / "nsys")
    unusable.chmod(0o644)
    patterns = (str(tmp_path / "compute/*/nsys"), str(tmp_path / "systems/*/nsys"))
    monkeypatch.setattr(nsys, "INSTALL_PATTERNS", patterns)
    assert nsys.find_nsys() == tmp_path / "systems/2025.10.2/nsys"


def test_variable_that_names_no_executable_is_an_error(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nsys()
    monkeypatch.setenv("NSYS", str(tmp_path / "gone" / "nsys-2025"))
    error = refusal(report)
    assert "NSYS names nsys-2025" in error.message
    assert str(tmp_path) not in str(error)
    (tmp_path / "plain").write_text("")
    for not_executable in (tmp_path / "plain", tmp_path):
        monkeypatch.setenv("NSYS", str(not_executable))
        with pytest.raises(ExportError):
            nsys.find_nsys()


def test_empty_variable_counts_as_unset(
    fake_nsys: FakeNsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = fake_nsys()
    monkeypatch.setenv("NSYS", "")
    assert nsys.find_nsys() == on_path


# Exporting, and the cache.


def test_export_lies_in_the_cache_and_not_beside_the_report(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path
) -> None:
    fake_nsys()
    export = nsys.export_report(report)
    assert export.name == "rank 0.sqlite"
    assert export.is_relative_to(tmp_path / "cache" / "nsysoverlap")
    assert export.parent.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(export)) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("META_DATA_EXPORT",)]
    assert os.listdir(report.parent) == [report.name]
    assert cached_files(tmp_path) == [export.name]
    assert len(list((tmp_path / "cache" / "nsysoverlap").iterdir())) == 1


@pytest.mark.parametrize("xdg", ["", "relative/cache"])
def test_cache_is_under_home_without_a_usable_xdg_variable(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path, monkeypatch: pytest.MonkeyPatch, xdg: str
) -> None:
    fake_nsys()
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    export = nsys.export_report(report)
    assert export.is_relative_to(tmp_path / "home" / ".cache" / "nsysoverlap")


def written(path: Path) -> tuple[int, int, int, int]:
    # Not the time of access: opening the file to read it may move that one.
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def test_second_call_exports_nothing(tmp_path: Path, fake_nsys: FakeNsys, report: Path) -> None:
    fake_nsys()
    export = nsys.export_report(report)
    before = written(export)
    assert nsys.export_report(report) == export
    assert written(export) == before
    assert exports_run(tmp_path) == 1


def test_relative_and_absolute_path_share_one_export(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nsys()
    export = nsys.export_report(report)
    monkeypatch.chdir(report.parent)
    assert nsys.export_report(Path(report.name)) == export
    assert exports_run(tmp_path) == 1


def test_changed_report_is_exported_again(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path
) -> None:
    fake_nsys()
    first = nsys.export_report(report)
    status = report.stat()
    os.utime(report, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))
    touched = nsys.export_report(report)
    report.write_bytes(report.read_bytes() + b"more")
    os.utime(report, ns=(status.st_atime_ns, status.st_mtime_ns))
    grown = nsys.export_report(report)
    assert len({first, touched, grown}) == 3
    assert exports_run(tmp_path) == 3


def test_another_nsys_version_exports_again(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path
) -> None:
    fake_nsys()
    first = nsys.export_report(report)
    fake_nsys(version="2025.3.1.90")
    assert nsys.export_report(report) != first
    assert exports_run(tmp_path) == 2


def test_damaged_cache_entry_is_replaced(tmp_path: Path, fake_nsys: FakeNsys, report: Path) -> None:
    fake_nsys()
    export = nsys.export_report(report)
    whole = export.read_bytes()
    export.write_bytes(whole[:-1])
    assert nsys.export_report(report) == export
    assert export.read_bytes() == whole
    assert exports_run(tmp_path) == 2


def test_export_beside_the_report_is_left_alone(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path
) -> None:
    fake_nsys()
    beside = report.with_suffix(".sqlite")
    beside.write_text("mine")
    assert nsys.export_report(report) != beside
    assert beside.read_text() == "mine"


def python_export(report: Path) -> subprocess.Popen[str]:
    """A process of its own that exports `report` and prints the path of the export."""
    code = (
        "import sys; from pathlib import Path; "
        "from nsysoverlap.trace.nsys_export import export_report; "
        "print(export_report(Path(sys.argv[1])))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(report)],
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_at_once_both_succeed(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path
) -> None:
    # Each fake waits until both have been asked, so neither can profit from the other's export.
    both_asked = "while open({calls!r}).read().split().count('export') < 2: time.sleep(0.01)\n"
    fake_nsys(body=both_asked.format(calls=str(tmp_path / "calls")) + WRITES)
    running = [python_export(report) for _ in range(2)]
    outcomes = [(*process.communicate(timeout=300), process.returncode) for process in running]
    assert [(stderr, status) for _, stderr, status in outcomes] == [("", 0)] * 2
    assert outcomes[0][0] == outcomes[1][0]
    assert cached_files(tmp_path) == ["rank 0.sqlite"]


def test_interrupt_leaves_nothing_in_the_cache(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path
) -> None:
    fake_nsys(body='open(output, "w").write("half")\ntime.sleep(60)')
    process = python_export(report)
    deadline = time.monotonic() + 300
    while not cached_files(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=300)
    assert stderr.rstrip().endswith("KeyboardInterrupt")
    assert list((tmp_path / "cache" / "nsysoverlap").iterdir()) == []


# What can go wrong.


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n",
            "is a Git LFS pointer",
        ),
        (b"SQLite format 3\0" + bytes(100), "is not an Nsight Systems report"),
        (b"a log of 2024.01.15, and 2023.4.4.54 in it", "is not an Nsight Systems report"),
    ],
)
def test_no_report(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path, content: bytes, says: str
) -> None:
    fake_nsys()
    report.write_bytes(content)
    assert refusal(report).message.startswith(f"rank 0.nsys-rep {says}")
    assert not (tmp_path / "calls").exists()


def test_missing_report_and_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path / "x" / "a.nsys-rep").message == "a.nsys-rep does not exist."
    (tmp_path / "b.nsys-rep").mkdir()
    assert refusal(tmp_path / "b.nsys-rep").message == "b.nsys-rep cannot be read: Is a directory."


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Give up root for the test, for root may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield
    os.seteuid(user)


@pytest.mark.usefixtures("unprivileged")
def test_report_without_read_permission(tmp_path: Path) -> None:
    # The folder shuts out another user than root; the mode of the file, its own owner.
    path = tmp_path / "secret.nsys-rep"
    if os.geteuid() == os.getuid():
        path.write_bytes(HEADER)
        path.chmod(0)
    error = refusal(path)
    assert error.message == "secret.nsys-rep cannot be read: no read permission."


def test_no_nsys_shows_the_command_quoted(report: Path) -> None:
    error = refusal(report)
    assert "rank 0.nsys-rep" in error.message
    assert "no nsys was found" in error.message
    command = error.hint.split("run: ")[1]
    assert shlex.split(command) == [
        "nsys", "export", "--type", "sqlite",
        "--output", str(report.with_suffix(".sqlite")), str(report),
    ]  # fmt: skip


def test_command_names_the_report_as_given() -> None:
    assert nsys.export_command(Path("a'b.nsys-rep")) == (
        "nsys export --type sqlite --output 'a'\"'\"'b.sqlite' 'a'\"'\"'b.nsys-rep'"
    )
    assert nsys.export_command(Path("runs/r0.qdrep")) == (
        "nsys export --type sqlite --output runs/r0.sqlite runs/r0.qdrep"
    )


def test_failed_export_says_why_and_leaves_nothing(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path
) -> None:
    fake_nsys(body=FAILS)
    error = refusal(report)
    assert error.message == (
        "nsys 2023.4.4.54 could not export rank 0.nsys-rep: "
        "Exportation error: Cannot read rank 0.nsys-rep here."
    )
    assert list((tmp_path / "cache" / "nsysoverlap").iterdir()) == []
    assert os.listdir(report.parent) == [report.name]


def test_unknown_folders_are_left_out_of_the_reason(fake_nsys: FakeNsys, report: Path) -> None:
    fake_nsys(body="sys.exit(\"Cannot open '/home/jane/lib/libA.so' (/opt/x/y.cpp)\")")
    assert refusal(report).message.endswith("rank 0.nsys-rep: Cannot open 'libA.so' (y.cpp)")


def test_success_without_a_file_is_a_failure(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path
) -> None:
    fake_nsys(body="pass")
    assert "exit status 0, no complete SQLite file" in refusal(report).message
    assert cached_files(tmp_path) == []


def test_disk_full(tmp_path: Path, fake_nsys: FakeNsys, report: Path) -> None:
    fake_nsys(body=FINDS_DISK_FULL)
    error = refusal(report)
    assert error.message.endswith("could not be kept in the cache directory: "
                                  "No space left on device.")  # fmt: skip
    assert "XDG_CACHE_HOME" in error.hint
    assert list((tmp_path / "cache" / "nsysoverlap").iterdir()) == []


def test_cache_directory_that_cannot_be_made(
    tmp_path: Path, fake_nsys: FakeNsys, report: Path
) -> None:
    fake_nsys()
    (tmp_path / "file").write_text("")
    error = refusal(report, cache_dir=tmp_path / "file" / "cache")
    assert "could not be kept in the cache directory: Not a directory." in error.message
    assert exports_run(tmp_path) == 0


def test_report_newer_than_nsys(tmp_path: Path, fake_nsys: FakeNsys, report: Path) -> None:
    fake_nsys(body=FAILS)
    report.write_bytes(HEADER.replace(b"2023@4@4@54", b"2023@4@10@2"))
    error = refusal(report)
    assert "written by nsys 2023.4.10.2" in error.message
    assert "newer than the nsys found here (2023.4.4.54)" in error.message
    assert "With nsys 2023.4.10.2 or newer" in error.hint
    assert cached_files(tmp_path) == []


def test_older_report_that_fails_is_not_called_newer(fake_nsys: FakeNsys, report: Path) -> None:
    fake_nsys(body=FAILS, version="2023.4.10.2")
    assert "could not export" in refusal(report).message


def test_newer_report_that_nsys_takes_is_used(fake_nsys: FakeNsys, report: Path) -> None:
    fake_nsys(version="2022.1.1.1")
    assert nsys.export_report(report).exists()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("#!/bin/sh\necho /a/b/nsys: libssh.so: not found >&2; exit 127\n", "nsys: libssh.so:"),
        ("#!/bin/sh\necho hello\n", "does not work: exit status 0"),
        ("#!/no/such/interpreter\n", "cannot be started"),
    ],
)
def test_broken_nsys(bare_machine: Path, report: Path, script: str, says: str) -> None:
    (bare_machine / "nsys").write_text(script)
    (bare_machine / "nsys").chmod(0o755)
    error = refusal(report)
    assert says in error.message
    assert "/a/b" not in error.message
    assert "NSYS" in error.hint


# The version inside a report.


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (HEADER, "2023.4.4.54"),
        (b"NVIDIA Tegra Profiler Report 2019@5@2@16-b54ef97.\n", "2019.5.2.16"),
        (b"2023.4.4.54", None),
        (bytes(100) + HEADER, None),
        (b"", None),
    ],
)
def test_report_version(tmp_path: Path, content: bytes, version: str | None) -> None:
    path = tmp_path / "a.nsys-rep"
    path.write_bytes(content)
    assert nsys.report_version(path) == version


# The real nsys.

REAL = shutil.which(os.environ.get("NSYSOVERLAP_REAL_NSYS") or os.environ.get("NSYS") or "nsys")


@pytest.fixture
def real_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report of a small program, captured now; nsys needs no GPU for that."""
    if not REAL:
        pytest.skip("no nsys on this machine")
    monkeypatch.setenv("NSYS", REAL)
    monkeypatch.setenv("PATH", os.defpath)
    path = tmp_path / "real run.nsys-rep"
    command = [REAL, "profile", "--trace=osrt", "--sample=none", "--cpuctxsw=none"]
    done = subprocess.run(
        [*command, "-o", str(path), "sleep", "0.1"],
        capture_output=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    if not path.exists():
        pytest.skip(f"nsys profile made no report here (exit status {done.returncode})")
    return path


def test_real_report_is_exported(tmp_path: Path, real_report: Path) -> None:
    export = nsys.export_report(real_report)
    with closing(sqlite3.connect(f"file:{export}?mode=ro", uri=True)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        metadata = dict(db.execute("SELECT name, value FROM META_DATA_EXPORT"))
        (n_calls,) = db.execute("SELECT count(*) FROM OSRT_API").fetchone()
    assert {"StringIds", "META_DATA_CAPTURE", "PROCESSES"} <= tables
    assert metadata["EXPORT_PRODUCT_VERSION"] == nsys.report_version(real_report)
    assert n_calls > 0
    assert cached_files(tmp_path) == ["real run.sqlite"]
    exported_at = export.stat().st_mtime_ns
    assert nsys.export_report(real_report) == export
    assert export.stat().st_mtime_ns == exported_at


def test_real_nsys_refuses_a_newer_report(tmp_path: Path, real_report: Path) -> None:
    version = nsys.report_version(real_report)
    assert version is not None
    old, new = version.replace(".", "@").encode(), b"2099@9@9@9"
    real_report.write_bytes(real_report.read_bytes().replace(old, new.ljust(len(old), b"9"), 1))
    error = refusal(real_report)
    assert "written by nsys 2099.9.9.9" in error.message
    assert f"newer than the nsys found here ({version})" in error.message
    assert cached_files(tmp_path) == []


def test_real_nsys_refuses_a_damaged_report(tmp_path: Path, real_report: Path) -> None:
    whole = real_report.read_bytes()
    real_report.write_bytes(whole[: len(whole) // 2])
    error = refusal(real_report)
    assert "could not export real run.nsys-rep: " in error.message
    assert str(tmp_path) not in error.message
    assert cached_files(tmp_path) == []
