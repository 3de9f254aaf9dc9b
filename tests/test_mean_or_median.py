"""Exposed time a step, wherever it stands: it says mean or median, and is what it says.

One trace of two devices and three steps; the figures are worked out here, by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median

import matplotlib as mpl
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from matplotlib.text import Text

import nsysoverlap as no
from nsysoverlap.cli import main
from nsysoverlap.cli.formats import formats_of
from nsysoverlap.core.formatting import format_ns
from nsysoverlap.draw import plot_history
from nsysoverlap.judge.history_store import read_runs

from .html.pages import Page
from .stepdrawing import US, Dispatch

EXPOSED_US = ((10, 20, 90), (30, 50, 160))
"""Of each step, on each device: no mean is any median."""
MEANS = {format_ns(round(mean(steps) * US)) for steps in EXPOSED_US}
MEDIANS = {format_ns(round(median(steps) * US)) for steps in EXPOSED_US}
WORST_MEAN, WORST_MEDIAN = "80.0 µs", "50.0 µs"
MEAN_OF_DEVICES = "60.0 µs"
"""Of an operation, which runs on both devices at once."""
TIME = r"\d[\d.,]* (?:ns|[µm]?s)\b"
A_STEP = re.compile(r"expos.*\bsteps?\b|\bsteps?\b.*expos", re.IGNORECASE)
"""What could be the exposed time of a step."""
HEADING = 40
"""Characters; what is longer and has no time in it is running text."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kernel ####........  and a copy that outlives it by the time that is exposed."""
    drawn = Dispatch()
    for step in range(3):
        at = 1_000 * step
        drawn.range(f"step {step}", at, at + 9)
        drawn.range("Thunk:#name=copy-start.1,hlo_op=copy-start.1#", at + 3, at + 6)
        for device, exposed in enumerate(EXPOSED_US):
            drawn.run(at + 1 + device, at + 10, at + 400, device=device)
            end = at + 400 + exposed[step]
            drawn.run(at + 3 + device, at + 300, end, "d2h", device=device)
    path = tmp_path_factory.mktemp("steps") / "drawn.sqlite"
    drawn.builder.write(path)
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code in (0, 1), result.output
    return result.stdout


