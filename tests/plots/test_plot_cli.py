"""`nsysoverlap plot`, as a shell sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from nsysoverlap.cli import plot as command
from nsysoverlap.cli.app import main
from nsysoverlap.draw import picture
from nsysoverlap.run.analysis import Options
from nsysoverlap.run.many import analyze_many, find_traces
from tests.traces import h200

TRACE = str(h200("jax_unroll_lhs"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plot", *arguments])


@pytest.mark.parametrize(
    ("kind", "fmt", "magic"),
    [
        *[(kind, "png", b"\x89PNG") for kind in command.KINDS],
        ("timeline", "svg", b"<?xml"),
        ("timeline", "pdf", b"%PDF"),
    ],
)
def test_a_picture_is_written_and_said(kind: str, fmt: str, magic: bytes, tmp_path: Path) -> None:
    output = tmp_path / f"picture.{fmt}"
    result = run(TRACE, "--kind", kind, "-o", str(output))
    assert result.exit_code == 0, result.stderr
    assert output.read_bytes().startswith(magic)
    assert result.stdout == ""
    assert result.stderr == f"Wrote {output}\n"


def test_the_command_offers_what_there_is() -> None:
    assert command.KINDS == picture.KINDS


def ranks(folder: Path) -> Path:
    """Two ranks, of which the second exposes more."""
    for rank, name in enumerate(("jax_unroll_lhs", "jax_unroll_nolhs")):
        (folder / f"rank{rank}.sqlite").symlink_to(h200(name))
    return folder


@pytest.mark.parametrize("kind", ["timeline", "bandwidth", "whatif"])
def test_of_ranks_the_one_that_exposes_most_is_drawn(kind: str, tmp_path: Path) -> None:
    folder, pictures = str(ranks(tmp_path)), []
    for given in ([folder], [folder, "--rank", "1"], [folder, "--rank", "0"]):
        output = tmp_path / "picture.svg"
        result = run(*given, "--kind", kind, "-o", str(output))
        assert result.exit_code == 0, result.stderr
        pictures.append(output.read_bytes())
        chosen = "Drawn is rank1.sqlite, whose copies are exposed most; --rank N draws another.\n"
        assert result.stderr == f"Wrote {output}\n" + (chosen if given == [folder] else "")
    assert pictures[0] == pictures[1] != pictures[2]


@pytest.mark.parametrize("kind", picture.OF_REPORTS)
def test_steps_and_operations_of_ranks_are_drawn_over_all(kind: str, tmp_path: Path) -> None:
    output = tmp_path / "picture.svg"
    result = run(str(ranks(tmp_path)), "--kind", kind, "-o", str(output))
    assert (result.exit_code, result.stderr) == (0, f"Wrote {output}\n")
    report = analyze_many(find_traces([tmp_path]), Options())[0]
    assert output.read_bytes() == picture.report_picture(report, kind, "svg")


@pytest.mark.parametrize("kind", ["timeline", "steps"])
def test_ranks_without_gpu_activity_are_no_picture(kind: str, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"rank{number}.sqlite").symlink_to(h200("jax_fsdp2_events_lost"))
    result = run(str(tmp_path), "--kind", kind, "-o", str(tmp_path / "picture.svg"))
    assert result.exit_code == 3
    assert "all 2 traces: no GPU activity to draw." in result.stderr
    assert not (tmp_path / "picture.svg").exists()


def test_a_rank_that_cannot_be_read_is_left_out_of_the_picture(tmp_path: Path) -> None:
    (ranks(tmp_path) / "rank2.sqlite").write_text("broken")
    output = tmp_path / "picture.svg"
    result = run(str(tmp_path), "-o", str(output))
    assert result.exit_code == 3
    assert result.stderr.splitlines()[2].startswith("Skipped: rank2.sqlite")
    assert output.exists()


def test_a_step_and_a_window_change_the_picture(tmp_path: Path) -> None:
    pictures = set()
    for i, more in enumerate(
        ([], ["--step", "2"], ["--window", "700ms:740ms"], ["--steps", "none"])
    ):
        output = tmp_path / f"{i}.png"
        assert run(TRACE, *more, "-o", str(output)).exit_code == 0
        pictures.add(output.read_bytes())
    assert len(pictures) == 4


def test_an_svg_is_well_formed_and_fetches_nothing(tmp_path: Path) -> None:
    output = tmp_path / "picture.svg"
    assert run(TRACE, "-o", str(output)).exit_code == 0
    root = ElementTree.parse(output).getroot()
    links = [
        value
        for element in root.iter()
        for name, value in element.attrib.items()
        if name.endswith("href")
    ]
    assert all(value.startswith("#") for value in links)
    assert len(output.read_bytes()) < 1_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "picture.bmp"], "picture.bmp: a plot is written as png, svg or pdf."),
        (["-o", "picture"], "Give a name that ends in .png, .svg, .pdf."),
        (["-o", "-"], "A plot is not written to stdout."),
        (["-o", "a.png", "--step", "2", "--window", "1ms:2ms"], "--window and --step exclude"),
        (["-o", "a.png", "--step", "9"], "step 9 is not among its 4 steps"),
        (["-o", "a.png", "--window", "9s:10s"], "no GPU activity in window"),
        (["-o", "a.png", "--device", "3"], "there is no device 3"),
        (["-o", "a.png", "--kind", "ops", "--device", "0"], "--device does not go with"),
        (["-o", "a.png", "--kind", "pie"], "'pie' is not one of"),
        ([], "Missing option '-o'"),
    ],
)
def test_what_makes_no_sense(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(TRACE, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_trace_is_not_overwritten(tmp_path: Path) -> None:
    trace = tmp_path / "trace.png"
    trace.write_bytes(h200("jax_unroll_lhs").read_bytes())
    result = run(str(trace), "-o", str(trace))
    assert result.exit_code == 2
    assert "is an input and would be overwritten" in result.stderr
    assert trace.read_bytes() == h200("jax_unroll_lhs").read_bytes()


def test_nothing_recorded_is_an_error_with_a_hint(tmp_path: Path) -> None:
    result = run(str(h200("jax_fsdp2_events_lost")), "-o", str(tmp_path / "a.png"))
    assert result.exit_code == 3
    assert list(tmp_path.iterdir()) == []
    assert "no GPU activity to draw. `nsysoverlap info` shows what was recorded." in result.stderr


def test_plotting_needs_neither_pandas_nor_pyplot(tmp_path: Path) -> None:
    code = """
import sys
from nsysoverlap.cli.app import main
main(["plot", sys.argv[1], "-o", sys.argv[2]], standalone_mode=False)
print(*sorted({name for name in sys.modules}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, TRACE, str(tmp_path / "a.png")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert "matplotlib.figure" in loaded
    assert loaded.isdisjoint({"pandas", "matplotlib.pyplot", "rich", "jinja2"})
