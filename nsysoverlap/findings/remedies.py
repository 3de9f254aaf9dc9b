"""What helps against a finding, in the words of the library that the program was written with.

The table is data (`remedy_table`, `remedy_times`, `remedy_bytes`); this is the one place that looks
into it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from string import Template

from ..roles.frameworks import lineage
from .remedy_bytes import WHAT
from .remedy_table import SLOP, WHERE, Remedy
from .remedy_times import WHEN

REMEDIES: dict[str, tuple[Remedy, ...]] = {**WHERE, **WHEN, **WHAT}
"""Entries by code of the finding, in the order in which they are tried."""

_FLAG = re.compile(r"(?:^|\s)--(\S+?)(?:=(\S*))?(?=\s|$)")
_DEFAULT_LEVELS = ("", "UNKNOWN", "O0")


def xla_flags(capture: Mapping[str, str]) -> dict[str, str]:
    """Flags of the captured XLA_FLAGS without their dashes, the last value given of each."""
    found = _FLAG.finditer(capture.get("XLA_FLAGS", ""))
    return {match[1]: "true" if match[2] is None else match[2] for match in found}


def situation(capture: Mapping[str, str]) -> frozenset[str]:
    """Facts that the captured environment tells: `NAME=VALUE` of each XLA flag, `slop` where its
    memory limit is set, `optimization-level` where JAX was asked for one.
    """
    flags = xla_flags(capture)
    facts = {f"{name}={value}" for name, value in flags.items()}
    if SLOP in flags:
        facts.add("slop")
    if capture.get("JAX_OPTIMIZATION_LEVEL", "") not in _DEFAULT_LEVELS:
        facts.add("optimization-level")
    return frozenset(facts)


def remedy(
    code: str, framework: str, capture: Mapping[str, str], facts: Set[str] = frozenset()
) -> str:
    """What to do about a finding: the first entry of its code that fits.

    Entries that ask for a fact come first, then those of the framework, of what it is built on,
    and of any program. `capture` is the captured environment, `facts` are what else is known, in
    the words of `remedy_table`. '' where no entry fits.
    """
    known = situation(capture) | facts
    names = (*lineage(framework), "")
    fitting = [
        entry
        for entry in REMEDIES.get(code, ())
        if entry.framework in names and entry.when <= known and not entry.unless & known
    ]
    fitting.sort(key=lambda entry: (not entry.when, names.index(entry.framework)))
    return _filled(fitting[0], capture) if fitting else ""


def _filled(entry: Remedy, capture: Mapping[str, str]) -> str:
    """The text of an entry with the values of the capture in it, its version and its cost."""
    values = {**xla_flags(capture), **capture}
    text = Template(entry.text).safe_substitute(values)
    needs = f" Needs {entry.since}." if entry.since else ""
    return f"{text}{needs}{f' Cost: {entry.cost}.' if entry.cost else ''}"
