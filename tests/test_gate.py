"""Verdicts on hand-made reports: what passes, what fails, and what nobody may call green."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from nsysoverlap.cli.formats import render
from nsysoverlap.core.errors import UsageError
from nsysoverlap.judge.baseline import Baseline
from nsysoverlap.judge.evaluate import biggest_losses, check, judge
from nsysoverlap.judge.thresholds import Thresholds, build_thresholds, parse_requirement
from nsysoverlap.judge.verdicts import Status, Verdict, Verdicts
from nsysoverlap.result.metrics import METRICS, Scope
from nsysoverlap.result.model import Basis, Gpu, HealthEntry, OverlapReport

from .sample_reports import events_lost, no_transfers, opaque_nothing, plain
from .stepreports import operation, report_of_ranks, report_of_steps

PASSED, FAILED, INCONCLUSIVE = Status.PASSED, Status.FAILED, Status.INCONCLUSIVE
STEPS = report_of_steps([(90, 100)] * 8)
WORSE = report_of_steps([(80, 100)] * 8)
RANKS = report_of_ranks([(90, 100)] * 3, [(40, 100)] * 3)
MIXED = report_of_ranks([(90, 100)] * 3, [(0, 0)] * 3)

# `plain` is 59.5 % hidden of 477.6 ms: H2D 72.4 of 240.1 ms, D2H 216.7 of 248.9 ms.
TABLE: list[tuple[OverlapReport, str, Status]] = [
    (plain(), "both.hidden >= 59%", PASSED),
    (plain(), "both.hidden >= 60%", FAILED),
    (plain(), "h2d.hidden >= 0.3", PASSED),
    (plain(), "d2h.hidden > 87%", PASSED),
    (plain(), "d2h.hidden < 87%", FAILED),
    (plain(), "both.exposed <= 41%", PASSED),
    (plain(), "both.exposed_ms <= 193.4", PASSED),
    (plain(), "both.exposed_ms < 193.4", FAILED),
    (plain(), "both.wall_ms <= 0.4776s", PASSED),
    (plain(), "both.n >= 256", PASSED),
    (plain(), "both.n > 256", FAILED),
    (plain(), "both.bytes >= 24.75GiB", PASSED),
    (plain(), "both.bytes >= 24.76GiB", FAILED),
    (plain(), "both.blocking_ms <= 1000", INCONCLUSIVE),
    (plain(), "relief >= 0", INCONCLUSIVE),
    (plain(), "step_ms <= 1000", INCONCLUSIVE),
    (plain(), "both.hidden@worst-step >= 0", INCONCLUSIVE),
    (plain(), "budget.idle <= 3%", PASSED),
    (plain(), "budget.opaque <= 0", PASSED),
    (no_transfers(), "both.hidden >= 0", INCONCLUSIVE),
    (no_transfers(), "both.exposed_ms <= 1", INCONCLUSIVE),
    (no_transfers(), "both.n >= 1", FAILED),
    (no_transfers(), "budget.compute >= 80%", PASSED),
    (events_lost(), "both.n >= 0", INCONCLUSIVE),
    (events_lost(), "both.n >= 1", INCONCLUSIVE),
    (opaque_nothing(), "both.hidden >= 0", INCONCLUSIVE),
    (opaque_nothing(), "budget.idle <= 100%", INCONCLUSIVE),
    (OverlapReport((), (), ()), "both.n >= 0", INCONCLUSIVE),
    (STEPS, "d2h.hidden@step-median >= 90%", PASSED),
    (STEPS, "d2h.hidden@step-median > 90%", FAILED),
    (STEPS, "d2h.hidden@worst-step >= 90%", PASSED),
    (STEPS, "step_ms <= 1us", PASSED),
    (STEPS, "step_ms < 1us", FAILED),
    (STEPS, "relief >= 50%", PASSED),
    (STEPS, "relief > 50%", FAILED),
    (RANKS, "both.hidden >= 65%", PASSED),
    (RANKS, "both.hidden@worst-rank >= 65%", FAILED),
    (RANKS, "both.hidden@worst-device >= 40%", PASSED),
    (RANKS, "both.hidden@step-median >= 50%", FAILED),
    (RANKS, "both.hidden@worst-rank <= 90%", PASSED),
    (RANKS, "both.hidden@worst-rank < 90%", FAILED),
    (MIXED, "both.hidden >= 90%", PASSED),
    (MIXED, "both.hidden@worst-rank >= 0", INCONCLUSIVE),
    (MIXED, "both.n@worst-rank >= 1", FAILED),
]


@pytest.mark.parametrize(("report", "requirement", "status"), TABLE)
def test_verdict(report: OverlapReport, requirement: str, status: Status) -> None:
    result = check(report, [requirement])
    assert result.status is status
    assert result.passed == (status is PASSED)
    (verdict,) = result.verdicts
    assert verdict.status is status
    assert verdict.source == requirement


def test_nothing_asked_is_nothing_passed() -> None:
    assert check(plain(), []).status is INCONCLUSIVE


def test_a_failure_outweighs_what_cannot_be_told_but_not_a_broken_trace() -> None:
    limits = ["both.hidden >= 99%", "step_ms <= 1"]
    assert check(plain(), limits).status is FAILED
    broken = replace(plain(), health=(HealthEntry("lost", "error", "Events were lost."),))
    result = check(broken, limits)
    assert result.status is INCONCLUSIVE
    assert {verdict.status for verdict in result.verdicts} == {INCONCLUSIVE}
    assert result.verdicts[0].measured is not None, "measured, and not trusted"


@pytest.mark.parametrize("report", [plain(), STEPS, RANKS])
def test_one_unreadable_rank_is_never_green(report: OverlapReport) -> None:
    thresholds = Thresholds((parse_requirement("both.hidden >= 0"),))
    assert judge(report, thresholds).status is PASSED
    result = judge(report, thresholds, unreadable=["rank3.sqlite: is damaged."])
    assert result.status is INCONCLUSIVE
    assert result.blockers == ("rank3.sqlite: is damaged.",)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("rows-ending-early", "9 rows of CUPTI_ACTIVITY_KIND_MEMCPY end before they start."),
        ("rows-unreadable", "9 rows of CUPTI_ACTIVITY_KIND_MEMCPY hold no usable numbers."),
        ("unknown-copy-kind", "9 copies are of an unknown kind (99)."),
        ("graph-launches-without-rows", "9 of 9 CUDA graph launches have no GPU row."),
    ],
)
def test_copies_that_cannot_be_seen_are_never_green(code: str, message: str) -> None:
    seen = replace(plain(), health=(HealthEntry(code, "warning", message),))
    result = check(seen, ["both.hidden >= 0"])
    assert result.status is INCONCLUSIVE
    assert result.blockers == (message,)


def test_kernels_left_out_stop_no_gate() -> None:
    entry = HealthEntry("rows-unreadable", "warning", "1 rows of CUPTI_ACTIVITY_KIND_KERNEL.")
    assert check(replace(plain(), health=(entry,)), ["both.hidden >= 0"]).status is PASSED


def test_warnings_come_with_every_verdict_and_are_few() -> None:
    entries = [
        HealthEntry(f"code{i}", "warning", f"Kind {i} {'x ' * 500}", "Hint.", f"rank{rank}.sqlite")
        for i in range(8)
        for rank in range(100)
    ]
    entries += [HealthEntry("note", "note", "Nothing."), HealthEntry("lost", "error", "Lost.")]
    report = replace(RANKS, health=tuple(entries))
    for limit in ("both.hidden >= 0", "both.hidden >= 99%"):
        result = check(report, [limit])
        assert result.blockers == ("Lost.",)
        assert len(result.notes) == 6
        assert result.notes[0].startswith("Warning: rank0.sqlite: Kind 0 x x")
        assert result.notes[0].endswith(" … And 99 more like this one.")
        assert max(map(len, result.notes)) < 320
        assert result.notes[5].startswith("Warning: 4 more kinds of entry under Health; ")


@pytest.mark.parametrize(
    ("n", "more"), [(1, ""), (2, " And 1 more like this one."), (3, " And 2 more like this one.")]
)
def test_how_many_more_there_are(n: int, more: str) -> None:
    report = replace(plain(), health=(HealthEntry("code", "warning", "Odd."),) * n)
    assert check(report, ["both.hidden >= 0"]).notes == (f"Warning: Odd.{more}",)


def test_notes_come_after_warnings() -> None:
    entries = (
        HealthEntry("diagnostic", "note", "nsys says: Not all.", "100.0 % have a GPU row."),
        HealthEntry("unnamed", "warning", "9 kernels have no name.", "Capture again."),
    )
    result = check(replace(plain(), health=entries), ["both.hidden >= 0"])
    assert result.notes == (
        "Warning: 9 kernels have no name.",
        "Note: nsys says: Not all. 100.0 % have a GPU row.",
    )
    many_notes = tuple(HealthEntry(f"n{i}", "note", f"Note {i}.") for i in range(7))
    result = check(replace(plain(), health=many_notes), ["both.hidden >= 0"])
    assert result.notes[5].startswith("Note: 2 more kinds of entry under Health; ")


def test_times_are_in_the_unit_of_their_name() -> None:
    (verdict,) = check(plain(), ["both.exposed_ms <= 100"]).verdicts
    shown = (float(v or 0) for v in (verdict.measured, verdict.limit, verdict.margin))
    assert tuple(shown) == (193.4, 100, -93.4)


def test_what_blocks_is_not_said_twice() -> None:
    entry = HealthEntry("unknown-copy-kind", "warning", "9 copies are of an unknown kind (99).")
    assert check(replace(plain(), health=(entry,)), ["both.hidden >= 0"]).notes == ()


@pytest.mark.parametrize("fmt", ["text", "markdown"])
def test_reasons_are_few_in_words_and_whole_in_json(fmt: str) -> None:
    thresholds = Thresholds((parse_requirement("both.hidden >= 0"),))
    result = judge(plain(), thresholds, unreadable=[f"rank{i} is damaged." for i in range(100)])
    text = render(result, fmt)
    assert "rank10 is damaged." in text
    assert "rank11 is damaged." not in text
    assert "89 more reasons; all are in the JSON output." in text
    assert len(json.loads(render(result, "json"))["blockers"]) == 100


def test_nothing_is_held_against_a_baseline_that_is_inconclusive() -> None:
    broken = replace(plain(), health=(HealthEntry("lost", "error", "Events were lost."),))
    result = judge(plain(), Thresholds(), Baseline("old.json", broken))
    assert result.status is INCONCLUSIVE
    reason = "old.json cannot be compared: it is itself inconclusive (Events were lost)."
    assert {verdict.reason for verdict in result.verdicts} == {reason}


def test_margin_is_room_on_either_side() -> None:
    result = check(plain(), ["both.n >= 250", "both.n <= 250"])
    assert [verdict.margin for verdict in result.verdicts] == [6, -6]


def test_a_verdict_says_whose_value_it_is() -> None:
    (verdict,) = check(RANKS, ["both.hidden@worst-rank >= 50%"]).verdicts
    assert (verdict.where, verdict.measured) == ("rank 1", Fraction(2, 5))


def test_exposed_time_is_per_step_where_there_are_steps() -> None:
    limit = build_thresholds({"max_exposed_ms": "10ns"})
    assert judge(STEPS, limit).verdicts[0].name == "both.exposed_ms@step-median"
    assert judge(STEPS, limit).status is PASSED
    bare = replace(STEPS, devices=tuple(replace(d, steps=()) for d in STEPS.devices))
    assert judge(bare, limit).verdicts[0].name == "both.exposed_ms@worst-device"
    assert judge(bare, limit).status is FAILED


# Against a baseline.


def against(now: OverlapReport, then: OverlapReport, **limits: str) -> Verdicts:
    return judge(now, build_thresholds(limits), Baseline("then.json", then))


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({}, FAILED),
        ({"max_drop": "10"}, PASSED),
        ({"max_drop": "9.99"}, FAILED),
        ({"max_drop": "20", "max_exposed_growth": "100"}, PASSED),
        ({"max_drop": "20", "max_exposed_growth": "99"}, FAILED),
        ({"max_exposed_growth": "100"}, PASSED),
        ({"max_drop": "5", "confidence": "95"}, FAILED),
        ({"max_drop": "10", "confidence": "95"}, PASSED),
    ],
)
def test_a_drop_of_ten_points(limits: dict[str, str], status: Status) -> None:
    assert against(WORSE, STEPS, **limits).status is status


def test_getting_better_passes() -> None:
    assert against(STEPS, WORSE, max_drop="0", max_exposed_growth="0").status is PASSED


def test_exposed_time_that_grew_from_nothing_fails() -> None:
    hidden = report_of_steps([(100, 100)] * 8)
    assert against(STEPS, hidden, max_exposed_growth="1000").status is FAILED
    assert against(hidden, hidden, max_exposed_growth="0").status is PASSED


def test_only_directions_of_the_baseline_are_compared() -> None:
    names = [verdict.metric.name for verdict in against(STEPS, STEPS).verdicts]
    assert names == ["d2h.hidden", "both.hidden"]


def test_a_direction_that_is_gone_is_inconclusive() -> None:
    result = against(no_transfers(), plain(), max_drop="100")
    assert result.status is INCONCLUSIVE
    assert len(result.verdicts) == 3


def test_a_baseline_without_transfers_compares_nothing() -> None:
    result = against(plain(), no_transfers(), max_drop="100")
    assert result.status is INCONCLUSIVE
    reason = "then.json: the trace has no host transfers. Check that offloading was on when it was "
    assert result.verdicts[0].reason == f"{reason}captured."


@pytest.mark.parametrize(
    "then",
    [
        replace(STEPS, basis=Basis("trace")),
        replace(STEPS, basis=replace(STEPS.basis, transfer_kernels="off")),
        replace(STEPS, basis=replace(STEPS.basis, window_ns=(0, 5))),
        replace(STEPS, devices=(replace(STEPS.devices[0], gpu=Gpu(name="NVIDIA GB200")),)),
    ],
)
def test_what_is_unlike_is_not_compared(then: OverlapReport) -> None:
    result = against(STEPS, then, max_drop="50")
    assert result.status is INCONCLUSIVE
    assert "then.json cannot be compared: " in result.verdicts[0].reason


# Noise.


def noisy(shares: list[int]) -> OverlapReport:
    return report_of_steps([(share, 100) for share in shares])


def only(result: Verdicts, metric: str = "d2h.hidden") -> Verdict:
    (verdict,) = (v for v in result.verdicts if v.metric is METRICS[metric])
    return verdict


def test_spread_decides_only_where_asked() -> None:
    now, then = noisy([70, 100, 85, 96, 99, 80, 92, 98] * 2), noisy([94] * 8)
    assert against(now, then, max_drop="3").status is FAILED
    verdict = only(against(now, then, max_drop="3", confidence="95"))
    assert verdict.status is INCONCLUSIVE
    assert verdict.spread is not None
    assert verdict.spread.low < 0.9 < verdict.spread.high
    assert verdict.spread.n == 16
    assert verdict.reason.endswith("steps would tell.")
    needed = int(verdict.reason.split("about ")[1].split()[0])
    assert needed > 16


def test_too_few_steps_are_said_to_be_too_few() -> None:
    verdict = only(against(noisy([10, 10]), STEPS, max_drop="3", confidence="95"))
    assert verdict.status is INCONCLUSIVE
    assert verdict.reason == "2 steps do not show a spread: capture at least 5."


def test_a_baseline_without_steps_is_a_number_known_exactly() -> None:
    bare = replace(STEPS, devices=tuple(replace(d, steps=()) for d in STEPS.devices))
    verdict = only(against(WORSE, bare, max_drop="3", confidence="95"))
    assert verdict.status is FAILED
    assert verdict.baseline_spread is None


def test_no_steps_no_spread() -> None:
    bare = replace(WORSE, devices=tuple(replace(d, steps=()) for d in WORSE.devices))
    verdict = only(against(bare, STEPS, max_drop="30", confidence="95"))
    assert verdict.status is INCONCLUSIVE
    assert "no steps" in verdict.reason


# What lost most.


def test_three_operations_that_lost_most_are_named() -> None:
    then = [operation(f"op{i}", 100) for i in range(6)]
    now = [operation(f"op{i}", 100 + 10 * i) for i in range(5)] + [operation("new", 25)]
    losses = biggest_losses(now, then)
    assert [(loss.op, loss.then_ns, loss.now_ns) for loss in losses] == [
        ("op4", 100, 140),
        ("op3", 100, 130),
        ("new", 0, 25),
    ]


def test_losses_are_per_step_where_both_sides_know() -> None:
    (loss,) = biggest_losses([operation("a", 800, 100)], [operation("a", 400, 50)])
    assert (loss.then_ns, loss.now_ns, loss.per_step) == (50, 100, True)
    (loss,) = biggest_losses([operation("a", 800, 100)], [operation("a", 400)])
    assert (loss.then_ns, loss.now_ns, loss.per_step) == (400, 800, False)


def test_losses_come_only_with_a_failure() -> None:
    then = replace(STEPS, operations=(operation("a", 10),))
    now = replace(WORSE, operations=(operation("a", 20),))
    assert [loss.op for loss in against(now, then, max_drop="5").losses] == ["a"]
    assert against(now, then, max_drop="15").losses == ()


# Thresholds.


def test_options_win_over_the_file_and_requirements_add_up() -> None:
    thresholds = build_thresholds(
        {"min_hidden": "70", "require": ("d2h.n >= 1",), "max_drop": None},
        {"min_hidden": "60", "min_relief": "50%", "require": ["h2d.n >= 1"]},
    )
    found = {(r.metric.name, r.limit) for r in thresholds.requirements}
    assert found == {
        ("both.hidden", Fraction(7, 10)),
        ("relief", Fraction(1, 2)),
        ("h2d.n", Fraction(1)),
        ("d2h.n", Fraction(1)),
    }


def test_requiring_transfers_asks_every_rank() -> None:
    (requirement,) = build_thresholds({"require_transfers": "any"}).requirements
    assert (requirement.metric.name, requirement.scope) == ("both.n", Scope.WORST_RANK)
    (requirement,) = build_thresholds({"require_transfers": "8GiB"}).requirements
    assert (requirement.metric.name, requirement.limit) == ("both.bytes", Fraction(8 << 30))


@pytest.mark.parametrize(
    "text", ["", "both.hidden", ">= 5", "both.hidden => 5%", "both.hidden >= ", "a b >= 5"]
)
def test_what_is_no_requirement(text: str) -> None:
    with pytest.raises(UsageError):
        parse_requirement(text)
