"""Dense codes for ids, also when several threads give them out at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsysoverlap.core.arrays import Int64Array
from nsysoverlap.trace.codes import Codes, TupleCodes

INT64 = st.integers(-(2**63), 2**63 - 1)
FEW = st.one_of(st.integers(-2, 2), st.sampled_from([-(2**63), 2**63 - 1, 2**53, 2**53 + 1]))


def array(values: list[int]) -> Int64Array:
    return np.array(values, dtype=np.int64)


@given(st.lists(st.lists(st.one_of(INT64, FEW))))
def test_a_code_leads_back_to_its_value(blocks: list[list[int]]) -> None:
    codes = Codes()
    coded = [codes.encode(array(block)) for block in blocks]
    values = codes.values()
    assert values.dtype == np.int64
    assert [values[code].tolist() for code in coded] == blocks
    assert sorted(values.tolist()) == sorted({value for block in blocks for value in block})


@given(st.lists(st.lists(st.tuples(FEW, FEW, INT64, FEW))))
def test_tuples_lead_back_to_their_parts(blocks: list[list[tuple[int, ...]]]) -> None:
    codes = TupleCodes(4)
    coded = [codes.encode([array([row[i] for row in block]) for i in range(4)]) for block in blocks]
    tuples = codes.tuples()
    assert [[tuples[code] for code in block] for block in coded] == blocks
    assert len(set(tuples)) == len(tuples) == len({row for block in blocks for row in block})


@given(st.lists(INT64))
def test_tuples_of_one(values: list[int]) -> None:
    codes = TupleCodes(1)
    coded = codes.encode([array(values)])
    assert [codes.tuples()[code] for code in coded] == [(value,) for value in values]


def test_codes_come_in_order_of_appearance() -> None:
    codes = Codes()
    assert codes.encode(array([9, 9, 9])).tolist() == [0, 0, 0]
    assert codes.encode(array([3, 9, 3])).tolist() == [1, 0, 1]
    assert codes.encode(array([])).tolist() == []
    assert codes.values().tolist() == [9, 3]


def test_many_threads_agree() -> None:
    chance = np.random.default_rng(1)
    blocks = [chance.integers(0, 500, (3, 400)) * 2**50 for _ in range(64)]
    codes = TupleCodes(3)
    with ThreadPoolExecutor(8) as executor:
        coded = list(executor.map(codes.encode, blocks))
    tuples = codes.tuples()
    assert len(set(tuples)) == len(tuples)
    for block, code in zip(blocks, coded, strict=True):
        assert [tuples[c] for c in code] == list(zip(*block.tolist(), strict=True))
