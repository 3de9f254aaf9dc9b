"""Blocks as HTML for notebooks: looks of its own only where Jupyter's do not serve.

Everything is escaped. Alignment stands in attributes, because style sheets in outputs are dropped
by GitHub and by notebooks that are not trusted; colours are left to the theme, light or dark.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.formatting import clean_text, format_at, format_span
from ..trace.contents import Trace
from .blocks import Block, Command, Entries, Entry, Paragraph, Table
from .sections import blocks_of

if TYPE_CHECKING:
    from .sections import Result

_LEFT, _RIGHT = 'style="text-align:left"', 'style="text-align:right;white-space:nowrap"'


def blocks_html(blocks: Sequence[Block]) -> str:
    """One `<div>` with all blocks in order."""
    return "<div>" + "".join(_block(block) for block in blocks) + "</div>"


def _block(block: Block) -> str:
    if isinstance(block, Command):
        return f"<p>{html.escape(block.purpose)}: <code>{html.escape(block.line)}</code></p>"
    if isinstance(block, Paragraph):
        text = html.escape(block.text)
        return f"<p>{text}</p>" if block.tone == "plain" else f"<p><strong>{text}</strong></p>"
    if isinstance(block, Entries):
        body = "".join(f"<li>{_entry(entry)}</li>" for entry in block.entries)
        return f"<p><strong>{html.escape(block.title)}</strong></p><ol>{body}</ol>{_note(block)}"
    return _table(block)


def _entry(entry: Entry) -> str:
    lines = "".join(f"<p>{html.escape(text)}</p>" for text in (*entry.text, *entry.examples))
    return f"<strong>{html.escape(entry.title)}</strong>{lines}"


def _table(table: Table) -> str:
    """Words to the left, numbers to the right; a table without headings has no head."""
    caption = f"<caption {_LEFT}><strong>{html.escape(table.title)}</strong></caption>"
    head = ""
    if any(table.columns):
        head = f"<thead><tr>{_cells('th', table.columns, table.n_words)}</tr></thead>"
    body = "".join(f"<tr>{_cells('td', row, table.n_words)}</tr>" for row in table.rows)
    return f"<table>{caption}{head}<tbody>{body}</tbody></table>{_note(table)}"


def _cells(tag: str, cells: Sequence[str], n_words: int) -> str:
    return "".join(
        f"<{tag} {_LEFT if place < n_words else _RIGHT}>{html.escape(cell)}</{tag}>"
        for place, cell in enumerate(cells)
    )


def _note(block: Table | Entries) -> str:
    return f"<p>{html.escape(block.note)}</p>" if block.note else ""


def result_html(result: Result) -> str:
    """What the text of a result says, for a notebook; everything escaped."""
    return blocks_html(blocks_of(result))


def trace_html(trace: Trace) -> str:
    """What a trace holds, for a notebook: versions, devices, rows per kind; escaped."""
    info, extent = trace.info, trace.extent_ns
    rows = [("nsys", info.product_version or "unknown")]
    for device in trace.devices:
        owner = "several processes" if device.pid is None else f"pid {device.pid}"
        rows.append((f"device {device.index}", f"{device.gpu.name or 'GPU'}, {owner}"))
    if extent is not None:
        rows.append(("GPU activity", f"{format_at(*extent)}, {format_span(extent[1] - extent[0])}"))
    rows += [(f"{kind} rows", f"{len(table):,}") for kind, table in trace.tables.items()]
    cells = tuple(tuple(clean_text(cell) for cell in row) for row in rows)
    return blocks_html([Table(clean_text(info.file_name), ("", ""), cells, n_words=2)])
