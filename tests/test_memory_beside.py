"""Peak memory from the manifest beside a trace: in the report, the gate, and the finding on it."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from capture.kept import read_kept
from nsysoverlap.cli import main
from nsysoverlap.core.errors import UsageError
from nsysoverlap.result.metrics import METRICS, Scope, parse_metric
from nsysoverlap.result.model import Finding, Memory, OverlapReport
from nsysoverlap.result.scopes import measure
from nsysoverlap.run.analysis import Options, analyze
from nsysoverlap.run.many import analyze_many
from nsysoverlap.trace.manifest import manifest_beside

from .tracebuilder import TraceBuilder, draw
from .traces import h200

GIB = 1 << 30
CAPTURE = "nsysoverlap.capture"
KEPT = Path(__file__).parents[1] / "docs" / "validation" / "dense-2.json"
# Two steps, in each of which one tensor of 3 GB leaves and comes back.
AWAY = """
dev0 s7  compute: .##.##.##.###........##.##.##.###.......
dev0 s20 bytes=3000000000 d2h: .AAA.................BBB................
dev0 s21 bytes=3000000000 h2d: .........AAA.................BBB........
"""
PASS, FAIL, INCONCLUSIVE = 0, 1, 3


def two_steps() -> TraceBuilder:
    builder = draw(AWAY, unit_ns=20_000_000)
    for i in range(2):
        builder.nvtx(f"step {i}", 400_000_000 * i + 10_000_000, 400_000_000 * i + 380_000_000)
    return builder


def arm(folder: Path, **memory: Any) -> Path:
    """What `python -m capture` leaves of an arm: the trace, and the manifest beside it."""
    folder.mkdir(parents=True)
    leave(folder / "manifest.json", memory=memory, format=CAPTURE, control="save")
    return two_steps().write(folder / "trace.sqlite")


def leave(path: Path, **values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")


def gate(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["gate", *map(str, arguments)])


def memory_of(report: OverlapReport) -> Memory | None:
    (device,) = report.devices
    return device.memory


def test_no_manifest_no_memory(tmp_path: Path) -> None:
    report = analyze(two_steps().write(tmp_path / "trace.sqlite"))
    assert memory_of(report) is None
    found = measure(report, METRICS["peak_bytes"], Scope.WORST_DEVICE, least=False)
    assert found.value is None
    assert found.reason.startswith(
        "H200 dev 0, pid 1000: no manifest lies beside the trace. docs/record.md"
    )


def test_the_manifest_of_an_arm_and_that_of_its_control(tmp_path: Path) -> None:
    leave(tmp_path / "save" / "manifest.json", memory={"peak_gib": 30.5}, format=CAPTURE)
    trace = arm(tmp_path / "lhs", peak_gib=28.25, planned_gib=28.0, host_gib=3.0)
    assert memory_of(analyze(trace)) == Memory(
        round(28.25 * GIB), 28 * GIB, 3 * GIB, "save", round(30.5 * GIB)
    )


@pytest.mark.parametrize("name", ["rank3.manifest.json", "manifest.rank3.json"])
def test_the_manifest_of_a_rank(tmp_path: Path, name: str) -> None:
    leave(tmp_path / "manifest.rank1.json", memory={"peak_gib": 1.0})
    leave(tmp_path / name, memory={"peak_gib": 2.0, "control_peak_gib": 5.0})
    found = manifest_beside(tmp_path / "rank3.sqlite")
    assert found is not None
    assert (found.peak_bytes, found.control_peak_bytes) == (2 * GIB, 5 * GIB)


def test_a_program_that_failed_has_no_peak(tmp_path: Path) -> None:
    trace = two_steps().write(tmp_path / "rank0.sqlite")
    leave(tmp_path / "rank0.manifest.json", memory={"peak_gib": 1.0}, status="failed")
    assert gate(trace, "--max-peak-gib", 2).exit_code == INCONCLUSIVE
    leave(tmp_path / "rank0.manifest.json", memory={"peak_gib": 1.0}, status="ok")
    assert gate(trace, "--max-peak-gib", 2).exit_code == PASS


def test_the_plan_stands_in_for_the_allocator(tmp_path: Path) -> None:
    report = analyze(arm(tmp_path / "lhs", planned_gib=7.0, peak_gib=None))
    found = measure(report, METRICS["peak_bytes"], Scope.WORST_DEVICE, least=False)
    assert found.value == 7 * GIB


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is no JSON object"),
        ("[1]", "is no JSON object"),
        ('{"format": "nsysoverlap.capture"}', 'has no object "memory"'),
        (
            '{"format": "nsysoverlap.capture", "memory": {"peak_gib": "much"}}',
            "says peak_gib is 'much', no size",
        ),
        (
            '{"format": "nsysoverlap.capture", "memory": {"peak_gib": -1}}',
            "says peak_gib is '-1', no size",
        ),
        *(
            (
                f'{{"format": "nsysoverlap.capture", "memory": {{"peak_gib": {number}}}}}',
                f"says peak_gib is '{said}', no size",
            )
            # A program that was on the GPU took some of its memory.
            for number, said in (
                ("0", "0"),
                ("1e-320", "1e-320"),
                ("1" + "0" * 400, "1" + "0" * 39),
            )
        ),
        (
            '{"format": "nsysoverlap.capture", "memory": {"host_gib": NaN}}',
            "says host_gib is 'nan', no size",
        ),
        (
            '{"format": "nsysoverlap.capture", "memory": {"peak_gib": true}}',
            "says peak_gib is 'True', no size",
        ),
    ],
)
def test_a_manifest_that_cannot_be_understood(tmp_path: Path, text: str, problem: str) -> None:
    trace = two_steps().write(tmp_path / "trace.sqlite")
    (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    report = analyze(trace)
    (entry,) = [entry for entry in report.health if entry.code == "manifest-unreadable"]
    assert entry.severity == "warning"
    assert entry.message == (
        f"manifest.json beside the trace {problem}, so peak memory is not known."
    )
    assert memory_of(report) is None
    result = gate(trace, "--max-peak-gib", "900")
    assert result.exit_code == INCONCLUSIVE
    assert (
        "Inconclusive: peak_bytes: H200 dev 0, pid 1000: manifest.json beside the trace "
        f"{problem}, so peak memory is not known."
    ) in " ".join(result.output.split())


def test_the_manifest_of_another_program_is_none_of_ours(tmp_path: Path) -> None:
    leave(tmp_path / "manifest.json", name="an extension", memory={"peak_gib": 1})
    assert manifest_beside(tmp_path / "trace.sqlite") is None
    leave(tmp_path / "trace.manifest.json", memory={"peak_gib": 1})
    found = manifest_beside(tmp_path / "trace.sqlite")
    assert found is not None
    assert found.peak_bytes == GIB


def test_a_control_is_a_folder_beside_and_no_path(tmp_path: Path) -> None:
    leave(tmp_path / "elsewhere" / "manifest.json", memory={"peak_gib": 9}, format=CAPTURE)
    folder = tmp_path / "out" / "lhs"
    leave(
        folder / "manifest.json",
        memory={"peak_gib": 1},
        format=CAPTURE,
        control="../elsewhere",
    )
    found = manifest_beside(folder / "trace.sqlite")
    assert found is not None
    assert (found.control, found.control_peak_bytes) == (None, None)


def test_an_arm_that_ran_out_of_memory_has_no_peak(tmp_path: Path) -> None:
    leave(tmp_path / "manifest.json", status="out-of-memory", format=CAPTURE)
    trace = two_steps().write(tmp_path / "trace.sqlite")
    assert not [e for e in analyze(trace).health if e.code == "manifest-unreadable"]
    result = gate(trace, "--max-peak-gib", "900")
    assert result.exit_code == INCONCLUSIVE
    assert _says_no_peak(result)


def test_a_manifest_with_another_key_names_the_key_to_write(tmp_path: Path) -> None:
    leave(tmp_path / "trace.manifest.json", memory={"peak_gb": 3})
    trace = two_steps().write(tmp_path / "trace.sqlite")
    assert _says_no_peak(gate(trace, "--max-peak-gib", "900"))
    report = analyze(trace)
    found = measure(report, METRICS["host_bytes"], Scope.WORST_DEVICE, least=False)
    assert "the manifest has no memory.host_gib." in found.reason


def _says_no_peak(result: Result) -> bool:
    reason = "H200 dev 0, pid 1000: the manifest has no memory.peak_gib."
    return reason in " ".join(result.output.split())


def test_of_two_ranks_the_manifest_that_is_wrong_is_named(tmp_path: Path) -> None:
    arm(tmp_path / "rank0", peak_gib=1.0)
    (arm(tmp_path / "rank1", peak_gib=1.0).parent / "manifest.json").write_text("{")
    found = measure(
        analyze_many([tmp_path / f"rank{i}" / "trace.sqlite" for i in range(2)], Options())[0],
        METRICS["peak_bytes"],
        Scope.WORST_RANK,
        least=False,
    )
    assert found.value is None
    assert found.reason.startswith("rank 1: manifest.json beside the trace is no JSON object, so")


@pytest.mark.parametrize(
    ("limit", "code"), [("28.25", PASS), ("28.24", FAIL), ("28.25GiB", PASS), ("30 GiB", PASS)]
)
def test_the_gate_on_peak_memory(tmp_path: Path, limit: str, code: int) -> None:
    result = gate(arm(tmp_path / "lhs", peak_gib=28.25), "--max-peak-gib", limit)
    assert result.exit_code == code, result.output
    assert "peak_bytes" in result.output


@pytest.mark.parametrize("limit", ["-1", "28GB", "much", "28.6%"])
def test_a_limit_that_is_no_size(tmp_path: Path, limit: str) -> None:
    result = gate(arm(tmp_path / "lhs", peak_gib=1.0), f"--max-peak-gib={limit}")
    assert result.exit_code == 2
    assert result.output.startswith("Error: --max-peak-gib: ")


def test_one_rank_without_a_manifest_is_inconclusive(tmp_path: Path) -> None:
    for rank in (0, 1):
        draw(AWAY, unit_ns=20_000_000, pid=rank + 1).write(tmp_path / f"rank{rank}.sqlite")
    leave(tmp_path / "manifest.rank0.json", memory={"peak_gib": 3.0}, format=CAPTURE)
    limits = (tmp_path, "--max-peak-gib", "4")
    assert gate(*limits).exit_code == INCONCLUSIVE
    leave(tmp_path / "manifest.rank1.json", memory={"peak_gib": 5.0}, format=CAPTURE)
    result = gate(*limits)
    assert result.exit_code == FAIL
    assert "5.00 GiB" in result.output
    assert gate(tmp_path, "--require", "peak_bytes@worst-rank <= 5GiB").exit_code == PASS


def test_a_peak_is_no_sum_and_no_step(tmp_path: Path) -> None:
    assert parse_metric("host_bytes", "x") == (METRICS["host_bytes"], Scope.WORST_DEVICE)
    for scope in ("total", "worst-step", "step-median", "step-mean"):
        with pytest.raises(UsageError, match="has no scope"):
            parse_metric(f"peak_bytes@{scope}", "x")


def test_the_report_says_it(tmp_path: Path) -> None:
    trace = arm(tmp_path / "lhs", peak_gib=28.25, planned_gib=28.0, host_gib=3.0)
    text = " ".join(CliRunner().invoke(main, ["report", str(trace)]).output.split())
    assert (
        "At most 28.25 GiB of device memory in use (28.00 GiB planned), 3.00 GiB pinned on the "
        "host, by the manifest beside the trace."
    ) in text
    frame = analyze(trace).to_frame("devices")
    assert frame["peak_bytes"].tolist() == [round(28.25 * GIB)] * 5


def relief_findings(trace: Path) -> list[Finding]:
    return [f for f in analyze(trace).findings if f.code == "relief-is-not-memory"]


@pytest.mark.parametrize(
    ("peak", "title", "severity"),
    [
        (32.0, "the peak is 1.50 GiB higher than that of its control", "warning"),
        (30.5, "the peak is equal to that of its control", "note"),
        (30.25, "the peak is 256.0 MiB lower than that of its control", "note"),
        (30.2, "", ""),
        (27.7, "", ""),
    ],
)
def test_relief_that_does_not_show_in_the_peak(
    tmp_path: Path, peak: float, title: str, severity: str
) -> None:
    """3 GB (2.8 GiB) leave: a tenth of them, 286 MiB, has to be gone from the control's peak."""
    leave(tmp_path / "save" / "manifest.json", memory={"peak_gib": 30.5}, format=CAPTURE)
    found = relief_findings(arm(tmp_path / "lhs", peak_gib=peak))
    assert [one.severity for one in found] == [severity] * bool(severity)
    assert [one.cost_ns for one in found] == [0] * bool(severity)
    assert [one.title.partition(", and ")[2] for one in found] == [title] * bool(title)


