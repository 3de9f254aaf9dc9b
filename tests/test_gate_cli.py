"""`nsysoverlap gate` as a shell sees it: every form of limit, its verdict and its exit code."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from junitparser import JUnitXml

from nsysoverlap.cli import main
from nsysoverlap.cli.formats import formats_of
from nsysoverlap.judge.history_store import content_hash, record
from nsysoverlap.run import many
from nsysoverlap.run.analysis import analyze

from . import gatekit
from .tracebuilder import draw
from .traces import h200

PASS, FAIL, UNUSABLE, INCONCLUSIVE = 0, 1, 2, 3
STATUS = {PASS: "pass", FAIL: "fail", INCONCLUSIVE: "inconclusive"}
GATE_TOML = """
[gate]
min_hidden = 60
require = ["both.n >= 1"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All inputs of the table, under the names it uses."""
    at = tmp_path_factory.mktemp("gate")
    gatekit.split_trace(at / "half.sqlite", d2h=(5_000, 10_000))
    gatekit.split_trace(at / "ninety.sqlite", d2h=(9_000, 10_000))
    gatekit.split_trace(at / "almost.sqlite", d2h=(8_996, 10_000))
    gatekit.split_trace(at / "full.sqlite", d2h=(10_000, 10_000))
    gatekit.split_trace(at / "all_but_one.sqlite", d2h=(99_999, 100_000))
    gatekit.split_trace(at / "two.sqlite", d2h=(8_000, 10_000), h2d=(4_000, 10_000))
    gatekit.split_trace(at / "exposed.sqlite", d2h=(0, 10_000), h2d=(0, 10_000))
    gatekit.split_trace(at / "one_way.sqlite", d2h=(8_000, 10_000), h2d=(0, 10_000))
    gatekit.split_trace(at / "large.sqlite", d2h=(128_000_000, 160_000_000), n_bytes=8 << 30)
    gatekit.split_trace(at / "0.sqlite", d2h=(5_000, 10_000))
    gatekit.control_trace(at / "control.sqlite")
    gatekit.comm_trace(at / "comm.sqlite")
    gatekit.opaque_trace(at / "opaque.sqlite")
    gatekit.step_trace(at / "steps.sqlite", [90, 80, 90, 90], [50] * 4)
    gatekit.step_trace(at / "worse.sqlite", [88, 78, 88, 88], [50] * 4)
    gatekit.step_trace(at / "other_gpu.sqlite", [90, 80, 90, 90], [50] * 4, gpu="NVIDIA GB200")
    gatekit.step_trace(at / "few.sqlite", [90, 90], [50] * 2)
    shutil.copy(h200("jax_fsdp2_events_lost"), at / "lost.sqlite")
    shutil.copy(h200("micro_graph_graph"), at / "graphs.sqlite")
    (at / "broken.sqlite").write_text("not a trace")
    _rank_folders(at)
    _settings(at)
    _histories(at)
    return at


def _rank_folders(at: Path) -> None:
    for name in ("ranks", "lazy", "damaged", "same", "bare", "empty"):
        (at / name).mkdir()
    for name in ("ranks", "lazy", "damaged"):
        gatekit.split_trace(at / name / "rank0.sqlite", d2h=(9_000, 10_000))
    gatekit.split_trace(at / "ranks" / "rank1.sqlite", d2h=(5_000, 10_000), pid=7)
    gatekit.control_trace(at / "lazy" / "rank1.sqlite", pid=7)
    (at / "damaged" / "rank1.sqlite").write_text("not a trace")
    for name in ("rank1.sqlite", "x_rank1.sqlite"):
        gatekit.split_trace(at / "same" / name, d2h=(9_000, 10_000))
    for name in ("run.0.sqlite", "run.1.sqlite"):
        (at / "bare" / name).write_text("not a trace")


def _settings(at: Path) -> None:
    for name in ("two", "steps", "half", "exposed", "one_way"):
        result = run(at, f"{name}.sqlite --write-baseline {at / name}.json")
        assert result.exit_code == PASS, result.output
    values = json.loads((at / "two.json").read_text())
    (at / "newer.json").write_text(json.dumps({**values, "format_version": 99}))
    later = {**values, "report": {**values["report"], "format_version": 99}}
    (at / "newer_report.json").write_text(json.dumps(later))
    (at / "not_ours.json").write_text('{"format": "something else"}')
    (at / "no.json").write_text("[")
    (at / "gate.toml").write_text(GATE_TOML)
    (at / "baseline.toml").write_text('[gate]\nbaseline = "two.json"\nmax_drop = 1\n')
    (at / "share.toml").write_text("[gate]\nmin_hidden = 0.6\n")
    (at / "typo.toml").write_text("[gate]\nmin_hiden = 60\n")
    (at / "type.toml").write_text("[gate]\nmin_hidden = [60]\n")
    (at / "transfers.toml").write_text("[gate]\nrequire_transfers = true\n")


def _histories(at: Path) -> None:
    """Five runs alike, and five of 5 to 99 % hidden."""
    for name, hidden in (
        ("like", (7_900, 7_950, 8_010, 8_020, 8_050)),
        ("spread", (500, 900, 7_000, 9_800, 9_900)),
    ):
        for i, ns in enumerate(hidden):
            trace = gatekit.split_trace(
                at / f"{name}{i}.sqlite", d2h=(ns, 10_000), h2d=(ns // 2, 10_000)
            )
            report = analyze(trace)
            record(at / f"{name}.db", report, content_hash([trace]), {})


def run(at: Path, command: str) -> Result:
    """`gate` with words separated by blanks; names of files are those in the folder."""
    words = [word.replace("~", " ") for word in command.split()]
    names = {path.name for path in at.iterdir()}
    return CliRunner().invoke(
        main, ["gate", *(str(at / word) if word in names else word for word in words)]
    )


# Arguments and the exit code; a tilde is a blank inside a word.
CASES: list[tuple[str, int]] = [
    # Forms of a percentage.
    ("half.sqlite --min-hidden 50", PASS),
    ("half.sqlite --min-hidden 50%", PASS),
    ("half.sqlite --min-hidden 50~%", PASS),
    ("half.sqlite --min-hidden 50.1", FAIL),
    ("half.sqlite --min-hidden 0", PASS),
    ("half.sqlite --min-hidden 0.5%", PASS),
    ("half.sqlite --min-hidden 1", PASS),
    ("half.sqlite --min-hidden 0.5", UNUSABLE),
    ("half.sqlite --min-hidden .9", UNUSABLE),
    ("half.sqlite --min-hidden 101", UNUSABLE),
    ("half.sqlite --min-hidden=-5", UNUSABLE),
    ("half.sqlite --min-hidden fifty", UNUSABLE),
    ("half.sqlite --min-hidden nan", UNUSABLE),
    ("half.sqlite --min-hidden 50ms", UNUSABLE),
    (f"half.sqlite --min-hidden {'9' * 5000}", UNUSABLE),
    (f"half.sqlite --min-hidden 1.{'9' * 5000}", UNUSABLE),
    (f"half.sqlite --max-exposed-ms {'9' * 5000}", UNUSABLE),
    (f"half.sqlite --require-transfers {'9' * 5000}", UNUSABLE),
    (f"half.sqlite --require both.n>={'9' * 5000}", UNUSABLE),
    ("half.sqlite --max-drop 1 --baseline half.json --confidence 99.91", UNUSABLE),
    ("half.sqlite --max-drop 0.5 --baseline half.json", UNUSABLE),
    ("half.sqlite --max-drop 0.5% --baseline half.json", PASS),
    ("half.sqlite --require both.hidden>=50%", PASS),
    ("half.sqlite --require both.hidden>=0.5", PASS),
    ("half.sqlite --require both.hidden~>~0.5", FAIL),
    ("half.sqlite --require both.hidden<=1", PASS),
    ("half.sqlite --require both.hidden>=50", UNUSABLE),
    ("half.sqlite --require both.hidden>=150%", UNUSABLE),
    # Rounding at the limit: 89.96 % prints as 90.0 % and is less.
    ("ninety.sqlite --min-hidden 90", PASS),
    ("almost.sqlite --min-hidden 90", FAIL),
    ("almost.sqlite --min-hidden 89.96", PASS),
    ("almost.sqlite --min-hidden 89.961", FAIL),
    ("full.sqlite --min-hidden 100", PASS),
    ("all_but_one.sqlite --min-hidden 100", FAIL),
    ("all_but_one.sqlite --min-hidden 99.999", PASS),
    # Directions, and those that are missing.
    ("two.sqlite --min-hidden-d2h 80 --min-hidden-h2d 40", PASS),
    ("two.sqlite --min-hidden-h2d 41", FAIL),
    ("half.sqlite --min-hidden-h2d 0", INCONCLUSIVE),
    ("half.sqlite --min-hidden-h2d 0 --min-hidden-d2h 60", FAIL),
    ("half.sqlite --require h2d.exposed_ms<=1000", INCONCLUSIVE),
    ("half.sqlite --require unified_h2d.n<=0", PASS),
    ("half.sqlite --require unified_h2d.hidden>=0", INCONCLUSIVE),
    ("comm.sqlite --min-hidden 1", FAIL),
    ("comm.sqlite --min-covered 100", PASS),
    # Nothing to take a share of, and traces that cannot tell.
    ("control.sqlite --min-hidden 0", INCONCLUSIVE),
    ("control.sqlite --max-exposed-ms 1000", INCONCLUSIVE),
    ("control.sqlite --min-relief 0", INCONCLUSIVE),
    ("control.sqlite --require-transfers", FAIL),
    ("lost.sqlite --min-hidden 0", INCONCLUSIVE),
    ("lost.sqlite --require-transfers", INCONCLUSIVE),
    ("graphs.sqlite --min-hidden 0", INCONCLUSIVE),
    ("graphs.sqlite --require-transfers", INCONCLUSIVE),
    ("opaque.sqlite --min-hidden 0", INCONCLUSIVE),
    ("opaque.sqlite --require budget.compute>=0", INCONCLUSIVE),
    ("opaque.sqlite --require-transfers", PASS),
    ("broken.sqlite --min-hidden 0", UNUSABLE),
    ("missing.sqlite --min-hidden 0", UNUSABLE),
    ("empty --min-hidden 0", UNUSABLE),
    # Transfers, and units of other limits.
    ("half.sqlite --require-transfers", PASS),
    ("--require-transfers half.sqlite", PASS),
    ("--require-transfers 0.sqlite", PASS),
    ("large.sqlite --require-transfers 8GiB", PASS),
    ("large.sqlite --require-transfers=8.1GiB", FAIL),
    ("large.sqlite --require-transfers 8589934592", PASS),
    ("large.sqlite --require-transfers 8589934593", FAIL),
    ("large.sqlite --require-transfers 8ms", UNUSABLE),
    ("large.sqlite --require-transfers 0", UNUSABLE),
    ("half.sqlite --max-exposed-ms 0.005", PASS),
    ("half.sqlite --max-exposed-ms 0.004999", FAIL),
    ("half.sqlite --max-exposed-ms 5us", PASS),
    ("half.sqlite --max-exposed-ms 5%", UNUSABLE),
    ("half.sqlite --require both.exposed_ms<=5%", UNUSABLE),
    ("half.sqlite --require both.exposed_ms<=0.000005s", PASS),
    ("half.sqlite --require both.hidden>=5ms", UNUSABLE),
    ("half.sqlite --require d2h.n>=1 --require d2h.n<2", PASS),
    ("half.sqlite --require d2h.gb_per_s>=49.9GB/s", PASS),
    ("half.sqlite --require both.hiden>=50%", UNUSABLE),
    ("half.sqlite --require both.hidden@worst-gpu>=50%", UNUSABLE),
    ("half.sqlite --require both.hidden", UNUSABLE),
    ("half.sqlite --require both.hidden==50%", UNUSABLE),
    # Steps.
    ("steps.sqlite --require d2h.hidden@step-median>=90%", PASS),
    ("steps.sqlite --require d2h.hidden@worst-step>=81%", FAIL),
    ("steps.sqlite --require d2h.hidden@worst-step>=80%", PASS),
    ("steps.sqlite --require step_ms<=0.4", PASS),
    ("steps.sqlite --require step_ms@total<=0.4", UNUSABLE),
    ("steps.sqlite --max-exposed-ms 0.06", PASS),
    ("steps.sqlite --max-exposed-ms 0.0599", FAIL),
    ("steps.sqlite --steps none --require step_ms<=1000", INCONCLUSIVE),
    ("half.sqlite --require step_ms<=1000", INCONCLUSIVE),
    ("half.sqlite --require both.hidden@worst-step>=0", INCONCLUSIVE),
    ("half.sqlite --require both.hidden@worst-step>=0 --min-hidden 51", FAIL),
    # Baselines.
    ("two.sqlite --baseline two.json", PASS),
    ("two.sqlite --baseline two.json --max-drop 0", PASS),
    ("worse.sqlite --baseline steps.json --max-drop 2", PASS),
    ("worse.sqlite --baseline steps.json --max-drop 1.9", FAIL),
    ("worse.sqlite --baseline steps.json", FAIL),
    ("worse.sqlite --baseline steps.json --max-exposed-growth 4", PASS),
    ("worse.sqlite --baseline steps.json --max-exposed-growth 3", FAIL),
    ("worse.sqlite --baseline steps.json --max-exposed-growth 3 --max-drop 2", FAIL),
    ("steps.sqlite --baseline two.json --max-drop 50", INCONCLUSIVE),
    ("other_gpu.sqlite --baseline steps.json --max-drop 50", INCONCLUSIVE),
    ("half.sqlite --baseline two.json --max-drop 100", INCONCLUSIVE),
    ("control.sqlite --baseline two.json --max-drop 100", INCONCLUSIVE),
    # A limit that any share meets.
    ("two.sqlite --baseline two.json --max-drop 39", PASS),
    ("two.sqlite --baseline two.json --max-drop 40", INCONCLUSIVE),
    ("two.sqlite --baseline two.json --max-drop 100", INCONCLUSIVE),
    ("half.sqlite --baseline half.json --max-drop 50", INCONCLUSIVE),
    ("half.sqlite --baseline half.json --max-drop 49", PASS),
    ("steps.sqlite --baseline steps.json --max-drop 90 --confidence 95", INCONCLUSIVE),
    ("exposed.sqlite --baseline exposed.json", INCONCLUSIVE),
    ("exposed.sqlite --baseline exposed.json --min-hidden 0", INCONCLUSIVE),
    ("one_way.sqlite --baseline one_way.json", PASS),
    ("two.sqlite --baseline one_way.json --max-drop 1", PASS),
    ("exposed.sqlite --baseline one_way.json --max-drop 1", FAIL),
    ("large.sqlite --baseline one_way.json --max-drop 1", INCONCLUSIVE),
    ("two.sqlite --history like.db", PASS),
    ("exposed.sqlite --history like.db", FAIL),
    ("two.sqlite --history spread.db", INCONCLUSIVE),
    ("exposed.sqlite --history spread.db", INCONCLUSIVE),
    ("two.sqlite --history spread.db --max-drop 34", PASS),
    ("two.sqlite --history spread.db --max-drop 100", INCONCLUSIVE),
    ("two.sqlite --baseline newer.json", UNUSABLE),
    ("two.sqlite --baseline newer_report.json", UNUSABLE),
    ("two.sqlite --baseline not_ours.json", UNUSABLE),
    ("two.sqlite --baseline no.json", UNUSABLE),
    ("two.sqlite --baseline missing.json", UNUSABLE),
    ("few.sqlite --baseline steps.json --max-drop 5 --confidence 95", INCONCLUSIVE),
    ("two.sqlite --baseline two.json --max-drop 5 --confidence 95", INCONCLUSIVE),
    # Options that contradict each other, or ask for nothing.
    ("half.sqlite", UNUSABLE),
    ("half.sqlite --max-drop 1", UNUSABLE),
    ("half.sqlite --max-exposed-growth 1", UNUSABLE),
    ("half.sqlite --baseline half.json --confidence 95", UNUSABLE),
    ("half.sqlite --baseline half.json --max-drop 1 --confidence 0.95", UNUSABLE),
    ("half.sqlite --baseline half.json --max-drop 1 --confidence 100", UNUSABLE),
    ("half.sqlite --baseline half.json --history runs.db", UNUSABLE),
    ("half.sqlite --min-hidden 5 --last 3", UNUSABLE),
    ("half.sqlite --min-hidden 5 --label a=b", UNUSABLE),
    ("half.sqlite --min-hidden 5 --jobs 2 --dask tcp://x:1", UNUSABLE),
    ("half.sqlite --history missing.db", UNUSABLE),
    # Configuration files.
    ("half.sqlite --config gate.toml", FAIL),
    ("ninety.sqlite --config gate.toml", PASS),
    ("half.sqlite --config gate.toml --min-hidden 40", PASS),
    ("two.sqlite --config baseline.toml", PASS),
    ("half.sqlite --config baseline.toml", FAIL),
    ("half.sqlite --config baseline.toml --baseline half.json", PASS),
    ("control.sqlite --config transfers.toml", FAIL),
    ("half.sqlite --config share.toml", UNUSABLE),
    ("half.sqlite --config typo.toml", UNUSABLE),
    ("half.sqlite --config type.toml", UNUSABLE),
    # Ranks.
    ("ranks --min-hidden 70", PASS),
    ("ranks --require both.hidden@worst-rank>=50%", PASS),
    ("ranks --require both.hidden@worst-rank>=51%", FAIL),
    ("ranks --require both.hidden@worst-device<=90%", PASS),
    ("lazy --min-hidden 90", PASS),
    ("lazy --require-transfers", FAIL),
    ("lazy --require both.hidden@worst-rank>=0", INCONCLUSIVE),
    ("damaged --min-hidden 0", INCONCLUSIVE),
    ("damaged --min-hidden 99", INCONCLUSIVE),
    ("half.sqlite missing.sqlite --min-hidden 0", INCONCLUSIVE),
    ("half.sqlite empty --min-hidden 0", INCONCLUSIVE),
    ("half.sqlite lost.sqlite --min-hidden 0", INCONCLUSIVE),
    ("same --min-hidden 0", UNUSABLE),
    ("bare --min-hidden 0", UNUSABLE),
]


@pytest.mark.parametrize(("command", "code"), CASES)
def test_verdict_and_exit_code(folder: Path, command: str, code: int) -> None:
    result = run(folder, f"{command} --format json")
    assert result.exit_code == code, result.output
    if code == UNUSABLE:
        if result.stdout:
            # What a CI system reads says so too; nothing of it can look green.
            found = json.loads(result.stdout)
            assert found["status"] == "inconclusive"
            assert result.stderr == f"Error: {found['blockers'][0]}\n"
            assert {v["status"] for v in found["verdicts"]} <= {"inconclusive"}
        assert len([x for x in result.stderr.splitlines() if x.startswith("Error: ")]) == 1
    else:
        assert json.loads(result.stdout)["status"] == STATUS[code]


@pytest.mark.parametrize(
    ("traces", "code", "reason"),
    [
        ("half.sqlite", FAIL, "both.hidden is 50.0 %; the limit is >= 60.0 %."),
        ("missing.sqlite", UNUSABLE, "missing.sqlite: no such file."),
        ("broken.sqlite", UNUSABLE, "broken.sqlite: "),
        ("empty", UNUSABLE, "empty: the folder holds no traces"),
        ("nothing*.sqlite", UNUSABLE, "nothing*.sqlite: the pattern matches no traces"),
        ("half.sqlite missing.sqlite", INCONCLUSIVE, "missing.sqlite: no such file."),
        ("half.sqlite --steps nosuch", UNUSABLE, "half.sqlite: "),
        ("half.sqlite --baseline missing.json", UNUSABLE, "missing.json: "),
    ],
)
def test_several_formats_are_written_whatever_happens(
    folder: Path, tmp_path: Path, traces: str, code: int, reason: str
) -> None:
    files = {fmt: tmp_path / fmt for fmt in ("junit", "markdown", "json")}
    formats = " ".join(f"--format {fmt}={path}" for fmt, path in files.items())
    result = run(folder, f"{traces} --min-hidden 60 {formats}")
    assert result.exit_code == code
    text = {fmt: path.read_text() for fmt, path in files.items()}
    (suite,) = JUnitXml.fromstring(text["junit"].encode())
    problems = {case.name: [r.message for r in case.result] for case in suite}
    (message,) = problems["both.hidden >= limit"]
    assert reason in (message if code in (FAIL, UNUSABLE) else problems["the traces"][0])
    assert suite.failures + suite.errors == suite.tests - (code == FAIL)
    assert json.loads(text["json"])["status"] == ("fail" if code == FAIL else "inconclusive")
    assert text["markdown"].startswith("**Failed: " if code == FAIL else "**Inconclusive: ")
    assert result.stderr.count("Wrote ") == 3
    # The text says it on stdout, or the error line does.
    assert bool(result.stdout) == (code != UNUSABLE)
    if code == UNUSABLE:
        assert f"Error: {reason}" in result.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--format junit --format json", "--format is given 2 times without a file."),
        ("--format junit=a --format json=a", "--format junit and --format json name one file."),
        ("--format junit=a -o a", "--output and --format junit name one file."),
        ("--format junit=a --write-baseline a", "--format and --write-baseline name one file."),
        ("--format junit=half.sqlite", "half.sqlite: is an input and would be overwritten."),
        ("--format junit=", "'junit=' names no file; is a variable not set?"),
        ("--format junit=-", "'junit=-' names no file; is a variable not set?"),
        ("--format unit=a", "'unit' is not one of 'text', 'json'"),
        ("--format junit=nosuch/a", "a: cannot be written (no such folder)."),
    ],
)
def test_formats_that_cannot_be_written_are_refused_early(
    folder: Path, tmp_path: Path, options: str, reason: str
) -> None:
    command = re.sub(r"\b(a|nosuch/a)\b", lambda m: str(tmp_path / m[0]), options)
    command = command.replace("half.sqlite", str(folder / "half.sqlite"))
    result = run(folder, f"half.sqlite --min-hidden 5 {command}")
    assert result.exit_code == UNUSABLE
    assert reason in " ".join(result.stderr.split())
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_baseline_is_not_written_over_by_a_verdict(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    assert run(folder, f"half.sqlite --write-baseline {kept}").exit_code == PASS
    before = kept.read_bytes()
    result = run(folder, f"half.sqlite --baseline {kept} --format json={kept}")
    assert result.exit_code == UNUSABLE
    assert "kept.json: is an input and would be overwritten." in result.stderr
    assert kept.read_bytes() == before
    renewed = f"half.sqlite --baseline {kept} --write-baseline {kept}"
    assert run(folder, renewed).exit_code == PASS


def test_one_analysis_serves_all_formats(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    real = many.open_trace

    def opened(path: Path, *more: Any, **named: Any) -> Any:
        read.append(path)
        return real(path, *more, **named)

    monkeypatch.setattr(many, "open_trace", opened)
    formats = " ".join(f"--format {fmt}={tmp_path / fmt}" for fmt in formats_of("gate"))
    result = run(folder, f"half.sqlite --min-hidden 5 {formats} --format github")
    assert result.exit_code == PASS
    assert len(read) == 1
    assert result.stdout.startswith("::notice title=nsysoverlap gate::Passed")
    for fmt in formats_of("gate"):
        alone = run(folder, f"half.sqlite --min-hidden 5 --format {fmt}")
        assert (tmp_path / fmt).read_text() == alone.stdout, fmt


def test_the_table_is_as_long_as_promised_and_has_every_outcome() -> None:
    assert len(CASES) == len(set(CASES)) > 100
    assert {code for _, code in CASES} == {PASS, FAIL, UNUSABLE, INCONCLUSIVE}


@pytest.mark.parametrize("option", ["--min-hidden", "--min-hidden-h2d", "--min-covered"])
@pytest.mark.parametrize("trace", ["lost", "graphs", "control", "damaged"])
def test_no_limit_is_low_enough_for_nothing(folder: Path, trace: str, option: str) -> None:
    name = trace if trace == "damaged" else f"{trace}.sqlite"
    assert run(folder, f"{name} {option} 0").exit_code == INCONCLUSIVE


# Messages.

MESSAGES = [
    ("half.sqlite --min-hidden 0.9", "is percent here, not a share. Write 90% if"),
    ("half.sqlite --require both.hidden>=60", "more than the whole. Write 60% for percent."),
    ("half.sqlite --require both.hiden>=60%", "no metric 'both.hiden'. Did you mean 'both.hidden'"),
    ("half.sqlite --require both.hidden@worst_step>=6%", "Did you mean 'worst-step'?"),
    ("half.sqlite --baseline missing.json", "missing.json: the baseline cannot be read (No such"),
    ("half.sqlite --baseline newer.json", "format version 99; this nsysoverlap reads up to 1."),
    ("half.sqlite --baseline not_ours.json", "is not a baseline of nsysoverlap. Write one with"),
    ("half.sqlite", "There is nothing to check. Give a limit such as"),
    (
        "half.sqlite --baseline half.json --confidence 0.95",
        "--max-drop, which is missing. Add it, as in --max-drop 1 --confidence 95;",
    ),
    (
        "half.sqlite --baseline half.json --max-drop 1 --confidence 0.95",
        "'0.95' is percent here, not a share. Write 50 to 99.9, such as 95.\n",
    ),
    ("empty --min-hidden 1", "empty: the folder holds no traces"),
    ("same --min-hidden 1", "rank1.sqlite and x_rank1.sqlite: both are rank 1."),
    ("half.sqlite --config typo.toml", "gate.min_hiden is not a known key. Did you mean 'min_hid"),
    ("half.sqlite --config share.toml", "[gate] min_hidden: '0.6' is percent here"),
]


@pytest.mark.parametrize(("command", "message"), MESSAGES)
def test_error_message(folder: Path, command: str, message: str) -> None:
    result = run(folder, command)
    assert result.exit_code == UNUSABLE
    assert message in result.stderr


def test_an_inconclusive_gate_says_which_rank_cannot_be_read(folder: Path) -> None:
    result = run(folder, "damaged --min-hidden 50")
    assert "Inconclusive: rank1.sqlite: " in " ".join(result.stdout.split())
    assert "90.0 %" in result.stdout, "what was measured is shown all the same"


@pytest.mark.parametrize("fmt", ["text", "markdown", "json"])
def test_health_comes_with_the_verdict(folder: Path, tmp_path: Path, fmt: str) -> None:
    trace = gatekit.split_trace(tmp_path / "t.sqlite", d2h=(1, 2))
    with closing(sqlite3.connect(trace)) as db, db:
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 999999")
    result = run(folder, f"{trace} --min-hidden 1 --format {fmt}")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "Warning: 2 kernels have no name in the export and count as compute." in text


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (
            "two.sqlite --history spread.db",
            "The 5 runs differ too much to tell: any share would pass. Choose like runs with "
            "--label, or give --max-drop POINTS.",
        ),
        (
            "half.sqlite --baseline half.json --max-drop 50",
            "With such a drop from 50.0 % any share would pass: give a smaller --max-drop.",
        ),
        (
            "exposed.sqlite --baseline exposed.json",
            "exposed.json: no direction hid more than a point, which leaves nothing to lose. Give "
            "a limit such as --min-hidden.",
        ),
    ],
)
def test_a_limit_that_any_share_meets_says_what_to_do(
    folder: Path, command: str, reason: str
) -> None:
    verdicts = json.loads(run(folder, f"{command} --format json").stdout)["verdicts"]
    assert reason in [verdict["reason"] for verdict in verdicts]
    assert {verdict["limit"] for verdict in verdicts if verdict["reason"] == reason} == {None}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("graphs.sqlite --min-hidden 0", "nsys profile --cuda-graph-trace=node"),
        ("opaque.sqlite --min-hidden 0", "nsys profile --cuda-graph-trace=node"),
        ("lost.sqlite --min-hidden 0", "missing. Capture again; a shorter window"),
        ("lost.sqlite --min-hidden 0", "The trace holds no GPU activity. Capture with `nsys"),
        ("control.sqlite --min-hidden 0", "Check that offloading was on when it was captured."),
        ("half.sqlite --require step_ms<=1", "Put an NVTX range around each step"),
        (
            "few.sqlite --baseline steps.json --max-drop 5 --confidence 95",
            "2 steps do not show a spread: capture at least 5.",
        ),
    ],
)
def test_an_inconclusive_gate_says_what_to_do(folder: Path, command: str, said: str) -> None:
    result = run(folder, command)
    assert result.exit_code == INCONCLUSIVE
    text = " ".join(result.stdout.split())
    assert said in text
    assert "more reason" not in text


def test_a_file_of_limits_alone_holds_no_rules(folder: Path, tmp_path: Path) -> None:
    assert "rules of" not in run(folder, "ninety.sqlite --config gate.toml").stdout
    rules = tmp_path / "rules.toml"
    rules.write_text(f"{GATE_TOML}[[rule]]\npattern = 'x'\nrole = 'comm'\n")
    text = run(folder, f"ninety.sqlite --config {rules}").stdout
    assert "rules of rules.toml first" in " ".join(text.split())


@pytest.mark.parametrize("extra", ["", "--max-exposed-ms 1 --max-drop 90 --max-exposed-growth 5"])
def test_the_table_against_runs_fits_a_terminal(folder: Path, extra: str) -> None:
    text = run(folder, f"two.sqlite --history like.db {extra}").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "n = 5" in text
    table = text.partition("Baseline:")[0]
    assert table.count("both.exposed_ms@worst-") == (2 if extra else 0)


def test_what_a_value_is_of_is_said_once(folder: Path) -> None:
    limits = "--max-exposed-ms 5 --require both.exposed_ms@step-median<=5"
    text = run(folder, f"steps.sqlite {limits}").stdout
    assert text.count("is that of 4 steps.") == 1


def test_a_failing_gate_names_what_lost_most(folder: Path) -> None:
    text = run(folder, "worse.sqlite --baseline steps.json --max-drop 1").stdout
    assert "What lost most" in text
    assert "d2h-copy-start.1" in text
    assert "h2d-copy-start.1" not in text, "only D2H got worse"


def test_a_value_just_below_its_limit_is_not_printed_as_equal(folder: Path) -> None:
    text = run(folder, "almost.sqlite --min-hidden 90").stdout
    assert "is 89.96 %; the limit is >= 90.00 %" in text
    assert "-0.04 points" in text


def test_a_copy_that_began_before_the_window_counts_in_it(folder: Path, tmp_path: Path) -> None:
    """
    kernel  ####......
    d2h     .####.....
    window  ..###         n is 0, and 2 of 3 are hidden
    """
    command = "half.sqlite --window 2000:5000 --steps none"
    result = run(folder, f"{command} --min-hidden 100 --min-hidden-d2h 100")
    assert (result.exit_code, result.stderr) == (PASS, "")
    target = tmp_path / "b.json"
    assert run(folder, f"{command} --write-baseline {target}").exit_code == PASS
    assert run(folder, f"{command} --baseline {target} --max-drop 0").exit_code == PASS


def test_copies_without_length_are_not_called_missing(tmp_path: Path) -> None:
    trace = draw("dev0 s7 compute: ####")
    trace.copy(1_000, 1_000, "d2h", 0)
    trace.write(tmp_path / "t.sqlite")
    result = run(tmp_path, "t.sqlite --min-hidden-d2h 50")
    assert result.exit_code == INCONCLUSIVE
    assert "the trace: D2H transfers took no time at all." in result.stdout


# Baselines.


def test_writing_a_baseline_alone_prints_nothing(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.json"
    result = run(folder, f"half.sqlite --write-baseline {target}")
    assert (result.exit_code, result.stdout) == (PASS, "")
    assert result.stderr == f"Wrote {target}\n"


@pytest.mark.parametrize(
    "trace", ["lost.sqlite", "graphs.sqlite", "control.sqlite", "damaged", "opaque.sqlite"]
)
def test_no_baseline_is_made_of_nothing(folder: Path, tmp_path: Path, trace: str) -> None:
    target = tmp_path / "b.json"
    result = run(folder, f"{trace} --write-baseline {target}")
    assert result.exit_code == INCONCLUSIVE
    assert result.stderr.startswith("Inconclusive: ")
    assert not target.exists()


def test_a_failing_gate_leaves_the_baseline_as_it_is(folder: Path, tmp_path: Path) -> None:
    target = Path(shutil.copy(folder / "steps.json", tmp_path / "b.json"))
    before = target.read_bytes()
    command = f"worse.sqlite --baseline {target} --max-drop 1 --write-baseline {target}"
    result = run(folder, command)
    assert result.exit_code == FAIL
    assert target.read_bytes() == before
    assert "Not written: b.json, because the gate did not pass." in result.stderr


def test_a_passing_gate_renews_the_baseline(folder: Path, tmp_path: Path) -> None:
    target = Path(shutil.copy(folder / "steps.json", tmp_path / "b.json"))
    command = f"worse.sqlite --baseline {target} --max-drop 5 --write-baseline {target}"
    assert run(folder, command).exit_code == PASS
    assert run(folder, f"worse.sqlite --baseline {target} --max-drop 0").exit_code == PASS


def test_an_input_is_never_overwritten(folder: Path) -> None:
    before = (folder / "half.sqlite").read_bytes()
    result = run(folder, "half.sqlite --write-baseline half.sqlite")
    assert result.exit_code == UNUSABLE
    assert (folder / "half.sqlite").read_bytes() == before


def test_two_results_do_not_share_a_file(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    result = run(folder, f"half.sqlite --min-hidden 0 -o {target} --write-baseline {target}")
    assert result.exit_code == UNUSABLE
    assert "name one file" in result.stderr
    assert not target.exists()


# Output.


def test_github_gets_annotations_and_a_summary(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    result = run(folder, "half.sqlite --min-hidden 60 --format github")
    assert result.exit_code == FAIL
    assert result.stdout.startswith("::error title=nsysoverlap gate::Failed: both.hidden is")
    assert "50.0 %25" in result.stdout, "percent signs are escaped"
    text = summary.read_text()
    assert text.startswith("before\n**Failed: ")
    assert "| fail | both.hidden |" in text


def test_github_without_its_variables_prints_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    result = run(folder, "half.sqlite --min-hidden 50 --format github")
    assert result.exit_code == PASS
    assert result.stdout == "::notice title=nsysoverlap gate::Passed: 1 limit met.\n"


def test_output_goes_to_a_file(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "gate.xml"
    result = run(folder, f"half.sqlite --min-hidden 60 --format junit -o {target}")
    assert (result.exit_code, result.stdout) == (FAIL, "")
    assert target.read_text().startswith("<?xml")
