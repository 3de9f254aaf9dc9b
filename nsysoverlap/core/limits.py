"""Limits as people write them, exact: `90%`, `5ms`, `8GiB`; and values beside them as text.

Values are `Fraction`s in base units (shares 0..1, nanoseconds, bytes, GB/s), so that a number
that equals its limit never fails for the last bit of a float.
"""

from __future__ import annotations

import re
from enum import StrEnum
from fractions import Fraction
from typing import Any

from .errors import UsageError
from .formatting import NONE, format_bytes, format_ns, format_rate, format_share


class Unit(StrEnum):
    """What a metric is measured in."""

    SHARE = "share"
    TIME = "ms"
    BYTES = "bytes"
    COUNT = "count"
    RATE = "GB/s"
    NAME = "name"
    """Text; no metric has it."""
    ID = "number"
    """A number that names something."""


# Python refuses to read thousands of digits, and no limit has more than these.
_NUMBER = re.compile(r"(\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})\s*([A-Za-z/%]*)", re.ASCII)
_SUFFIXES: dict[Unit, dict[str, Fraction]] = {
    Unit.SHARE: {"": Fraction(1), "%": Fraction(1, 100)},
    Unit.TIME: {
        "": Fraction(10**6),
        "ns": Fraction(1),
        "us": Fraction(10**3),
        "ms": Fraction(10**6),
        "s": Fraction(10**9),
    },
    Unit.BYTES: {
        "": Fraction(1),
        "B": Fraction(1),
        **{f"{p}B": Fraction(1000**i) for i, p in enumerate("kMGT", start=1)},
        "KB": Fraction(1000),
        **{f"{p}iB": Fraction(1024**i) for i, p in enumerate("KMGT", start=1)},
    },
    Unit.COUNT: {"": Fraction(1)},
    Unit.RATE: {"": Fraction(1), "GB/s": Fraction(1)},
}
_EXAMPLES = {
    Unit.SHARE: "60% or 0.6",
    Unit.TIME: "5 or 5ms (also ns, us, s)",
    Unit.BYTES: "8GiB (also B, kB, KiB, MB, MiB, GB, TiB)",
    Unit.COUNT: "12",
    Unit.RATE: "50 or 50GB/s",
}


def parse_limit(text: str, unit: Unit, what: str) -> Fraction:
    """A limit in base units. `what` names the option in messages.

    A share is written `60%` or as 0..1; a larger bare number is refused, as are negative numbers
    and the suffix of another unit. Raises `UsageError`.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{what}: {text!r} is not a number.", f"Write {_EXAMPLES[unit]}.")
    number, suffix = Fraction(match[1]), match[2]
    if suffix not in _SUFFIXES[unit]:
        raise UsageError(f"{what}: {text!r} is not a {_NOUNS[unit]}.", f"Write {_EXAMPLES[unit]}.")
    value = number * _SUFFIXES[unit][suffix]
    if unit is Unit.SHARE and value > 1:
        raise UsageError(
            f"{what}: {text!r} is more than the whole.",
            f"Write {match[1]}% for percent." if not suffix and number <= 100 else "At most 100%.",
        )
    return value


_NOUNS = {
    Unit.SHARE: "share",
    Unit.TIME: "time",
    Unit.BYTES: "size",
    Unit.COUNT: "plain number",
    Unit.RATE: "rate",
}


def parse_percent(text: str, what: str, most: int | None = 100) -> Fraction:
    """Percent, `90` or `90%`, as a share; `most` is the largest, in percent.

    A value below 1 without the sign could be meant as a share and is refused. Raises `UsageError`.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2] not in ("", "%"):
        raise UsageError(f"{what}: {text!r} is not a percentage.", "Write 90 or 90%.")
    percent = Fraction(match[1])
    if not match[2] and 0 < percent < 1:
        whole = f"{float(percent * 100):g}"
        raise UsageError(
            f"{what}: {text!r} is percent here, not a share.",
            f"Write {whole}% if that was meant, or {match[1]}% for less than one percent.",
        )
    if most is not None and percent > most:
        raise UsageError(f"{what}: {text!r} is more than {most} percent.", f"At most {most}%.")
    return percent / 100


def as_named(value: Fraction | None, unit: Unit) -> Fraction | None:
    """A value in base units as the unit is called: nanoseconds as ms, all others as they are."""
    return value if value is None or unit is not Unit.TIME else value / _SUFFIXES[unit][""]


def as_base(value: Fraction | None, unit: Unit) -> Fraction | None:
    """Back from `as_named`, exactly; None stays None."""
    return value if value is None or unit is not Unit.TIME else value * _SUFFIXES[unit][""]


def format_value(value: Fraction | None, unit: Unit, digits: int | None = None) -> str:
    """A value for people: `59.5 %`, `193.4 ms`, `8.00 GiB`, `128`, `55.3 GB/s`; a dash for None.

    Times below 1 ms are in µs and ns, sizes below 1 GiB in MiB and so on, unless `digits` after
    the point are asked for. A percentage never rounds to 0 or 100 unless it is exactly that.
    """
    if value is None:
        return NONE
    if digits is None and unit is Unit.TIME:
        return format_ns(round(value))
    if digits is None and unit is Unit.BYTES:
        return format_bytes(round(value))
    scale, word, usual = _PRINTED[unit]
    places = usual if digits is None else digits
    if unit is Unit.SHARE:
        return format_share(value, places)
    number = float(value / scale)
    return f"{number:.{places}f} {word}".rstrip()


def format_cell(value: Any, unit: Unit) -> str:
    """A value in a table, whose heading says the unit of a rate; a dash for None."""
    if value is None:
        return NONE
    if unit is Unit.TIME:
        return format_ns(round(value))
    if unit is Unit.BYTES:
        return format_bytes(round(value))
    if unit is Unit.SHARE:
        return format_share(value)
    if unit is Unit.RATE:
        return format_rate(float(value))
    return f"{value:,}" if unit is Unit.COUNT else str(value)


_PRINTED: dict[Unit, tuple[Fraction, str, int]] = {
    Unit.SHARE: (Fraction(1, 100), "%", 1),
    Unit.TIME: (Fraction(10**6), "ms", 1),
    Unit.BYTES: (Fraction(2**30), "GiB", 2),
    Unit.COUNT: (Fraction(1), "", 0),
    Unit.RATE: (Fraction(1), "GB/s", 1),
}
_MOST_DIGITS = 9


def digits_apart(value: Fraction | None, limit: Fraction | None, unit: Unit) -> int | None:
    """Digits that show a value and its limit as different; None where the usual ones do."""
    if value is None or limit is None or value == limit:
        return None
    if format_value(value, unit) != format_value(limit, unit):
        return None
    for digits in range(_PRINTED[unit][2], _MOST_DIGITS):
        if format_value(value, unit, digits) != format_value(limit, unit, digits):
            return digits
    return _MOST_DIGITS


def format_difference(value: Fraction | None, unit: Unit, digits: int | None = None) -> str:
    """A signed difference: `+2.1 points` for shares, `-3.5 ms` and so on otherwise."""
    if value is None:
        return NONE
    sign = "+" if value >= 0 else "-"
    if unit is not Unit.SHARE:
        return f"{sign}{format_value(abs(value), unit, digits)}"
    scale, _, usual = _PRINTED[unit]
    return f"{sign}{float(abs(value) / scale):.{usual if digits is None else digits}f} points"
