"""Names out of a trace, and of the trace, that pretend to be something else wherever they print."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from nsysoverlap.cli import main

from .builder.query import query
from .tracebuilder import TraceBuilder

NAMES = (
    "::error::pwned",
    "  ::set-output name=x::y",
    "k ::stop-commands::z " * 12,
    "##[set-output name=x;]y ##[error]pwned",
    "</script><script>alert(1)</script><!--",
    "a|b|c`d`*e*_f_\n\n# head\n- item",
    "```\n::warning::x\n```",
    "[link](javascript:alert(1)) <img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b]0;title\x07\x9b2J\x08\x08",
    "\u202egnp.exe\u2066\u200b\u200d\ufeff\u2028x\x85y",
    "]]></system-out><testcase/>&lol;",
    '"quoted", \'too\'; DROP TABLE StringIds; --\r\n"next line"',
    "{{ 7 * 7 }}{% raw %}${x}%s%n",
    "Thunk:#hlo_op=##[error]x,name=::error::x|<b>#",
)
FILE_NAME = "::error::x\n::notice::y ##[error]z|`\x1b[31m\u202e<b>& rank1.sqlite"
# Runners of GitHub Actions obey the first at the beginning of a line, the second anywhere.
COMMAND = re.compile(r"^\s*::[a-z-]+.*::", re.MULTILINE)
OLD_COMMAND = "##["


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = TraceBuilder()
    for step in range(3):
        begin = 100_000 * (step + 1)
        builder.nvtx(f"step {step}", begin - 5_000, begin + 90_000)
        for i, name in enumerate(NAMES):
            at = begin + 5_000 * i
            builder.nvtx(name, at - 2_100, at - 900, registered=i % 2 == 0)
            builder.copy(at, at + 3_000, "h2d" if i % 2 else "d2h", 8_000, stream=20)
            builder.kernel(at + 2_000, at + 4_000, f"name{i}", stream=7)
    builder.env("XLA_FLAGS", NAMES[3])
    builder.diagnostic(3, NAMES[0])
    path = builder.write(tmp_path_factory.mktemp("evil") / FILE_NAME)
    with closing(sqlite3.connect(path)) as db:
        for i, name in enumerate(NAMES):
            db.execute("UPDATE StringIds SET value = ? WHERE value = ?", (name, f"name{i}"))
        db.execute("UPDATE TARGET_INFO_GPU SET name = ?", (NAMES[4] + NAMES[3],))
        db.commit()
    return path


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert "Internal error" not in result.stderr
    assert result.exit_code in (0, 1, 3), result.stderr
    for text in (result.stdout, result.stderr):
        assert {char for char in text if not char.isprintable()} <= {"\n"}
        assert OLD_COMMAND not in text
    assert COMMAND.findall(result.stderr) == []
    return result


@pytest.mark.parametrize(
    "arguments",
    [
        ("report",),
        ("report", "--by", "op", "--findings", "all"),
        ("report", "--by", "stream", "--format", "markdown"),
        ("report", "--format", "markdown", "--by", "op", "--findings", "all"),
        ("report", "--format", "json"),
        ("gate", "--min-hidden", "99"),
        ("gate", "--min-hidden", "99", "--format", "markdown"),
        ("gate", "--min-hidden", "99", "--format", "json"),
        ("gate", "--min-hidden", "99", "--format", "junit"),
        ("transfers",),
        ("info",),
        ("info", "--format", "json"),
        ("rules",),
        ("rules", "--format", "json"),
        ("slim", "--check"),
    ],
    ids=" ".join,
)
def test_no_output_holds_a_command(trace: Path, arguments: tuple[str, ...]) -> None:
    shown = run(*arguments, trace).stdout
    assert COMMAND.findall(shown) == []
    assert shown.count("\n") > 5


def test_names_are_still_told(trace: Path) -> None:
    shown = "".join(run("report", "--by", "op", trace).stdout.split())
    assert "::error::pwned" in shown
    report = json.loads(run("report", "--format", "json", trace).stdout)
    assert {operation["op"] for operation in report["operations"]} >= {NAMES[3], NAMES[4], NAMES[9]}
    assert report["traces"][0]["path"] == FILE_NAME


def test_annotations_are_those_of_the_gate(trace: Path) -> None:
    shown = run("gate", "--min-hidden", "99", "--format", "github", trace).stdout
    lines = shown.splitlines()
    assert all(re.match(r"::(error|warning) title=nsysoverlap", line) for line in lines)
    # What failed, its limit, and what nsys says of the trace.
    assert len(lines) == 3
    assert lines[2].endswith("::nsys says: ::error::pwned")


def test_tables_of_markdown_keep_their_columns(trace: Path) -> None:
    shown = run("report", "--by", "op", "--format", "markdown", trace).stdout
    outside_of_code = re.split(r"^`{3,}.*\n", shown, flags=re.MULTILINE)[::2]
    assert "<" not in "".join(outside_of_code)
    widths = [
        {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        for block in shown.split("\n\n")
        if block.startswith("|")
    ]
    assert len(widths) > 2
    assert all(len(width) == 1 for width in widths)


def test_junit_has_the_cases_of_the_gate(trace: Path) -> None:
    shown = run("gate", "--min-hidden", "99", "--format", "junit", trace).stdout
    cases = [case.get("name") for case in ET.fromstring(shown).findall(".//testcase")]
    assert cases == ["both.hidden >= limit", "the traces"]


def test_csv_has_a_row_for_each_transfer(trace: Path) -> None:
    rows = list(csv.reader(io.StringIO(run("transfers", trace).stdout)))
    assert len(rows) == 1 + 3 * len(NAMES)
    assert {len(row) for row in rows} == {len(rows[0])}


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_files_are_written_where_they_were_asked_for(
    trace: Path, suffix: str, tmp_path: Path
) -> None:
    before = sorted(trace.parent.iterdir())
    for command in ("export", "plot"):
        out = tmp_path / f"{command}.{suffix if command == 'export' else 'svg'}"
        assert "Wrote" in run(command, trace, "-o", out).stderr
    assert len(list(tmp_path.iterdir())) == 2
    assert sorted(trace.parent.iterdir()) == before


def test_copies_and_history_hold_the_names_as_they_are(trace: Path, tmp_path: Path) -> None:
    out, db = tmp_path / "out.sqlite", tmp_path / "runs.db"
    run("slim", trace, out)
    kept = {value for (value,) in query(out, "SELECT value FROM StringIds")}
    assert kept >= set(NAMES[:3])
    run("record", trace, "--db", db, "--label", f"note={NAMES[0]}")
    for fmt in ("text", "markdown", "json"):
        assert COMMAND.findall(run("history", "--db", db, "--format", fmt).stdout) == []
    for fmt in ("text", "markdown", "json"):
        assert COMMAND.findall(run("compare", trace, out, "--format", fmt).stdout) == []
