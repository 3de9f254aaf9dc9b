"""How the package is built: no import circle, few folders, and each name once.

As in `test_layers`, the text of the sources is looked at: imports inside functions count, and
nothing is exempt.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from inspect import isfunction
from pathlib import Path

import pytest

import nsysoverlap

PACKAGE = Path(nsysoverlap.__file__).parent
MOST_FOLDERS = 16
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


def test_few_folders_and_no_loose_module() -> None:
    folders = [p for p in PACKAGE.rglob("*") if p.is_dir() and p.name != "__pycache__"]
    assert len(folders) <= MOST_FOLDERS, sorted(str(p.relative_to(PACKAGE)) for p in folders)
    assert {name for name in TREES if "." not in name} == {"__init__", "__main__", "_version"}


def test_no_room_is_called_like_a_public_function() -> None:
    public = {name for name in nsysoverlap.__all__ if isfunction(getattr(nsysoverlap, name))}
    assert {"analyze", "check", "read_trace"} <= public
    rooms = {p.name for p in PACKAGE.iterdir() if p.is_dir()}
    assert rooms.isdisjoint(public)


def test_only_the_package_itself_imports_by_name() -> None:
    found = {
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and ast.unparse(node).split(".")[-1] in ("import_module", "__import__")
    }
    assert found == {"__init__"}


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


# The tests themselves.


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
