"""Operations and kernels: which are shown, and in what words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nsysoverlap.result.model import Attribution, OperationReport, Overlap, OverlapReport
from nsysoverlap.result.tables import labelled
from nsysoverlap.show.blocks import Table
from nsysoverlap.show.say_operations import kernels_section, operations_section
from nsysoverlap.show.view import View

from . import sample_reports as samples


def table(report: OverlapReport, by: str | None = None) -> Table:
    (block,) = operations_section(report, View(by=by))
    assert isinstance(block, Table)
    return block


def only(*operations: OperationReport) -> OverlapReport:
    return replace(samples.stepped(), operations=operations)


def test_five_most_exposed_by_default() -> None:
    found = table(samples.stepped())
    assert [row[0] for row in found.rows] == [f"H2D copy-start.{i}.1" for i in range(5)]
    assert found.columns[3] == "exposed, mean step"
    assert found.rows[1] == (
        "H2D copy-start.1.1",
        "nvjet_sm90_...bz_coopA_NTN",
        *("4", "6.9 ms", "40.0 %", "6.8 %"),
    )
    assert found.note == (
        "19 more: --by op. 98.2 % of the bytes have an operation; who waited is known "
        "for 76.0 % of the exposed time."
    )


def test_without_steps_the_time_is_that_of_the_whole() -> None:
    operation = replace(samples.operations()[0], exposed_per_step_ns=None)
    found = table(only(operation))
    assert found.columns[3] == "exposed"
    assert found.rows[0][3] == "29.5 ms"
    in_full = table(only(operation), "op")
    assert "exposed, mean step" not in in_full.columns
    place = in_full.columns.index("exposed")
    assert [row[place] for row in in_full.rows] == ["29.5 ms", ""]
    stepped = table(samples.stepped(), "op")
    assert stepped.columns[place] == "exposed, mean step"
    assert [row[place] for row in stepped.rows[:2]] == ["29.5 ms", "7.4 ms"]


def test_a_step_of_several_devices_is_their_mean() -> None:
    one = samples.stepped()
    two = replace(one, devices=(*one.devices, samples.stepped_device()))
    for by in (None, "op"):
        assert "exposed time is the mean over devices" in table(two, by).note
        assert "mean over devices" not in table(one, by).note


def test_hidden_operations_are_no_news() -> None:
    done = OperationReport("copy", "", "d2h", Overlap(1, wall_ns=5, hidden_by_compute_ns=5), 0)
    assert operations_section(only(done), View()) == []
    assert table(only(done), "op").rows[0][:2] == ("D2H copy", "1")
    assert operations_section(samples.plain(), View(by="op")) == []


def test_full_table_has_two_rows_an_operation() -> None:
    found = table(samples.stepped(), "op")
    assert len(found.rows) == 30
    assert found.rows[2:4] == (
        ("H2D copy-start.1.1", "4", "29.5 ms", "27.5 ms", "11.0 ms", "55.0"),
        ("then nvjet_sm90_...bz_coopA_NTN", "1.50 GiB", "6.8 %", "6.9 ms", "40.0 %", ""),
    )
    assert found.rows[24:26] == (
        ("D2H copy-start.11 (graph)", "4", "30.2 ms", "1.1 ms", "–", "55.0"),
        ("", "1.50 GiB", "96.4 %", "275.0 µs", "", ""),
    )
    assert "Shown are 15 of 24; all are in the JSON report. 98.2 %" in found.note


def test_transfers_without_a_name_and_bytes_by_kernel() -> None:
    part = Overlap(2, 2, 0, 3 << 20, wall_ns=9, exposed_ns=9)
    found = table(only(OperationReport("", "", "d2h", part)), "op")
    assert found.rows[0][0] == "D2H no operation known"
    assert found.rows[1][1:4] == ("~3.0 MiB", "0.0 %", "")


def test_unknown_attribution_is_not_spoken_of() -> None:
    report = replace(only(samples.operations()[0]), attribution=None)
    assert table(report).note == ""
    assert table(replace(report, attribution=Attribution())).note == ""
    known = replace(report, attribution=Attribution(1, 4))
    assert table(known).note == "25.0 % of the bytes have an operation."


def test_kernels_only_by_operation() -> None:
    assert kernels_section(samples.stepped(), View()) == []
    assert kernels_section(samples.plain(), View(by="op")) == []


def test_kernels_that_hid_and_compute_that_did_not() -> None:
    hid, alone = kernels_section(samples.stepped(), View(by="op"))
    assert isinstance(hid, Table)
    assert isinstance(alone, Table)
    assert [row[0][:9] for row in hid.rows] == ["loop_add_", "ncclDevKe", "nvjet_sm9"]
    assert hid.rows[1] == (
        *("ncclDevKernel_AllGather_RING_LL", "comm", "12", "40.0 ms", "900.0 ms"),
    )
    assert [row[4] for row in alone.rows] == ["300.0 ms"]


def test_five_kernels_at_most() -> None:
    first = samples.stepped().kernels[0]
    many = replace(samples.stepped(), kernels=(first,) * 9)
    tables = kernels_section(many, View(by="op"))
    assert [len(block.rows) for block in tables if isinstance(block, Table)] == [5, 5]


@pytest.mark.parametrize(
    ("op", "label", "name"),
    [("copy", "", "copy"), ("copy", "1 of 8", "copy (1 of 8)"), ("copy", "copy", "copy")],
)
def test_a_label_stands_behind_its_op_where_it_says_more(op: str, label: str, name: str) -> None:
    assert labelled(op, label) == name
