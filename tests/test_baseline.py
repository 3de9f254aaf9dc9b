"""Baseline files: written, read back, and refused when they cannot be trusted."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from nsysoverlap.core.errors import ConfigError
from nsysoverlap.judge.baseline import (
    FORMAT_VERSION,
    Baseline,
    mismatches,
    read_baseline,
    write_baseline,
)
from nsysoverlap.result.metrics import METRICS, Scope
from nsysoverlap.result.model import Gpu, OverlapReport
from nsysoverlap.run.analysis import analyze

from .gatekit import step_trace
from .sample_reports import busy_device, plain, two_devices
from .stepreports import report_of_steps


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_baseline(tmp_path / "b.json", plain())
    return tmp_path / "b.json"


def change(path: Path, **values: Any) -> Path:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return path


def test_all_that_a_gate_looks_at_survives(tmp_path: Path) -> None:
    report = analyze(step_trace(tmp_path / "t.sqlite", [90, 80, 70], [10, 20, 30]))
    write_baseline(tmp_path / "b.json", report)
    back = read_baseline(tmp_path / "b.json").report
    assert back.operations == report.operations
    assert [d.steps for d in back.devices] == [d.steps for d in report.devices]
    assert back.basis == report.basis
    for direction in ("h2d", "d2h", "both"):
        assert back.total(direction) == report.total(direction)


def test_what_no_gate_looks_at_is_left_out(written: Path) -> None:
    assert plain().devices[0].streams
    assert read_baseline(written).report.devices[0].streams == ()


def test_a_json_report_is_a_baseline_too(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(plain().to_dict()))
    assert read_baseline(path).name == "report.json"
    assert read_baseline(path).report.total("both") == plain().total("both")


def test_the_base_name_names_it(written: Path) -> None:
    assert read_baseline(written).name == "b.json"


@pytest.mark.parametrize(("metric", "worst"), [("comm", 0), ("idle", 1), ("other", 1)])
def test_the_worst_part_is_furthest_from_good(metric: str, worst: int) -> None:
    """Or has least of what is neither good nor bad."""
    report = two_devices()
    shares = [
        Fraction(getattr(d.time_budget, f"{metric}_ns"), d.time_budget.total_ns)
        for d in report.devices
    ]
    found = Baseline("b", report).measure(METRICS[f"budget.{metric}"], Scope.WORST_DEVICE)
    assert found.value == shares[worst]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": "nsysoverlap.verdict"}, "is not a baseline of nsysoverlap"),
        (
            {"format_version": FORMAT_VERSION + 1},
            "format version 2; this nsysoverlap reads up to 1",
        ),
        ({"format_version": "1"}, "format version is damaged"),
        ({"format_version": True}, "format version is damaged"),
        ({"format_version": 0}, "format version is damaged"),
        ({"report": None}, "holds no report"),
        ({"report": {"format": "x"}}, "This is not an nsysoverlap report"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused(
    written: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_baseline(change(written, **values))
    assert caught.value.message.startswith("b.json: ")
    assert message in caught.value.message
    assert caught.value.hint


def test_a_newer_report_inside_is_refused(written: Path) -> None:
    inside = json.loads(written.read_text())["report"]
    with pytest.raises(ConfigError, match=r"b\.json: .*format version 99"):
        read_baseline(change(written, report={**inside, "format_version": 99}))


@pytest.mark.parametrize("text", ["", "[", "[]", "3", "\x00", "[" * 100_000])
def test_what_is_no_json_object(tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"^b\.json: "):
        read_baseline(path)


def test_a_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_baseline(tmp_path / "b.json")
    assert "No such file" in caught.value.message
    assert "--write-baseline" in caught.value.hint


def test_equal_reports_match() -> None:
    assert mismatches(plain(), plain()) == []
    assert mismatches(report_of_steps([(1, 2)]), report_of_steps([(2, 3)])) == []


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        (report_of_steps([(1, 2)]), "its numbers are over the steps, these over the trace"),
        (
            replace(plain(), devices=(replace(busy_device(), gpu=Gpu(name="NVIDIA GB200")),)),
            "it ran on NVIDIA GB200, this run on NVIDIA H200",
        ),
        (
            replace(plain(), devices=(busy_device(), busy_device())),
            "it has 2 devices, this run 1",
        ),
    ],
)
def test_unlike_reports_do_not(then: OverlapReport, reason: str) -> None:
    assert mismatches(plain(), then) == [reason]
