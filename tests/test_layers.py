"""Who may import whom: data flows one way, and each library has its place.

A module imports only what stands to its left in `ORDER`; a package counts as one module. The
text of the sources is looked at, so imports inside functions and for type checkers count too.
Nothing is exempt: what methods of a result need from further right they ask of `core.late`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import nsysoverlap

PACKAGE = Path(nsysoverlap.__file__).parent

# Rooms from left to right: what is known of traces, numbers, words, pictures, doors.
ORDER = (
    *("_version", "core", "trace", "result", "roles", "steps", "measure", "replay"),
    *("findings", "health", "run", "slim", "judge", "draw", "show", "cli", "__main__", "__init__"),
)

# Where a library may be imported at run time; for type checkers it may be anywhere.
LIBRARIES = {
    "sqlite3": ("trace", "judge", "slim", "cli"),
    "sqlite_utils": ("judge",),
    "matplotlib": ("draw",),
    "jinja2": ("show",),
    "distributed": ("run",),
    "pandas": ("result",),
    "rich": ("show",),
    "pyarrow": ("cli",),
    "click": ("cli",),
    "msgspec": ("core",),
    "subprocess": ("trace", "core"),
    "importlib": ("__init__", "cli"),
    **dict.fromkeys(("jsonschema", "jax", "dask"), ()),
}
LATE = ("pandas", "rich", "pyarrow")
"""Libraries that cost up to a second: imported only inside the function that uses them."""


@dataclass(frozen=True)
class Import:
    """`module` imports `target`: another module of the package, or a library."""

    module: str
    target: str
    inside: bool
    """Whether the target belongs to the package."""
    late: bool
    """Whether it stands inside a function."""
    typing: bool
    """Whether only type checkers run it."""


def violations(package: Path) -> list[str]:
    """Every import, print and exit that breaks a rule, as one sentence each, sorted."""
    found = set()
    for path in sorted(package.rglob("*.py")):
        parts = _parts(package, path)
        module = parts[0] if parts else "__init__"
        if module not in ORDER:
            found.add(f"{module} has no place in ORDER")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for one in imports(package, path, tree):
            found |= set(_inside(one) if one.inside else _library(one))
        # A worker of the pool ends itself when its parent is gone.
        if module not in ("cli", "run"):
            found |= {f"{module} calls {name}, which only cli may" for name in _outputs(tree)}
    return sorted(found)


def imports(package: Path, path: Path, tree: ast.AST) -> Iterator[Import]:
    """All imports of one file, but not those of a package from itself."""
    parts = _parts(package, path)
    module = parts[0] if parts else "__init__"
    home = parts if path.name == "__init__.py" else parts[:-1]
    for node, late, typing in _statements(tree, False, False):
        for target, inside in _targets(node, package, home):
            if not (inside and target == module):
                yield Import(module, target, inside, late, typing)


def _parts(package: Path, path: Path) -> list[str]:
    parts = list(path.relative_to(package).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def _statements(
    node: ast.AST, late: bool, typing: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    """Import statements below a node, each with (inside a function, for type checkers only)."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, late, typing
    late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    checked = set()
    if isinstance(node, ast.If) and ast.unparse(node.test).split(".")[-1] == "TYPE_CHECKING":
        checked = set(node.body)
    for child in ast.iter_child_nodes(node):
        yield from _statements(child, late, typing or child in checked)


def _targets(
    node: ast.Import | ast.ImportFrom, package: Path, home: list[str]
) -> Iterator[tuple[str, bool]]:
    """(module, whether it is of the package) of each thing a statement imports."""
    if isinstance(node, ast.Import):
        dotted = [alias.name.split(".") for alias in node.names]
    else:
        base = home[: len(home) - node.level + 1] if node.level else []
        source = [*base, *(node.module.split(".") if node.module else [])]
        source = [package.name, *source] if node.level else source
        # `from . import x`: x may be a module or a name of the package.
        whole = source == [package.name]
        dotted = [[*source, alias.name] for alias in node.names] if whole else [source]
    for name in dotted:
        if name[0] != package.name:
            yield name[0], False
        elif len(name) > 1 and _exists(package, name[1]):
            yield name[1], True
        else:
            yield "__init__", True


def _exists(package: Path, name: str) -> bool:
    return (package / f"{name}.py").exists() or (package / name).is_dir()


def _inside(one: Import) -> Iterator[str]:
    if one.target in ORDER and ORDER.index(one.target) > ORDER.index(one.module):
        yield f"{one.module} imports {one.target}, which is to its right"


def _library(one: Import) -> Iterator[str]:
    if one.typing or one.target not in LIBRARIES:
        return
    if one.module not in LIBRARIES[one.target]:
        yield f"{one.module} imports {one.target}"
    elif one.target in LATE and not one.late:
        yield f"{one.module} imports {one.target} outside of a function"