def test_the_figures_are_those_of_the_drawing(trace: Path) -> None:
    report = no.analyze(no.read_trace(trace))
    shown = [[step.both.exposed_ns // US for step in device.steps] for device in report.devices]
    assert shown == [list(steps) for steps in EXPOSED_US]
    assert not MEANS & MEDIANS
    assert MEAN_OF_DEVICES not in MEANS | MEDIANS


# Each place, with its figure.


def test_the_headline_gives_the_mean_of_the_worst_device(trace: Path) -> None:
    for fmt in ("text", "markdown", "html"):
        said = " ".join(
            re.sub(r"<[^>]+>|\xa0|\*", " ", run("report", trace, "--format", fmt)).split()
        )
        assert f"exposed, a mean of {WORST_MEAN} a step on the worst device" in said


def test_the_tables_of_steps_give_medians(trace: Path) -> None:
    lines = run("report", trace).splitlines()
    assert {m[1] for line in lines if (m := re.search(rf"^median .* ({TIME})", line))} == MEDIANS


@pytest.mark.parametrize("by", [[], ["--by", "op"]])
def test_the_tables_of_operations_give_means_over_devices(trace: Path, by: list[str]) -> None:
    text = run("report", trace, *by)
    table = text[text.index("perations") :]
    assert re.search(r"exposed\n.*mean\b.*\n.*\bstep\b", table)
    assert MEAN_OF_DEVICES in table.split("\n\n")[0]
    assert "exposed time is the mean over devices" in " ".join(table.split())


def test_the_page_says_which(trace: Path) -> None:
    page = Page(run("report", trace, "--format", "html"))
    charts = re.findall(rf"median step ({TIME}), median exposed ({TIME})", page.shown)
    assert {exposed for _, exposed in charts} == MEDIANS
    assert "exposed, mean step" in page.shown
    one = Page(run("report", trace, "--format", "html", "--step", "0:2"))
    assert "Exposed, mean step" not in one.shown  # a tile only where there is one device


def test_the_tile_of_one_device_gives_its_mean(tmp_path: Path) -> None:
    drawn = Dispatch()
    for step, exposed in enumerate(EXPOSED_US[0]):
        at = 1_000 * step
        drawn.range(f"step {step}", at, at + 9)
        drawn.run(at + 1, at + 10, at + 400)
        drawn.run(at + 3, at + 300, at + 400 + exposed, "d2h")
    drawn.builder.write(tmp_path / "one.sqlite")
    page = Page(run("report", tmp_path / "one.sqlite", "--format", "html"))
    assert "Exposed, mean step 40.0 µs 120.0 µs in all" in page.shown
    assert "a mean of 40.0 µs a step" in page.shown


def test_ranks_give_medians(trace: Path, tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.sqlite").write_bytes(trace.read_bytes())
    text = run("report", tmp_path, "--format", "markdown")
    assert "| exposed, median step |" in text
    assert re.search(rf"^\| rank 0 .*\| {WORST_MEDIAN} \|", text, re.MULTILINE)


def test_the_gate_takes_the_median_and_says_so(trace: Path) -> None:
    median_us, mean_us = 50, 80
    for limit, status in ((median_us, "pass"), (median_us - 1, "fail")):
        text = run("gate", trace, "--max-exposed-ms", f"{limit}us", "--format", "markdown")
        assert f"| {status} | both.exposed\\_ms@step-median | {WORST_MEDIAN} |".replace(
            "\\", ""
        ) in (text.replace("\\", ""))
    text = run("gate", trace, "--require", f"both.exposed_ms@step-mean <= {mean_us}us")
    assert f"both.exposed_ms@step-mean {WORST_MEAN} <=" in " ".join(text.split())
    assert "median" in run("gate", "--help").split("--max-exposed-ms")[1].split("--")[0]


def test_compare_gives_medians_and_means_of_operations(trace: Path) -> None:
    text = run("compare", trace, trace)
    assert re.search(rf"both\.exposed_ms +{WORST_MEDIAN} +{WORST_MEDIAN}", text)
    assert "Amounts are medians over steps." in text


def test_the_history_gives_medians_and_keeps_means_of_operations(
    trace: Path, tmp_path: Path
) -> None:
    db = tmp_path / "runs.db"
    run("record", trace, "--db", db)
    text = run("history", "--db", db, "--format", "markdown")
    assert "exposed, median step" in text
    assert f"| {WORST_MEDIAN} |" in text
    (found,) = read_runs(db)
    assert found.values["exposed_step_median_ns"] == 50 * US
    figure = drawn_history(found)
    assert "exposed, median step (ms)" in figure


def drawn_history(found: object) -> list[str]:
    """All texts of the plot of a history."""
    seen: list[Figure] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda self, *_, **__: seen.append(self))
        plot_history.draw_history([found], "png")  # type: ignore[list-item]
    return [text.get_text() for text in seen[0].findobj(Text)]


def test_plots_say_mean(trace: Path) -> None:
    mpl.use("agg")
    report = no.analyze(no.read_trace(trace))
    ops = texts(no.plot_ops(report))
    assert "exposed, mean step (ms)" in ops
    assert any(text.endswith(f"{MEAN_OF_DEVICES}, mean step") for text in ops)
    assert any("mean of 2 devices" in text for text in ops)
    assert not any("sum over" in text for text in ops)
    for axes in (no.plot_steps(report), no.plot_timeline(no.read_trace(trace))):
        assert f"D2H exposed {MEAN_OF_DEVICES} in the mean step" in texts(axes)


def texts(axes: object) -> list[str]:
    figure = axes.get_figure()  # type: ignore[attr-defined]
    return [text.get_text() for text in figure.findobj(Text)]


# No place that says neither.


def said(trace: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """(output, one text of it) of everything that is written for people."""
    db = folder / "runs.db"
    run("record", trace, "--db", db)
    commands: dict[str, list[object]] = {
        "report": [trace, "--by", "op"],
        "gate": [trace, "--max-exposed-ms", "1us"],
        "compare": [trace, trace],
        "history": ["--db", db],
    }
    for name, arguments in commands.items():
        for fmt in formats_of(name):
            if fmt == "json":
                continue
            text = run(name, *arguments, "--format", fmt)
            if fmt == "html":
                yield from ((f"{name} {fmt}", part) for part in Page(text).text)
            elif fmt == "markdown":
                for line in text.splitlines():
                    yield from ((f"{name} {fmt}", cell) for cell in line.split(" | "))
            else:
                joined = re.split(r"\n\n|(?<=[.:;])\s", text)
                yield from ((f"{name} {fmt}", part) for part in joined if "──" not in part)
    report = no.analyze(no.read_trace(trace))
    timeline = no.plot_timeline(no.read_trace(trace))
    for axes in (no.plot_ops(report), no.plot_steps(report), timeline):
        yield from (("plot", text) for text in texts(axes))
    yield from (("plot history", text) for text in drawn_history(read_runs(db)[0]))


def test_no_exposed_time_of_a_step_says_neither(trace: Path, tmp_path: Path) -> None:
    n_said = 0
    for output, text in said(trace, tmp_path):
        line = " ".join(text.split())
        # A step by its number is neither.
        single = re.search(r"\bstep \d", line)
        if A_STEP.search(line) and not single and (re.search(TIME, line) or len(line) <= HEADING):
            n_said += 1
            assert re.search("mean|median", line), (output, line)
    assert n_said > 20
