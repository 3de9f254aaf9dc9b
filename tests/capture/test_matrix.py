"""The whole matrix, its pictures and tables, the history, and the largest batches."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import jsonschema
import pytest

from capture import batches, matrix, worker
from capture.arms import find_arm
from capture.batch_runs import Largest, batch_table
from capture.config import load_config
from capture.frontier import draw, write_picture
from capture.past import record_rows, row_labels
from capture.results import Row, load_rows
from nsysoverlap.judge.history_store import read_runs

from .kit import changed, say, spec_for, tiny, write_toml
from .test_manifest import SCHEMA
from .test_results import bytes_of, leave, manifest, row

PNG = b"\x89PNG\r\n"


@pytest.mark.slow
def test_a_matrix_from_nothing_and_again(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    one_device: None,
) -> None:
    pytest.importorskip("jax")
    out = tmp_path / "results"
    config = write_toml(tiny(), tmp_path / "small.toml")
    command = ["matrix", "--config", config, "--arms", "keep", "--out", out, "--no-trace"]
    said = say(capsys, monkeypatch, *command)
    assert said.status == 0, said.err
    assert "1/1 keep: ok" in said.err
    assert "On the frontier of step time and peak memory: keep." in said.out
    assert (out / "results.md").read_text(encoding="utf-8").strip() == said.out.strip()
    (values,) = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert values["status"] == "ok"
    assert values["tflops"] > 0

    again = say(capsys, monkeypatch, *command)
    assert "1/1 keep: has a result already" in again.err
    assert again.out == said.out


def test_an_arm_whose_source_is_missing_is_skipped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = ["run", "--config", "toy", "--arm", "pgle", "--out", tmp_path, "--no-trace"]
    said = say(capsys, monkeypatch, *command)
    assert said.status == 2
    assert "needs the recording of lhs" in said.err


def test_no_arm_starts_after_the_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []
    plan = matrix.Plan(tmp_path, None, budget_s=-1.0)
    arms = find_arm(tiny(), "keep"), find_arm(tiny(), "remat")
    assert matrix.run_matrix(tiny(), arms, plan, said.append) == []
    assert said == ["time budget spent; not run: keep, remat"]


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row("keep", 232, 26.5), row("save", 268, 12.0), row("lhs", 306, 16.8)]
    assert draw(rows).startswith(PNG)
    target = write_picture(tmp_path, rows)
    assert target == tmp_path / "frontier.png"
    assert target.stat().st_size > 10_000
    target.unlink()
    assert write_picture(tmp_path, [Row("keep", "", "out-of-memory")]) is None
    assert not target.exists()


def test_each_recorded_arm_is_a_row_of_the_history(tmp_path: Path) -> None:
    out, database = tmp_path / "out", tmp_path / "runs.db"
    size = bytes_of("jax_unroll_lhs", tmp_path)
    leave(out, "keep", manifest())
    leave(out, "save", manifest(step_ms=268.0), "jax_unroll_save")
    leave(out, "lhs", manifest(size), "jax_unroll_lhs")
    rows = load_rows(out)
    assert record_rows(database, out, "toy", rows) == 2
    assert record_rows(database, out, "toy", rows) == 0, "the same recordings are no new runs"
    runs = {run.labels["arm"]: run for run in read_runs(database)}
    assert set(runs) == {"save", "lhs"}
    assert runs["lhs"].labels["config"] == "toy"
    assert runs["lhs"].labels["step_ms"] == "300.00"
    assert runs["lhs"].labels["peak_gib"] == "10.00"
    share = runs["lhs"].values["d2h_hidden_share"]
    assert share == pytest.approx(0.94, abs=0.02)


def test_labels_hold_only_what_is_known() -> None:
    assert row_labels("toy", Row("lhs", "", "void")) == {
        "config": "toy",
        "arm": "lhs",
        "status": "void",
    }


def test_the_report_command_draws_and_records(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    out, database = tmp_path / "out", tmp_path / "runs.db"
    leave(out, "save", manifest(), "jax_unroll_save")
    said = say(capsys, monkeypatch, "report", out, "--history", database)
    assert said.status == 0
    assert "Wrote results.md, results.json, frontier.png in out" in said.err
    assert "Recorded 1 new run in runs.db" in said.err
    assert (out / "frontier.png").read_bytes().startswith(PNG)


@pytest.mark.slow
def test_the_largest_batch_of_a_model_that_never_fits(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    one_device: None,
) -> None:
    pytest.importorskip("jax")
    model = {"vocabulary": (1 << 31) - 1, "width": 1 << 14, "layers": 1}
    huge = changed(tiny(), model=model)
    config, out = write_toml(huge, tmp_path / "huge.toml"), tmp_path / "results"
    command = ["matrix", "--config", config, "--out", out, "--no-trace", "--find-batch"]
    said = say(capsys, monkeypatch, *command, "--arms", "keep")
    assert said.status == 0, said.err
    assert "| keep | 0 |" in said.out
    assert (out / "batches.md").read_text(encoding="utf-8").strip() == said.out.strip()


def test_the_largest_batch_where_the_search_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jax")
    monkeypatch.setattr(batches, "MOST", 2)
    spec = spec_for(tiny(), "keep-scan", tmp_path, mode="find-batch")
    spec.write(tmp_path / "spec.json")
    assert worker.main([str(tmp_path / "spec.json")]) == 0
    found = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, SCHEMA)
    assert (found["largest_batch_per_device"], found["search_ended"]) == (2, True)
    assert [attempt["batch_per_device"] for attempt in found["tried"]] == [2]


def test_the_table_of_batches() -> None:
    config = load_config("h200-dense")
    found = [
        Largest("keep", 10, step_ms=1000.0, planned_gib=100.04),
        Largest("lhs", 4096, open_ended=True),
        Largest("save", 20, step_ms=2500.0),
        Largest("offload", problem="timeout: not done after 9 s"),
        Largest("remat"),
    ]
    assert batch_table(config, found).splitlines()[2:] == [
        "| keep | 10 | 1,000.0 | 10.00 | 494.8 | 100.0 |",
        "| lhs | at least 4096 | – | – | – | – |",
        "| save | 20 | 2,500.0 | 8.00 | 395.8 | – |",
        "| offload | **timeout: not done after 9 s** | – | – | – | – |",
        "| remat | 0 | – | – | – | – |",
        "",
        "Largest batch: save, 20 sequences a device. Most sequences a second: keep, 10.00 a "
        "device.",
    ]


@pytest.mark.slow
def test_batches_that_were_found_are_kept(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    one_device: None,
) -> None:
    """One arm is refused, one has a result, and the others are searched all the same."""
    pytest.importorskip("jax")
    config = write_toml(tiny(batch_per_device=2048), tmp_path / "small.toml")
    command = ["matrix", "--config", config, "--out", tmp_path / "o", "--no-trace", "--find-batch"]
    first = say(capsys, monkeypatch, *command, "--arms", "keep")
    assert first.status == 0, first.err
    assert "| keep | at least 4096 |" in first.out
    manifest = tmp_path / "o" / "keep-batch" / "manifest.json"
    made = manifest.stat().st_mtime_ns
    (_, largest) = json.loads(manifest.read_text(encoding="utf-8"))["tried"]
    assert largest["step_ms"] > 0
    both = say(capsys, monkeypatch, *command, "--arms", "keep,prefetch")
    assert both.status == 0, both.err
    assert "keep: has a result already: 4096 sequences a device" in both.err
    assert "| prefetch | at least 4096 |" in both.out
    assert manifest.stat().st_mtime_ns == made
    assert (tmp_path / "o" / "batches.md").read_text(encoding="utf-8").strip() == both.out.strip()


def test_what_an_interrupt_finds_waiting_is_not_begun() -> None:
    """The recording at hand is finished; the driver does not stay for all the others."""
    begun: list[str] = []
    later: list[Future[None]] = []
    queued = threading.Event()

    def finish() -> None:
        queued.wait()
        end = time.monotonic() + 60
        while not later[0].cancelled() and time.monotonic() < end:
            time.sleep(0.01)
        begun.append("first")

    def work() -> None:
        with matrix._beside() as pool:
            pool.submit(finish)
            later.append(pool.submit(begun.append, "second"))
            queued.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert begun == ["first"]
