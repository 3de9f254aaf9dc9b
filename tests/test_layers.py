"""Who may import whom: data flows one way, and each library has its place.

A module imports only what stands to its left in `ORDER`; a package counts as one module. The
text of the sources is looked at, so imports inside functions and for type checkers count too.
No modules import each other in a circle, and each class is defined once.
Nothing is exempt: what methods of a result need from further right they ask of `core.late`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from inspect import isfunction
from pathlib import Path

import pytest

import nsysoverlap

PACKAGE = Path(nsysoverlap.__file__).parent
BOTTOM_NAMES = {"__init__", "__main__"}

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
        # A worker of the pool ends itself when its parent is gone, a copy when its work is done.
        if module not in ("cli", "run") and parts != ["core", "beside"]:
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
        "__init__": "from importlib import import_module\nfrom .trace.contents import Trace",
        "core/errors": "import re\nimport numpy as np",
        "trace/schema": "from ..core.errors import TraceFileError\nimport nsysoverlap.core.errors",
        "trace/contents": "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pandas as pd\n",
        "result/frames": "from .. import core, trace\ndef trace_frame():\n    import pandas as pd",
        "trace/load": "import sqlite3\nfrom . import schema\n"
        "from nsysoverlap.trace.contents import Trace",
        "measure/lanes": "from ..trace.contents import Trace",
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
        ("core/errors", "from ..trace import contents", f"core imports trace{RIGHT}"),
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
        ("trace/contents", f"{LATER}from ..result.frames import x", f"trace imports result{RIGHT}"),
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


# How the package is built: no import circle, few folders, and each class once.


MOST_FOLDERS = 16
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 350, 60
FILES = sorted(PACKAGE.rglob("*.py"))
Trees = dict[str, ast.Module]


def sources(package: Path) -> Trees:
    """Dotted name below the package -> the module, parsed; a package by its own name."""
    trees = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        trees[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def circle(trees: Trees) -> list[str]:
    """Modules that import each other in a circle, the first one found; [] where none do."""
    graph = {name: _imported(name, tree, trees) for name, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _imported(name: str, tree: ast.Module, trees: Trees) -> set[str]:
    home = name.split(".")[:-1]
    found = set()
    for node in ast.walk(tree):
        wanted: list[str] = []
        if isinstance(node, ast.ImportFrom):
            base = home[: len(home) - node.level + 1] if node.level else ["nsysoverlap"]
            source = [*base, *(node.module or "").split(".")] if node.level else []
            if not node.level and (node.module or "").partition(".")[0] == "nsysoverlap":
                source = (node.module or "").split(".")[1:]
            elif not node.level:
                continue
            dotted = ".".join(part for part in source if part)
            wanted = [f"{dotted}.{alias.name}".lstrip(".") for alias in node.names]
        elif isinstance(node, ast.Import):
            inside = [alias.name for alias in node.names if alias.name.startswith("nsysoverlap")]
            wanted = [dotted.partition(".")[2] for dotted in inside]
        found |= {_module(dotted, trees) for dotted in wanted} - {name}
    return found


def _module(dotted: str, trees: Trees) -> str:
    """The module that a dotted name is, or is a name of."""
    while dotted:
        if dotted in trees:
            return dotted
        if f"{dotted}.__init__" in trees:
            return f"{dotted}.__init__"
        dotted = dotted.rpartition(".")[0]
    return "__init__"


def twice(names: dict[str, list[str]]) -> dict[str, list[str]]:
    """Those names that stand in several places."""
    return {name: places for name, places in names.items() if len(places) > 1}


def classes(trees: Trees) -> dict[str, list[str]]:
    """Where each class is defined."""
    found = defaultdict(list)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module)
    return found


TREES = sources(PACKAGE)


def test_no_module_imports_itself_through_others() -> None:
    assert circle(TREES) == []


def test_no_class_is_defined_twice() -> None:
    assert twice(classes(TREES)) == {}


def test_no_module_is_named_twice() -> None:
    """A traceback, a tab of an editor and a search show the last word alone."""
    names = [path.stem for path in PACKAGE.rglob("*.py") if path.stem not in BOTTOM_NAMES]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_few_folders_and_no_loose_module() -> None:
    folders = [p for p in PACKAGE.rglob("*") if p.is_dir() and p.name != "__pycache__"]
    assert len(folders) <= MOST_FOLDERS, sorted(str(p.relative_to(PACKAGE)) for p in folders)
    assert {name for name in TREES if "." not in name} == {"__init__", "__main__", "_version"}


def test_modules_and_functions_are_small() -> None:
    lines = {str(p.relative_to(PACKAGE)): len(p.read_text().splitlines()) for p in FILES}
    assert {name: n for name, n in lines.items() if n > MOST_LINES} == {}
    long = [
        f"{module}: {node.name}"
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_LINES_OF_A_FUNCTION
    ]
    assert long == []


def test_no_room_is_called_like_a_public_function() -> None:
    public = {name for name in nsysoverlap.__all__ if isfunction(getattr(nsysoverlap, name))}
    assert {"analyze", "check", "read_trace"} <= public
    rooms = {p.name for p in PACKAGE.iterdir() if p.is_dir()}
    assert rooms.isdisjoint(public)


def test_only_the_package_itself_and_the_command_line_import_by_name() -> None:
    found = {
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and ast.unparse(node).split(".")[-1] in ("import_module", "__import__")
    }
    assert {module.partition(".")[0] for module in found} <= {"__init__", "cli"}


def test_what_methods_ask_for_late_is_there_and_is_asked_for() -> None:
    asked = {
        ast.literal_eval(node.args[0])
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "late"
    }
    assert asked == set(nsysoverlap._LATE_HOMES)
    for name in asked:
        assert isfunction(nsysoverlap._imported(name, nsysoverlap._LATE_HOMES))


# These tests themselves.


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"a.x": "from .y import z", "a.y": ""}, set()),
        ({"a.x": "from .y import z", "a.y": "def f():\n    from . import x"}, {"a.x", "a.y"}),
        ({"a.x": "from ..b import y", "b.y": "import nsysoverlap.a.x"}, {"a.x", "b.y"}),
        ({"a.x": "from ..b.y import z", "b.y": "from nsysoverlap.a.x import w"}, {"a.x", "b.y"}),
        ({"a.x": "from ..b import z", "b.__init__": "from ..a.x import w"}, {"a.x", "b.__init__"}),
        ({"a.x": "from . import z", "a.__init__": "from .x import z"}, {"a.x", "a.__init__"}),
        ({"a.x": "from .. import z", "__init__": "from .a import x"}, {"a.x", "__init__"}),
    ],
)
def test_a_circle_is_found(texts: dict[str, str], expected: set[str]) -> None:
    assert set(circle({name: ast.parse(text) for name, text in texts.items()})) == expected


def test_a_class_defined_twice_is_found() -> None:
    trees = {"a.x": ast.parse("class A: pass"), "b.y": ast.parse("def f():\n    class A: pass")}
    assert twice(classes(trees)) == {"A": ["a.x", "b.y"]}
