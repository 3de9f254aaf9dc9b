"""`nsysoverlap slim`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.errors import UsageError
from .given import FilePath, Given, command, format_option
from .screen import render_blocks
from .terminal import emit, progress, say

if TYPE_CHECKING:
    from ..core.json_model import Document
    from ..run.analysis import Options
    from ..show.blocks import Block
    from ..slim import Sensitive, Slimmed
    from ..slim.selection import Spans


_SAME_EVERYWHERE = "ENUM_"
"""Tables that say the same in every export begin with it."""


@command(
    "0 done, 2 bad usage, unreadable file, or OUT exists",
)
@click.argument("trace", type=FilePath(), metavar="IN")
@click.argument("out", type=FilePath(), metavar="[OUT]", required=False)
@click.option(
    "--window",
    metavar="START:END",
    help="Keep only this part of trace time, such as 80ms:120ms; units ns, us, ms, s; plain "
    "numbers are ns.  [default: all]",
)
@click.option(
    "--step",
    metavar="A[:B]",
    help="Keep only the time of step A, or of steps A to B, on all devices.",
)
@click.option(
    "--steps",
    default="auto",
    metavar="auto|REGEX",
    show_default=True,
    help="What marks a step, for --step.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; list what in IN could identify someone.",
)
@format_option("text", "json")
def slim(given: Given, trace: Path, out: Path | None, check: bool, fmt: str) -> None:
    """Write a small copy of a trace that is safe to attach to an issue.

    OUT holds the columns that reports are made from and nothing else: no environment but XLA_FLAGS
    and the like, no hosts, users, paths, programs or threads, no text that no kept row refers to.
    Before OUT gets its name its report is made and compared with that of IN. An OUT that exists is
    never overwritten.
    """
    from ..show.documents import slim_file
    from ..slim import find_sensitive, names_in, slim_trace

    if check and (out is not None or given.window is not None or given.step is not None):
        raise UsageError("--check writes nothing.", "Give it IN alone.")
    source = _export_of(replace(given, traces=(trace,)).path)
    if check:
        with progress(f"Reading {source.name}"):
            found = find_sensitive(source, names_in(source))
        _show(fmt, slim_file(source.name, None, found), _sensitive_blocks(source.name, found))
        return
    if out is None:
        raise UsageError("OUT is missing.", "Name the file to write, or give --check.")
    options = replace(given, steps="auto", step=None).options
    without: Spans = ()
    with progress(f"Copying {source.name}"):
        if given.step is not None:
            options, without = _only_steps(source, given, options)
        result = slim_trace(source, out, options, without=without)
        remaining = find_sensitive(out, names_in(source))
    _show(fmt, slim_file(out.name, result, remaining), _blocks(out.name, result, remaining))
    say(f"Wrote {out}")


def _show(fmt: str, document: Document, blocks: Sequence[Block]) -> None:
    from ..show.json import as_json

    emit(as_json(document) if fmt == "json" else render_blocks(blocks), None)


def _export_of(path: Path) -> Path:
    from ..trace.nsys_export import REPORT_SUFFIXES, export_report

    return export_report(path) if path.suffix.lower() in REPORT_SUFFIXES else path


def _only_steps(source: Path, given: Given, options: Options) -> tuple[Options, Spans]:
    """Options with the window from the first to the last instant of the steps on any device, and
    the times of the ranges that mark other steps.
    """
    from ..core.window import Window
    from ..run.analysis import trace_cases
    from ..trace.load import read_trace

    if not options.whole:
        raise UsageError("--window and --step exclude each other.", "Give one of them.")
    if given.steps == "none":
        raise UsageError("--step needs steps.", "Leave out --steps none.")
    wanted = replace(options, steps=given.step_spec)
    trace = read_trace(source)
    plan = trace_cases(trace, wanted).plan
    low, high = min(w.start_ns for w in plan.windows), max(w.end_ns for w in plan.windows)
    ranges, rows = trace.host.ranges, list(plan.left_out)
    spans = zip(ranges.start_ns[rows].tolist(), ranges.end_ns[rows].tolist(), strict=True)
    return replace(options, window=Window(low, high)), tuple(spans)


def _blocks(name: str, result: Slimmed, remaining: Sequence[Sensitive]) -> list[Block]:
    from ..core.formatting import format_bytes
    from ..show.blocks import Paragraph, Table

    how = shlex.quote(name) + ("" if result.options.whole else f" --window {result.options.window}")
    before, after = format_bytes(result.n_bytes_before), format_bytes(result.n_bytes)
    kept = tuple(
        (change.table, f"{change.kept:,}", f"{change.removed:,}", f"{len(change.columns):,}")
        for change in result.changes
        if change.kept
    )
    gone = [
        f"{change.table} ({change.removed:,})"
        for change in result.changes
        if not change.kept and not change.table.startswith(_SAME_EVERYWHERE)
    ]
    revealing = tuple(
        (f"{one.table}.{one.column}", example) for one in remaining for example in one.examples
    )
    columns = ("table", "rows kept", "rows removed", "columns removed")
    blocks: list[Block] = [
        Paragraph(
            f"{before} became {after}. Its report is the same: nsysoverlap report {how}",
            "headline",
        ),
        Table("Tables", columns, kept, f"Left out whole: {', '.join(gone)}."),
    ]
    if result.marks_kept:
        blocks.append(
            Paragraph(
                "Parts of the steps on either side are in the copy, with the ranges that mark "
                "them: without --window a report counts them as steps."
            )
        )
    if revealing:
        note = "These are names of kernels or ranges, which the report prints too. Look at them."
        blocks.append(Table("Kept, but telling", ("column", "text"), revealing, note, n_words=2))
    return blocks


def _sensitive_blocks(name: str, found: Sequence[Sensitive]) -> list[Block]:
    from ..show.blocks import Paragraph, Table

    if not found:
        return [Paragraph(f"{name} holds no texts at all.", "headline")]
    rows = tuple(
        (f"{one.table}.{one.column}", one.what, f"{one.n:,}", f"{one.revealing:,}") for one in found
    )
    examples = tuple(
        (f"{one.table}.{one.column}", example) for one in found for example in one.examples
    )
    blocks: list[Block] = [
        Paragraph(
            f"{name}: texts that could identify someone. 'Telling' are those with a path, a host, "
            "a user or an address in them.",
            "headline",
        ),
        Table("Texts", ("column", "what", "rows", "telling"), rows, n_words=2),
    ]
    if examples:
        blocks.append(Table("Examples", ("column", "text"), examples, n_words=2))
    return blocks
