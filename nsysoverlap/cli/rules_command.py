"""`nsysoverlap rules`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .given import FilePath, Given, command, format_option
from .screen import key_values, render_blocks
from .terminal import emit, progress

if TYPE_CHECKING:
    from ..roles.rules import CopyRule, Explanation, Rule, RuleSet, TopName
    from ..show.blocks import Block


@command(
    "0 done, 2 bad usage or unreadable file",
    "config",
)
@click.argument("trace", type=FilePath(), required=False)
@click.option("--explain", metavar="NAME", help="Say which rule takes this kernel name, and why.")
@format_option("text", "json")
def rules(given: Given, trace: Path | None, explain: str | None, fmt: str) -> None:
    """List the rules that decide what each kernel and copy counts as; the first match wins.

    With a TRACE, show the most expensive kernel names of each category instead. Own rules go
    into a file for --config and come before all others.
    """
    from ..show.documents import rules_file
    from ..show.json import as_json

    options = given.options
    explanation = None if explain is None else options.rules.explain(explain)
    names = None if trace is None else _top_names(replace(given, traces=(trace,)))
    if fmt == "json":
        emit(as_json(rules_file(options.rules, explanation, names)), None)
        return
    blocks: list[Block] = []
    if explanation is not None:
        blocks.append(_explanation_block(options.rules, explanation))
    if names is not None:
        blocks.append(_names_block(names))
    emit(render_blocks(blocks or _rule_blocks(options.rules)), None)


def _top_names(given: Given) -> list[TopName]:
    from ..roles.rules import classify, top_names
    from ..run.many import open_trace

    options, path = given.options, given.path
    with progress(f"Reading {path.name}"):
        return top_names(classify(open_trace(path, options), options.rules))


def _rule_blocks(rules: RuleSet) -> list[Block]:
    from ..roles.rule_table import COPY_RULES
    from ..show.blocks import Paragraph

    kernel_rows = [(rule.name, _role(rule), f"{rule.why} {_shown(rule)}") for rule in rules.rules]
    copy_rows = [
        (rule.name, _role(rule), f"kind {', '.join(map(str, rule.copy_kinds))}", rule.why)
        for rule in COPY_RULES
    ]
    return [
        key_values("Rules for kernel names, in order: the first that matches wins", kernel_rows),
        key_values("Rules for copies, by copy kind; all others count as other", copy_rows),
        Paragraph("Run `nsysoverlap rules --explain NAME` to see which rule takes a kernel name."),
    ]


def _role(rule: Rule | CopyRule) -> str:
    return rule.role.name.lower()


def _shown(rule: Rule) -> str:
    """A name the rule takes; the pattern of a user's rule, which has no examples."""
    from ..trace.contents import qualified_name

    if rule.examples:
        return f"Example: {qualified_name(rule.examples[0])}"
    return f"Pattern: {rule.pattern}"


def _explanation_block(rules: RuleSet, explanation: Explanation) -> Block:
    rule = explanation.rule
    rows = [
        ("counts as", f"{_role(rule)}, or compute (see why)" if rule.needs_proof else _role(rule)),
        ("rule", f"{rule.name} ({rules.index_for(explanation.name) + 1} of {len(rules.rules)})"),
        ("pattern", rule.pattern or "matches every name"),
        ("why", explanation.why),
    ]
    return key_values(explanation.name or "(no name)", rows)


def _names_block(names: list[TopName]) -> Block:
    from ..core.formatting import format_ns
    from ..show.blocks import Paragraph, Table
    from ..trace.contents import qualified_name

    if not names:
        return Paragraph("The trace holds no kernels.")
    shown = [""] + [row.category for row in names]
    rows = tuple(
        (
            # Once for each group is enough.
            row.category if row.category != before else "",
            row.role.name.lower(),
            qualified_name(row.name) or "(no name)",
            f"{row.n:,}",
            format_ns(row.total_ns),
        )
        for before, row in zip(shown, names, strict=False)
    )
    columns = ("category", "counts as", "kernel", "launches", "time")
    return Table("Most expensive kernel names of each category", columns, rows, n_words=3)
