"""Two runs side by side: what changed, and what is unlike."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from markdown_it import MarkdownIt

from nsysoverlap.cli import main
from nsysoverlap.cli.formats import render
from nsysoverlap.core.errors import UsageError
from nsysoverlap.core.json_model import plain as plain_data
from nsysoverlap.judge.comparison import Comparison, compare
from nsysoverlap.result.model import Basis, Gpu, HealthEntry, OverlapReport
from nsysoverlap.result.parts import Finding, KernelReport
from nsysoverlap.show.blocks import Table
from nsysoverlap.show.documents import comparison_file
from nsysoverlap.show.say_comparison import headline
from nsysoverlap.show.sections import blocks_of

from .gatekit import control_trace, split_trace, step_trace
from .sample_reports import HOSTILE, no_transfers, plain
from .stepreports import operation, report_of_ranks, report_of_steps
from .traces import h200

A = report_of_steps([(90, 100)] * 4)
B = report_of_steps([(60, 100)] * 4)


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, args)])


def changes(result: Comparison) -> dict[str, tuple[float, float]]:
    """Both sides of every change; nan for what a side does not know."""
    return {
        change.name: (_number(change.a), _number(change.b))
        for change in (*result.split, *result.budget)
    }


def _number(value: Fraction | None) -> float:
    return float("nan") if value is None else float(value)


def finding(code: str) -> Finding:
    return Finding(code, "warning", f"Title of {code}", "detail", "remedy", 1_000_000)


def kernel(name: str, n: int, mean_ns: int, role: str = "compute") -> KernelReport:
    return KernelReport(name, role, n, n * mean_ns // 2, n * mean_ns - n * mean_ns // 2)


def with_kernels(report: OverlapReport, *kernels: KernelReport) -> OverlapReport:
    return replace(report, kernels=kernels)


# What changed.


def test_the_split_is_compared() -> None:
    found = changes(compare(A, B))
    assert found["d2h.hidden"] == (0.9, 0.6)
    assert found["d2h.exposed_ms"] == (10e-6, 40e-6), "ms, as the name says"
    assert found["step_ms"] == (1e-3, 1e-3)
    assert "h2d.hidden" not in found


def test_amounts_are_per_step_only_where_both_sides_have_steps() -> None:
    assert changes(compare(A, B))["d2h.wall_ms"] == (1e-4, 1e-4)
    bare = replace(B, devices=tuple(replace(d, steps=()) for d in B.devices))
    result = compare(A, bare)
    assert not result.per_step
    assert changes(result)["d2h.wall_ms"] == (4e-4, 4e-4)
    assert result.step_time is None


def test_a_report_compared_with_itself_changed_nothing() -> None:
    result = compare(A, A)
    assert result.cautions == ()
    assert all(change.difference == 0 for change in result.split)
    assert [*result.operations, *result.kernels, *result.new_findings] == []
    assert "the same" in headline(result)


def test_operations_are_matched_and_the_largest_change_comes_first() -> None:
    one = replace(A, operations=(operation("a", 100), operation("b", 50), operation("gone", 5)))
    two = replace(B, operations=(operation("a", 90), operation("b", 80), operation("new", 7)))
    found = [(c.op, c.a_ns, c.b_ns, c.difference_ns) for c in compare(one, two).operations]
    assert found == [
        ("b", 50, 80, 30),
        ("a", 100, 90, -10),
        ("new", None, 7, 7),
        ("gone", 5, None, -5),
    ]


def test_operations_are_per_step_where_both_sides_have_steps() -> None:
    one = replace(A, operations=(operation("a", 100, 10),))
    (change,) = compare(one, one).operations
    assert change.a_ns == 10


def test_kernels_that_slowed_down() -> None:
    one = with_kernels(A, kernel("slow", 10, 100), kernel("same", 10, 100), kernel("fast", 4, 100))
    two = with_kernels(B, kernel("slow", 10, 150), kernel("same", 10, 101), kernel("fast", 4, 90))
    (found,) = compare(one, two).kernels
    assert (found.name, found.a_mean_ns, found.b_mean_ns) == ("slow", 100, 150)
    assert found.cost_ns == 10 * 50 // 4


def test_kernels_are_compared_where_they_ran_equally_often_a_step() -> None:
    twice = report_of_steps([(60, 100)] * 8)
    one = with_kernels(A, kernel("gemm", 20, 100), kernel("other", 20, 100))
    two = with_kernels(twice, kernel("gemm", 40, 150), kernel("other", 20, 150))
    result = compare(one, two)
    assert [(k.name, k.cost_ns) for k in result.kernels] == [("gemm", 5 * 50)]
    assert result.n_unlike_kernels == 1
    shown = render(result, "markdown")
    assert "cost, mean step" in shown
    assert "1 kernel name is not compared: launched more often on one side" in shown


def test_without_steps_kernels_are_compared_where_they_ran_equally_often() -> None:
    bare = replace(A, devices=tuple(replace(d, steps=()) for d in A.devices))
    one = with_kernels(bare, kernel("gemm", 20, 100), kernel("other", 20, 100))
    two = with_kernels(B, kernel("gemm", 20, 150), kernel("other", 40, 150))
    result = compare(one, two)
    assert [(k.name, k.cost_ns) for k in result.kernels] == [("gemm", 20 * 50)]
    assert result.n_unlike_kernels == 1


def test_findings_that_came_and_went() -> None:
    one = replace(A, findings=(finding("late-h2d"), finding("round-trip")))
    two = replace(B, findings=(finding("round-trip"), finding("d2h-tail")))
    result = compare(one, two)
    assert [f.code for f in result.new_findings] == ["d2h-tail"]
    assert [f.code for f in result.gone_findings] == ["late-h2d"]


def test_findings_of_an_inconclusive_side_neither_came_nor_went() -> None:
    one = replace(A, findings=(finding("late-h2d"),))
    lost = replace(B, health=(HealthEntry("lost", "error", "Events were lost."),))
    for pair in ((one, lost), (lost, one)):
        result = compare(*pair)
        assert (result.new_findings, result.gone_findings) == ((), ())
        assert any(caution.startswith("Findings are not compared: ") for caution in result.cautions)


@pytest.mark.parametrize(
    ("a", "b", "judged"),
    [
        ((900, 1000), (901, 1000), "about equal"),
        ((0, 10_000), (9, 10_000), "about equal"),
        ((100, 10_000), (109, 10_000), "about equal"),
        ((100, 10_000), (110, 10_000), "better"),
        ((110, 10_000), (100, 10_000), "worse"),
        ((0, 10_000), (5_000, 10_000), "better"),
    ],
)
def test_a_change_too_small_to_matter_is_neither_better_nor_worse(
    a: tuple[int, int], b: tuple[int, int], judged: str
) -> None:
    result = compare(report_of_steps([a] * 4), report_of_steps([b] * 4))
    rows = {
        row[0]: row[-1]
        for block in blocks_of(result)
        if isinstance(block, Table)
        for row in block.rows
    }
    assert rows["d2h.hidden"] == judged


# What is unlike.


@pytest.mark.parametrize(
    ("b", "caution"),
    [
        (
            replace(A, devices=(replace(A.devices[0], gpu=Gpu(name="NVIDIA GB200")),)),
            "Unlike GPUs: NVIDIA H200 in A, NVIDIA GB200 in B.",
        ),
        (report_of_steps([(90, 100)] * 5), "Unlike number of steps: 4 in A, 5 in B."),
        (report_of_ranks(*[[(90, 100)] * 4] * 2), "Unlike number of devices: 1 in A, 2 in B."),
        (
            replace(A, basis=replace(A.basis, transfer_kernels="off")),
            "Unlike transfer kernels: auto in A, off in B.",
        ),
        (
            replace(A, basis=Basis("trace")),
            "A is measured over NVTX ranges 'step N', B over the trace.",
        ),
        (
            replace(A, devices=()),
            "Unlike GPUs: NVIDIA H200 in A, none in B.",
        ),
        (
            replace(A, health=(HealthEntry("lost", "error", "Events were lost."),)),
            "B is inconclusive: Events were lost.",
        ),
    ],
)
def test_what_is_unlike_is_said(b: OverlapReport, caution: str) -> None:
    result = compare(A, b)
    assert caution in result.cautions
    for fmt in ("text", "markdown"):
        shown = " ".join(render(result, fmt).replace("\\", "").split())
        assert caution in shown


def test_other_models_are_told_by_their_kernels() -> None:
    one = with_kernels(A, kernel("gemm_a", 10, 100))
    two = with_kernels(A, kernel("gemm_b", 9, 100), kernel("gemm_a", 1, 100))
    (caution,) = compare(one, two).cautions
    assert caution.startswith("Unlike models or compilers: only 10 % of B's compute time")
    assert compare(one, one).cautions == ()


# Headlines and formats.


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (
            A,
            B,
            "Behind compute: 90.0 % in A, 60.0 % in B. Step time: 1.0 µs in A, 1.0 µs in B (the ",
        ),
        (plain(), no_transfers(), "Only A has host transfers."),
        (no_transfers(), plain(), "Only B has host transfers."),
        (no_transfers(), no_transfers(), "Neither side has host transfers."),
        # Nothing hidden is not nothing moved.
        (no_transfers(), report_of_steps([(0, 100)] * 3), "Only B has host transfers."),
        (report_of_steps([(0, 100)] * 3), no_transfers(), "Only A has host transfers."),
    ],
)
def test_headline(a: OverlapReport, b: OverlapReport, text: str) -> None:
    assert headline(compare(a, b)).startswith(text)


def test_a_slower_step_is_said() -> None:
    slow = replace(
        B.devices[0],
        steps=tuple(replace(s, end_ns=s.start_ns + 1100) for s in B.devices[0].steps),
    )
    text = headline(compare(A, replace(B, devices=(slow,))))
    assert text.endswith("(B is 10.0 % slower).")


def full() -> Comparison:
    """Everything a comparison can say."""
    one = with_kernels(
        replace(A, operations=(operation("copy.1", 10_000),), findings=(finding("late-h2d"),)),
        kernel("gemm", 10, 100_000),
    )
    two = with_kernels(
        replace(
            B,
            operations=tuple(operation(f"copy.{i}", 20_000 + i) for i in range(1, 15)),
            findings=(finding("d2h-tail"),),
            devices=(replace(B.devices[0], gpu=Gpu(name="NVIDIA GB200")),),
        ),
        kernel("gemm", 10, 150_000),
    )
    return compare(one, two, ("main.json", "branch.sqlite"))


@pytest.mark.parametrize(("fmt", "suffix"), [("text", "txt"), ("markdown", "md")])
def test_golden(fmt: str, suffix: str, golden: Callable[[str, str], None]) -> None:
    golden(f"compare.{suffix}", render(full(), fmt))


def test_markdown_renders_as_tables() -> None:
    html = MarkdownIt("commonmark").enable("table").render(render(full(), "markdown"))
    assert html.count("<table>") == 6


def test_json_holds_what_the_text_leaves_out() -> None:
    values = json.loads(render(full(), "json"))
    assert values == plain_data(comparison_file(full()))
    assert values["format"] == "nsysoverlap.comparison"
    assert len(values["operations"]) == 14
    split = {change["metric"]: change for change in values["split"]}
    assert split["d2h.hidden"] == {"metric": "d2h.hidden", "a": 0.9, "b": 0.6}


def test_hostile_names_do_no_harm() -> None:
    result = compare(
        replace(A, operations=(operation(HOSTILE, 5),)),
        replace(B, operations=(operation(HOSTILE, 50_000),)),
        (HOSTILE, HOSTILE),
    )
    for fmt in ("text", "markdown", "json"):
        assert "\x1b" not in render(result, fmt)
    html = MarkdownIt("commonmark").enable("table").render(render(result, "markdown"))
    assert "<b>" not in html


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="no format 'junit' of `compare`"):
        render(full(), "junit")


# The command.


def test_two_real_traces() -> None:
    result = run(h200("jax_unroll_lhs"), h200("jax_unroll_nolhs"))
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert text.startswith("Behind compute: 59.5 % in A, 0.0 % in B.")
    assert "A is jax_unroll_lhs.sqlite, B is jax_unroll_nolhs.sqlite." in text
    assert "Unlike" not in text
    assert "% slower)" in text
    assert "4 kernel names are not compared" in text


def test_other_work_under_the_name_of_a_kernel_is_no_slowdown() -> None:
    result = run(h200("jax_capture_prefetch"), h200("jax_capture_published"))
    assert "Kernels that slowed down" not in result.stdout
    assert "3 kernel names are not compared" in result.stdout


def test_kernels_of_a_real_trace_that_slowed_down() -> None:
    result = run(h200("jax_capture_barrier_scan"), h200("jax_capture_prefetch"))
    assert "Kernels that slowed down" in result.stdout
    assert "not compared" not in result.stdout
    cost = re.search(r"bz_TNT +compute +3.9 ms +4.1 ms +(.*)", result.stdout)
    assert cost is not None
    assert cost[1] == "6.1 ms"


def test_offload_against_keeping_is_said_to_be_another_thing() -> None:
    result = run(h200("jax_unroll_lhs"), h200("jax_unroll_save"))
    assert result.exit_code == 0
    assert result.stdout.startswith("Only A has host transfers.")


def test_traces_reports_baselines_and_folders(tmp_path: Path) -> None:
    a = step_trace(tmp_path / "a.sqlite", [90] * 4)
    folder = tmp_path / "ranks"
    folder.mkdir()
    for i in range(2):
        step_trace(folder / f"rank{i}.sqlite", [60] * 4, pid=i + 1)
    assert CliRunner().invoke(
        main, ["report", str(a), "--format", "json", "-o", str(tmp_path / "a.json")]
    ).exit_code == 0  # fmt: skip
    assert CliRunner().invoke(
        main, ["gate", str(a), "--write-baseline", str(tmp_path / "b.json")]
    ).exit_code == 0  # fmt: skip
    for side in (a, tmp_path / "a.json", tmp_path / "b.json"):
        result = run(side, folder)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("Behind compute: 90.0 % in A, 60.0 % in B.")
        assert "Unlike number of devices: 1 in A, 2 in B." in " ".join(result.stdout.split())


def test_equal_names_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        split_trace(tmp_path / name / "t.sqlite", d2h=(1, 2))
    text = run(tmp_path / "one" / "t.sqlite", tmp_path / "two" / "t.sqlite").stdout
    assert "A is one/t.sqlite, B is two/t.sqlite." in text


def test_an_inconclusive_side_is_said(tmp_path: Path) -> None:
    opaque, good = h200("micro_graph_graph"), split_trace(tmp_path / "t.sqlite", d2h=(1, 2))
    for pair, said in (((opaque, good), "A"), ((good, opaque), "B")):
        result = run(*pair, "--format", "json")
        assert result.exit_code == 3
        assert json.loads(result.stdout)["cautions"][0].startswith(f"{said} is inconclusive: ")


def test_a_side_that_lacks_a_rank_is_inconclusive(tmp_path: Path) -> None:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    good = split_trace(ranks / "rank0.sqlite", d2h=(1, 2))
    (ranks / "rank1.sqlite").write_text("{}")
    for pair in ((ranks, good), (good, ranks)):
        result = run(*pair)
        assert result.exit_code == 3
        assert result.stdout.startswith("Behind compute: 50.0 % in A, 50.0 % in B.")
        assert result.stderr.startswith("Skipped: rank1.sqlite: ")


@pytest.mark.parametrize("broken", ["missing.sqlite", "missing.json", "broken.sqlite", "b.json"])
def test_a_side_that_cannot_be_read(tmp_path: Path, broken: str) -> None:
    for name in ("broken.sqlite", "b.json"):
        (tmp_path / name).write_text("{}")
    good = control_trace(tmp_path / "good.sqlite")
    for pair in ((tmp_path / broken, good), (good, tmp_path / broken)):
        result = run(*pair)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"Error: {broken}: " in result.stderr


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    a = control_trace(tmp_path / "a.sqlite")
    assert run(a, a, "-o", a).exit_code == 2
