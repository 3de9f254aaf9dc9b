"""A window of trace time: nanoseconds are clipped to it, counts belong to it by their start."""

from __future__ import annotations

import re
from decimal import Decimal

from .errors import UsageError
from .records import dataclass

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TIME = re.compile(r"(?P<number>[+-]?\d+(\.\d+)?)\s*(?P<unit>ns|us|µs|ms|s)?", re.ASCII)
_HINT = "Write it as START:END, for example 80ms:120ms, 1.5s:2s or :20000000."
_LIMIT = 2**62
EARLIEST, LATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Window:
    """Half-open `[start_ns, end_ns)` in the trace's own time; None leaves a side open."""

    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def low(self) -> int:
        """Start as a number."""
        return EARLIEST if self.start_ns is None else self.start_ns

    @property
    def high(self) -> int:
        """End as a number."""
        return LATEST if self.end_ns is None else self.end_ns

    def __str__(self) -> str:
        sides = ["" if t is None else f"{t}ns" for t in (self.start_ns, self.end_ns)]
        return ":".join(sides)


def parse_window(text: str) -> Window:
    """Window from `START:END`, each a number with ns, us, ms or s; plain numbers are ns.

    Either side may be left out. A unit on END alone holds for both (`80:120ms`). Raises
    `UsageError` for anything else, an empty window, or a fraction of a nanosecond.
    """
    start_text, colon, end_text = text.partition(":")
    if not colon or not (start_text.strip() or end_text.strip()):
        raise UsageError(f"window {text!r} is not START:END.", _HINT)
    end = _parse(end_text, None, text)
    unit_of_end = _TIME.fullmatch(end_text.strip())
    default = unit_of_end["unit"] if unit_of_end else None
    start = _parse(start_text, default, text)
    if start is not None and end is not None and end <= start:
        raise UsageError(f"window {text!r} ends before it starts.", _HINT)
    return Window(start, end)


def _parse(side: str, default_unit: str | None, whole: str) -> int | None:
    side = side.strip()
    if not side:
        return None
    match = _TIME.fullmatch(side)
    if match is None:
        raise UsageError(f"window {whole!r}: {side!r} is no time.", _HINT)
    # Integers throughout, because 0.1 ms is a whole number of nanoseconds and must stay one.
    numerator, denominator = Decimal(match["number"]).as_integer_ratio()
    unit = _UNITS[match["unit"] or default_unit or "ns"]
    value, rest = divmod(numerator * unit, denominator)
    if rest:
        raise UsageError(f"window {whole!r}: {side!r} is no whole number of nanoseconds.", _HINT)
    if abs(value) > _LIMIT:
        raise UsageError(f"window {whole!r}: {side!r} is beyond what any trace holds.", _HINT)
    return value
