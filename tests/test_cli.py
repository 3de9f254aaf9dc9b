"""The command line as a shell sees it: exit codes, what goes to stdout and what to stderr."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import pty
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from nsysoverlap import __version__
from nsysoverlap.cli import main, terminal
from nsysoverlap.cli.formats import FORMATS, formats_of
from nsysoverlap.cli.terminal import Plain
from nsysoverlap.core.errors import TraceFileError
from nsysoverlap.run import many as ranks
from nsysoverlap.run.transfer_table import COLUMNS

from .tracebuilder import build, draw
from .traces import h200

REPO = Path(__file__).parents[1]
DRAWING = """
    dev0 s7  compute: .####....##.
    dev0 s20 h2d:     ...####.....
"""
TRACE = str(h200("jax_unroll_lhs"))
EVENTS_LOST = str(h200("jax_fsdp2_events_lost"))


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def start(*args: str, **options: object) -> subprocess.Popen[bytes]:
    """The real thing, in a process of its own."""
    command = [sys.executable, "-m", "nsysoverlap", *args]
    settings: dict[str, object] = {
        "cwd": REPO,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        **options,
    }
    return subprocess.Popen(command, **settings)  # type: ignore[call-overload, no-any-return]


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    stdout, stderr = process.communicate(timeout=300)
    return process.returncode, (stdout or b"").decode(), (stderr or b"").decode()


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    return build(tmp_path / "drawn.sqlite", DRAWING)


# Exit codes.

EXIT_CODES: list[tuple[int, list[str]]] = [
    (0, ["--version"]),
    (0, ["-h"]),
    (0, ["report", "--help"]),
    (0, ["report", TRACE]),
    (0, ["report", TRACE, "--format", "json"]),
    (0, ["report", TRACE, "--format", "markdown"]),
    (0, ["report", TRACE, "--window", "100ms:200ms"]),
    (0, ["report", TRACE, "--link-gbps", "55,53"]),
    (0, ["report", TRACE, "--transfer-kernels", "off"]),
    (0, ["report", TRACE, "--strict"]),
    (0, ["report", str(h200("jax_unroll_save"))]),
    (0, ["report", TRACE, "missing.sqlite"]),
    (0, ["transfers", TRACE]),
    (0, ["transfers", EVENTS_LOST]),
    (0, ["info", TRACE]),
    (0, ["info", EVENTS_LOST]),
    (0, ["rules"]),
    (0, ["rules", TRACE]),
    (0, ["rules", EVENTS_LOST]),
    (0, ["rules", "--explain", "no kernel has this name"]),
    (2, ["no-such-command"]),
    (2, ["--no-such-option"]),
    (2, ["report"]),
    (2, ["report", ""]),
    (2, ["report", TRACE, "--format", "pdf"]),
    (2, ["report", TRACE, "--window", "200ms"]),
    (2, ["report", TRACE, "--window", "200ms:100ms"]),
    (2, ["report", TRACE, "--window", "100s:200s"]),
    (2, ["report", TRACE, "--link-gbps", "55"]),
    (2, ["report", TRACE, "--config", "missing.toml"]),
    (2, ["report", TRACE, "--output", "missing/folder/report.txt"]),
    (2, ["report", TRACE, "--output", "."]),
    (2, ["report", "missing.sqlite"]),
    (2, ["report", "missing.sqlite", "gone.sqlite"]),
    (2, ["report", TRACE, "missing.sqlite", "--strict"]),
    (2, ["transfers", "missing.sqlite"]),
    (0, ["transfers", TRACE, TRACE]),
    (2, ["transfers", TRACE, "--format", "parquet"]),
    (2, ["info", "missing.sqlite"]),
    (2, ["rules", "missing.sqlite"]),
    (2, ["rules", "--config", "missing.toml"]),
    (3, ["report", EVENTS_LOST]),
    (3, ["report", TRACE, EVENTS_LOST]),
    (3, ["report", str(h200("micro_graph_graph")), "--format", "json"]),
]


@pytest.mark.parametrize(("code", "args"), EXIT_CODES)
def test_exit_code(code: int, args: list[str]) -> None:
    result = run(*args)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit | None)
    assert (result.stdout == "") == (code == 2)
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == (code == 2)


@pytest.mark.parametrize(
    ("code", "args"),
    [(0, ["report", TRACE]), (2, ["report", "missing.sqlite"]), (3, ["report", EVENTS_LOST])],
)
def test_exit_code_of_a_process(code: int, args: list[str]) -> None:
    status, stdout, stderr = finish(start(*args))
    assert status == code
    assert bool(stdout) == (code != 2)
    assert bool(stderr) == (code == 2)


def test_version_and_console_script() -> None:
    first, second, third = run("--version").stdout.splitlines()
    assert first == f"nsysoverlap {__version__}"
    assert second.startswith(f"Python {platform.python_version()}, numpy {np.__version__}, SQLite")
    assert sqlite3.sqlite_version in second
    assert third.startswith("nsys")
    assert finish(start("--version"))[1].startswith(f"{first}\n{second}\n")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nsight-systems-2025.3.1/bin/nsys", "nsys 2025.3.1"),
        ("bin/nsys", "nsys: found, ask it for its version"),
        (None, "nsys: The environment variable NSYS names nsys, which is not an executable file."),
    ],
)
def test_version_of_nsys_is_told_without_running_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None, said: str
) -> None:
    program = tmp_path / (place or "nsys")
    if place:
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\ntouch ran\n")
        program.chmod(0o755)
    monkeypatch.setenv("NSYS", str(program))
    monkeypatch.chdir(tmp_path)
    assert run("--version").stdout.splitlines()[2] == said
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("command", list(main.commands))
def test_help_names_units_and_exit_codes(command: str) -> None:
    text = run(command, "-h").stdout
    assert text == run(command, "--help").stdout
    assert text.startswith(f"Usage: main {command} ")
    assert re.search(r"Exit codes: 0 .*\b2 bad usage", " ".join(text.split()))
    assert max(map(len, text.splitlines())) <= 80
    summary = main.commands[command].short_help or ""
    assert f"{command}  ".strip() in run("-h").stdout
    assert summary in run("-h").stdout


# What goes wrong inside.


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (MemoryError(), 2, "Error: Not enough memory. Use a machine with more memory"),
        (KeyboardInterrupt(), 130, ""),
        (PermissionError(13, "Permission denied", "/home/jane/x.sqlite"), 2, "Error: x.sqlite: P"),
        (
            TraceFileError("a\x1b[31m.sqlite: is\nbad.", "Do\nit again."),
            2,
            "Error: a.sqlite: is bad. Do it again.\n",
        ),
        (ZeroDivisionError("by zero"), 2, "Internal error: ZeroDivisionError: by zero\nThis is a"),
    ],
)
def test_error_inside(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, says: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(ranks, "analyze_many", fail)
    result = run("report", TRACE)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith(says)
    assert "Traceback" not in result.stderr
    assert "/home/jane" not in result.stderr


def test_debug_variable_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYSOVERLAP_DEBUG", "1")
    monkeypatch.setattr(ranks, "analyze_many", lambda *_, **__: 1 / 0)
    result = run("report", TRACE)
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "ZeroDivisionError" in result.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """A reader that never ends, and Ctrl-C, or a scheduler that ends the job."""
    program = (
        "import sys, time; from nsysoverlap.run import many as ranks; "
        "from nsysoverlap.cli import main\n"
        "ranks.analyze_many = lambda *_, **__: (print('busy', file=sys.stderr, flush=True), "
        "time.sleep(60))\n"
        "main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "report", TRACE, "-o", str(tmp_path / "out")],
        cwd=REPO,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"busy\n"
    process.send_signal(number)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == code
    assert stderr == b""
    assert os.listdir(tmp_path) == []


# Where it is written.


@pytest.mark.parametrize("fmt", formats_of("report"))
def test_report_to_a_file(tmp_path: Path, fmt: str) -> None:
    target = tmp_path / "report"
    to_stdout = run("report", TRACE, "--format", fmt)
    to_file = run("report", TRACE, "--format", fmt, "-o", target)
    assert to_file.exit_code == 0
    assert to_file.stdout == ""
    assert to_file.stderr == f"Wrote {target}\n"
    assert target.read_text(encoding="utf-8") == to_stdout.stdout
    assert to_stdout.stderr == ""
    assert run("report", TRACE, "--format", fmt, "-o", "-").stdout == to_stdout.stdout


@pytest.mark.parametrize(
    ("command", "file", "begins"),
    [
        (f"report {TRACE}", "r.html", "<!DOCTYPE html>"),
        (f"report {TRACE}", "R.HTM", "<!DOCTYPE html>"),
        (f"report {TRACE}", "r.json", '{\n  "format": "nsysoverlap.report"'),
        (f"report {TRACE}", "r.md", "**"),
        # No format of a report, or none that is known: text, which has no stars.
        (f"report {TRACE}", "r.xml", "59.5 %"),
        (f"report {TRACE}", "r.txt", "59.5 %"),
        (f"report {TRACE} --format text", "r.html", "59.5 %"),
        (f"report {TRACE} --format json=other", "r.html", "<!DOCTYPE html>"),
        (f"gate {TRACE} --min-hidden 1", "g.xml", "<?xml"),
        (f"gate {TRACE} --min-hidden 1", "g.json", '{\n  "format": "nsysoverlap.verdict"'),
        (f"compare {TRACE} {TRACE}", "c.html", "<!DOCTYPE html>"),
        (f"transfers {TRACE}", "t.json", '{\n  "format": "nsysoverlap.transfers"'),
        (f"transfers {TRACE}", "t.csv", "start_ns,"),
        (f"transfers {TRACE} --format csv", "t.json", "start_ns,"),
    ],
)
def test_the_extension_says_the_format_where_no_option_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, file: str, begins: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in ([*command.split(), "-o", file], ["-o", file, *command.split()[1:]]):
        full = arguments if arguments[0] != "-o" else [command.split()[0], *arguments]
        assert run(*full).exit_code == 0
        assert Path(file).read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize("name", ["report", "gate", "compare", "history", "whatif"])
def test_commands_offer_the_formats_of_their_results(name: str) -> None:
    (option,) = [p for p in main.commands[name].params if p.name == "wanted"]
    with click.Context(main.commands[name]) as context:
        offered = option.type.shell_complete(context, option, "")
    assert tuple(item.value for item in offered) == formats_of(name)
    assert f"Output format: {formats_of(name)[0]}, {formats_of(name)[1]}" in (option.help or "")
    assert {"text", "json", "markdown", "html"} <= set(formats_of(name)) <= set(FORMATS)


@pytest.mark.parametrize("command", ["report", "transfers"])
def test_trace_is_never_overwritten(drawn: Path, command: str) -> None:
    before = drawn.read_bytes()
    for trace in (drawn, drawn.parent):
        result = run(command, trace, "-o", drawn)
        assert result.exit_code == 2
        assert result.stderr == (
            "Error: drawn.sqlite: is an input and would be overwritten. Give another output file.\n"
        )
    assert drawn.read_bytes() == before


PRINTING = [
    *("--help", "--version", "rules", f"report {TRACE}", f"report {TRACE} --format html"),
    *(f"gate {TRACE} --min-hidden 1", f"gate {TRACE} --min-hidden 99", f"info {TRACE}"),
    *(f"transfers {TRACE}", f"compare {TRACE} {TRACE}", f"export {TRACE} -o -"),
    *(f"slim --check {TRACE}", "report --help", "gate --help"),
]
"""A command line for each way to print a result."""
full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")


@full
@pytest.mark.parametrize("line", PRINTING)
def test_disk_full_on_stdout(line: str) -> None:
    with open("/dev/full", "wb") as stdout:
        status, _, stderr = finish(start(*line.split(), stdout=stdout))
    assert status == 2
    assert stderr == (
        "Error: stdout: cannot be written (No space left on device). Use --output FILE.\n"
    )


def test_closed_stdout() -> None:
    script = 'exec "$@" >&-'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "nsysoverlap", "report", TRACE]
    done = subprocess.run(command, cwd=REPO, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"Error: stdout is closed. Use --output FILE.\n"


def test_the_help_of_every_command_is_printed_with_care() -> None:
    assert [name for name, one in main.commands.items() if not isinstance(one, Plain)] == []


@full
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("bogus", 2),
        ("report missing.sqlite", 2),
        ("gate missing.sqlite --min-hidden 1", 2),
        (f"report {TRACE} -o {os.devnull}", 0),
        (f"gate {TRACE} --min-hidden 99", 1),
    ],
)
def test_an_error_that_cannot_be_printed_keeps_its_code(line: str, code: int) -> None:
    with open("/dev/full", "wb") as stderr:
        assert finish(start(*line.split(), stderr=stderr))[0] == code


@pytest.mark.parametrize(
    ("line", "code"),
    [*((line, 1 if "99" in line else 0) for line in PRINTING), (f"report {EVENTS_LOST}", 3)],
)
def test_reader_that_leaves_early_changes_nothing(line: str, code: int) -> None:
    read, write = os.pipe()
    os.close(read)
    status, _, stderr = finish(start(*line.split(), stdout=write))
    os.close(write)
    assert (status, stderr) == (code, "")


def test_stdout_without_unicode() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    status, stdout, stderr = finish(start("report", TRACE, env=env))
    assert (status, stderr) == (0, "")
    assert "59.5 % of 477.6 ms" in stdout


# On a terminal.


def on_terminal(*args: str, columns: int = 100, **variables: str) -> str:
    """What a terminal of so many columns shows, both streams."""
    master, slave = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
    env |= {"TERM": "xterm", **variables}
    if columns:
        subprocess.run(["stty", "cols", str(columns)], stdin=slave, check=True)
    process = start(*args, stdout=slave, stderr=slave, env=env)
    os.close(slave)
    shown = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(master)
    assert process.wait(timeout=300) == 0
    # On a slow machine a progress line came first, and was cleared.
    return re.sub(r"[^\n]*\r\x1b\[K", "", shown.decode().replace("\r\n", "\n"))


def test_colour_only_on_a_terminal_that_wants_it() -> None:
    assert "\x1b[" in on_terminal("report", TRACE)
    assert "\x1b[" not in on_terminal("report", TRACE, NO_COLOR="1")
    assert "\x1b[" not in on_terminal("report", TRACE, TERM="dumb")
    assert "\x1b[" not in run("report", TRACE).stdout


@pytest.mark.parametrize(("columns", "widest"), [(80, 80), (100, 100), (300, 120)])
def test_width_of_the_terminal_is_used(columns: int, widest: int) -> None:
    shown = on_terminal("report", TRACE, columns=columns, NO_COLOR="1").splitlines()
    assert widest - 12 <= max(map(len, shown)) <= widest


def test_pipe_is_80_columns_wide() -> None:
    for args in (["report", TRACE], ["info", TRACE], ["rules"], ["rules", TRACE]):
        lines = run(*args).stdout.splitlines()
        assert 60 <= max(map(len, lines)) <= 80
        assert all(line == line.rstrip() for line in lines)


class Screen(io.StringIO):
    """A terminal that keeps what it was shown."""

    def isatty(self) -> bool:
        return True


def test_progress_waits_and_clears_up(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(terminal, "_PATIENCE_S", 600)
    with terminal.progress("Reading"):
        pass
    assert screen.getvalue() == ""
    monkeypatch.setattr(terminal, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(terminal, "_FRAME_S", 0.01)
    until = time.monotonic() + 60
    with terminal.progress("Reading"):
        while "/ Reading" not in screen.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    shown = screen.getvalue()
    assert shown.startswith("\r| Reading\r/ Reading")
    assert shown.endswith("\r\x1b[K")
    monkeypatch.setenv("CI", "true")
    with terminal.progress("Reading"):
        time.sleep(0.1)
    assert screen.getvalue() == shown


# Several traces.


def test_unreadable_trace_among_several_is_named(tmp_path: Path, drawn: Path) -> None:
    (tmp_path / "bad.sqlite").write_text("no database")
    (tmp_path / "empty").mkdir()
    result = run("report", tmp_path, tmp_path / "empty", "--format", "json")
    assert result.exit_code == 0
    lines = sorted(result.stderr.splitlines())
    assert [line.split(" ")[:2] for line in lines] == [
        ["Skipped:", "bad.sqlite:"],
        ["Skipped:", "empty:"],
    ]
    assert [trace["path"] for trace in json.loads(result.stdout)["traces"]] == [drawn.name]


def test_strict_writes_nothing(tmp_path: Path, drawn: Path) -> None:
    (tmp_path / "bad.sqlite").write_text("no database")
    target = tmp_path / "out.json"
    result = run("report", tmp_path, "--strict", "--format", "json", "-o", target)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: bad.sqlite: is a text file")
    assert not target.exists()


@pytest.mark.parametrize("again", ["same", "dot", "symlink", "hardlink", "folder", "report"])
def test_a_trace_named_twice_counts_once(tmp_path: Path, drawn: Path, again: str) -> None:
    alone = run("report", drawn).stdout
    other = tmp_path / "links" / "other.sqlite"
    other.parent.mkdir()
    match again:
        case "same":
            other = drawn
        case "dot":
            other = tmp_path / "links" / ".." / drawn.name
        case "symlink":
            other.symlink_to(drawn)
        case "hardlink":
            other.hardlink_to(drawn)
        case "folder":
            other = tmp_path
        case "report":
            other = drawn.with_suffix(".nsys-rep")
            other.write_bytes(b"whatever: its export is used")
    result = run("report", drawn, other)
    assert (result.exit_code, result.stdout) == (0, alone)
    name = drawn.name if again == "folder" else other.name
    assert result.stderr == f"Given twice, counted once: {name}\n"


def test_links_in_one_folder_are_ranks(tmp_path: Path, drawn: Path) -> None:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for i in range(2):
        (ranks / f"rank{i}.sqlite").symlink_to(drawn)
    result = run("report", ranks, "--format", "json")
    assert result.stderr == ""
    assert [trace["rank"] for trace in json.loads(result.stdout)["traces"]] == [0, 1]


def test_traces_add_up(tmp_path: Path) -> None:
    for rank in range(2):
        build(tmp_path / f"rank{rank}.sqlite", DRAWING, pid=1000 + rank)
    report = json.loads(run("report", tmp_path, "--format", "json").stdout)
    assert report["totals"]["h2d"]["wall_ns"] == 8000
    assert report["totals"]["h2d"]["hidden_by_compute_ns"] == 4000
    assert [trace["rank"] for trace in report["traces"]] == [0, 1]
    same = json.loads(run("report", tmp_path, tmp_path, "--format", "json").stdout)
    assert len(same["traces"]) == 2


def test_commands_for_one_trace_refuse_a_folder_of_two(tmp_path: Path) -> None:
    for rank in range(2):
        build(tmp_path / f"rank{rank}.sqlite", DRAWING)
    result = run("rules", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: {tmp_path.name}: the folder holds 2 traces, and this command takes one. "
        f"Name one, such as {tmp_path / 'rank0.sqlite'}.\n"
    )
    (tmp_path / "rank1.sqlite").unlink()
    assert run("rules", tmp_path).exit_code == 0


# Options.


def test_options_reach_the_numbers(tmp_path: Path) -> None:
    trace = str(h200("jax_scan_pipelined"))

    def d2h(*args: str) -> dict[str, int]:
        result = run("report", trace, "--format", "json", *args)
        assert result.exit_code == 0
        values: dict[str, int] = json.loads(result.stdout)["totals"]["d2h"]
        return values

    assert (d2h()["n"], d2h()["n_by_kernel"]) == (64, 8)
    assert (d2h("--transfer-kernels", "off")["n"]) == 56
    config = tmp_path / "own.toml"
    config.write_text('transfer_kernels = "off"\n[links]\nh2d_gbps = 40\nd2h_gbps = 30\n')
    assert d2h("--config", str(config))["n"] == 56
    assert d2h("--config", str(config), "--transfer-kernels", "auto")["n"] == 64
    assert d2h("--window", "200ms:300ms")["wall_ns"] < d2h()["wall_ns"]

    def link(*args: str) -> list[float]:
        report = json.loads(run("report", trace, "--format", "json", *args).stdout)
        return [report["devices"][0]["link"][key] for key in ("h2d_gbps", "d2h_gbps")]

    assert link() == [63, 63]
    assert link("--config", str(config)) == [40, 30]
    assert link("--config", str(config), "--link-gbps", "55,53.5") == [55, 53.5]


def test_report_names_its_configuration(tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text("")
    assert "own.toml" in run("report", TRACE, "--config", config).stdout
    assert str(tmp_path) not in run("report", TRACE, "--config", config).stdout


# transfers


def table(*args: str | Path) -> list[dict[str, str]]:
    result = run("transfers", *args)
    assert result.exit_code == 0
    return list(csv.DictReader(result.stdout.splitlines()))


def test_transfers_as_csv(drawn: Path) -> None:
    assert run("transfers", drawn).stdout.splitlines()[0] == ",".join(COLUMNS)
    (row,) = table(drawn)
    assert row["direction"] == "h2d"
    assert int(row["end_ns"]) - int(row["start_ns"]) == 4000
    assert (row["bytes"], row["bytes_estimated"], row["gb_per_s"]) == ("200000", "", "50.000")
    assert (row["hidden_ns"], row["comm_ns"], row["exposed_ns"]) == ("2000", "0", "2000")
    assert (row["src_kind"], row["dst_kind"], row["by_kernel"]) == ("pinned", "device", "false")
    assert row["top_hiding_kernel"] == "gemm_fusion_dot_1"


def test_transfers_agree_with_the_report() -> None:
    trace = h200("jax_scan_pipelined")
    total = json.loads(run("report", trace, "--format", "json").stdout)["totals"]
    rows = table(trace)
    for direction in ("h2d", "d2h"):
        own = [row for row in rows if row["direction"] == direction]
        assert len(own) == total[direction]["n"]
        assert sum(int(row["bytes"] or 0) for row in own) == total[direction]["bytes"]
        by_kernel = [row for row in own if row["by_kernel"] == "true"]
        assert len(by_kernel) == total[direction]["n_by_kernel"]
        assert all(row["gb_per_s"] == "" for row in by_kernel)
    starts = [int(row["start_ns"]) for row in rows]
    assert starts == sorted(starts)


def test_transfers_to_a_file(tmp_path: Path, drawn: Path) -> None:
    target = tmp_path / "copies.csv"
    result = run("transfers", drawn, "-o", target)
    assert (result.stdout, result.stderr) == ("", f"Wrote {target}\n")
    assert target.read_text() == run("transfers", drawn).stdout


def test_transfers_of_a_trace_without_any() -> None:
    result = run("transfers", h200("jax_unroll_save"))
    assert result.stdout == ",".join(COLUMNS) + "\n"
    assert result.stderr.startswith("Note: jax_unroll_save.sqlite has no host transfers;")
    result = run("transfers", TRACE, "--window", "0:1")
    assert "has no host transfers in this window;" in result.stderr


def test_names_are_free_of_terminal_codes(tmp_path: Path) -> None:
    builder = draw("dev0 s20 h2d: ####")
    builder.kernel(0, 4000, "evil\x1b[2J\nname")
    path = builder.write(tmp_path / "evil.sqlite")
    for args in (["transfers"], ["rules"], ["report"], ["info"]):
        assert "\x1b" not in run(*args, path).stdout
    assert table(path)[0]["top_hiding_kernel"] == "evil name"


@pytest.mark.parametrize("asked", [("--format", "parquet"), ()])
def test_transfers_as_parquet(tmp_path: Path, asked: tuple[str, ...]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "copies.parquet"
    trace = h200("jax_scan_pipelined")
    result = run("transfers", trace, *asked, "-o", target)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"Wrote {target}\n")
    read = parquet.read_table(target)
    assert tuple(read.column_names) == COLUMNS
    types = {name: str(read.schema.field(name).type) for name in COLUMNS}
    expected = dict.fromkeys(COLUMNS, "int64")
    texts = (
        *("direction", "src_kind", "dst_kind", "top_hiding_kernel", "trace", "framework"),
        *("operation", "scope", "waiter"),
    )
    expected |= dict.fromkeys(texts, "string") | {"by_kernel": "bool", "gb_per_s": "double"}
    assert types == expected
    rows = table(trace)
    assert [str(v) for v in read["start_ns"].to_pylist()] == [row["start_ns"] for row in rows]
    assert [v or "" for v in read["src_kind"].to_pylist()] == [row["src_kind"] for row in rows]


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    result = run("transfers", TRACE, "--format", "parquet", "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: Parquet needs pyarrow, which is not installed. Run: pip install pyarrow\n"
    )
    assert os.listdir(tmp_path) == []


def test_parquet_is_not_written_to_stdout() -> None:
    result = run("transfers", TRACE, "--format", "parquet")
    assert result.stderr == (
        "Error: Parquet is not written to stdout. Give a file with --output FILE.\n"
    )


# info


def test_info_as_text() -> None:
    text = run("info", h200("ddp_two_procs")).stdout
    assert "nsys version    2025.3" in text
    assert "schema version  3.20.3" in text
    assert text.count("NVIDIA H200") >= 2
    assert "CUPTI_ACTIVITY_KIND_MEMCPY" in text
    assert "CUDA device 0 of pid " in text
    assert "Health" in text


def test_info_as_json() -> None:
    values = json.loads(run("info", TRACE, "--format", "json").stdout)
    assert values["format"] == "nsysoverlap.info"
    assert values["path"] == "jax_unroll_lhs.sqlite"
    assert values["schema_version"] == "3.20.3"
    assert values["tables"]["CUPTI_ACTIVITY_KIND_KERNEL"] == 1128
    assert values["gpus"][0]["name"] == "NVIDIA H200"
    assert "--xla_gpu_enable_latency_hiding_scheduler=true" in values["capture"]["XLA_FLAGS"]
    (device,) = values["devices"]
    assert (device["device_id"], device["gpu_id"], device["proven"]) == (0, 0, True)
    assert values["extent_ns"][0] < values["extent_ns"][1]


def test_info_of_a_folder_has_a_line_a_trace(tmp_path: Path) -> None:
    names = ("jax_unroll_lhs", "ddp_two_procs")
    for rank, name in enumerate(names):
        (tmp_path / f"rank{rank}.sqlite").symlink_to(h200(name))
    text = run("info", tmp_path).stdout
    rows = [line.split() for line in text.splitlines() if line.startswith("rank")]
    counts = [json.loads(run("info", h200(n), "--format", "json").stdout)["tables"] for n in names]
    total = [
        sum(n for table, n in one.items() if table.startswith("CUPTI_ACTIVITY")) for one in counts
    ]
    assert [(row[0], row[-2]) for row in rows] == [
        (f"rank{rank}.sqlite", f"{n:,}") for rank, n in enumerate(total)
    ]
    assert "rank1.sqlite: " in text[text.index("Health") :]
    both = json.loads(run("info", tmp_path, "--format", "json").stdout)
    assert [one["tables"] for one in both["traces"]] == counts
    alone = json.loads(run("info", tmp_path, "--rank", "1", "--format", "json").stdout)
    assert alone == {**both["traces"][1], "path": "rank1.sqlite"}
    (tmp_path / "rank2.sqlite").write_text("broken")
    result = run("info", tmp_path)
    assert (result.exit_code, "Skipped: rank2.sqlite" in result.stderr) == (3, True)
    assert "rank1.sqlite" in result.stdout


def test_info_of_a_trace_that_lost_its_events() -> None:
    values = json.loads(run("info", EVENTS_LOST, "--format", "json").stdout)
    assert values["health"][0]["code"] == "events-lost"
    assert values["devices"] == []
    assert values["extent_ns"] is None


# rules


def test_rules_are_listed_in_order() -> None:
    text = run("rules").stdout
    names = [rule["name"] for rule in json.loads(run("rules", "--format", "json").stdout)[
        "kernel_rules"
    ]]  # fmt: skip
    assert names[0] == "xla-host-write"
    assert names[-1] == "compute"
    found = [text.index(f"\n{name} ") for name in names]
    assert found == sorted(found)
    assert "ncclAllReduceRingLLKernel_sum_f32" in text


@pytest.mark.parametrize(
    ("name", "rule", "says"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "nccl (", "counts as  comm"),
        ("wrapped_dynamic_slice", "xla-host-read (", "counts as  h2d, or compute (see why)"),
        ("all_reduce_fusion_3", "xla-fusion (", "counts as  compute"),
        ("", "compute (", "(no name)"),
    ],
)
def test_explain(name: str, rule: str, says: str) -> None:
    result = run("rules", "--explain", name)
    assert result.exit_code == 0
    assert f"rule       {rule}" in result.stdout
    assert says in result.stdout
    explained = json.loads(run("rules", "--explain", name, "--format", "json").stdout)
    assert explained["explanation"]["rule"] == rule.removesuffix(" (")


def test_own_rules_come_first(tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    config.write_text('[[rule]]\nname = "ring"\npattern = "gemm_"\nrole = "comm"\nwhy = "Ours."\n')
    assert "ring         " in run("rules", "--config", config).stdout
    assert "Ours. Pattern: gemm_" in run("rules", "--config", config).stdout
    explained = run("rules", "--config", config, "--explain", "gemm_fusion_dot_1").stdout
    assert "rule       ring (1 of " in explained
    drawn = build(tmp_path / "t.sqlite", DRAWING)
    listed = json.loads(run("rules", drawn, "--config", config, "--format", "json").stdout)
    assert [(row["name"], row["role"]) for row in listed["names"]] == [
        ("gemm_fusion_dot_1", "comm")
    ]


def test_rules_with_a_trace_show_its_names() -> None:
    text = run("rules", h200("jax_scan_pipelined")).stdout
    assert "wrapped_dynamic_update_slice_3" in text
    assert "xla-host-write" not in text
    both = run("rules", h200("jax_scan_pipelined"), "--explain", "x").stdout
    assert both.endswith(text)
    assert "rule       compute (" in both


# Speed.


def loaded_modules(*args: str) -> set[str]:
    """Top-level modules in memory after a command, in a process of its own."""
    code = (
        "import sys; from nsysoverlap.cli import main\n"
        "try: main()\n"
        "finally: print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


HEAVY = {"pandas", "matplotlib", "sqlite_utils", "jinja2", "pyarrow", "jsonschema"}


@pytest.mark.parametrize(
    ("args", "unwanted"),
    [
        (["--help"], HEAVY | {"numpy", "rich", "sqlite3"}),
        (["--version"], HEAVY | {"numpy", "rich"}),
        (["report", TRACE], HEAVY),
        (["report", TRACE, "--format", "json"], HEAVY | {"rich"}),
        (["report", TRACE, "--format", "markdown"], HEAVY | {"rich"}),
        (["transfers", TRACE], HEAVY | {"rich"}),
        (["info", TRACE], HEAVY),
        (["rules"], HEAVY),
    ],
)
def test_heavy_modules_load_only_where_used(args: list[str], unwanted: set[str]) -> None:
    loaded = loaded_modules(*args)
    assert "click" in loaded
    assert loaded & unwanted == set()


LIBRARIES = "import numpy, click, jinja2, rich.table, rich.console, sqlite3, json"
"""What a report loads of others: 0.2 s where the limits below were 0.3 and 0.8 s of CPU."""


def cpu_seconds(*command: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], cwd=REPO, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def takes_less(times: float, *command: str) -> bool:
    """Whether a command needs less CPU than so many times its libraries.

    The two take turns, since machines slow down and speed up, and the least of each counts.
    """
    libraries, spent = [], []
    for _ in range(9):
        libraries.append(cpu_seconds("-c", LIBRARIES))
        spent.append(cpu_seconds(*command))
        if min(spent) < times * min(libraries):
            return True
    return False


def test_import_is_cheap() -> None:
    assert takes_less(1.5, "-c", "import nsysoverlap")


@pytest.mark.parametrize("fmt", formats_of("report"))
def test_report_on_a_small_trace_is_quick(fmt: str) -> None:
    trace = str(h200("jax_scan_pipelined"))
    assert takes_less(4, "-m", "nsysoverlap", "report", trace, "--format", fmt)


def test_a_finding_that_does_not_exist_is_no_clean_result() -> None:
    result = run("report", TRACE, "--findings", "late-h2")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == "Error: there is no finding 'late-h2'. Did you mean late-h2d?\n"


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("gate {t} --min-hidden 90 --min-hidden 10", "--min-hidden"),
        ("gate {t} --min-hidden=90 --min-hidden=90", "--min-hidden"),
        ("gate {t} --config a.toml --min-hidden 1 --config b.toml", "--config"),
        ("gate {t} --require-transfers 1GiB --require-transfers", "--require-transfers"),
        ("report {t} --steps none --steps auto", "--steps"),
        ("report {t} -o a --output b", "--output"),
        ("record {t} --db a.db --db b.db", "--db"),
    ],
)
def test_an_option_that_holds_one_value_is_given_once(command: str, option: str) -> None:
    arguments = command.format(t=h200("micro_hidden")).split()
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: {option} is given 2 times. It holds one value: give it once.\n"
    )


def test_options_that_hold_several_values_and_flags_may_be_repeated() -> None:
    arguments = "gate {t} --require both.n>=1 --require both.n>=0".format(t=h200("micro_hidden"))
    assert CliRunner().invoke(main, arguments.split()).exit_code == 0
    arguments = f"report {h200('micro_hidden')} --strict --strict"
    assert CliRunner().invoke(main, arguments.split()).exit_code == 0
