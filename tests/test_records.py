"""Our dataclasses against those of the standard library: the same but for the time they take."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import pytest

import nsysoverlap
from nsysoverlap.core import records

PACKAGE = Path(nsysoverlap.__file__).parent


def kinds(dataclass: Any) -> tuple[Any, ...]:
    @dataclass(frozen=True)
    class Point:
        """Two numbers."""

        x: int
        y: int = 2
        names: list[str] = dataclasses.field(default_factory=list)
        shown: ClassVar[int] = 7
        hidden: int = dataclasses.field(default=0, repr=False, compare=False)
        flag: bool = dataclasses.field(default=False, kw_only=True)

    @dataclass(frozen=True)
    class Deep(Point):
        """A third, no less than the first."""

        z: int = 3

        def __post_init__(self) -> None:
            if self.z < self.x:
                raise ValueError("z < x")

    @dataclass(frozen=True, repr=False)
    class Own:
        """Says itself how it looks and what it equals."""

        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    @dataclass(frozen=True)
    class Nothing:
        """No field at all."""

    return Point, Deep, Own, Nothing


OURS, THEIRS = kinds(records.dataclass), kinds(dataclasses.dataclass)
Point, Deep, Own, Nothing = OURS


def test_they_are_made_by_us() -> None:
    assert Point.__setattr__ is records._refuse_set
    assert Point.__setattr__ is not THEIRS[0].__setattr__


@pytest.mark.parametrize("i", range(4))
def test_signature_fields_and_hints(i: int) -> None:
    ours, theirs = OURS[i], THEIRS[i]

    def shape(kind: Any) -> Any:
        parameters = inspect.signature(kind).parameters.values()
        return [
            (p.name, p.kind, p.annotation, "made" if "factory" in repr(p.default) else p.default)
            for p in parameters
            if p.name != "names"
        ]

    assert shape(ours) == shape(theirs)
    assert get_type_hints(ours) == get_type_hints(theirs)
    assert get_type_hints(ours.__init__) == get_type_hints(theirs.__init__)
    assert ours.__match_args__ == theirs.__match_args__
    assert [f.name for f in dataclasses.fields(ours)] == [
        f.name for f in dataclasses.fields(theirs)
    ]


def values(kind: Any) -> list[Any]:
    return [kind(1), kind(1, 2), kind(1, 3), kind(1, 2, hidden=9), kind(1, flag=True)]


def test_equality_text_and_defaults() -> None:
    ours, theirs = values(Point), values(THEIRS[0])
    assert [repr(one) for one in ours] == [repr(one) for one in theirs]
    assert [[a == b for a in ours] for b in ours] == [[a == b for a in theirs] for b in theirs]
    assert ours[0].names == []
    assert ours[0].names is not ours[1].names
    assert Point(1) != Deep(1)
    assert Point(1) != 1
    assert (repr(Own(1)), Own(1) == 2, hash(Own(1))) == ("own", True, 1)
    assert repr(Nothing()) == repr(THEIRS[3]())
    assert Nothing() == Nothing()


def test_hashes_follow_equality() -> None:
    tuples = [Point(1, names=(), hidden=i) for i in range(2)]
    assert len(set(tuples)) == 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_nothing_can_be_changed() -> None:
    one = Deep(1)
    for name in ("x", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field"):
            setattr(one, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del one.x
    assert one == Deep(1)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"Deep.__init__\(\) missing 1 required .*'x'"):
        Deep()
    with pytest.raises(TypeError, match="unexpected keyword argument 'w'"):
        Deep(1, w=2)
    with pytest.raises(ValueError, match="z < x"):
        Deep(4)


def test_copies() -> None:
    from nsysoverlap.result.model import TimeBudget

    one = TimeBudget(1, 2, 3)
    assert TimeBudget.__setattr__ is records._refuse_set
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == copy.copy(one) == one
    assert dataclasses.replace(one, idle_ns=5) == TimeBudget(1, 2, 3, idle_ns=5) != one
    assert dataclasses.asdict(Point(1)) == dataclasses.asdict(THEIRS[0](1))
    assert dataclasses.is_dataclass(one)


def test_frozen_classes_of_both_kinds_inherit_from_each_other() -> None:
    for base, dataclass in ((Point, dataclasses.dataclass), (THEIRS[0], records.dataclass)):

        @dataclass(frozen=True)
        class Further(base):  # type: ignore[misc, valid-type]
            more: int = 4

        assert (Further(1).x, Further(1, more=5).more) == (1, 5)
        with pytest.raises(dataclasses.FrozenInstanceError):
            Further(1).more = 2
        with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen"):
            dataclasses.dataclass(type("Loose", (base,), {}))
        assert base.__dataclass_params__.frozen


def test_the_package_uses_no_other() -> None:
    theirs = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)
    found = [
        str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if theirs.search(p.read_text())
    ]
    assert found == [], "take dataclass from core.records: it takes a quarter of the time to define"
