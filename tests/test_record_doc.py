"""docs/record.md: every command of ours that it shows runs on the recordings of its two scripts."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsysoverlap import analyze
from nsysoverlap.cli import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
RECORDED = ("torch", "jax")


def shown() -> list[tuple[list[str], int]]:
    """Arguments of each `$ nsysoverlap ...` line of the page, and the exit code it must have."""
    lines = re.findall(r"^\$ nsysoverlap ([^\n#]+?)(?: +# exit (\d))?$", PAGE, re.MULTILINE)
    return [(shlex.split(line), int(code or 0)) for line, code in lines]


def test_the_page_walks_from_a_recording_to_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in RECORDED:
        shutil.copy(
            ROOT / f"tests/fixtures/record_{name}.sqlite", tmp_path / f"train_{name}.sqlite"
        )
    monkeypatch.chdir(tmp_path)
    commands = shown()
    assert {command[0] for command, _ in commands} == {
        *("info", "report", "transfers", "gate", "record", "history"),
    }
    for command, expected in commands:
        result = CliRunner().invoke(main, command)
        assert result.exit_code == expected, (command, result.output)
    assert (tmp_path / "copies.csv").stat().st_size > 1000


@pytest.mark.parametrize("name", RECORDED)
def test_the_recordings_hold_the_four_steps_that_the_scripts_run(name: str) -> None:
    report = analyze(ROOT / f"tests/fixtures/record_{name}.sqlite")
    assert report.basis.n_steps == 4
    assert [len(device.steps) for device in report.devices] == [4]


def test_the_scripts_move_the_bytes_that_they_name() -> None:
    # JAX offloads one tensor a layer: 16384 tokens, four times the width, bfloat16.
    jax_report = analyze(ROOT / "tests/fixtures/record_jax.sqlite")
    tensor = 16384 * 4 * 4096 * 2
    assert jax_report.total("d2h").bytes == 4 * 8 * tensor
    assert jax_report.total("h2d").bytes == 4 * 8 * tensor
    # `save_on_cpu` copies on the stream that computes.
    torch_report = analyze(ROOT / "tests/fixtures/record_torch.sqlite")
    assert torch_report.total("both").hidden_by_compute_ns == 0
    assert torch_report.total("d2h").bytes == torch_report.total("h2d").bytes


@pytest.mark.parametrize("name", RECORDED)
def test_the_scripts_parse_and_mark_what_to_copy(name: str) -> None:
    text = (ROOT / f"docs/record/train_{name}.py").read_text(encoding="utf-8")
    ast.parse(text)
    marked = [line for line in text.splitlines() if "# record" in line]
    assert any("Start()" in line for line in marked)
    assert any("Stop()" in line for line in marked)
