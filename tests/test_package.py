"""What is released: the sdist and wheel hold what they should, and run without our tools.

Needs the package index; set NSYSOVERLAP_OFFLINE to leave these tests out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from nsysoverlap import __version__

from .traces import h200

REPO = Path(__file__).parents[1]
DEV_ONLY = ("pytest", "hypothesis", "mypy", "pyarrow", "jax", "distributed")

pytest.importorskip("build")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(os.environ.get("NSYSOVERLAP_OFFLINE")), reason="NSYSOVERLAP_OFFLINE is set"
    ),
]


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints; it must succeed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("built")
    # From a copy: a build leaves folders beside the sources.
    source = folder / "source"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "actual")
    shutil.copytree(REPO, source, ignore=ignored)
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", cwd=source)
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    (wheel,) = (folder / "dist").glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def clean(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs of an environment that holds the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", built[1], cwd=folder)
    return programs


def test_the_wheel_holds_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    sdist, wheel = built
    assert wheel.name == f"nsysoverlap-{__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        str(path.relative_to(REPO))
        for path in (REPO / "nsysoverlap").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {
        n for n in names if not n.startswith(f"nsysoverlap-{__version__}.dist-info/")
    } == expected
    assert f"nsysoverlap-{__version__}.dist-info/licenses/LICENSE" in names
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml"} <= inside
    assert expected <= inside


def test_the_wheel_says_what_it_is(built: tuple[Path, Path]) -> None:
    wheel = zipfile.ZipFile(built[1])
    metadata = wheel.read(f"nsysoverlap-{__version__}.dist-info/METADATA").decode()
    fields = metadata.split("\n\n")[0].splitlines()
    assert f"Version: {__version__}" in fields
    assert "License-Expression: Apache-2.0" in fields
    assert "Requires-Python: >=3.11" in fields
    required = [f for f in fields if f.startswith("Requires-Dist: ") and "extra ==" not in f]
    assert not [line for line in required if any(dev in line.lower() for dev in DEV_ONLY)]


def test_it_runs_without_our_tools(clean: Path, tmp_path: Path) -> None:
    missing = "import importlib.util as u, sys; print([m for m in sys.argv[1:] if u.find_spec(m)])"
    assert run(clean / "python", "-c", missing, *DEV_ONLY, cwd=tmp_path).strip() == "[]"
    program = clean / "nsysoverlap"
    assert __version__ in run(program, "--version", cwd=tmp_path)
    trace = shutil.copy(h200("jax_unroll_lhs"), tmp_path / "t.sqlite")
    report = json.loads(run(program, "report", trace, "--format", "json", cwd=tmp_path))
    assert report["totals"]["d2h"]["n"] > 0
    for fmt in ("text", "markdown", "html"):
        assert "t.sqlite" in run(program, "report", trace, "--format", fmt, cwd=tmp_path)
    run(program, "gate", trace, "--min-hidden-d2h", "90", cwd=tmp_path)
    run(program, "slim", trace, "slim.sqlite", cwd=tmp_path)
    run(program, "record", trace, "--db", "runs.db", cwd=tmp_path)
    run(program, "history", "--db", "runs.db", cwd=tmp_path)
    run(program, "plot", trace, "-o", "t.png", cwd=tmp_path)
    for command in ("transfers", "info", "rules"):
        run(program, command, trace, cwd=tmp_path)
    frame = "import nsysoverlap as n; print(len(n.analyze('t.sqlite').to_frame('steps')))"
    assert run(clean / "python", "-c", frame, cwd=tmp_path).strip() == "4"


@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_all_it_requires_has_wheels_for_aarch64(
    python: str, built: tuple[Path, Path], tmp_path: Path
) -> None:
    platforms = [f"--platform=manylinux_2_{i}_aarch64" for i in (17, 27, 28)]
    run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"),
        *("--only-binary=:all:", *platforms, f"--python-version={python}"),
        *("--target", tmp_path, built[1]),
        cwd=tmp_path,
    )
