"""What is wrong with an analysed trace, what it costs, and what to do about it.

One function a finding, in modules by topic. The name of the function is the finding's code, its
docstring the section of `docs/findings.md`: what it means, how the cost is counted, what helps,
when it stays silent. A new finding is a new function in the `FINDERS` of its module.
"""

from __future__ import annotations

import inspect

from ..core.threads import each
from ..result.model import Finding
from . import (
    awaited,
    capacity,
    causes,
    engines,
    graphs,
    idle,
    kernels,
    memory,
    offload,
    rates,
    rounds,
    streams,
    timing,
    traffic,
)
from .context import Context, Finder, Found
from .remedies import remedy

__all__ = ["CODES", "FINDERS", "Context", "Finder", "Found", "documentation", "find", "find_all"]

FINDERS: tuple[Finder, ...] = (
    *memory.FINDERS,
    *graphs.FINDERS,
    *rounds.FINDERS,
    *traffic.FINDERS,
    *idle.FINDERS,
    *awaited.FINDERS,
    *streams.FINDERS,
    *engines.FINDERS,
    *kernels.FINDERS,
    *timing.FINDERS,
    *capacity.FINDERS,
    *rates.FINDERS,
    *offload.FINDERS,
)


def code_of(finder: Finder) -> str:
    """Code of the findings that a function yields."""
    return finder.__name__.replace("_", "-")


CODES: dict[str, str] = {code_of(finder): inspect.getdoc(finder) or "" for finder in FINDERS}
"""Each code with its documentation, Markdown."""


def find(context: Context, threads: int = 1) -> tuple[Found, ...]:
    """All findings of a trace with the rows they blame: warnings before notes, dearest first."""
    parts = each(
        lambda finder: [f.named(code_of(finder)) for f in finder(context)], FINDERS, threads
    )
    found = causes.settled(context, [one for part in parts for one in part])
    return tuple(sorted(found, key=lambda f: f.finding.urgency()))


def find_all(context: Context, threads: int = 1) -> tuple[Finding, ...]:
    """The findings alone, in the order of `find`."""
    return tuple(found.finding for found in find(context, threads))


def documentation() -> str:
    """The text of `docs/findings.md`."""
    sections = [f"## {code}\n\n{text}\n{_side_by_side(code)}" for code, text in CODES.items()]
    contents = " ·\n".join(f"[{code}](#{code})" for code in CODES)
    return "\n".join([f"{_INTRODUCTION}{contents}\n", *sections])


def _side_by_side(code: str) -> str:
    """The remedies of the two frameworks as a table, where they differ."""
    torch, jax = (remedy(code, framework, {}) for framework in ("PyTorch", "JAX"))
    cells = " | ".join(text.replace("|", "\\|").replace("<", "&lt;") for text in (torch, jax))
    return "" if torch == jax else f"\n| PyTorch | JAX |\n|---|---|\n| {cells} |\n"


_INTRODUCTION = """# Findings

<!-- Generated from the docstrings in nsysoverlap/findings; run `make docs` after changing them. -->

New here? [Read your first report](first-report.md) goes through one, with its picture.

`nsysoverlap report` says what it found to be wrong: warnings before notes, among them first what
has a known gain, by its low end, then the rest by cost. Each finding has a code, a severity
(a *warning* costs time or memory, a *note* is worth knowing), the evidence with up to three
example rows (the text report prints one), the cost, and the remedy with the exact flag or
call; where PyTorch and JAX need different ones, both stand side by side, as the report gives them
where it knows nothing more of the program. *Step* is a training step, *exposed*, *relief* and the
like are defined in [metric.md](metric.md).

**Costs** are per step where the trace has steps, else over all measured time. With several devices
the cost is that of the device that loses most, since devices work side by side. A cost is never
more than the exposed time that the finding explains unless it says otherwise; several findings may
explain the same time, so costs do not add up.

**Gains** are what a step wins when the cause is gone, replayed on a model of GPU and host, as a
range ([whatif.md](whatif.md)). Exposed time is no bound of them: a program that waits for its
copies on the host loses more than they take. Only kinds of scenarios that were held against a
measurement get a gain, so far those whose remedy leaves the copies out; with one a finding ranks by
its low end, without one it says "exposed, gain unknown" and comes after. `nsysoverlap whatif` says
what the others would give, too, and [why some cannot be told](whatif.md#findings).

`--findings all` shows every finding with all its examples, `--findings CODE` one of them,
`--findings none` none. Without it the text report shows the first five in that order,
and what several ranks have alike once.

"""
