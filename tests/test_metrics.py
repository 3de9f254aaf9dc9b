"""Metrics by name and scope."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from nsysoverlap.core.errors import UsageError
from nsysoverlap.core.limits import (
    Unit,
    digits_apart,
    format_difference,
    format_value,
    parse_limit,
    parse_percent,
)
from nsysoverlap.result.metrics import METRICS, Scope, parse_metric
from nsysoverlap.result.model import OpaqueBounds, OverlapReport, TraceReport
from nsysoverlap.result.scopes import Measured, measure

from .sample_reports import no_transfers, plain, unified_only
from .stepreports import report_of_ranks, report_of_steps

DOCS = Path(__file__).parents[1] / "docs" / "gate.md"

OFFLOADING = "Check that offloading was on when it was captured."
MARKS = "Put an NVTX range around each step, or say with --steps how to find them."


def value(
    report: OverlapReport, name: str, scope: Scope = Scope.TOTAL, least: bool = True
) -> Measured:
    return measure(report, METRICS[name], scope, least=least)


TWO = report_of_steps([(90, 100), (50, 100), (70, 100)], [(10, 100), (20, 100), (60, 200)])


@pytest.mark.parametrize(
    ("name", "scope", "expected", "where"),
    [
        ("d2h.hidden", Scope.TOTAL, Fraction(300, 700), ""),
        ("d2h.hidden", Scope.WORST_DEVICE, Fraction(90, 400), "H200 dev 0, pid 1001"),
        ("d2h.hidden", Scope.WORST_RANK, Fraction(300, 700), ""),
        ("d2h.hidden", Scope.WORST_STEP, Fraction(1, 10), "step 0 of H200 dev 0, pid 1001"),
        ("d2h.hidden", Scope.STEP_MEDIAN, Fraction(1, 5), "3 steps of H200 dev 0, pid 1001"),
        ("step_ms", Scope.STEP_MEDIAN, Fraction(1000), "3 steps of H200 dev 0, pid 1000"),
        ("d2h.n", Scope.TOTAL, Fraction(6), ""),
        ("d2h.bytes", Scope.TOTAL, Fraction(700 * 50), ""),
        ("d2h.gb_per_s", Scope.TOTAL, Fraction(50), ""),
        ("relief", Scope.TOTAL, Fraction(1, 2), ""),
        ("budget.compute", Scope.TOTAL, Fraction(1), ""),
    ],
)
def test_values_are_exact(name: str, scope: Scope, expected: Fraction, where: str) -> None:
    assert value(TWO, name, scope) == Measured(expected, where)


def test_worst_follows_the_limit() -> None:
    least = value(TWO, "d2h.exposed_ms", Scope.WORST_STEP, least=True)
    most = value(TWO, "d2h.exposed_ms", Scope.WORST_STEP, least=False)
    assert least.value == 10
    assert most.value == 140


def test_ranks_are_named_by_rank() -> None:
    report = report_of_ranks([(90, 100)], [(20, 100)])
    assert value(report, "d2h.hidden", Scope.WORST_RANK) == Measured(Fraction(1, 5), "rank 1")


def test_a_rank_without_devices_has_no_value() -> None:
    report = report_of_ranks([(90, 100)])
    report = replace(report, traces=(*report.traces, TraceReport("rank1.sqlite", 1)))
    found = value(report, "d2h.hidden", Scope.WORST_RANK)
    assert found == Measured(None, reason=f"rank 1 has no D2H transfers. {OFFLOADING}")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("h2d.hidden", f"the trace has no H2D transfers. {OFFLOADING}"),
        ("both.exposed_ms", f"the trace has no host transfers. {OFFLOADING}"),
        ("both.gb_per_s", "the trace has no copies among its host transfers."),
        ("relief", "the trace: relief was not measured."),
        ("relief_bytes", "the trace: relief was not measured."),
    ],
)
def test_nothing_is_no_value(name: str, reason: str) -> None:
    assert value(no_transfers(), name) == Measured(None, reason=reason)


def test_counts_of_nothing_are_zero() -> None:
    assert value(no_transfers(), "both.n").value == 0
    assert value(no_transfers(), "both.bytes").value == 0


def test_no_device_is_no_value() -> None:
    empty = OverlapReport((), (), ())
    assert value(empty, "both.hidden", Scope.WORST_DEVICE).reason == "the report holds no device."
    assert value(empty, "step_ms", Scope.STEP_MEDIAN).reason == f"the trace has no steps. {MARKS}"


def test_one_step_without_transfers_has_no_share_but_no_exposed_time() -> None:
    report = report_of_steps([(90, 100), (0, 0)])
    reason = value(report, "d2h.hidden", Scope.WORST_STEP).reason
    assert reason == f"step 1 has no D2H transfers. {OFFLOADING}"
    assert value(report, "d2h.exposed_ms", Scope.WORST_STEP).value == 0


def test_a_device_without_steps_beside_one_with_steps() -> None:
    report = report_of_steps([(90, 100)], [(10, 100)])
    bare = replace(report, devices=(report.devices[0], replace(report.devices[1], steps=())))
    reason = value(bare, "step_ms", Scope.STEP_MEDIAN).reason
    assert reason == f"H200 dev 0, pid 1001 has no steps. {MARKS}"


def test_migrations_are_measured_only_where_asked_and_not_by_step() -> None:
    assert value(unified_only(), "unified_h2d.hidden").value == Fraction(4, 12) * Fraction(
        12
    ) / Fraction("12.5")
    assert value(unified_only(), "both.n").value == 0
    found = value(TWO, "unified_h2d.n", Scope.WORST_STEP)
    assert found.reason.endswith(
        "unified-memory migrations to the device are not counted per step."
    )


def test_blocking_time_may_be_unknown() -> None:
    assert (
        "cannot tell who waited for the exposed time" in value(plain(), "both.blocking_ms").reason
    )


def test_opaque_time_leaves_a_split_open_only_where_it_matters() -> None:
    report = plain()
    bounds = OpaqueBounds(h2d=(0.3, 0.5), d2h=(0.9, 0.9), both=(0.6, 0.7))
    opaque = replace(report, devices=(replace(report.devices[0], opaque_bounds=bounds),))
    assert "CUDA graphs recorded as a whole" in value(opaque, "h2d.hidden").reason
    assert value(opaque, "d2h.hidden").value == value(report, "d2h.hidden").value
    assert value(opaque, "h2d.bytes").value == value(report, "h2d.bytes").value
    assert "leave the budget open" in value(opaque, "budget.idle").reason


def test_every_metric_has_a_value_or_a_reason() -> None:
    for report in (plain(), no_transfers(), TWO):
        for metric in METRICS.values():
            for scope in Scope:
                found = measure(report, metric, scope, least=True)
                assert (found.value is None) == bool(found.reason)


def test_metrics_and_scopes_are_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    quantities = {name.partition(".")[2] or name for name in METRICS}
    for name in (*quantities, *Scope):
        assert f"`{name}`" in text or f".{name}`" in text, name


# Names.


def test_a_metric_with_and_without_scope() -> None:
    assert parse_metric("h2d.hidden", "x") == (METRICS["h2d.hidden"], Scope.TOTAL)
    assert parse_metric(" h2d.hidden @ worst-rank ", "x")[1] is Scope.WORST_RANK
    assert parse_metric("step_ms", "x")[1] is Scope.STEP_MEDIAN


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("h2d.hiden", "Did you mean 'h2d.hidden'?"),
        ("H2D.Hidden", "Did you mean 'h2d.hidden'?"),
        ("d2h.hidden@worst-steps", "Did you mean 'worst-step'?"),
        ("zzzzzz", "docs/gate.md"),
        ("h2d.hidden@", "worst-device"),
        ("step_ms@total", "Use step-median, step-mean or worst-step."),
    ],
)
def test_an_unknown_name_gets_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_metric(text, "--require")
    assert hint in caught.value.hint
    assert caught.value.message.startswith("--require: ")


# Quantities.


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("60%", Unit.SHARE, Fraction(3, 5)),
        ("0.6", Unit.SHARE, Fraction(3, 5)),
        ("57.3%", Unit.SHARE, Fraction(573, 1000)),
        ("1", Unit.SHARE, Fraction(1)),
        ("5", Unit.TIME, Fraction(5_000_000)),
        ("5us", Unit.TIME, Fraction(5_000)),
        ("1.5 s", Unit.TIME, Fraction(1_500_000_000)),
        ("7ns", Unit.TIME, Fraction(7)),
        ("8GiB", Unit.BYTES, Fraction(8 << 30)),
        ("8GB", Unit.BYTES, Fraction(8 * 10**9)),
        ("1.5KiB", Unit.BYTES, Fraction(1536)),
        ("3kB", Unit.BYTES, Fraction(3000)),
        ("12", Unit.COUNT, Fraction(12)),
        ("55GB/s", Unit.RATE, Fraction(55)),
    ],
)
def test_limits_are_exact(text: str, unit: Unit, expected: Fraction) -> None:
    assert parse_limit(text, unit, "x") == expected


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("60", Unit.SHARE), ("101%", Unit.SHARE), ("-1%", Unit.SHARE), ("5ms", Unit.SHARE),
        ("", Unit.SHARE), ("1e-3", Unit.SHARE), ("5%", Unit.TIME), ("5GiB", Unit.TIME),
        ("5ms", Unit.BYTES), ("5Gib", Unit.BYTES), ("5%", Unit.COUNT), ("5GiB/s", Unit.RATE),
        ("inf", Unit.TIME), ("1,5", Unit.TIME),
    ],
)  # fmt: skip
def test_other_limits_are_refused(text: str, unit: Unit) -> None:
    with pytest.raises(UsageError):
        parse_limit(text, unit, "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", "0.9"), ("90%", "0.9"), ("0", "0"), ("0.5%", "0.005"), ("1", "0.01"), ("100", "1")],
)
def test_percent(text: str, expected: str) -> None:
    assert parse_percent(text, "x") == Fraction(expected)


def test_growth_may_be_more_than_the_whole() -> None:
    assert parse_percent("250", "x", most=None) == Fraction(5, 2)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, Unit.SHARE, "–"),
        (Fraction(595, 1000), Unit.SHARE, "59.5 %"),
        (Fraction(99_999, 100_000), Unit.SHARE, ">99.9 %"),
        (Fraction(1, 100_000), Unit.SHARE, "<0.1 %"),
        (Fraction(1), Unit.SHARE, "100.0 %"),
        (Fraction(0), Unit.SHARE, "0.0 %"),
        (Fraction(193_400_000), Unit.TIME, "193.4 ms"),
        (Fraction(8 << 30), Unit.BYTES, "8.00 GiB"),
        (Fraction(128), Unit.COUNT, "128"),
        (Fraction(553, 10), Unit.RATE, "55.3 GB/s"),
    ],
)
def test_values_as_text(value: Fraction | None, unit: Unit, text: str) -> None:
    assert format_value(value, unit) == text


def test_digits_that_tell_a_value_from_its_limit() -> None:
    digits = digits_apart(Fraction(8996, 10_000), Fraction(9, 10), Unit.SHARE)
    assert digits == 2
    assert digits_apart(Fraction(9, 10), Fraction(9, 10), Unit.SHARE) is None
    assert format_difference(Fraction(-4, 10_000), Unit.SHARE, digits) == "-0.04 points"
    assert format_difference(Fraction(2_500_000), Unit.TIME) == "+2.5 ms"
