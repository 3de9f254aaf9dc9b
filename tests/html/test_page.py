"""The page as text: complete, self-contained, escaped, small."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoverlap.cli import main
from nsysoverlap.cli.formats import render
from nsysoverlap.core.formatting import clean_text
from nsysoverlap.result.model import OverlapReport

from ..hostile import HOSTILE_NAMES, hostile_trace
from ..sample_reports import SAMPLES, operations, stepped, stepped_device
from ..traces import h200, h200_names
from .pages import Page, measured, page_of

NETWORK = re.compile(r"https?://|//[a-z]+\.|@import|url\((?!#)", re.IGNORECASE)


@pytest.mark.parametrize("name", SAMPLES)
def test_hand_made_reports_are_well_formed_and_say_their_headline(name: str) -> None:
    report = SAMPLES[name]()
    page = Page(render(report, "html"))
    assert page.unbalanced == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    text = render(report, "text", width=400).split("\n")[0]
    assert text in page.shown
    assert all(clean_text(finding.code) in page.shown for finding in report.findings)


@pytest.mark.parametrize("name", h200_names())
def test_pages_of_real_traces_need_nothing_else(name: str) -> None:
    source = page_of(h200(name))
    page = Page(source)
    assert page.unbalanced == []
    assert not NETWORK.findall(source)
    for tag in ("img", "iframe", "object", "embed"):
        assert page.of(tag) == []
    assert all("src" not in attributes for attributes in page.of("script"))
    assert [one["href"] for one in page.of("link")] == ["data:,"]
    assert len(source.encode()) < 1_000_000


def test_links_and_labels_lead_somewhere() -> None:
    page = Page(page_of(h200("jax_fsdp2_lhs")))
    ids = {attributes.get("id") for _, attributes in page.elements}
    for attributes in page.of("a"):
        assert (attributes["href"] or "").removeprefix("#") in ids
    for _, attributes in page.elements:
        for name in ("for", "aria-labelledby", "aria-describedby"):
            assert set((attributes.get(name) or "").split()) <= ids
    named = [a for _, a in page.elements if a.get("role") == "img"]
    assert len(named) >= 3
    assert all("%" in (attributes["aria-label"] or "") for attributes in named)


def test_only_our_script_may_run() -> None:
    source = page_of(h200("micro_hidden"))
    page = Page(source)
    (policy,) = (a["content"] for a in page.of("meta") if a.get("http-equiv"))
    assert policy is not None
    digest = base64.b64encode(hashlib.sha256(page.scripts[-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert [name for _, a in page.elements for name in a if name.startswith("on")] == []


def test_hostile_names_are_shown_and_never_read(tmp_path: Path) -> None:
    source = page_of(hostile_trace(tmp_path / "a.sqlite"))
    page = Page(source)
    assert page.unbalanced == []
    assert page.of("img") == []
    assert len(page.of("script")) == 2
    assert HOSTILE_NAMES[0] in page.shown
    assert "Größe" in page.shown
    assert "\x1b" not in source
    assert "\u202e" not in source
    assert "\x00" not in source
    assert HOSTILE_NAMES[0] in page.data["names"]
    assert "<" not in page.scripts[0]
    assert all(len(name) <= 120 for name in page.data["names"])
    assert "k" * 300 not in source


def test_the_hostile_report_is_escaped() -> None:
    page = Page(render(SAMPLES["hostile"](), "html"))
    assert page.unbalanced == []
    assert page.of("b") == []
    assert "<b>[red]|ker`nel # *x* __y__" in page.shown


def test_data_of_the_timeline_reads_back() -> None:
    report, timeline = measured(h200("jax_fsdp2_lhs"))
    data = Page(render(report, "html", timeline=timeline)).data
    assert [one["name"] for one in data["devices"]] == [one.label for one in report.devices]
    for drawn, device in zip(data["devices"], timeline.devices, strict=True):
        for columns, lane in zip(drawn["lanes"], device.lanes, strict=True):
            at, starts = data["origin"], []
            for step in columns["start"]:
                at += step
                starts.append(at)
            assert starts == lane.start_ns.tolist()
            ends = [s + length for s, length in zip(starts, columns["length"], strict=True)]
            assert ends == lane.end_ns.tolist()
            names = [data["names"][i] for i in columns["name"]]
            assert names == [timeline.names[i] for i in lane.name]


def test_without_a_timeline_evidence_is_plain_text() -> None:
    page = Page(render(stepped(), "html"))
    assert not [a for a in page.of("button") if a.get("class") == "jump"]
    assert page.of("canvas") == []


def many_steps(n: int, devices: int = 1) -> OverlapReport:
    one = stepped_device(tuple(300.0 + i % 7 for i in range(n)))
    return replace(
        stepped(), devices=tuple(replace(one, device_id=i, pid=100 + i) for i in range(devices))
    )


@pytest.mark.parametrize(("n", "devices"), [(2_000, 1), (100, 64)])
def test_large_reports_stay_small(n: int, devices: int) -> None:
    source = render(many_steps(n, devices), "html")
    assert len(source.encode()) < 2_000_000
    page = Page(source)
    assert page.unbalanced == []
    assert f"of {n * devices:,}; all are in the JSON report" in page.shown


def test_operations_that_differ_in_their_label_are_told_apart() -> None:
    """A tensor's row and its blocks in the timeline have the number that the text has."""
    source = page_of(h200("record_torch"))
    page = Page(source)
    kernel = "nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN"
    finds = [a["data-find"] for _, a in page.elements if a.get("data-lane") == "d2h"]
    assert len(set(finds)) == len(finds) > 8
    numbered = {f"512.0 MiB after {kernel} ({i} of 8)" for i in range(1, 9)}
    assert numbered <= set(finds)
    assert numbered <= set(page.data["names"])
    # The heading of the section says it already.
    assert "<caption>Operations<" not in source
    assert "<caption>Steps, H200 dev 0, pid 475 (n = 4)<" in source