def test_without_the_peak_of_the_control_nothing_is_said(tmp_path: Path) -> None:
    assert relief_findings(arm(tmp_path / "lhs", peak_gib=99.0)) == []


def test_optimizer_state_on_the_host_takes_more_memory(tmp_path: Path) -> None:
    """The H200's arm: all of 15 GiB are away at once, and the peak is 24.7 GiB above `save`'s."""
    peaks = {row.arm: row.peak_gib for row in read_kept(KEPT).rows}
    for name in ("optimizer", "save"):
        leave(
            tmp_path / name / "manifest.json",
            memory={"peak_gib": peaks[name]},
            format=CAPTURE,
            control="save",
        )
    trace = tmp_path / "optimizer" / "trace.sqlite"
    shutil.copy(h200("jax_capture_optimizer"), trace)
    (found,) = relief_findings(trace)
    assert found.title == (
        "Relief is not memory: 15.00 GiB were on the host at once, and the peak is 24.69 GiB "
        "higher than that of its control"
    )
    assert found.severity == "warning"
    assert found.remedy.startswith("What comes in before it goes out is on the device twice")
    (device,) = analyze(trace).devices
    assert device.memory is not None
    assert device.memory.peak_bytes is not None
    assert Fraction(device.memory.peak_bytes, GIB) == pytest.approx(peaks["optimizer"], abs=1e-6)
