"""Questions as people write them, made into scenarios."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ..core.errors import UsageError
from ..core.formatting import number_of
from ..core.patterns import bounded
from .gpus import gpu_speed, traced_gpu
from .scenario import Link, Scenario

_FACTOR = re.compile(r"x?\s*(\d{1,12}(?:\.\d{1,12})?|\.\d{1,12})\s*x?", re.IGNORECASE)
_RATE = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s*GB/s", re.IGNORECASE)
_LEAST, _MOST = 1e-3, 1e4
_MOST_SCENARIOS = 24
_MOST_COPIES = 10_000

Part = tuple[str, Callable[[Scenario], Scenario]]
"""What a choice is called, and what it does to a scenario."""


@dataclass(frozen=True)
class Question:
    """What to change. Several values of one field are alternatives, side by side.

    Rates are `2x` or `200GB/s`; `drop` holds regular expressions for names of operations.
    """

    link: tuple[str, ...] = ()
    link_h2d: tuple[str, ...] = ()
    link_d2h: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    n_bytes: tuple[str, ...] = ()
    earlier: tuple[int, ...] = ()
    window: tuple[int, ...] = ()
    compute: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()

    @property
    def asked(self) -> bool:
        """Whether there is any."""
        return any(getattr(self, name) for name in self.__dataclass_fields__)


def scenarios(question: Question, gpu_name: str | None) -> tuple[Scenario, ...]:
    """Everything asked for together, then each alone, and the alternatives of each.

    `gpu_name` is the GPU of the trace. Raises `UsageError` for what cannot be read.
    """
    choices = [choice for choice in _choices(question, gpu_name) if choice]
    count = math.prod(len(choice) for choice in choices)
    if count > _MOST_SCENARIOS:
        raise UsageError(
            f"{number_of(count, 'scenario')} are asked for, more than {_MOST_SCENARIOS}.",
            "Give fewer values of one option at a time.",
        )
    together = [_joined(parts) for parts in product(*choices)] if choices else []
    if len(choices) > 1:
        together += [_joined([part]) for choice in choices for part in choice]
    return tuple(together)


def _joined(parts: Sequence[Part]) -> Scenario:
    result = Scenario()
    for _, apply in parts:
        result = apply(result)
    return replace(result, name=" + ".join(name for name, _ in parts))


def _choices(question: Question, gpu_name: str | None) -> list[list[Part]]:
    return [
        [_link(text, "--link", "link", True, True) for text in question.link],
        [_link(text, "--link-h2d", "H2D link", True, False) for text in question.link_h2d],
        [_link(text, "--link-d2h", "D2H link", False, True) for text in question.link_d2h],
        [_drop(pattern) for pattern in question.drop],
        [_bytes(text) for text in question.n_bytes],
        [_copies(n, "earlier") for n in question.earlier],
        [_copies(n, "window") for n in question.window],
        [_speed(text, "--compute", "compute") for text in question.compute],
        [_speed(text, "--memory", "memory") for text in question.memory],
        [_gpu(name, gpu_name) for name in question.gpu],
    ]


def parse_link(text: str, option: str) -> Link:
    """A link as `2x` or `200GB/s`; raises `UsageError`."""
    rate = _RATE.fullmatch(text.strip())
    if rate is not None:
        return Link(gb_per_s=_positive(float(rate[1]), text, option))
    times = factor(text, option)
    if "x" not in text.lower():
        raise UsageError(
            f"{option}: {text!r} may be a factor or a rate.", f"Write {times:g}x or {times:g}GB/s."
        )
    return Link(times=times)


def factor(text: str, option: str) -> float:
    """A number such as `2x` or `0.5`; raises `UsageError` for none, 0, and what is too far off."""
    match = _FACTOR.fullmatch(text.strip())
    if match is None:
        write = "2x or 200GB/s" if "link" in option else "0.5" if option == "--bytes" else "2x"
        raise UsageError(f"{option}: {text!r} is not a number.", f"Write {write}.")
    return _positive(float(match[1]), text, option)


def _positive(value: float, text: str, option: str) -> float:
    if not _LEAST <= value <= _MOST:
        raise UsageError(
            f"{option}: {text!r} is not between {_LEAST:g} and {_MOST:g}.",
            "Nothing ends at a rate of 0; --drop leaves transfers out.",
        )
    return value


def _link(text: str, option: str, what: str, h2d: bool, d2h: bool) -> Part:
    link = parse_link(text, option)
    name = f"{what} {link.times:g}x" if link.gb_per_s is None else f"{what} {link.gb_per_s:g} GB/s"
    return name, lambda s: replace(s, h2d=link if h2d else s.h2d, d2h=link if d2h else s.d2h)


def _drop(pattern: str) -> Part:
    if not pattern:
        # It would match every operation.
        raise UsageError("--drop is empty; is a variable not set?", "A . matches all operations.")
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--drop {pattern!r} is no regular expression: {error}.", "Quote special characters."
        ) from None
    too_long = UsageError(
        f"--drop {pattern!r} takes too long to search for.",
        "Write it without repeats inside repeats.",
    )

    def matches(name: str) -> bool:
        with bounded(too_long):
            return regex.search(name) is not None

    return f"drop {pattern}", lambda s: replace(s, drop=matches)


def _bytes(text: str) -> Part:
    value = factor(text, "--bytes")
    return f"{value:g} x the bytes", lambda s: replace(s, n_bytes=value)


def _copies(n: int, field: str) -> Part:
    if not 1 <= n <= _MOST_COPIES:
        raise UsageError(
            f"--{field} {n} is no number of copies.", f"Write a number from 1 to {_MOST_COPIES}."
        )
    if field == "earlier":
        name = f"H2D {number_of(n, 'copy', 'copies')} earlier"
        return name, lambda s: replace(s, earlier=n)
    name = f"D2H window of {number_of(n, 'copy', 'copies')}"
    return name, lambda s: replace(s, window=n)


def _speed(text: str, option: str, field: str) -> Part:
    value = factor(text, option)
    what = "matrix products" if field == "compute" else "memory"
    return (
        f"{what} {value:g}x",
        lambda s: replace(s, compute=value) if field == "compute" else replace(s, memory=value),
    )


def _gpu(name: str, gpu_name: str | None) -> Part:
    other, own = gpu_speed(name), traced_gpu(gpu_name)
    if own is None:
        raise UsageError(
            f"the GPU of the trace ({gpu_name or 'not named'}) is not in the table.",
            "Give --compute, --memory and --link instead of --gpu.",
        )
    note = f"speeds of {other.name} from the {other.source}; of {own.name} from the {own.source}"
    return f"on {other.name}", lambda s: replace(
        s,
        h2d=Link(gb_per_s=other.h2d_gb_per_s),
        d2h=Link(gb_per_s=other.d2h_gb_per_s),
        compute=other.bf16_tflops / own.bf16_tflops,
        memory=other.memory_tb_per_s / own.memory_tb_per_s,
        arithmetic=True,
        notes=(*s.notes, "scenario arithmetic, untested on that GPU", note),
    )


def sweep_factors(text: str, n: int = 13) -> tuple[float, ...]:
    """`link=0.25:16` as rates relative to now, evenly apart on a logarithmic scale, with 1.

    Raises `UsageError` for anything else.
    """
    what, equals, values = text.partition("=")
    low, colon, high = values.partition(":")
    if what.strip() != "link" or not equals or not colon:
        raise UsageError(f"--sweep {text!r} is no sweep.", "Write --sweep link=0.25:16.")
    first, last = factor(low, "--sweep"), factor(high, "--sweep")
    if first >= last:
        raise UsageError(f"--sweep {text!r} ends before it begins.", "Put the smaller rate first.")
    ratio = last / first
    points = {round(first * ratio ** (i / (n - 1)), 6) for i in range(n)}
    if first <= 1 <= last:
        points.add(1.0)
    return tuple(sorted(points))