def test_many_operations_with_long_names_stay_small() -> None:
    many = tuple(replace(operations()[0], op=f"{i}{'x' * 2_000}") for i in range(3_000))
    source = render(replace(stepped(), operations=many), "html")
    assert len(source.encode()) < 2_000_000
    assert "of 3,000; all are in the JSON report" in Page(source).shown


def test_the_command_writes_one_file(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    command = ["report", str(h200("jax_unroll_lhs")), "--format", "html", "-o", str(output)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    page = Page(output.read_text(encoding="utf-8"))
    assert len(page.data["devices"]) == 1
    assert len([a for a in page.of("button") if a.get("class") == "jump"]) >= 2


def test_several_traces_make_one_page(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    traces = [str(h200(name)) for name in ("micro_hidden", "jax_fsdp2_lhs")]
    command = ["report", *traces, "--format", "html", "-o", str(output)]
    assert CliRunner().invoke(main, command).exit_code == 0
    data = Page(output.read_text(encoding="utf-8")).data
    assert len(data["devices"]) == 3
    assert data["devices"][0]["name"].startswith("micro_hidden.sqlite: ")
    other = CliRunner().invoke(main, [*command[:-1], str(tmp_path / "b.html"), "--jobs", "2"])
    assert other.exit_code == 0, other.stderr
    assert (tmp_path / "b.html").read_bytes() == output.read_bytes()


def test_an_inconclusive_trace_still_gives_a_page(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    trace = h200("jax_fsdp2_events_lost")
    command = ["report", str(trace), "--format", "html", "-o", str(output)]
    assert CliRunner().invoke(main, command).exit_code == 3
    page = Page(output.read_text(encoding="utf-8"))
    assert page.of("h1") == [{"class": "alarm"}]
    assert "Inconclusive" in page.shown


def test_commands_are_set_as_commands() -> None:
    source = page_of(h200("jax_fsdp2_events_lost")).replace("<wbr>", "")
    assert 'Capture with <code class="told">nsys profile --trace=cuda,nvtx</code>' in source
    assert "`" not in Page(source).shown


@pytest.mark.parametrize(("n", "text"), [(1, ">1 row<"), (2, ">2 rows<")])
def test_rows_are_counted(n: int, text: str) -> None:
    assert text in render(replace(stepped(), operations=operations()[:n]), "html")
