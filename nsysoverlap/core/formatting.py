"""Quantities as text: one place decides digits and units, and what may be printed at all."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

NONE = "–"

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # operating system commands such as window titles
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # control sequences such as colours
    r"|\x1b[ -/]*[0-~]"
)
_KIB = 1024
_LONGEST = 10_000


def number_of(n: int, one: str, many: str = "") -> str:
    """A number and what is counted: `1 copy`, `1,024 copies`; without `many` the plural adds an s.

    Both words may go on to the verb, such as `row is` and `rows are`.
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def format_ns(ns: int) -> str:
    """Nanoseconds as `193.4 ms`; µs below 1 ms, s from 10 s on. Only 0 prints as 0."""
    if ns == 0:
        return "0 ms"
    if abs(ns) < 1_000:
        return f"{ns} ns"
    if round(abs(ns) / 1e3, 1) < 1_000:
        return f"{ns / 1e3:.1f} µs"
    if round(abs(ns) / 1e6, 1) < 10_000:
        return f"{ns / 1e6:.1f} ms"
    return f"{ns / 1e9:.2f} s"


def format_error(share: float) -> str:
    """A signed share as `-0.42 %`; only 0 prints as 0."""
    percent = 100 * share
    return f"{percent:+.2f} %" if abs(percent) >= 0.005 or not percent else f"{percent:+.1g} %"


def format_range(low_ns: int, high_ns: int) -> str:
    """`258.9 to 296.0 ms`: one time where both print alike, the unit once where it is the same."""
    low, high = format_ns(low_ns), format_ns(high_ns)
    if low == high:
        return low
    number, unit = low.split(" ")
    return f"{number if unit == high.split(' ')[1] else low} to {high}"


def format_span(ns: int) -> str:
    """Length of a trace or window for running text: as `format_ns`, but s from 1 s on."""
    return f"{ns / 1e9:.2f} s" if round(ns / 1e6, 1) >= 1_000 else format_ns(ns)


def format_bytes(count: int) -> str:
    """Bytes as `8.00 GiB`; MiB, KiB and B when small."""
    if count < _KIB:
        return f"{count} B"
    for power, unit in ((1, "KiB"), (2, "MiB")):
        value = round(count / _KIB**power, 1)
        if value < _KIB:
            return f"{value:.1f} {unit}"
    return f"{count / _KIB**3:.2f} GiB"


def format_share(value: float | Fraction | None, digits: int = 1) -> str:
    """A share as text in percent; a dash for None.

    Never rounds to 0 or 100 unless the share is exactly that: 0.99999 is `>99.9 %`.
    """
    if value is None:
        return NONE
    step = 10.0**-digits
    percent = round(float(value * 100), digits)
    if value > 0 and percent <= 0:
        return f"<{step:.{digits}f} %"
    if value < 1 and percent >= 100:
        return f">{100 - step:.{digits}f} %"
    return f"{percent:.{digits}f} %"


def format_rate(gb_per_s: float | None) -> str:
    """GB/s with one decimal, three digits below 1; a dash for None."""
    if gb_per_s is None:
        return NONE
    return f"{gb_per_s:.1f}" if gb_per_s >= 1 else f"{gb_per_s:.3g}"


def format_ms(at_ns: int, digits: int = 3) -> str:
    """A point of trace time in ms, without the unit: exact, for a float holds 2**53 ns."""
    step = 10 ** (6 - digits)
    whole, part = divmod((abs(at_ns) + step // 2) // step, 10**digits)
    return f"{'-' if at_ns < 0 else ''}{whole}.{part:0{digits}d}"


def format_at(start_ns: int, end_ns: int) -> str:
    """A stretch of trace time as `83.516 to 91.709 ms`, in the time base of `--window`."""
    return f"{format_ms(start_ns)} to {format_ms(end_ns)} ms"


def device_label(gpu_name: str | None, device_id: int | None, pid: int | None) -> str:
    """Short name of a device for tables, such as `H200 dev 0, pid 17025`."""
    name = (gpu_name or "GPU").removeprefix("NVIDIA ")
    number = "" if device_id is None else f" dev {device_id}"
    return f"{name}{number}{'' if pid is None else f', pid {pid}'}"


def short_kernel(name: str, limit: int = 48) -> str:
    """A kernel name without return type and arguments, and of a long one both ends.

    Names of templates differ at the end, so that the start alone would not tell them apart.
    """
    text = _without_arguments(clean_text(name).removeprefix("void "))
    if len(text) <= limit:
        return text
    head = (limit - 3) // 2
    return f"{text[:head]}...{text[len(text) - (limit - 3 - head) :]}"


def _without_arguments(name: str) -> str:
    """`name` up to the parenthesis that the one at its end closes; it may hold others before.

    What stands behind a space is no list of arguments but the label of an operation: `(1 of 8)`.
    """
    if not name.endswith(")"):
        return name
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            return name if name[at - 1] == " " else name[:at]
    return name


def clean_text(text: str) -> str:
    """Text from a trace as one printable line.

    Terminal escapes and characters that nobody sees are removed, other control characters, line
    breaks and direction overrides become spaces, and what cannot be encoded becomes a question
    mark. A `##[`, which logs of GitHub Actions take for a command anywhere, is pulled apart.
    Of a text of more than 10,000 characters both ends are kept.
    """
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 2 :]}"
    printable = text
    if not text.isprintable():
        printable = "".join(_replacement(char) for char in _ESCAPES.sub("", text))
    return " ".join(printable.split()).replace("##[", "# #[")


def _replacement(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Cs":
        return "?"
    overrides = unicodedata.bidirectional(char) in {"LRE", "RLE", "PDF", "LRO", "RLO"} or (
        "\u2066" <= char <= "\u2069"
    )
    if category == "Cf" and not overrides:
        # Without width, such as a joiner: two names could look the same.
        return ""
    return " " if overrides or category in {"Cc", "Zl", "Zp"} else char
