"""The file itself: never changed, never created, and refused where it is not whole."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nsysoverlap import read_trace
from nsysoverlap.core.errors import TraceFileError
from nsysoverlap.trace.devices import read_gpus
from nsysoverlap.trace.load import table_counts

from .readerkit import KERNEL, SMALL, all_shapes, assert_same, everything, execute, snapshot
from .tracebuilder import build
from .traces import h200


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return build(folder / "t.sqlite", SMALL)


def refused(path: Path, words: str) -> TraceFileError:
    """The error of reading `path`; nothing beside it changed."""
    before = snapshot(path.parent) if path.parent.is_dir() else {}
    with pytest.raises(TraceFileError) as caught:
        read_trace(path)
    assert words in caught.value.message
    assert path.name[:100] in caught.value.message
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    if before:
        assert snapshot(path.parent) == before
    return caught.value


def test_reading_changes_and_creates_nothing(out: Path) -> None:
    out.chmod(0o444)
    before = snapshot(out.parent)
    read_trace(out)
    read_trace(str(out))
    table_counts(out)
    assert snapshot(out.parent) == before
    assert stat.S_IMODE(out.stat().st_mode) == 0o444


@pytest.mark.parametrize(
    "name",
    [
        *("a b.sqlite", "a%20b.sqlite", "a?mode=rwc.sqlite", "a#b.sqlite", "a'\"b.sqlite"),
        *("ä核.sqlite", "a&b=c.sqlite", "file:a.sqlite", "a\nb.sqlite", "-a.sqlite", "t.nsys"),
        "x" * 250,
        os.fsdecode(b"a\xff\xfeb.sqlite"),
    ],
)
def test_names_of_all_kinds(out: Path, name: str) -> None:
    expected = read_trace(out)
    path = out.with_name(name)
    try:
        out.rename(path)
    except OSError:
        pytest.skip("this file system does not take such a name")
    before = snapshot(path.parent)
    found = read_trace(path)
    assert_same(found, expected)
    # What is no text can be written nowhere, so it is shown as ?.
    assert found.info.file_name == name.encode("utf-8", "replace").decode()
    assert snapshot(path.parent) == before


def test_a_relative_path(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read_trace(out)
    monkeypatch.chdir(out.parent)
    assert_same(read_trace("t.sqlite"), expected)
    assert_same(read_trace("../runs/t.sqlite"), expected)


@pytest.mark.parametrize(
    "name", ["missing.sqlite", "no/such/folder.sqlite", "t.sqlite/below", "x" * 300]
)
def test_what_is_not_there_is_not_created(out: Path, name: str) -> None:
    path = out.parent / name
    before = sorted(os.listdir(out.parent))
    with pytest.raises(TraceFileError):
        read_trace(path)
    assert sorted(os.listdir(out.parent)) == before


def test_a_name_no_file_can_have() -> None:
    with pytest.raises(TraceFileError):
        read_trace("a\0b.sqlite")


def test_links(out: Path) -> None:
    expected = read_trace(out)
    link = out.with_name("link.sqlite")
    link.symlink_to(out)
    assert_same(read_trace(link), expected)
    out.with_name("dangling").symlink_to("nowhere")
    refused_message = "no such file"
    for name in ("dangling", "loop"):
        if name == "loop":
            out.with_name(name).symlink_to(name)
        with pytest.raises(TraceFileError, match=refused_message):
            read_trace(out.with_name(name))


@pytest.mark.parametrize(("suffix", "what"), [("-wal", "write-ahead"), ("-journal", "rollback")])
def test_logs_beside_the_file(out: Path, suffix: str, what: str) -> None:
    log = out.with_name(out.name + suffix)
    log.write_bytes(b"")
    assert len(read_trace(out).kernels) == 4
    log.write_bytes(b"something")
    refused(out, what)
    elsewhere = out.parent / "elsewhere"
    elsewhere.mkdir()
    link = elsewhere / "link.sqlite"
    link.symlink_to(out)
    with pytest.raises(TraceFileError, match=f"link.sqlite: a {what}"):
        read_trace(link)


def test_a_writer_at_work(out: Path) -> None:
    with closing(sqlite3.connect(out)) as db:
        assert db.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        db.execute(f"DELETE FROM {KERNEL}")
        db.commit()
        refused(out, "write-ahead log")
    assert len(read_trace(out).kernels) == 0, "the log is gone once the writer has closed"


@pytest.mark.parametrize("size", [1, 15, 16, 50, 99])
def test_a_header_cut_off(out: Path, size: int) -> None:
    out.write_bytes(out.read_bytes()[:size])
    refused(out, "t.sqlite: is ")


@pytest.mark.parametrize("lost", [1, 511, 4096, 20_000])
def test_a_tail_cut_off(out: Path, lost: int) -> None:
    out.write_bytes(out.read_bytes()[:-lost])
    refused(out, "is truncated")


def test_a_tail_cut_off_where_the_header_does_not_count_pages(out: Path) -> None:
    content = bytearray(out.read_bytes()[:-4096])
    content[24:28] = bytes(4)
    out.write_bytes(content)
    refused(out, "damaged or cannot be read")


@pytest.mark.parametrize("page_size", [0, 1, 2, 3, 511, 4095, 0xFFFF])
def test_page_sizes_that_cannot_be(out: Path, page_size: int) -> None:
    content = bytearray(out.read_bytes())
    content[16:18] = page_size.to_bytes(2, "big")
    out.write_bytes(content)
    refused(out, "t.sqlite: ")


@pytest.mark.parametrize("pragma", ["encoding = 'UTF-16le'", "page_size = 65536", "auto_vacuum=1"])
def test_databases_of_other_settings(out: Path, tmp_path: Path, pragma: str) -> None:
    expected = all_shapes(everything().write(out))
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(out)) as source, closing(sqlite3.connect(other)) as db:
        db.execute(f"PRAGMA {pragma}")
        db.executescript("\n".join(source.iterdump()))
    assert_same(all_shapes(other), expected)


def test_a_text_column_name_that_is_no_utf8(out: Path) -> None:
    expected = read_trace(out)
    execute(out, f'ALTER TABLE {KERNEL} ADD COLUMN "zzzz" TEXT')
    out.write_bytes(out.read_bytes().replace(b'"zzzz"', b'"\xff\xfe\xfd\xfc"'))
    assert_same(read_trace(out), expected)


def test_other_databases_are_named_on_one_line(tmp_path: Path) -> None:
    path = execute(tmp_path / "t.sqlite", 'CREATE TABLE "a\nb\x1b[31m" (x)')
    error = refused(path, "not an nsys export (tables: a b [31m)")
    assert error.message.isprintable()


Change = Callable[[Path], object]


def overwrite(path: Path) -> None:
    path.write_bytes(h200("micro_serial").read_bytes())


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0" * 4096)


CHANGES: list[Change] = [
    overwrite,
    replace,
    append,
    os.unlink,
    lambda path: execute(path, f"DELETE FROM {KERNEL}"),
    lambda path: os.truncate(path, 4096),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"x" * path.stat().st_size),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_while_it_is_read(
    out: Path, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change_then_read(*args: Any) -> Any:
        change(out)
        return read_gpus(*args)

    monkeypatch.setattr("nsysoverlap.trace.load.read_gpus", change_then_read)
    with pytest.raises(TraceFileError, match=r"t\.sqlite: the file changed while it was read"):
        read_trace(out)


@pytest.mark.parametrize("seed", range(40))
def test_damage_anywhere_ends_in_rows_or_one_line(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    content = bytearray(h200(chance.choice(["micro_serial", "micro_graph_node"])).read_bytes())
    for _ in range(chance.choice([1, 5, 50])):
        at = chance.randrange(100, len(content) - 200)
        noise = chance.randbytes(chance.choice([1, 2, 200]))
        content[at : at + len(noise)] = noise
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(content)
    trace, message = None, "damaged.sqlite: "
    try:
        trace = all_shapes(path)
    except TraceFileError as error:
        message = error.message
    assert message.startswith("damaged.sqlite: ")
    assert "\n" not in message
    for table in trace.tables.values() if trace else ():
        assert (table.end_ns >= table.start_ns).all()
    assert os.listdir(tmp_path) == ["damaged.sqlite"]
    assert path.read_bytes() == content
