"""The small searches that sweep, decoder and launches are made of, against plain Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from nsysoverlap.core.arrays import rows_by_key
from nsysoverlap.measure import groups
from nsysoverlap.steps.launches import _Calls
from nsysoverlap.trace import launch_facts, pages

SEEDS = range(40)


def varint(value: int) -> bytes:
    """As SQLite writes it, up to eight bytes."""
    parts = [value & 0x7F]
    while value := value >> 7:
        parts.append(value & 0x7F | 0x80)
    return bytes(reversed(parts))


@pytest.mark.parametrize("seed", SEEDS)
def test_integers_of_any_length(seed: int) -> None:
    """All of one length, and of several: with a first one that is shorter or longer."""
    choose = random.Random(seed)
    lengths = [choose.randint(1, 8)] * 6 if seed % 2 else [choose.randint(1, 8) for _ in range(6)]
    values = [choose.randrange(1 << 7 * (n - 1) if n > 1 else 0, 1 << 7 * n) for n in lengths]
    written, at, margin = b"", [], bytes(16)
    for value in values:
        at.append(len(margin) + len(written))
        written += varint(value)
    buffer = np.frombuffer(margin + written + b"\xff" * 16, np.uint8)
    found, after = pages._varint(buffer, np.array(at))
    assert found.tolist() == values
    assert after.tolist() == [*at[1:], len(margin) + len(written)]


@pytest.mark.parametrize("first", range(1, 9))
@pytest.mark.parametrize("second", range(1, 9))
def test_integers_apart_with_nothing_between(first: int, second: int) -> None:
    """The least of each length: all their bits but one are those that say how long they are."""
    values = [1 << 7 * (length - 1) for length in (first, second)]
    buffer = np.zeros(80, np.uint8)
    for at, value in zip((16, 40), values, strict=True):
        written = varint(value)
        buffer[at : at + len(written)] = np.frombuffer(written, np.uint8)
    found, after = pages._varint(buffer, np.array([16, 40]))
    assert found.tolist() == values
    assert after.tolist() == [16 + first, 40 + second]


@pytest.mark.parametrize("n", [2, 3])
def test_integers_of_nine_bytes_are_left_to_sqlite(n: int) -> None:
    buffer = np.full(200, 0xFF, np.uint8)
    with pytest.raises(pages.UnusualError):
        pages._varint(buffer, np.array([16, 32, 48][:n]))
    buffer[40] = 0
    with pytest.raises(pages.UnusualError):
        pages._varint(buffer, np.array([16, 32]))


def union(spans: Sequence[tuple[int, int, int]], group: int) -> set[int]:
    return {t for g, start, end in spans if g == group for t in range(start, end)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("far", [0, 2**60])
def test_unions_of_groups(seed: int, far: int) -> None:
    """`far` times take another way, for laid end to end they would overflow."""
    choose = random.Random(seed)
    spans = [
        (choose.randint(-1, 3), at := choose.randint(-20, 20), at + choose.randint(0, 9))
        for _ in range(choose.randint(1, 25))
    ]
    if far:
        spans += [(4, far, far + 3), (0, -far, 1 - far)]
    group, start, end = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    found = list(zip(*(c.tolist() for c in groups._union_by_group(group, start, end)), strict=True))
    assert found == sorted(found)
    for one in range(5):
        mine = [(s, e) for g, s, e in found if g == one]
        instants = [t for s, e in mine for t in range(s, e)]
        assert sorted(union(spans, one)) == instants
        # Touching ones are one.
        assert all(e < s for (_, e), (s, _) in pairwise(mine))
    assert all(g >= 0 for g, _, _ in found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wide", [1, 1 << 40])
def test_ids_among_others(seed: int, wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that lie far apart are sorted, others marked; in parts of any size."""
    choose = random.Random(seed)
    monkeypatch.setattr(launch_facts, "_ROWS_AT_ONCE", choose.randint(1, 9))
    ids = [choose.randint(-5, 20) * wide for _ in range(choose.randint(1, 15))]
    others = [
        [choose.randint(-9, 25) * wide for _ in range(choose.randint(0, 15))]
        for _ in range(choose.randint(0, 3))
    ]
    known = {one for other in others for one in other}
    arrays = [np.array(other, np.int64) for other in others]
    found = launch_facts._in_any(np.array(ids, np.int64), arrays)
    assert found.tolist() == [one in known for one in ids]
    counted = launch_facts._distinct_and_without(np.array(ids, np.int64), arrays)
    assert counted == (len(set(ids)), len(set(ids) - known))
    assert not launch_facts._in_any(np.zeros(0, np.int64), arrays).any()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wide", [1, 1 << 40])
@pytest.mark.parametrize("some", [False, True])
def test_calls_by_id(seed: int, wide: int, some: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of several with one id; `some` are calls of one process among others."""
    choose = random.Random(seed)
    monkeypatch.setattr("nsysoverlap.steps.launches._ROWS_AT_ONCE", choose.randint(1, 9))
    ids = [choose.randint(-5, 20) * wide for _ in range(choose.randint(1, 15))]
    mine = [choose.random() < 0.7 for _ in ids]
    mine[choose.randrange(len(ids))] = True
    places = sorted(choose.sample(range(50), len(ids))) if some else list(range(len(ids)))
    first: dict[int, int] = {}
    for one, own, place in zip(ids, mine, places, strict=True):
        if own:
            first.setdefault(one, place)
    calls = _Calls.of(
        np.array(ids, np.int64), np.array(mine), np.array(places, np.int64) if some else None
    )
    asked = [wide * one for one in range(-12, 30)]
    found = calls.find(np.array(asked, np.int64)).tolist()
    assert found == [first.get(one, -1) for one in asked]
    assert calls.find(np.array(ids, np.int64)[mine]).tolist() == [
        first[one] for one, own in zip(ids, mine, strict=True) if own
    ]


@pytest.mark.parametrize("n", [0, 1, 2, 9, 50])
def test_rows_by_key(n: int) -> None:
    keys = [random.Random(n + i).randint(-2, 3) for i in range(n)]
    expected = [(key, [i for i, k in enumerate(keys) if k == key]) for key in sorted(set(keys))]
    assert [(k, r.tolist()) for k, r in rows_by_key(np.array(keys, np.int64))] == expected
