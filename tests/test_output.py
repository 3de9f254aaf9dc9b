"""`nsysoverlap.output`: a file is written as a whole or stays as it was."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsysoverlap.core.errors import NsysOverlapError, UsageError
from nsysoverlap.core.output import check_target, write_atomically


@pytest.fixture
def plain_user(open_folder: Path) -> Iterator[Path]:
    """An own folder, and no root rights for the test: root may write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.chown(open_folder, 65534, -1)
        os.seteuid(65534)
    yield open_folder
    os.seteuid(user)


def test_text_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    write_atomically(path, "12 µs – \udcff\n")
    assert path.read_bytes() == "12 µs – ?\n".encode()
    write_atomically(path, b"PAR1\r\n")
    assert path.read_bytes() == b"PAR1\r\n"
    assert os.listdir(tmp_path) == ["report.txt"]


def test_mode_of_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", "x")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_mode_of_an_old_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_text("old")
    path.chmod(0o664)
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o664


def test_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_link_to_nothing_yet(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "real").read_text() == "new"


def test_device_and_pipe_are_written_to(tmp_path: Path) -> None:
    write_atomically(Path(os.devnull), "x")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_atomically(pipe, "through")
    reader.join(timeout=300)
    assert read == ["through"]


def test_link_to_a_pipe_without_a_name_is_written_to() -> None:
    source, sink = os.pipe()
    with os.fdopen(source) as reader, os.fdopen(sink, "wb"):
        write_atomically(Path(f"/dev/fd/{sink}"), "through")
        assert reader.read(7) == "through"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("folder", "folder: cannot be written (Is a directory). Give the name of a file."),
        ("no/file", "file: cannot be written (no such folder). Create the folder first."),
        ("old/file", "file: cannot be written (no such folder). Create the folder first."),
        ("n" * 300, "cannot be written (File name too long)"),
    ],
)
def test_refused_path(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "old").write_text("old")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(NsysOverlapError) as caught:
        write_atomically(tmp_path / name, "x")
    assert says in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["replace", "fchmod"])
def test_failure_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises((NsysOverlapError, KeyboardInterrupt)) as caught:
        write_atomically(path, "new")
    monkeypatch.undo()
    if isinstance(error, OSError):
        assert str(caught.value) == (
            "report.json: cannot be written (No space left on device). "
            "Free some space, or write to another disk."
        )
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.json"]


def test_full_device() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    with pytest.raises(NsysOverlapError, match=r"full: cannot be written \(No space left"):
        write_atomically(Path("/dev/full"), "x")


def test_write_protected_file_is_not_replaced(plain_user: Path) -> None:
    path = plain_user / "kept"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(NsysOverlapError, match=r"kept: cannot be written \(Permission denied\)"):
        write_atomically(path, "new")
    assert path.read_text() == "old"


def test_write_protected_folder(plain_user: Path) -> None:
    folder = plain_user / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    with pytest.raises(NsysOverlapError, match=r"x: cannot be written \(Permission denied\)"):
        write_atomically(folder / "x", "new")
    assert os.listdir(folder) == []


def test_input_is_never_a_target(tmp_path: Path) -> None:
    trace, link = tmp_path / "t.sqlite", tmp_path / "link"
    trace.write_text("trace")
    link.symlink_to(trace)
    check_target(tmp_path / "other", [trace])
    for path in (trace, link):
        with pytest.raises(UsageError, match="is an input and would be overwritten"):
            check_target(path, [tmp_path / "missing", trace])
