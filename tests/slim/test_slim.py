"""`slim_trace`: the same report from less, and nothing in it that could identify anyone."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nsysoverlap import Window, analyze, read_trace
from nsysoverlap.core.errors import NsysOverlapError, TraceFileError, UsageError
from nsysoverlap.run.analysis import Options, analyze_trace
from nsysoverlap.slim import find_sensitive, making, slim_trace
from nsysoverlap.slim.copying import write_copy
from nsysoverlap.steps.plan import StepSpec

from ..builder.query import columns, query, tables
from ..casekit import Scene
from ..readerkit import everything, execute, retype
from ..traces import h200, h200_names

SECRETS = ("ada", "lovelace", "node17", "hunter2", "/home/", "10.20.30.40")


def report(path: Path, options: Options) -> dict[str, Any]:
    trace = read_trace(path)
    trace = replace(trace, info=replace(trace.info, file_name="t"))
    return analyze_trace(trace, options).to_dict()


@pytest.mark.parametrize("name", h200_names())
@pytest.mark.parametrize("steps", ["auto", "none"])
def test_the_report_of_a_real_trace_stays(name: str, steps: str, tmp_path: Path) -> None:
    out, options = tmp_path / "out.sqlite", Options(steps=StepSpec(steps))
    slimmed = slim_trace(h200(name), out, options)
    assert report(out, options) == report(h200(name), options)
    assert slimmed.n_bytes == out.stat().st_size
    if "capture" in name or "record" in name:
        assert slimmed.n_bytes == slimmed.n_bytes_before, "these are slim already"
    else:
        assert slimmed.n_bytes < slimmed.n_bytes_before
    assert os.listdir(tmp_path) == ["out.sqlite"]


def test_who_waited_stays_known(tmp_path: Path) -> None:
    """`save_on_cpu` synchronises after each copy out: the calls that did so are kept."""
    out = tmp_path / "out.sqlite"
    slim_trace(h200("pytorch/save_on_cpu"), out, Options())
    both, before = (analyze(path).total("both") for path in (out, h200("pytorch/save_on_cpu")))
    assert both == before
    assert (both.host_blocking_ns or 0) > 0.49 * both.exposed_ns


def secretive(path: Path) -> Path:
    """An export with a secret wherever one may be, those places included that no one knows yet."""
    builder = everything()
    builder.env("HOME", "/home/ada")
    builder.env("API_TOKEN", "hunter2")
    builder.env("XLA_FLAGS", "--xla_dump_to=/home/ada/dump --xla_a=b")
    builder.meta("HOSTNAME", "node17", capture=True)
    builder.meta("EXPORT_SOURCE", "/home/ada/run.nsys-rep")
    builder.row(
        "TARGET_INFO_SYSTEM_ENV", devStateName="x", name="Hostname", nameEnum=1, value="node17"
    )
    builder.row("PROCESSES", globalPid=1, pid=1, name="ada_lovelace_train")
    builder.diagnostic(2, "See /home/ada/log for more, ask ada@node17.example.org")
    builder.diagnostic(1, "Launched by lovelace")
    builder.nvtx("lovelace's thread", 0, None, event_type=39)
    builder.nvtx("ada was here", 5, None, event_type=34)
    builder.string("/home/ada/unused.py")
    builder.api("adaPrivateCall", 100, 200, 77)
    builder.write(path)
    return execute(
        path,
        "CREATE TABLE SECRET_TABLE (who TEXT)",
        "CREATE TABLE ThreadNames (nameId INTEGER, globalTid INTEGER, who TEXT)",
        "INSERT INTO StringIds SELECT 987654, 'lovelace worker'",
        "INSERT INTO ThreadNames VALUES (987654, 1, 'ada')",
        "INSERT INTO SECRET_TABLE VALUES ('ada lovelace')",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN owner TEXT",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET owner = 'ada', globalPid = 'ada'",
        "UPDATE NVTX_EVENTS SET jsonText = 'ada@10.20.30.40', category = 'lovelace'",
        "CREATE VIEW who AS SELECT 'ada'",
        "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN SELECT 'lovelace'; END",
        "CREATE INDEX ada ON StringIds (value)",
    )


def test_no_secret_is_left(tmp_path: Path) -> None:
    source, out = secretive(tmp_path / "in.sqlite"), tmp_path / "out.sqlite"
    before = source.read_bytes()
    assert all(secret.encode() in before for secret in SECRETS)
    slimmed = slim_trace(source, out, Options())
    after = out.read_bytes().lower()
    assert [secret for secret in SECRETS if secret.encode() in after] == []
    assert source.read_bytes() == before
    with closing(sqlite3.connect(out)) as db:
        kinds = {kind for (kind,) in db.execute("SELECT type FROM sqlite_master")}
    assert kinds == {"table"}
    gone = {change.table: change.removed for change in slimmed.changes if not change.kept}
    assert gone["SECRET_TABLE"] == 1
    assert gone["PROCESSES"] == 1
    assert "owner" in next(
        c.columns for c in slimmed.changes if c.table == "CUPTI_ACTIVITY_KIND_KERNEL"
    )


def test_only_texts_that_rows_refer_to(tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    slim_trace(h200("jax_unroll_lhs"), out, Options())
    used = "SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL UNION SELECT nameId FROM "
    used += "CUPTI_ACTIVITY_KIND_RUNTIME UNION SELECT textId FROM NVTX_EVENTS"
    assert query(out, f"SELECT count(*) FROM StringIds WHERE id NOT IN ({used})") == [(0,)]
    assert query(out, "SELECT count(*) FROM StringIds")[0][0] > 100
    assert "gridId" not in columns(out, "CUPTI_ACTIVITY_KIND_KERNEL")


@pytest.mark.parametrize(
    "name", ["jax_unroll_lhs", "jax_fsdp2_lhs", "ddp_two_procs", "micro_duplex"]
)
@pytest.mark.parametrize("part", [(0.3, 0.6), (0.5, 0.501), (None, 0.4), (0.7, None)])
def test_a_window(name: str, part: tuple[float | None, float | None], tmp_path: Path) -> None:
    extent = read_trace(h200(name)).extent_ns
    assert extent is not None
    edges = [None if p is None else int(extent[0] + p * (extent[1] - extent[0])) for p in part]
    options, out = Options(window=Window(*edges)), tmp_path / "out.sqlite"
    slimmed = slim_trace(h200(name), out, options)
    was, now = report(h200(name), options), report(out, options)
    for key in ("totals", "operations", "kernels", "findings", "attribution", "basis"):
        assert now[key] == was[key]
    for one, other in zip(was["devices"], now["devices"], strict=True):
        for key in ("window_ns", "h2d", "d2h", "both", "time_budget", "streams", "relief"):
            assert one[key] == other[key]
    rows = {c.table: (c.kept, c.removed) for c in slimmed.changes}
    assert sum(removed for kept, removed in rows.values() if kept) > 0


def test_a_window_keeps_what_decides_its_numbers(tmp_path: Path) -> None:
    from ..casekit import Scene

    scene = Scene()
    scene.run("compute", 7, 1, 10, 20)
    scene.run("h2d", 7, 2, 100, 200)
    # It waits for the copy, and starts after the window.
    scene.run("compute", 7, 3, 900, 950)
    source = scene.builder.write(tmp_path / "in.sqlite")
    options, out = Options(window=Window(90, 210)), tmp_path / "out.sqlite"
    slim_trace(source, out, options)
    (device,) = report(out, options)["devices"]
    assert device["window_ns"] == [90, 210]
    assert device["h2d"]["blocking_ns"] == 100


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [("TEXT", "{c}"), ("", "{c}"), ("REAL", "{c}"), ("", "CAST({c} AS TEXT)"), ("BLOB", "{c}")],
)
def test_columns_of_any_type(sql_type: str, value: str, tmp_path: Path) -> None:
    source = everything().write(tmp_path / "in.sqlite")
    numeric = [t for t in tables(source) if t.startswith("CUPTI_")]
    retype(source, sql_type, value, only=numeric)
    slim_trace(source, tmp_path / "out.sqlite", Options())
    assert report(tmp_path / "out.sqlite", Options()) == report(source, Options())


def test_nonsense_stays_nonsense(tmp_path: Path) -> None:
    source = everything().write(tmp_path / "in.sqlite")
    execute(source, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = 'soon' WHERE rowid = 1")
    execute(source, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = NULL, streamId = X'FF'")
    slim_trace(source, tmp_path / "out.sqlite", Options())
    found = report(tmp_path / "out.sqlite", Options())
    assert found == report(source, Options())
    assert "rows-unreadable" in {entry["code"] for entry in found["health"]}


def test_names_of_calls_that_no_row_names(tmp_path: Path) -> None:
    """Waits were asked for, by the names alone, and there is no table of them."""
    scene = Scene()
    scene.run("h2d", 20, 1, 10, 30)
    scene.wait(7, 2, 1)
    scene.run("compute", 7, 3, 30, 40)
    source = scene.builder.write(tmp_path / "in.sqlite")
    execute(source, "DROP TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    execute(source, "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = -1")
    slim_trace(source, tmp_path / "out.sqlite", Options())
    found = report(tmp_path / "out.sqlite", Options())
    assert found["totals"]["h2d"]["blocking_ns"] is None
    assert found == report(source, Options())


def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    source, out = everything().write(tmp_path / "in.sqlite"), tmp_path / "out.sqlite"
    out.write_text("mine")
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "nowhere")
    for target in (out, tmp_path / "link.sqlite", source):
        with pytest.raises(UsageError):
            slim_trace(source, target, Options())
    assert out.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_file_that_comes_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = everything().write(tmp_path / "in.sqlite"), tmp_path / "out.sqlite"

    def and_someone_else(*arguments: Any) -> Any:
        out.write_text("theirs")
        return write_copy(*arguments)

    monkeypatch.setattr(making, "write_copy", and_someone_else)
    with pytest.raises(UsageError, match="exists"):
        slim_trace(source, out, Options())
    assert out.read_text() == "theirs"
    assert sorted(os.listdir(tmp_path)) == ["in.sqlite", "out.sqlite"]


def test_a_copy_with_another_report_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = everything().write(tmp_path / "in.sqlite")

    def with_a_row_less(source: Path, target: Path, selection: Any) -> Any:
        changes = write_copy(source, target, selection)
        execute(target, "DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE rowid = 1")
        return changes

    monkeypatch.setattr(making, "write_copy", with_a_row_less)
    with pytest.raises(NsysOverlapError, match="would not give the report"):
        slim_trace(source, tmp_path / "out.sqlite", Options())
    assert os.listdir(tmp_path) == ["in.sqlite"]


def test_a_source_replaced_while_it_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, other = everything().write(tmp_path / "in.sqlite"), tmp_path / "other.sqlite"
    execute(everything().write(other), "DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE rowid = 1")

    def after_a_change(*arguments: Any) -> Any:
        if other.exists():
            other.replace(source)
        return write_copy(*arguments)

    monkeypatch.setattr(making, "write_copy", after_a_change)
    with pytest.raises(TraceFileError, match=r"in\.sqlite: the file changed while it was read"):
        slim_trace(source, tmp_path / "out.sqlite", Options())
    assert os.listdir(tmp_path) == ["in.sqlite"]


def test_an_unreadable_source(tmp_path: Path) -> None:
    (tmp_path / "in.sqlite").write_text("no database")
    with pytest.raises(TraceFileError):
        slim_trace(tmp_path / "in.sqlite", tmp_path / "out.sqlite", Options())
    with pytest.raises(UsageError, match="out"):
        slim_trace(h200("micro_hidden"), tmp_path / "no" / "out.sqlite", Options())


def test_rows_that_are_read_but_not_found(tmp_path: Path) -> None:
    """Damage that no single read meets: the row of a name comes after those with larger ids."""
    source = everything().write(tmp_path / "t.sqlite")
    ((name_id, name),) = query(source, "SELECT * FROM StringIds WHERE value LIKE '_Z%AllReduce%'")
    content = bytearray(source.read_bytes())
    at = content.index(str(name).encode()) - 4
    # Its id, and three bytes that say what follows.
    assert content[at] == name_id
    content[at] = 0
    source.write_bytes(content)
    read_trace(source)
    with pytest.raises(TraceFileError, match=r"damaged .*out of order") as error:
        slim_trace(source, tmp_path / "slim.sqlite", Options())
    assert "bug" not in str(error.value)
    assert os.listdir(tmp_path) == ["t.sqlite"]


def test_what_could_identify_someone(tmp_path: Path) -> None:
    source = secretive(tmp_path / "in.sqlite")
    found = {(s.table, s.column): s for s in find_sensitive(source)}
    assert found["SECRET_TABLE", "who"].n == 1
    assert found["PROCESSES", "name"].what == "names of running programs"
    assert found["StringIds", "value"].examples == ("/home/ada/unused.py",)
    assert found["NVTX_EVENTS", "jsonText"].revealing == 1
    assert not any(table.startswith("ENUM_") for table, _ in found)
    slim_trace(source, tmp_path / "out.sqlite", Options())
    left = find_sensitive(tmp_path / "out.sqlite")
    assert {s.table for s in left} <= {
        *("StringIds", "NVTX_EVENTS", "META_DATA_CAPTURE", "META_DATA_EXPORT"),
        *("DIAGNOSTIC_EVENT", "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE"),
    }
    assert [s for s in left if s.revealing] == []


def test_texts_where_numbers_belong_and_names_of_the_programs_own_data(tmp_path: Path) -> None:
    source = everything().write(tmp_path / "in.sqlite")
    execute(source, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 'ada' WHERE rowid = 1")
    execute(source, "CREATE TABLE NVTX_PAYLOAD_SCHEMAS (schemaId INTEGER, name TEXT)")
    execute(source, "INSERT INTO NVTX_PAYLOAD_SCHEMAS VALUES (1, 'lovelace')")
    found = {(s.table, s.column): s.n for s in find_sensitive(source)}
    assert found["CUPTI_ACTIVITY_KIND_KERNEL", "streamId"] == 1
    assert found["NVTX_PAYLOAD_SCHEMAS", "name"] == 1
    assert ("CUPTI_ACTIVITY_KIND_KERNEL", "deviceId") not in found


def test_very_long_words_are_looked_at_in_time(tmp_path: Path) -> None:
    source = everything().write(tmp_path / "in.sqlite")
    for start in ("a", "a.", "1.", "/a", "\\\\", "a@", "://"):
        word = start * 1_000_000
        execute(source, "INSERT INTO StringIds VALUES (?, ?)", values=(hash(start) % 2**40, word))
    (found,) = (s for s in find_sensitive(source) if s.table == "StringIds")
    assert all(len(example) < 200 for example in found.examples)


def test_xla_scopes_are_no_paths() -> None:
    found = {(s.table, s.column): s for s in find_sensitive(h200("jax_fsdp2_lhs"))}
    assert found["StringIds", "value"].revealing == 0
    assert found["StringIds", "value"].n > 600


@pytest.mark.parametrize("name", ["jax_unroll_lhs", "ddp_two_procs", "jax_fsdp2_lhs"])
def test_a_window_of_a_healthy_trace_has_lost_nothing(tmp_path: Path, name: str) -> None:
    """Calls inside the window whose work ran outside it are not kept without their rows."""
    low, high = read_trace(h200(name)).extent_ns or (0, 0)
    third = (high - low) // 3
    target = tmp_path / "slim.sqlite"
    slim_trace(h200(name), target, Options(window=Window(low + third, low + 2 * third)))
    copy = analyze(target, steps="none")
    assert copy.conclusive, [entry.message for entry in copy.health]


def test_a_copy_keeps_how_long_the_capture_was_and_what_the_host_waited_for(tmp_path: Path) -> None:
    scene = Scene()
    scene.run("d2h", 20, 2_000, 5_000, 9_000)
    waits = ("cudaStreamSynchronize_v3020", "cudaDeviceSynchronize_v3020", "cuEventSynchronize")
    kept = (*waits, "cudaMemcpy_v3020", "cudaHostAlloc_v3020")
    for i, name in enumerate((*kept, "cudaGetLastError_v3020")):
        scene.builder.api(name, 3_000 + 100 * i, 3_050 + 100 * i, 90 + i)
    source = scene.builder.write(tmp_path / "t.sqlite", "3.20")
    slim_trace(source, tmp_path / "slim.sqlite", Options())
    copy = read_trace(tmp_path / "slim.sqlite")
    assert copy.facts.capture_ns == read_trace(source).facts.capture_ns == (0, 9_000)
    assert set(kept) <= set(copy.host.api_names)
    assert "cudaGetLastError_v3020" not in copy.host.api_names
    assert len(copy.host.calls) == 6
