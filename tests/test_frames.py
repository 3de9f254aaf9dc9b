"""DataFrames and HTML of traces and reports."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from nsysoverlap.core.errors import UsageError
from nsysoverlap.judge.comparison import compare
from nsysoverlap.judge.evaluate import check
from nsysoverlap.result.model import OverlapReport, TableName
from nsysoverlap.show.blocks import Table
from nsysoverlap.show.notebook import blocks_html
from nsysoverlap.trace.contents import Trace
from nsysoverlap.trace.load import read_trace

from . import sample_reports as samples
from .tracebuilder import draw


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    path = tmp_path / "drawn.sqlite"
    draw(
        """
        dev0 s7  compute: .####....##.
        dev0 s20 h2d:     ...####.....
        dev1 s7  d2h:     ##..........
        """,
        t0=1_700_000_000_000_000_001,
    ).write(path)
    return read_trace(path)


def test_activities_hold_every_gpu_row_in_order(trace: Trace) -> None:
    frame = trace.activities
    assert list(frame["kind"]) == ["memcpy", "kernel", "memcpy", "kernel"]
    t0 = 1_700_000_000_000_000_001
    assert list(frame["start_ns"] - t0) == [0, 1000, 3000, 9000]
    assert list(frame["duration_ns"]) == [2000, 4000, 4000, 2000]
    assert list(frame["end_ns"] - frame["start_ns"]) == list(frame["duration_ns"])
    assert list(frame["stream_id"]) == [7, 7, 20, 7]
    assert list(frame["device_id"]) == [1, 0, 0, 0]
    assert set(frame["pid"]) == {1000}
    assert list(frame["copy_kind"].astype(object).fillna("-")) == ["DtoH", "-", "HtoD", "-"]
    assert list(frame["n_bytes"].isna()) == [False, True, False, True]
    assert list(frame["name"].isna()) == [True, False, True, False]
    assert frame["name"].iloc[1] == trace.names[trace.kernels.name[0]]


def test_activities_have_the_documented_types(trace: Trace) -> None:
    types = {name: str(dtype) for name, dtype in trace.activities.dtypes.items()}
    assert types == {
        **dict.fromkeys(("kind", "name", "copy_kind", "src_kind", "dst_kind"), "category"),
        **dict.fromkeys(("start_ns", "end_ns", "duration_ns"), "int64"),
        **dict.fromkeys(("pid", "device_id", "context_id", "stream_id"), "int64"),
        "correlation_id": "int64",
        "device": "int32",
        "from_graph": "bool",
        "n_bytes": "Int64",
    }


def test_activities_of_a_trace_without_gpu_rows(tmp_path: Path) -> None:
    draw("").write(tmp_path / "empty.sqlite")
    frame = read_trace(tmp_path / "empty.sqlite").activities
    assert len(frame) == 0
    assert str(frame["start_ns"].dtype) == "int64"


def test_equal_kernel_names_share_a_category(trace: Trace) -> None:
    twice = replace(trace, names=trace.names * 2)
    assert list(twice.activities["name"].cat.categories) == list(dict.fromkeys(trace.names))


def test_devices_frame_has_a_row_per_device_and_direction() -> None:
    frame = samples.two_devices().to_frame()
    assert list(frame["direction"]) == ["h2d", "d2h", "both", "unified_h2d", "unified_d2h"] * 2
    first = frame.iloc[0]
    assert (first["device"], first["gpu_name"], first["n"]) == (0, "NVIDIA H200", 128)
    assert first["wall_ns"] == 240_100_000
    assert first["hidden_share"] == pytest.approx(72.4 / 240.1)
    assert frame["hidden_share"].isna().tolist() == [*[False] * 3, True, True] * 2
    assert frame["blocking_ns"].isna().all()
    assert {str(frame[name].dtype) for name in ("n", "bytes", "wall_ns", "pid")} == {"Int64"}


def test_streams_frame() -> None:
    frame = samples.plain().to_frame("streams")
    assert list(frame["stream_id"]) == [7, 20, 21]
    assert list(frame["busy_other_ns"]) == [0, 0, 450]
    assert list(frame["d2h_exposed_ns"]) == [0, 0, 32_200_000]


def test_health_frame() -> None:
    frame = samples.events_lost().to_frame("health")
    assert list(frame["severity"]) == ["note", "warning", "error"]
    assert frame["count"].sum() == 5


def test_steps_frame_has_a_row_per_device_and_step() -> None:
    frame = samples.stepped().to_frame("steps")
    assert list(frame["index"]) == [1, 2, 3, 4]
    assert list(frame["duration_ns"] // 100_000) == [3062, 3059, 3064, 4017]
    assert list(frame["end_ns"] - frame["start_ns"]) == list(frame["duration_ns"])
    assert set(frame["device"]) == {0}
    assert set(frame["both_exposed_ns"]) == {48_400_000}
    assert list(frame["relief_share"])[:2] == [0.25, pytest.approx(896 / 3072)]
    budget = ("compute_ns", "comm_ns", "transfer_ns", "other_ns", "opaque_ns", "idle_ns")
    assert list(frame[list(budget)].sum(axis=1)) == list(frame["duration_ns"])


def test_operations_frame() -> None:
    frame = samples.stepped().to_frame("operations")
    assert len(frame) == 24
    first = frame.iloc[0]
    assert (first["op"], first["direction"], first["n"]) == ("copy-start.0.1", "h2d", 4)
    assert first["exposed_per_step_ns"] == 7_375_000
    assert list(frame["followed_by"].isna()) == [False, True] * 12
    assert list(frame["blocking_ns"].isna()) == [False, True] * 12


def test_findings_and_kernels_frames() -> None:
    findings = samples.stepped().to_frame("findings")
    assert list(findings["code"])[:2] == ["late-h2d", "d2h-tail"]
    assert list(findings["evidence"]) == [3, 0, 0, 0, 0, 0, 1]
    assert findings["cost_ns"].sum() == 165_000_900
    kernels = samples.stepped().to_frame("kernels")
    assert list(kernels["n"]) == [64, 1600, 12]
    assert list(kernels["beside_ns"]) == [9, 120_000_000, 40_000_000]


TABLES: tuple[TableName, ...] = get_args(TableName)


@pytest.mark.parametrize("table", TABLES)
def test_empty_frames_keep_columns_and_types(table: TableName) -> None:
    empty = OverlapReport((), (), ()).to_frame(table)
    assert len(empty) == 0
    for full in (samples.stepped(), samples.small(), samples.hostile()):
        frame = full.to_frame(table)
        assert len(frame)
        assert dict(frame.dtypes) == dict(empty.dtypes)


@pytest.mark.parametrize("table", TABLES)
def test_columns_have_the_documented_types(table: TableName) -> None:
    for column, dtype in samples.small().to_frame(table).dtypes.items():
        values = samples.small().to_frame(table)[column].dropna()
        wanted = {int: "Int64", float: "Float64", str: "string"}
        assert {wanted[type(value)] for value in values.tolist()} <= {str(dtype)}, column


def test_an_unknown_table_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no table 'links'") as caught:
        samples.plain().to_frame("links")  # type: ignore[arg-type]
    assert caught.value.hint == f"Known tables: {', '.join(TABLES)}."


class Page(HTMLParser):
    """Tags that were opened and never closed, all tags, and all text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_report_html_is_whole_and_escaped() -> None:
    page = Page(samples.hostile()._repr_html_())
    assert page.open == []
    assert page.tags == {
        *("div", "p", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td", "code"),
        *("ol", "li"),
    }
    assert "<b>[red]|ker`nel # *x*" in page.text
    assert "59.5 % of 477.6 ms" in page.text


def test_trace_html_counts_rows_and_escapes(trace: Trace) -> None:
    evil = replace(trace, info=replace(trace.info, file_name="<script>\x1b[31m.sqlite"))
    page = Page(evil._repr_html_())
    assert page.open == []
    assert "script" not in page.tags
    assert "<script>.sqlite" in page.text
    assert "kernel rows2" in page.text
    assert "memcpy rows2" in page.text
    assert "device 0NVIDIA H200, pid 1000" in page.text
    assert "GPU activity1700000000000.000 to 1700000000000.011 ms, 11.0 µs" in page.text


def test_verdicts_html_is_whole_and_escaped() -> None:
    report = samples.hostile()
    page = Page(check(report, ["h2d.hidden >= 60%"])._repr_html_())
    assert page.open == []
    assert "script" not in page.tags
    assert "verdictmetricmeasuredlimitmargin" in page.text
    assert "h2d.hidden" in page.text


def test_comparison_html_says_what_changed() -> None:
    page = Page(compare(samples.plain(), samples.plain(), ("<old>", "new"))._repr_html_())
    assert page.open == []
    assert "old" not in page.tags
    assert "A is <old>, B is new." in page.text


def test_cells_of_numbers_are_right_and_of_words_left() -> None:
    table = Table("t", ("name", "n"), (("<a>", "1"),), "a note", n_words=1)
    page = blocks_html([table])
    assert '<td style="text-align:left">&lt;a&gt;</td>' in page
    assert '<td style="text-align:right;white-space:nowrap">1</td>' in page
    assert page.endswith("<p>a note</p></div>")
    assert "thead" not in blocks_html([Table("t", ("", ""), (("a", "b"),))])
