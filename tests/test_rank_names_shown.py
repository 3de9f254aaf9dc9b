"""Several ranks: each finding, the headline and the table say which rank and which GPU."""

from __future__ import annotations

import shutil

import pytest

from nsysoverlap import OverlapReport, analyze
from nsysoverlap.cli.formats import render
from nsysoverlap.result.sentences import headline
from nsysoverlap.show.say_ranks import ranks_section

from .traces import h200


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> OverlapReport:
    """Rank 1 lost its events; rank 2 hides nothing."""
    folder = tmp_path_factory.mktemp("ranks")
    for rank, name in enumerate(("micro_hidden", "jax_fsdp2_events_lost", "micro_serial")):
        shutil.copy(h200(name), folder / f"rank{rank}.sqlite")
    return analyze(folder)


def test_findings_name_rank_and_gpu(report: OverlapReport) -> None:
    text = " ".join(render(report, "text").split())
    first = next(finding for finding in report.findings if finding.evidence)
    rank = first.evidence[0].trace
    assert rank == "rank2.sqlite"
    assert f"({first.code}; rank 2, GPU 0)" in text
    alone = " ".join(render(analyze(h200("micro_serial")), "text").split())
    assert f"({first.code})" in alone, "of one trace there is no rank to name"


def test_the_headline_names_the_worst_device(report: OverlapReport) -> None:
    assert "on the worst device (rank 2: H200 dev 0)." in headline(report)


def test_a_rank_that_cannot_be_told_stays_in_the_table(report: OverlapReport) -> None:
    (table,) = ranks_section(report)
    rows = {row[0]: row[1:] for row in table.rows}  # type: ignore[union-attr]
    assert list(rows) == ["min", "median", "max", "rank 0", "rank 2", "rank 1, inconclusive"]
    assert rows["rank 0"][0] == rows["rank 2"][0] == "0"
    assert set(rows["rank 1, inconclusive"]) == {"–"}
    assert table.title == "Ranks, 3"  # type: ignore[union-attr]
