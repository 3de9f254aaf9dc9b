"""Lines of text against those of rich, which knows more and takes longer."""

from __future__ import annotations

from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from nsysoverlap.show import lines

WORDS = st.text("ab/-_ \n一é👍µ–", max_size=60)


@given(WORDS, st.integers(2, 20))
def test_lines_are_those_of_rich(text: str, width: int) -> None:
    console = Console(file=StringIO(), width=width, force_terminal=False)
    theirs = [line.plain.rstrip() for line in Text(text).wrap(console, width)]
    ours = lines.wrapped(text, width)
    assert ours == theirs
    assert max(map(cell_len, ours)) <= width


def test_a_long_word_begins_on_its_own_line_and_shares_its_last() -> None:
    assert lines.wrapped("ab abcdefghijk lm", 4) == ["ab", "abcd", "efgh", "ijk", "lm"]


def test_characters_of_one_cell_are_so_for_rich() -> None:
    assert {cell_len(one) for one in lines._ONE_CELL} == {1}
    assert lines.cells("一") == 2


def test_cells_side_by_side() -> None:
    columns = [(["a", "bc"], 2, False, ""), (["1"], 3, True, "bold")]
    assert list(lines.side_by_side(columns, color=False)) == ["a     1", "bc"]
    assert list(lines.side_by_side(columns, color=False, low=True)) == ["a", "bc    1"]
    assert next(iter(lines.side_by_side(columns, color=True))) == "a     \x1b[1m1\x1b[0m"
