"""What a report is of and rests on: its traces, what of them was measured, and their health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated

from ..core.json_model import Count, Later, OneOf, Severity
from ..core.records import dataclass
from .parts import ReplayReport


@dataclass(frozen=True)
class HealthEntry:
    """Something to know before trusting a number. `severity`: error, warning or note.

    `accepted` says that the user chose to go on in spite of it, so that it stops nothing.
    """

    code: str
    severity: Severity
    message: str
    hint: str = ""
    trace: str = ""
    count: Count = 1
    accepted: Later[bool] = False


@dataclass(frozen=True)
class Program:
    """A framework or library that ran, and what in the trace proves it."""

    name: str
    evidence: str


@dataclass(frozen=True)
class TraceReport:
    """One input file as the report names it.

    `framework` is None where it was not looked for, and named "unknown" where nothing proves one.
    """

    path: str
    rank: int | None = None
    nsys_version: str | None = None
    schema_version: str | None = None
    capture: Mapping[str, str] = field(default_factory=dict)
    framework: Later[Program | None] = None
    components: Later[tuple[Program, ...]] = ()
    replay: Later[ReplayReport | None] = None


GUESSED = "a guess from repeating kernels"
"""How steps that nothing marks are called."""


@dataclass(frozen=True)
class Basis:
    """What the numbers are over. `kind`: trace, window or steps; `window_ns` as asked, None = open.

    `steps` says in words what marks a step, `n_steps` how many were kept (the most of any
    device), `skipped` how many were left out. `rules`, `links` and `steps_asked` say in words what
    was asked for, None in files that did not know it; `accepted` are the health codes that were.
    """

    kind: Annotated[str, OneOf(("trace", "window", "steps"))] = "trace"
    window_ns: tuple[int | None, int | None] | None = None
    config: str | None = None
    transfer_kernels: Annotated[str, OneOf(("auto", "off"))] = "auto"
    steps: str | None = None
    n_steps: Count = 0
    skipped: Count = 0
    steps_asked: Later[str | None] = None
    rules: Later[str | None] = None
    links: Later[str | None] = None
    accepted: Later[tuple[str, ...]] = ()
