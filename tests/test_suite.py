"""How the tests are run: slow ones apart, none for ever, and expected files all written anew."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).parents[1]


def pytest_in(
    folder: Path, *arguments: str, prefix: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """The tests of a folder, run by a pytest of their own."""
    return subprocess.run(
        [*prefix, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=280,
        env={name: text for name, text in os.environ.items() if name != "PYTEST_ADDOPTS"},
    )  # fmt: skip


# Which tests.


def commands(target: str) -> list[str]:
    """What make would run for a target."""
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", target],
        cwd=REPO, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line for line in done.stdout.splitlines() if " -m pytest" in line]


def test_slow_tests_are_left_out_run_alone_or_run_too() -> None:
    (quick,), (slow,) = commands("test"), commands("test-slow")
    shared = "-m pytest -n 2 --dist worksteal"
    assert quick.rstrip().endswith(f'{shared} -m "not slow"')
    assert slow.rstrip().endswith(f"{shared} -m slow")
    assert commands("test-all") == [quick, slow]


def test_ci_leaves_nothing_out() -> None:
    lines = (REPO / ".ci" / "run").read_text().splitlines()
    assert [line for line in lines if line.startswith("make test")] == [
        "make test",
        "make test-slow",
    ]


# For ever.


def test_a_test_that_hangs_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import time\ndef test_it():\n    time.sleep(600)\n")
    config = str(REPO / "pyproject.toml")
    done = pytest_in(tmp_path, "-c", config, "-o", "faulthandler_timeout=1", "test_it.py")
    assert done.returncode == 1
    assert "Timeout (0:00:01)!" in done.stderr
    assert 'test_it.py", line 3 in test_it' in done.stderr


def test_a_test_that_hangs_in_one_of_two_processes_ends_as_failed(tmp_path: Path) -> None:
    text = "import time\ndef test_it():\n    time.sleep(600)\ndef test_other():\n    pass\n"
    (tmp_path / "test_it.py").write_text(text)
    config = str(REPO / "pyproject.toml")
    done = pytest_in(
        tmp_path, "-c", config, "-n", "2", "-o", "faulthandler_timeout=1", "test_it.py"
    )
    assert done.returncode == 1
    assert re.search(r"^FAILED .*::test_it - worker '.*' crashed", done.stdout, re.MULTILINE)
    assert "1 failed, 1 passed" in done.stdout


IGNORED = "trap '' HUP INT TERM; exec \"$@\""
"""As nohup and a shell's `&` do it."""


def test_signals_reach_tests_also_where_who_started_them_ignored_them() -> None:
    ends = "tests/test_interrupts.py::test_what_a_program_has_started_ends_with_it"
    done = pytest_in(REPO, ends, prefix=("sh", "-c", IGNORED, "sh"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


# Expected files.


def expected_files(folder: Path) -> Iterator[Path]:
    """Every file that tests compare with and can write."""
    yield from sorted(p for p in folder.glob("tests/**/golden/*") if p.is_file())
    yield from sorted((folder / "notebooks").glob("*.ipynb"))


def test_one_place_asks_whether_to_write_expected_files() -> None:
    files = set((REPO / "tests").rglob("*.py")) - {Path(__file__)}
    assert [p.name for p in files if "getoption(" in p.read_text()] == ["conftest.py"]


@pytest.mark.slow
def test_every_expected_file_is_written_anew(tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="needs the extra [notebook]")
    assert commands("golden")[0].endswith("-m pytest --update-golden")
    copy = tmp_path / "copy"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "actual")
    shutil.copytree(REPO, copy, ignore=ignored)
    spoilt = {}
    for path in expected_files(copy):
        text = path.read_bytes()
        # A notebook has to be one still; its outputs are what is expected.
        changed = text.replace(b'"output_type"', b'"OUTPUT"')
        spoilt[path] = changed if path.suffix == ".ipynb" else b"spoilt " + text
        path.write_bytes(spoilt[path])
    assert len({path.parent for path in spoilt}) == 3
    done = pytest_in(copy, "--update-golden")
    assert done.returncode == 0, done.stdout[-2_000:]
    left = [path.name for path, text in spoilt.items() if path.read_bytes() == text]
    assert left == []
    for path in spoilt:
        if path.suffix not in (".png", ".ipynb"):
            assert path.read_bytes() == (REPO / path.relative_to(copy)).read_bytes(), path.name
