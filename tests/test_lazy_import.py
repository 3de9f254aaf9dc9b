"""What an import costs: heavy libraries load where they are used, and nowhere before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nsysoverlap

from .traces import h200

HEAVY = (
    *("pandas", "rich", "jinja2", "sqlite_utils", "matplotlib", "pyarrow", "jsonschema", "jax"),
    "msgspec",
)
ROOT = Path(nsysoverlap.__file__).parents[1]


def loaded_by(code: str, *arguments: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after running `code`."""
    report = "import sys\nprint(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}", *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return set(done.stdout.split())


def test_the_package_alone_loads_nothing_of_size() -> None:
    loaded = loaded_by("import nsysoverlap")
    assert "nsysoverlap" in loaded
    assert loaded.isdisjoint({"numpy", "click", "sqlite3", *HEAVY})


def test_each_public_name_loads_on_first_use() -> None:
    code = """
import sys, nsysoverlap
assert sorted(nsysoverlap.__all__) == dir(nsysoverlap)
assert "nsysoverlap.trace.load" not in sys.modules
for name in nsysoverlap.__all__:
    assert getattr(nsysoverlap, name) is not None, name
assert nsysoverlap.read_trace.__module__.startswith("nsysoverlap.trace.load")
"""
    loaded = loaded_by(code)
    assert {"numpy", "sqlite3"} <= loaded
    assert loaded.isdisjoint({"click", *HEAVY})


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_the_kind'"):
        _ = nsysoverlap.nothing_of_the_kind


@pytest.mark.parametrize("name", ["jax_scan_pipelined", "micro_managed", "jax_fsdp2_events_lost"])
def test_measuring_a_trace_needs_numpy_only(name: str) -> None:
    loaded = loaded_by(
        "import sys, nsysoverlap\nreport = nsysoverlap.analyze(sys.argv[1])\nreport.to_dict()",
        str(h200(name)),
    )
    assert {"numpy", "sqlite3"} <= loaded
    assert loaded.isdisjoint({"click", *HEAVY})


def test_the_measure_sees_what_is_loaded() -> None:
    code = "import sys, nsysoverlap\nnsysoverlap.read_trace(sys.argv[1]).activities"
    assert "pandas" in loaded_by(code, str(h200("micro_hidden")))


def all_loaded_by(*arguments: str) -> set[str]:
    """All modules, by their full names, that the program has loaded at its end.

    Not those that Python itself begins with, which an editable install may add to.
    """
    code = (
        "import sys; first = {*sys.modules}\n"
        "import nsysoverlap.__main__ as program\n"
        "try: program.run()\n"
        "except SystemExit as end: assert not end.code\n"
        "print(*{*sys.modules} - first, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stderr.split())


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_command(option: str) -> None:
    loaded = all_loaded_by(option)
    rooms = {name.split(".")[1] for name in loaded if name.startswith("nsysoverlap.")}
    wanted = {"cli", "core", "_version", "__main__"}
    assert rooms == wanted | ({"trace"} if option == "--version" else set())
    assert loaded.isdisjoint({"nsysoverlap.cli.given", "subprocess", "tempfile", "email"})
    assert option == "--version" or loaded.isdisjoint({"pathlib", "shutil"})


def test_a_small_report_loads_what_it_uses() -> None:
    loaded = all_loaded_by("report", str(h200("micro_hidden")))
    assert "nsysoverlap.cli.report" in loaded
    others = {"nsysoverlap.cli.gate", "nsysoverlap.draw", "nsysoverlap.judge", "nsysoverlap.slim"}
    libraries = {"concurrent", "logging", "subprocess", "tomllib", "hashlib", "csv", "tempfile"}
    assert loaded.isdisjoint(others | libraries)


def test_help_of_the_command_needs_no_numbers() -> None:
    code = """
import sys
from nsysoverlap.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert not end.code
"""
    assert loaded_by(code).isdisjoint({"numpy", "sqlite3", *HEAVY})
