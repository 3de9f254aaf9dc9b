"""Reading JSON back into its dataclasses with suspicion, and the schema of them; needs msgspec.

msgspec checks types and bounds on a mirror of each dataclass, a struct that has its JSON shape.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from fractions import Fraction
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .errors import ConfigError
from .json_model import END, INLINE, LATER, ORDERED, Document, Key, Limits, OneOf, head_of, keys_of

D = TypeVar("D", bound=Document)

_BOUNDS: Mapping[type, tuple[float, float]] = {
    int: (-(2**63), 2**63 - 1),
    float: (-sys.float_info.max, sys.float_info.max),
}
"""Least and most of a number that says no more: 64 bits, and finite."""
_NAMES = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_ORIGINS: dict[type, type] = {}
"""The dataclass behind each mirror."""


def read(values: Any, cls: type[D], hint: str) -> D:
    """The document that plain data describes; unknown keys are ignored.

    Raises `ConfigError` with the hint for another format, a newer version, missing keys, wrong
    types, or numbers that contradict each other; it names the place.
    """
    name, version = cls.json_format
    root = name.rpartition(".")[2]
    if not isinstance(values, Mapping) or values.get("format") != name:
        raise ConfigError(f"This is not an nsysoverlap {root}.", hint)
    found = values.get("format_version")
    if isinstance(found, int) and found > version:
        raise ConfigError(
            f"The {root} has format version {found}; this nsysoverlap reads up to {version}.",
            f"Update nsysoverlap, or write the {root} again with this version.",
        )
    mirror: Any = _mirror(cls)  # type: ignore[arg-type]  # classes are hashable
    try:
        made: D = _restored(msgspec.convert(values, mirror), root)
    except msgspec.ValidationError as error:
        raise ConfigError(_message(str(error), values, root), hint) from None
    except _ContradictionError as error:
        raise ConfigError(str(error), hint) from None
    except UnicodeEncodeError:
        raise ConfigError(f"A text of the {root} is no Unicode text.", hint) from None
    except OverflowError:
        # Releases of msgspec before 0.21 name no place for an integer that is no float.
        raise ConfigError(f"A number of the {root} is out of range.", hint) from None
    return made


class _ContradictionError(Exception):
    """Values of the right types that cannot be true together."""


@cache
def _mirror(cls: type) -> type[msgspec.Struct]:
    heads = [(name, _head(name, value)) for name, value in head_of(cls).items()]
    struct = msgspec.defstruct(
        cls.__name__,
        [*heads, *_fields(cls)],
        kw_only=True,
        namespace={"__doc__": inspect.getdoc(cls)},
    )
    _ORIGINS[struct] = cls
    return struct


def _head(name: str, value: Any) -> Any:
    return Literal[value] if name == "format" else Annotated[int, Meta(ge=1, le=value)]


def _fields(cls: type) -> list[Any]:
    found: list[Any] = []
    for key in keys_of(cls):
        if INLINE in key.marks:
            found += _fields(get_args(key.hint)[0])
        elif LATER in key.marks:
            found.append((key.name, _checked(key.hint) | UnsetType, UNSET))
        else:
            found.append((key.name, _checked(key.hint)))
    return found


def _checked(hint: Any) -> Any:
    """A type as msgspec checks it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(inner[0], inner[1:])
    if origin in (Union, UnionType):
        return reduce(or_, map(_checked, inner))
    if inner:
        return origin[tuple(one if one is ... else _checked(one) for one in inner)]
    if hint is Fraction:
        return _checked(float)
    if hint in _BOUNDS:
        least, most = _BOUNDS[hint]
        return Annotated[hint, Meta(ge=least, le=most)]
    return _mirror(hint) if hasattr(hint, "__dataclass_fields__") else hint


def _annotated(base: Any, extras: tuple[Any, ...]) -> Any:
    for extra in extras:
        if isinstance(extra, OneOf):
            pattern = f"^({'|'.join(map(re.escape, extra.texts))})$"
            shown = {"enum": list(extra.texts)}
            return Annotated[base, Meta(pattern=pattern, extra_json_schema=shown)]
        if isinstance(extra, Limits):
            least, most = _BOUNDS[base]
            high = most if extra.le is None else extra.le
            if extra.gt is not None:
                return Annotated[base, Meta(gt=extra.gt, le=high)]
            return Annotated[base, Meta(ge=least if extra.ge is None else extra.ge, le=high)]
    return _checked(base)


