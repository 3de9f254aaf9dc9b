"""Which parts of a report to print; what is measured does not depend on it."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import UsageError

GROUPINGS = ("op", "stream")


@dataclass(frozen=True)
class View:
    """`findings`: top (the first five), all, none, or the code of one.

    Findings that traces share are one where they are `folded`, as the top ones always are. `by`
    adds a longer table of operations (`op`) or one of streams (`stream`). Raises `UsageError`
    for another grouping.
    """

    findings: str = "top"
    by: str | None = None
    folded: bool = False

    def __post_init__(self) -> None:
        if self.by is not None and self.by not in GROUPINGS:
            known = ", ".join(GROUPINGS)
            raise UsageError(f"A report cannot be grouped by {self.by!r}.", f"Known: {known}.")
