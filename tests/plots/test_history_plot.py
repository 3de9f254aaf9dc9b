"""The trend of runs: days and labels below, the house style, what the last run came to."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from nsysoverlap.draw import plot_history
from nsysoverlap.draw.style import FONT
from nsysoverlap.judge.history_store import Run, read_runs, record
from tests.sample_reports import no_transfers, stepped

from . import kit


def drawn(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> Figure:
    seen: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: seen.append(self))
    plot_history.draw_history(runs, "png")
    return seen[0]


def recorded(path: Path, n: int) -> list[Run]:
    for i in range(n):
        now = datetime(2026, 3, 1 + i, tzinfo=UTC)
        labels = {"branch": "main", "commit": f"abc{i}"}
        record(path, stepped(), f"hash {i}", labels, now=now)
    return list(read_runs(path))


def test_below_a_run_stand_its_day_and_what_tells_it_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = drawn(recorded(tmp_path / "runs.db", 3), monkeypatch)
    shares, times = figure.axes
    assert [text.get_text() for text in times.get_xticklabels()] == [
        "1\n2026-03-01\nabc0",
        "2\n2026-03-02\nabc1",
        "3\n2026-03-03\nabc2",
    ]
    assert times.get_xlabel() == "run, day of recording, commit"
    assert times.get_ylabel() == "exposed, median step (ms)"
    assert "3 runs, recorded 2026-03-01 to 2026-03-03" in kit.texts(shares)
    report = stepped()
    assert report.total("both").hidden_share == pytest.approx(0.595, abs=1e-3)
    assert kit.title(shares) == (
        "Run 3 hid 59.5 % of its transfers and exposed 48.4 ms in the median step"
    )
    assert shares.title.get_fontfamily()[0] == FONT
    assert not shares.spines["top"].get_visible()


def test_many_runs_have_labels_that_do_not_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = recorded(tmp_path / "runs.db", 4)
    for n in (1, 3, 25, 200):
        _, times = drawn(runs * n, monkeypatch).axes
        assert kit.overlapping_labels(times, "x") == []
        assert kit.outside_of_figure(times) == []


def test_a_last_run_without_transfers_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.db"
    recorded(path, 1)
    record(path, no_transfers(), "other", {})
    runs = list(read_runs(path))
    shares, _ = drawn(runs, monkeypatch).axes
    assert kit.title(shares) == "Run 2 has no host transfers"
    empty, _ = drawn([], monkeypatch).axes
    assert kit.title(empty) == "No runs"