def _restored(value: Any, where: str) -> Any:
    """What a mirror, or whatever holds mirrors, stands for."""
    if isinstance(value, tuple):
        return tuple(_restored(one, f"{where}[{i}]") for i, one in enumerate(value))
    if isinstance(value, dict):
        return {key: _restored(one, f"{where}[{key}]") for key, one in value.items()}
    return _built(_ORIGINS[type(value)], value, where) if type(value) in _ORIGINS else value


def _built(cls: type, found: Any, where: str) -> Any:
    known = {}
    for key in keys_of(cls):
        if INLINE in key.marks:
            known[key.name] = _built(get_args(key.hint)[0], found, where)
        elif (value := getattr(found, key.name)) is not UNSET:
            known[key.name] = _restored(value, f"{where}.{key.name}")
            _check_order(key, known, where)
    try:
        if hasattr(cls, "restored"):
            return cls.restored(known)
        own = {key.name for key in keys_of(cls) if key.is_field}
        return cls(**{name: value for name, value in known.items() if name in own})
    except (AssertionError, OverflowError):
        raise _ContradictionError(f"The numbers of {where} do not add up.") from None
    except ValueError as error:
        raise _ContradictionError(f"{where}.{error}.") from None


def _check_order(key: Key, known: Mapping[str, Any], where: str) -> None:
    value = known[key.name]
    if ORDERED in key.marks and value is not None and value[1] < value[0]:
        wanted = f"a start and a later end, not {list(value)}"
    elif END in key.marks and value < known["start_ns"]:
        wanted = f"no earlier than the start, not {value}"
    else:
        return
    raise _ContradictionError(f"{where}.{key.name} should be {wanted}.")


def _message(text: str, values: Any, root: str) -> str:
    """What msgspec found, in the words of this package, with the place and what is there."""
    problem, _, place = text.partition(" - at `$")
    place = place.rstrip("`")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", problem)
    if missing:
        return f"{root}{place} lacks {missing[1]!r}."
    value = values
    for name, index in _STEP.findall(place.partition("[...]")[0]):
        value = value[name or int(index)]
    return f"{root}{place} should be {_wanted(problem)}, not {repr(value)[:60]}."


def _wanted(problem: str) -> str:
    expected = re.match(r"Expected `([^`]*)`,? ?(.*)", problem)
    if expected is None:
        return "a finite number" if "out of range" in problem else problem
    kinds, rest = expected.groups()
    if match := re.match(r"matching regex '\^\((.*)\)\$'", rest):
        *first, last = match[1].replace("\\", "").split("|")
        return f"{', '.join(first)} or {last}" if first else last
    if match := re.match(r"of length (\d+)", rest):
        return f"a list of {match[1]}"
    if match := re.match(r"(>=|<=|>) (\S+)", rest):
        limit = float(match[2])
        if limit in map(float, (*_BOUNDS[int], *_BOUNDS[float])):
            return "an integer of 64 bits" if kinds == "int" else "a finite number"
        return f"{ {'>=': 'at least', '<=': 'at most', '>': 'above'}[match[1]] } {limit:g}"
    named = [_NAMES.get(kind, kind) for kind in kinds.split(" | ")]
    return " or ".join(named)


def schema(cls: type[Document]) -> dict[str, Any]:
    """The JSON schema of a document: every key is wanted, and no other."""
    mirror: Any = _mirror(cls)  # type: ignore[arg-type]  # classes are hashable
    (root,), parts = msgspec.json.schema_components([mirror], ref_template="#/$defs/{name}")
    whole = parts.pop(root["$ref"].rpartition("/")[2])
    described = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "title": cls.json_format[0],
        "$defs": parts,
    }
    strict: dict[str, Any] = _strict(described)
    strict["properties"]["format_version"] = {"const": cls.json_format[1]}
    return strict


def _strict(node: Any) -> Any:
    """The same without bounds that every number has, and without room for other keys."""
    if isinstance(node, list):
        return [_strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    free = {("minimum", low) for low, _ in _BOUNDS.values()}
    free |= {("maximum", high) for _, high in _BOUNDS.values()}
    kept = {
        name: _strict(value)
        for name, value in node.items()
        if not (isinstance(value, int | float) and (name, value) in free)
        and not (name == "pattern" and "enum" in node)
    }
    if isinstance(node.get("anyOf"), list):
        # In one order, whatever release of msgspec there is.
        kept["anyOf"] = sorted(kept["anyOf"], key=lambda one: one == {"type": "null"})
    if isinstance(node.get("properties"), dict):
        kept |= {"required": list(node["properties"]), "additionalProperties": False}
    return kept
