"""Every command that README.md and docs/ show is run here, or is in one table with the reason."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

from nsysoverlap.cli import main

from .gatekit import split_trace
from .traces import FIXTURES, h200

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
SHELLS = ("sh", "bash", "shell", "console")
NO_GPU = "needs a GPU; tests/capture runs what it can of it"
EXCUSED = {
    "make ": "what this test is run by, or takes minutes; CI runs it",
    "python -m benchmarks": "takes minutes and gigabytes; test_benchmarks runs it small",
    "python3 -m pip": "installs; test_package builds and imports what is installed",
    "pip install": "installs what capturing needs",
    "env/bin/pip": "installs what capturing needs",
    "python3.12 -m venv": "installs what capturing needs",
    "python3 -m venv": "installs what capturing needs",
    "python -m capture": NO_GPU,
    "capture/slurm/submit.sh": "needs Slurm; tests/capture runs it with a stand-in",
    "nsys profile": "needs a GPU; test_record_doc runs it with stand-ins",
    "nsys export": "needs a report; test_record_doc runs it with stand-ins",
    "srun ": "needs Slurm; test_record_doc runs it with stand-ins",
    "torchrun ": "needs GPUs",
    "deepspeed ": "needs DeepSpeed; the page says that it was not run",
    "nsys stats": "needs nsys; test_nsys_stats runs it where there is one",
    "NSYS_RECIPE_PATH=nsys/recipes nsys recipe": "as nsys stats",
    "dask ": "starts a cluster; test_many_ranks does",
    "nsysoverlap gate /shared/run --dask": "needs that cluster; test_many_ranks has one",
}
"""Beginnings of commands that are not run here, and why."""


def shown(page: str) -> list[str]:
    """The commands of a page: lines of shell blocks, and of others that begin as one does."""
    found: list[str] = []
    for token in MarkdownIt().parse((ROOT / page).read_text(encoding="utf-8")):
        if token.type not in ("fence", "code_block"):
            continue
        lines = re.sub(r"\\\n\s*", "", token.content).splitlines()
        if token.info == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        elif token.info not in SHELLS:
            # An indented block may be anything.
            lines = [line for line in lines if token.type == "code_block" and is_command(line)]
        found += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return found


def is_command(line: str) -> bool:
    return line.startswith(("nsysoverlap ", *EXCUSED))


def ranks(folder: Path, n: int = 2, hidden_ns: int = 9_000) -> None:
    """Drawn ranks in a folder, of whose copies as much is hidden."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(n):
        copies = {"d2h": (hidden_ns, 10_000), "h2d": (9_000, 10_000), "n_bytes": 400_000}
        split_trace(folder / f"train.rank{rank}.sqlite", **copies, pid=1000 + rank)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files that the pages speak of: one real trace under its names, and folders of ranks."""
    folder = tmp_path_factory.mktemp("world")
    for name in ("train", "trace", "run", "a"):
        shutil.copy(h200("jax_unroll_lhs"), folder / f"{name}.sqlite")
    shutil.copy(h200("jax_unroll_lhs"), folder / "A")
    for name in ("B", "b.sqlite"):
        shutil.copy(h200("jax_unroll_nolhs"), folder / name)
    for name in ("torch", "jax"):
        shutil.copy(FIXTURES / f"record_{name}.sqlite", folder / f"train_{name}.sqlite")
    for name in ("traces", "run", "results/405b/published-scan"):
        ranks(folder / name, 4 if name == "run" else 2)
    (folder / "shared").mkdir()
    given = ["gate", str(folder / "traces"), "--write-baseline", str(folder / "main.json")]
    assert CliRunner().invoke(main, given).exit_code == 0
    for i in range(5):
        ranks(folder / "earlier" / str(i), hidden_ns=8_900 + i)
        given = ["record", str(folder / "earlier" / str(i)), "--db", str(folder / "runs.db")]
        given += ["--label", "branch=main"]
        assert CliRunner().invoke(main, given).exit_code == 0
    (folder / "tests").symlink_to(ROOT / "tests")
    left = folder / "nsysoverlap_sum-1"
    left.mkdir()
    inputs = {"InputFiles": ["train.nsys-rep"]}
    (left / "nsysoverlap_sum-1.nsys-analysis").write_text(json.dumps(inputs))
    (folder / "train.nsys-rep").touch()
    return folder


def wanted(line: str) -> Callable[[int], bool]:
    """Which exit codes are right: what the comment says, 0 or 1 of a gate, and else 0."""
    said = re.search(r"# exit (\d)", line)
    if said:
        return int(said[1]).__eq__
    return (0, 1).__contains__ if line.startswith("nsysoverlap gate") else (0).__eq__


@pytest.mark.parametrize("page", [page for page in PAGES if shown(page)])
def test_the_commands_of_a_page_run(
    page: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(world, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    lines = [line for line in shown(page) if not line.startswith(tuple(EXCUSED))]
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "nsysoverlap", f"{line}: neither run nor excused"
        done = CliRunner().invoke(main, arguments)
        assert wanted(line)(done.exit_code), f"{line}\n{done.output}"
        assert done.exit_code == 2 or "Error:" not in done.stderr, line
        for option in ("-o", "--output", "--plot", "--write-baseline"):
            if option in arguments and done.exit_code == 0:
                assert (tmp_path / arguments[arguments.index(option) + 1]).stat().st_size > 0


def test_every_excuse_is_needed() -> None:
    lines = [line for page in PAGES for line in shown(page)]
    assert len(lines) > 80
    unused = [start for start in EXCUSED if not any(line.startswith(start) for line in lines)]
    assert unused == []


def test_every_page_that_names_a_command_in_a_sentence_names_one_that_exists() -> None:
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for name in re.findall(r"`nsysoverlap ([a-z]+)", text):
            assert name in main.commands, f"{page}: nsysoverlap {name}"
