"""Frozen dataclasses as those of the standard library, defined in a quarter of the time.

`dataclasses.dataclass(frozen=True)` compiles six methods for each class, which for the classes of
a report took a sixth of its start. Here one is compiled, `__init__`; the others are the same for
all. What reads a dataclass (`fields`, `replace`, `asdict`, pickle, msgspec) sees no difference.
"""

from __future__ import annotations

import dataclasses
import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, repr=True, **options):
        """As `dataclasses.dataclass`, which makes all classes that are not frozen."""
        if cls is not None or not frozen or options:
            return dataclasses.dataclass(cls, frozen=frozen, repr=repr, **options)
        return lambda cls: _record(cls, repr)


def _record(cls: type, shown: bool) -> type:
    made: type = _with_fields(cls)
    own = cls.__dict__
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(made)
    methods: dict[str, Any] = {
        "__init__": _compiled_init(cls, fields),
        "__setattr__": _refuse_set,
        "__delattr__": _refuse_delete,
    }
    compared = [field.name for field in fields if field.compare]
    # A class that says itself when two are equal says their hash, too, or has none.
    if "__eq__" not in own:
        methods["__eq__"] = _equal(cls, compared)
        methods["__hash__"] = _hash(compared)
    if shown and "__repr__" not in own:
        methods["__repr__"] = _text([field.name for field in fields if field.repr])
    for name, method in methods.items():
        setattr(cls, name, method)
    return made


def _with_fields(cls: type) -> type:
    """The class with its fields, frozen to whoever inherits from it."""
    known = [kind.__dict__.get("__dataclass_params__") for kind in cls.__mro__]
    frozen = [params for params in known if params is not None and params.frozen]
    # Not asked to freeze the class, the library would not have it inherit from frozen ones.
    for params in frozen:
        params.frozen = False
    try:
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    finally:
        for params in frozen:
            params.frozen = True
    made.__dataclass_params__.frozen = True
    return made  # type: ignore[no-any-return]


def _compiled_init(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> Any:
    """Sets every field, past `__setattr__`, and then asks `__post_init__` where there is one."""
    given: dict[str, Any] = {"__set": object.__setattr__, "__unset": object()}
    plain: list[str] = []
    by_name: list[str] = []
    body: list[str] = []
    for field in fields:
        name, value = field.name, field.name
        parameter = name
        if field.default is not dataclasses.MISSING:
            given[f"__default_{name}"] = field.default
            parameter = f"{name}=__default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            given[f"__make_{name}"] = field.default_factory
            parameter = f"{name}=__unset"
            value = f"__make_{name}() if {name} is __unset else {name}"
        (by_name if field.kw_only else plain).append(parameter)
        body.append(f"__set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *plain, *(["*", *by_name] if by_name else [])])
    lines = "\n  ".join(body or ["pass"])
    made: dict[str, Any] = {}
    # The globals are those of the module, where the annotations are looked up.
    source = (
        f"def make({', '.join(given)}):\n def __init__({parameters}):\n  {lines}\n return __init__"
    )
    # Of names of fields only.
    exec(source, sys.modules[cls.__module__].__dict__, made)
    init = made["make"](**given)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    return init


def _refuse_set(self: object, name: str, _: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _values(names: list[str]) -> Any:
    """A function of an instance: the values of some fields as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _equal(cls: type, names: list[str]) -> Any:
    values = _values(names)

    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        return (
            values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented
        )

    return __eq__


def _hash(names: list[str]) -> Any:
    values = _values(names)

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return __hash__


def _text(names: list[str]) -> Any:
    def __repr__(self: Any) -> str:  # noqa: N807
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    return __repr__
