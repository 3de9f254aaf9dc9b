"""`nsysoverlap whatif`: what it answers, in which formats, and what it refuses."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import nsysoverlap as no
from nsysoverlap.cli import main
from nsysoverlap.cli.formats import formats_of, render
from nsysoverlap.roles.clock import ClockLaw

from ..traces import h200

NOLHS, LHS, SAVE = (h200(f"jax_unroll_{name}") for name in ("nolhs", "lhs", "save"))


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["whatif", *map(str, args)])


def answer(*args: str | Path) -> dict[str, Any]:
    result = run(*args, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def traced_step_ns(path: Path, steps: str = "auto") -> float:
    """Mean step of a trace without its first one, as the report measures it."""
    report = no.analyze(path, steps=steps, skip_steps=1)
    lengths = [step.duration_ns for step in report.devices[0].steps]
    return sum(lengths) / len(lengths)


def test_json_holds_what_a_program_needs() -> None:
    found = answer(NOLHS, "--link", "2x", "--link", "4x")
    assert found["withheld"] is None
    assert found["replay_error"] == pytest.approx(found["replay_step_ns"] / found["step_ns"] - 1)
    assert [one["name"] for one in found["scenarios"]] == ["link 2x", "link 4x"]
    for one in found["scenarios"]:
        assert one["step_low_ns"] <= one["step_ns"] <= one["step_high_ns"] < found["step_ns"]
        for direction in ("h2d", "d2h", "both"):
            assert set(one[direction]) == {"hidden_share", "exposed_ns"}
        assert one["tested"] is False
        assert isinstance(one["notes"], list)


@pytest.mark.parametrize("name", ["jax_unroll_lhs", "jax_scan_lhs", "jax_fsdp2_lhs"])
def test_factors_of_one_change_nothing(name: str) -> None:
    found = answer(h200(name), "--link", "1x", "--bytes", "1", "--compute", "1", "--memory", "1")
    for one in found["scenarios"]:
        assert one["step_low_ns"] == one["step_high_ns"] == found["replay_step_ns"]
        assert one["both"] == found["now"]["both"]


def test_several_changes_together_then_each_alone() -> None:
    found = answer(NOLHS, "--link", "2x", "--earlier", "2")
    names = [one["name"] for one in found["scenarios"]]
    assert names == ["link 2x + H2D 2 copies earlier", "link 2x", "H2D 2 copies earlier"]
    together, *alone = (one["step_ns"] for one in found["scenarios"])
    assert together < min(alone)


@pytest.mark.parametrize("path", [NOLHS, LHS])
def test_dropping_all_copies_against_the_measured_control(path: Path) -> None:
    """jax_unroll_save is the same program with its tensors on the device."""
    (one,) = answer(path, "--drop", ".")["scenarios"]
    measured = traced_step_ns(SAVE)
    assert one["step_low_ns"] <= measured <= one["step_high_ns"]
    assert one["step_high_ns"] - one["step_low_ns"] <= 0.14 * measured
    assert one["tested"] is True
    assert one["both"]["exposed_ns"] == 0


@pytest.mark.parametrize(("name", "steps"), [("save_on_cpu", "guess"), ("offload_stream", "auto")])
def test_dropping_all_copies_in_pytorch(name: str, steps: str) -> None:
    path, control = (h200(f"pytorch/{stem}") for stem in (name, "save"))
    (one,) = answer(path, "--drop", ".", "--steps", steps)["scenarios"]
    measured = traced_step_ns(control, "guess")
    assert one["step_low_ns"] <= measured <= one["step_high_ns"]
    assert one["step_high_ns"] - one["step_low_ns"] <= 0.14 * measured


def test_dropping_some_copies_lies_between() -> None:
    found = answer(NOLHS, "--drop", "copy-start", "--drop", r"copy-start\.2\b", "--drop", r"\.2\.0")
    everything, _, some = (one["step_ns"] for one in found["scenarios"])
    assert everything < some < found["replay_step_ns"]


def test_a_calibrated_law_narrows_the_range() -> None:
    law = ClockLaw(0.08, 0.68)
    result = no.whatif(NOLHS, drop=".", clock=law)
    (one,) = result.scenarios
    assert one.step_low_ns < one.step_ns < one.step_high_ns
    assert one.step_high_ns - one.step_low_ns <= 0.04 * one.step_ns
    assert "as calibrated" in result.clock


def test_the_bound_lies_between_the_engines_and_the_step() -> None:
    for name in ("jax_unroll_nolhs", "jax_scan_lhs", "jax_scan_pipelined"):
        result = no.whatif(h200(name))
        assert result.now is not None
        assert result.step_ns is not None
        steps = [bound.step_ns for bound in result.bounds]
        assert len(steps) == 3
        assert steps == sorted(steps, reverse=True)
        assert all(step < result.step_ns for step in steps)


def test_the_bound_of_a_link_bound_program() -> None:
    """D2H 394 and H2D 393 ms lie one after the other in a step of 794."""
    result = no.whatif(h200("pytorch/offload_stream"))
    assert result.step_ns is not None
    assert all(787e6 <= bound.step_ns <= result.step_ns for bound in result.bounds)


def test_no_bound_for_a_round_trip() -> None:
    result = no.whatif(LHS)
    assert result.bounds == ()
    assert result.bound_withheld is not None
    assert "come back right after they left (relief 25 %)" in result.bound_withheld


@pytest.mark.parametrize("name", ["jax_unroll_nolhs", "jax_fsdp2_lhs", "jax_scan_pipelined"])
def test_the_critical_path_sums_to_the_step(name: str) -> None:
    result = no.whatif(h200(name))
    assert result.replay_step_ns is not None
    total = sum(part.ns for part in result.critical_path)
    assert 0 <= result.replay_step_ns - total < 10
    assert result.critical_path[0].kind == "compute"


def test_a_sweep_and_the_rate_that_is_enough() -> None:
    found = answer(NOLHS, "--sweep", "link=0.25:64")
    times = [point["times"] for point in found["sweep"]]
    assert times[0] == 0.25
    assert times[-1] == 64
    assert 1.0 in times
    steps = [point["step_ns"] for point in found["sweep"]]
    assert steps == sorted(steps, reverse=True)
    share = {p["times"]: p["exposed_ns"] / p["step_ns"] for p in found["sweep"]}
    enough = found["enough_link"]
    assert min(share[t] for t in times if t < enough) > 0.02
    assert max(share[t] for t in times if t >= enough) <= 0.02


@pytest.mark.parametrize("fmt", formats_of("whatif"))
def test_every_format_names_the_scenario_and_the_error(fmt: str) -> None:
    result = no.whatif(NOLHS, link="2x", sweep="link=0.5:4")
    text = render(result, fmt)
    assert "link 2x" in text
    assert text.endswith("\n")
    if fmt != "json":
        assert "no evidence for it" in text
        assert "Not tested against a measurement" in text
    if fmt == "html":
        assert "<svg" in text
        assert ">now<" in text
    if fmt == "text":
        assert max(map(len, text.splitlines())) <= 80


def test_a_sweep_alone_says_nothing_of_tested_scenarios() -> None:
    text = render(no.whatif(NOLHS, sweep="link=0.5:4"), "text")
    assert "Not tested." in text
    assert "was tested" not in text


def test_another_gpu_is_called_arithmetic() -> None:
    (one,) = answer(NOLHS, "--gpu", "gb200")["scenarios"]
    assert one["arithmetic"] is True
    assert "scenario arithmetic, untested on that GPU" in one["notes"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--link", "0"), "--link: '0' is not between"),
        (("--link", "55"), "--link: '55' may be a factor or a rate. Write 55x or 55GB/s."),
        (("--bytes", "50%"), "--bytes: '50%' is not a number. Write 0.5."),
        (("--link", "fast"), "--link: 'fast' is not a number"),
        (("--link-h2d", "0GB/s"), "--link-h2d: '0GB/s' is not between"),
        (("--bytes", "-1"), "--bytes: '-1' is not a number"),
        (("--drop", "no such op"), "no transfer is of an operation that matches"),
        (("--drop", "("), "is no regular expression"),
        (("--drop", ""), "--drop is empty; is a variable not set?"),
        (("--earlier", "0"), "--earlier 0 is no number of copies"),
        (("--gpu", "abacus"), "there is no GPU 'abacus'"),
        (("--sweep", "link=4:1"), "ends before it begins"),
        (("--sweep", "bytes=1:4"), "is no sweep"),
        (("--steps", "none"), "nothing marks steps"),
        (("--link", "1x", "--link", "2x", *("--bytes", "0.5") * 20), "scenarios are asked for"),
    ],
)
def test_bad_questions_are_one_line_and_exit_2(args: tuple[str, ...], said: str) -> None:
    result = run(NOLHS, *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_no_transfers_to_drop() -> None:
    result = run(SAVE, "--drop", ".")
    assert result.exit_code == 2
    assert "There are no transfers in the replayed steps." in result.stderr


def test_a_trace_without_gpu_activity_is_told_so() -> None:
    result = run(h200("jax_fsdp2_events_lost"))
    assert result.exit_code == 3
    assert "the trace holds no GPU activity" in " ".join(result.stdout.split())
    assert "no step was replayed" in result.stdout


def test_what_is_withheld_says_why_and_exits_with_3() -> None:
    result = run(h200("micro_managed"), "--format", "json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert found["withheld"] == "unified-memory migrations are not modelled"
    assert found["scenarios"] == []
    assert found["step_ns"] > 0


def edited(path: Path, to: Path, statement: str) -> Path:
    to.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(to)) as db:
        db.execute(statement)
        db.commit()
    return to


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE rowid % 50 = 0",
        "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET end = start",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 4000000000000000000,"
        " end = end + 4000000000000000000 WHERE rowid % 9 = 0",
    ],
    ids=["copies lost", "copies without time", "kernels beyond the capture"],
)
def test_nothing_is_predicted_of_a_trace_that_cannot_be_trusted(
    tmp_path: Path, statement: str
) -> None:
    path = edited(LHS, tmp_path / "damaged.sqlite", statement)
    result = run(path, "--drop", ".", "--format", "json")
    assert result.exit_code == 3, result.output
    found = json.loads(result.stdout)
    report = CliRunner().invoke(main, ["report", str(path), "--format", "json"])
    errors = [h["message"] for h in json.loads(report.stdout)["health"] if h["severity"] == "error"]
    assert found["withheld"] == errors[0].rstrip(".")
    assert found["scenarios"] == []


def test_an_accepted_code_is_predicted_with_and_said(tmp_path: Path) -> None:
    statement = "DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE rowid % 50 = 0"
    path = edited(LHS, tmp_path / "damaged.sqlite", statement)
    found = answer(path, "--drop", ".", "--accept", "copies-lost")
    assert found["withheld"] is None
    assert len(found["scenarios"]) == 1
    assert found["notes"][0].startswith("ACCEPTED by --accept copies-lost: ")
    refused = run(path, "--drop", ".", "--accept", "no-such-code")
    assert refused.exit_code == 2
    assert "no health code 'no-such-code' stops a gate" in refused.stderr


@pytest.mark.parametrize(
    "change",
    [
        "start = -start WHERE rowid % 5 = 0",
        "start = start + 4000000000000000000 WHERE rowid % 9 = 0",
    ],
    ids=["negative", "far"],
)
def test_api_calls_in_an_impossible_order(tmp_path: Path, change: str) -> None:
    """An event is recorded long after the call that waits for it, or so the export says."""
    path = edited(
        LHS, tmp_path / "order.sqlite", f"UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET {change}"
    )
    for command in ("report", "whatif"):
        result = CliRunner().invoke(main, [command, str(path), "--format", "json"])
        assert result.exit_code in (0, 3), result.output
        assert json.loads(result.stdout)["format"] == f"nsysoverlap.{command}"


def test_a_curve_of_what_cannot_be_predicted_is_inconclusive(tmp_path: Path) -> None:
    target = tmp_path / "curve.svg"
    args = ["plot", str(h200("micro_managed")), "--kind", "whatif", "-o", str(target)]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 3
    assert result.stderr.startswith("Inconclusive: micro_managed.sqlite: nothing is predicted")
    assert not target.exists()


def test_work_without_a_name_is_called_by_its_kind() -> None:
    """What follows the kernels on the critical path of micro_hidden has no name."""
    result = run(h200("micro_hidden"))
    most = " ".join(result.stdout.split()).split("Most: ")[1]
    assert "other GPU work" in most
    assert ", ," not in most


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    """All tables that are read, back to front."""
    path = tmp_path / NOLHS.name
    path.write_bytes(NOLHS.read_bytes())
    with closing(sqlite3.connect(path)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master")]
        for table in tables:
            if table.startswith("CUPTI_ACTIVITY_KIND_") or table == "NVTX_EVENTS":
                db.execute(f'CREATE TABLE turned AS SELECT * FROM "{table}" ORDER BY rowid DESC')
                db.execute(f'DELETE FROM "{table}"')
                db.execute(f'INSERT INTO "{table}" SELECT * FROM turned')
                db.execute("DROP TABLE turned")
        db.commit()
    question = ("--link", "2x", "--earlier", "1")
    assert answer(path, *question) == answer(NOLHS, *question)


def test_the_clock_law_of_a_configuration_file(tmp_path: Path) -> None:
    config = tmp_path / "machine.toml"
    config.write_text("[clock]\nexponent = 0.08\nfloor = 0.68\n")
    (one,) = answer(NOLHS, "--drop", ".", "--config", config)["scenarios"]
    known = no.whatif(NOLHS, drop=".", clock=ClockLaw(0.08, 0.68)).scenarios[0]
    assert (one["step_low_ns"], one["step_high_ns"]) == (known.step_low_ns, known.step_high_ns)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("exponent = 0.1", "clock has no floor"),
        ("exponent = 2\nfloor = 0.5", "clock.exponent cannot be 2"),
        ("exponent = 0.1\nfloor = true", "clock.floor cannot be True"),
        ("exponent = 0.1\nfloor = 0.5\nk = 1", "clock.k is not a known key"),
    ],
)
def test_a_clock_law_that_makes_no_sense(tmp_path: Path, table: str, said: str) -> None:
    config = tmp_path / "machine.toml"
    config.write_text(f"[clock]\n{table}\n")
    result = run(NOLHS, "--config", config)
    assert result.exit_code == 2
    assert said in result.stderr
