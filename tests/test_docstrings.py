"""What a signature cannot say stands in the docstring: shapes of arrays, and errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nsysoverlap

PACKAGE = Path(nsysoverlap.__file__).parent
_ARRAY = re.compile(r"\b\w*(Array|NDArray|ndarray)\b")
_SHAPE = re.compile(r"\bshape\b|\((n|m|n_\w+)\b[^)]*,\)")
_INTERNAL = {"AssertionError", "NotImplementedError"}


def public_functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods without an underscore, by name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield f"{node.name}.{inner.name}", inner


def has_arrays(function: ast.FunctionDef) -> bool:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    notes = [argument.annotation for argument in every] + [function.returns]
    return any(note is not None and _ARRAY.search(ast.unparse(note)) for note in notes)


def raised(function: ast.FunctionDef) -> set[str]:
    """Errors that the function's own statements raise and do not catch."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and node.exc is not None:
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            found.add(ast.unparse(error).split(".")[-1])
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            found.add(f"caught {ast.unparse(node.type)}")
    return {name for name in found if f"caught {name}" not in found} - _INTERNAL


def without_shapes(tree: ast.Module) -> list[str]:
    """Public functions with arrays in their signature whose docstring states no shape."""
    return [
        name
        for name, function in public_functions(tree)
        if has_arrays(function) and not _SHAPE.search(ast.get_docstring(function) or "")
    ]


def without_errors(tree: ast.Module) -> list[str]:
    """Public functions that raise and do not say so."""
    found = []
    for name, function in public_functions(tree):
        errors = {error for error in raised(function) if not error.startswith("caught")}
        text = ast.get_docstring(function) or ""
        if not re.search(r"\b[Rr]aises?\b", text) and any(error not in text for error in errors):
            found.append(name)
    return found


MODULES = {
    str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}


def test_shapes_are_stated() -> None:
    assert sum(has_arrays(f) for tree in MODULES.values() for _, f in public_functions(tree)) > 50
    found = {module: without_shapes(tree) for module, tree in MODULES.items()}
    assert {module: names for module, names in found.items() if names} == {}


def test_errors_are_stated() -> None:
    """But in commands, where each error has its exit code, which `--help` states."""
    found = {
        module: without_errors(tree)
        for module, tree in MODULES.items()
        if not module.startswith("cli")
    }
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "shapeless", "errorless"),
    [
        ("def f(a: Int64Array) -> int:\n    '''Sum.'''", ["f"], []),
        ("def f(a: Int64Array) -> int:\n    '''Sum of values (n,).'''", [], []),
        ("def f() -> tuple[BoolArray, int]:\n    '''A mask of shape (n_rows,).'''", [], []),
        ("class A:\n    def f(self, *, a: np.ndarray | None = None): '''Of (it).'''", ["A.f"], []),
        ("def _f(a: Int64Array): raise ValueError", [], []),
        ("def f():\n    '''Do.'''\n    raise ValueError('no')", [], ["f"]),
        ("def f():\n    '''Do. Raises `ValueError`.'''\n    raise ValueError('no')", [], []),
        ("def f():\n    try:\n        raise E\n    except E:\n        return 1", [], []),
    ],
)
def test_what_is_missing_is_found(text: str, shapeless: list[str], errorless: list[str]) -> None:
    tree = ast.parse(text)
    assert (without_shapes(tree), without_errors(tree)) == (shapeless, errorless)
