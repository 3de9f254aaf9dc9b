"""The documentation says what the code does: generated pages are current, examples run."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from nsysoverlap.cli import main

ROOT = Path(__file__).parents[1]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_schemas_are_made_from_the_types() -> None:
    made = generator().schemas()
    assert {path.name for path in made} == {
        path.name for path in (ROOT / "nsysoverlap").rglob("*.schema.json")
    }
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "run `make docs`"


@pytest.mark.parametrize("name", sorted(generator().PAGES))
def test_generated_pages_are_current(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == generator().PAGES[name](), "run `make docs`"


def test_every_command_is_named_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [name for name in main.commands if f"nsysoverlap {name}" not in readme]
    assert missing == []


def test_the_readme_shows_what_the_report_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(r"```console\n\$ (nsysoverlap report [^\n]+)\n(.*?)```", readme, re.DOTALL)
    assert match is not None
    command = shlex.split(match[1])[1:]
    run = subprocess.run(
        [sys.executable, "-m", "nsysoverlap", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = run.stdout.splitlines()
    shown = match[2].splitlines()
    # The README may cut the report short at a line of three dots.
    cut = shown.index("...") if "..." in shown else len(shown)
    assert shown[:cut] == printed[:cut]


PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
        assert ((ROOT / page).parent / target).exists(), target


def test_the_first_report_is_read_as_it_is_printed() -> None:
    """Its commands run, and each number in italics or bold beside them is in the report."""
    page = (ROOT / "docs" / "first-report.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (nsysoverlap [^\n]+)", page, re.MULTILINE)
    assert [shlex.split(line)[1] for line in commands] == ["report", "report"]
    outputs = []
    for line in commands:
        arguments = [str(ROOT / a) if "/" in a else a for a in shlex.split(line)[1:]]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
        outputs.append(" ".join(done.stdout.split()))
    said = " ".join(page.split())
    for quoted in (
        "59.5 % of 477.6 ms of host transfers ran behind compute; 193.4 ms were exposed, a mean of "
        "48.4 ms a step.",
        *("83.1 %", "15.7 %", "0.8 %", "0.5 %", "93.9 %", "24.2 %", "round-trip", "late-h2d"),
    ):
        assert quoted in said
        assert quoted in outputs[0]
    gain = re.search(r"gain (\d+)\.\d to (\d+)\.\d ms a step", outputs[0])
    assert gain is not None
    assert f"a step would win {gain[1]} to {gain[2]} ms" in said
