"""The report as Markdown for pull requests and job summaries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .blocks import Block, Command, Entry, Paragraph, Table
from .interface import Layout
from .sections import blocks_of

if TYPE_CHECKING:
    from .sections import Result

# An underscore inside a word is no emphasis; escaping it would only make kernel names ugly.
_SPECIAL = re.compile(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def paint(result: Result, layout: Layout) -> str:
    """Headings, GitHub tables and paragraphs; every text shows exactly as it is in the trace."""
    return blocks_as_markdown(blocks_of(result, layout.view))


def blocks_as_markdown(printed: Sequence[Block]) -> str:
    """Any blocks as Markdown ending in a newline."""
    return "\n\n".join(_block(block) for block in printed) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Command):
        return f"{_escape_line(block.purpose)}:\n\n{_code(block.line)}"
    if isinstance(block, Paragraph):
        text = _escape_line(block.text)
        return text if block.tone == "plain" else f"**{text}**"
    body = [_table(block)] if isinstance(block, Table) else [_entry(e) for e in block.entries]
    parts = [f"### {escape(block.title)}", *body]
    return "\n\n".join([*parts, _escape_line(block.note)] if block.note else parts)


def _entry(entry: Entry) -> str:
    parts = [f"**{escape(entry.title)}**", *(_escape_line(text) for text in entry.text)]
    examples = "\n".join(f"- {_escape_line(example)}" for example in entry.examples)
    return "\n\n".join([*parts, examples] if examples else parts)


def _table(table: Table) -> str:
    lines = [table.columns, *table.rows]
    body = ["| " + " | ".join(escape(cell) for cell in line) + " |" for line in lines]
    n_numbers = len(table.columns) - table.n_words
    rule = "|" + "|".join([":--"] * table.n_words + ["--:"] * n_numbers) + "|"
    return "\n".join([body[0], rule, *body[1:]])


def escape(text: str) -> str:
    """`text` so that CommonMark and GitHub tables show it as it is."""
    entities = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\g<0>", entities)


def _escape_line(text: str) -> str:
    """`escape` for a paragraph, whose first character could make it a heading or a list."""
    escaped = escape(text)
    return re.sub(r"^([#+=:-]|\d+(?=[.)] ))", r"\\\1", escaped)


def _code(line: str) -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{line}\n{fence}"