def _outputs(tree: ast.AST) -> Iterator[str]:
    """Names of called functions that print or end the program."""
    calls = (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return (name for name in calls if name in {"print", "exit", "sys.exit", "os._exit"})


def test_the_package_keeps_the_order() -> None:
    assert violations(PACKAGE) == []


def test_the_table_names_what_there_is() -> None:
    assert len(set(ORDER)) == len(ORDER)
    missing = [name for name in ORDER if name != "__init__" and not _exists(PACKAGE, name)]
    assert missing == []


def test_every_home_of_a_library_is_used() -> None:
    made = {
        (one.module, one.target)
        for path in PACKAGE.rglob("*.py")
        for one in imports(PACKAGE, path, ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {(home, name) for name, homes in LIBRARIES.items() for home in homes} <= made


# The test itself, on small packages made up here.


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that keeps all rules."""
    files = {
        "__init__": "from importlib import import_module\nfrom .trace.model import Trace",
        "core/errors": "import re\nimport numpy as np",
        "trace/schema": "from ..core.errors import TraceFileError\nimport nsysoverlap.core.errors",
        "trace/model": "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pandas as pd\n",
        "result/frames": "from .. import core, trace\ndef trace_frame():\n    import pandas as pd",
        "trace/load": "import sqlite3\nfrom . import schema\n"
        "from nsysoverlap.trace.model import Trace",
        "measure/lanes": "from ..trace.model import Trace",
        "show/words": "import nsysoverlap.core.errors",
        "cli/__init__": "import click\nprint('hello')\ndef main():\n    from ..run import find",
        "run/many": "from ..trace.load import read_trace",
    }
    for name, text in files.items():
        write(tmp_path / "nsysoverlap", name, text)
    return tmp_path / "nsysoverlap"


def write(package: Path, name: str, text: str) -> None:
    path = package / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_package_that_keeps_all_rules(package: Path) -> None:
    assert violations(package) == []


RIGHT = ", which is to its right"
EARLY = " outside of a function"
CHECKED = "if TYPE_CHECKING:\n    "
LATER = "def late():\n    "


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("core/errors", "from ..trace import model", f"core imports trace{RIGHT}"),
        ("core/errors", "from .. import trace", f"core imports trace{RIGHT}"),
        ("core/errors", "import nsysoverlap.trace", f"core imports trace{RIGHT}"),
        ("core/errors", "from nsysoverlap.trace import Trace", f"core imports trace{RIGHT}"),
        ("core/errors", "from nsysoverlap import Trace", f"core imports __init__{RIGHT}"),
        ("core/errors", f"{LATER}from ..trace import Trace", f"core imports trace{RIGHT}"),
        ("core/errors", f"{CHECKED}from ..trace import Trace", f"core imports trace{RIGHT}"),
        (
            "trace/schema",
            "try:\n    from ..measure.lanes import x\nfinally:\n    pass",
            f"trace imports measure{RIGHT}",
        ),
        ("trace/deep/er", "from ...measure import lanes", f"trace imports measure{RIGHT}"),
        ("measure/lanes", "from ..cli import main", f"measure imports cli{RIGHT}"),
        ("trace/model", f"{LATER}from ..result.frames import x", f"trace imports result{RIGHT}"),
        ("newcomer", "", "newcomer has no place in ORDER"),
        ("run/many", "import sqlite3", "run imports sqlite3"),
        ("run/many", f"{LATER}import pandas.api", "run imports pandas"),
        ("result/frames", "import pandas as pd", f"result imports pandas{EARLY}"),
        ("result/frames", "class Frame:\n    import pandas as pd", f"result imports pandas{EARLY}"),
        (
            "result/frames",
            "if not TYPE_CHECKING:\n    import pandas",
            f"result imports pandas{EARLY}",
        ),
        (
            "result/frames",
            f"{CHECKED}pass\nelse:\n    import pandas",
            f"result imports pandas{EARLY}",
        ),
        ("show/text", "from rich.table import Table", f"show imports rich{EARLY}"),
        ("cli/app", f"{LATER}import matplotlib.pyplot as plt", "cli imports matplotlib"),
        ("measure/lanes", f"{LATER}import jax.numpy", "measure imports jax"),
        ("measure/lanes", "import click", "measure imports click"),
        ("measure/lanes", "print(1)", "measure calls print, which only cli may"),
        (
            "measure/lanes",
            f"import sys\n{LATER}sys.exit(2)",
            "measure calls sys.exit, which only cli may",
        ),
    ],
)
def test_a_violation_is_found(package: Path, name: str, text: str, expected: str) -> None:
    write(package, name, text)
    assert violations(package) == [expected]


def test_all_violations_are_found_at_once(package: Path) -> None:
    write(package, "core/errors", "import pandas, click\nfrom .. import trace, measure")
    assert violations(package) == [
        "core imports click",
        "core imports measure, which is to its right",
        "core imports pandas",
        "core imports trace, which is to its right",
    ]
