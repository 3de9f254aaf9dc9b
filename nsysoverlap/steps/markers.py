"""Which NVTX ranges mark the steps of a trace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..core.arrays import Int64Array
from ..core.errors import UsageError
from ..core.patterns import bounded
from ..trace.host import HostSide

_N_SHOWN = 48
"""Characters of a range's text in an error."""
_DIGITS = re.compile(r"\d+")
STEP_LIKE = re.compile(
    r"^(?:\w+[ _./:-])?(?:step|iteration|iter|train_step|training_step|ProfilerStep)"
    # From the first # on: from every one, a long text of them would take minutes.
    r"(?:[ _#:=-]*\d+)?$|^[^#]*#(?:.*[,#])?step_num=\d+",
    re.IGNORECASE,
)
_XLA_MODULE = re.compile(r"^XlaModule:#(?:.*,)?hlo_module=(?P<module>[^,#]+)")


@dataclass(frozen=True)
class Marker:
    """Ranges that mark steps: `ranges` indexes `HostSide.ranges`, in order of start."""

    name: str
    ranges: Int64Array


def compile_steps(pattern: str) -> re.Pattern[str]:
    """The user's regex for NVTX text; raises `UsageError` where it is none."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--steps {pattern!r} is no regular expression ({error}).",
            "Use auto, none, guess or a regular expression for NVTX text, such as '^step'.",
        ) from error


def asked_marker(host: HostSide, pattern: str, file_name: str) -> Marker:
    """All ranges whose text matches the user's regex; raises `UsageError` where none does or the
    search takes too long.
    """
    regex = compile_steps(pattern)
    too_long = UsageError(
        f"{file_name}: --steps {pattern!r} takes too long to search for in NVTX texts.",
        "Write it without repeats inside repeats, such as '^step' or 'batch-[0-9]+'.",
    )
    with bounded(too_long):
        texts = [code for code, text in enumerate(host.texts) if regex.search(text)]
    ranges = _outermost(host, np.flatnonzero(np.isin(host.ranges.text, texts)))
    if not len(ranges):
        raise UsageError(
            f"{file_name}: no NVTX range matches --steps {pattern!r}.",
            f"{_there_are(host)} --steps none measures the whole trace.",
        )
    return Marker(f"NVTX ranges that match {pattern}", ranges)


def _there_are(host: HostSide) -> str:
    """Ranges that a regex could name: those that repeat, and take most time, first."""
    if not len(host.ranges):
        return "It has none."
    count: Counter[str] = Counter()
    length: Counter[str] = Counter()
    named = host.ranges.text >= 0
    lengths = (host.ranges.end_ns - host.ranges.start_ns)[named]
    codes, of_row, n = np.unique(host.ranges.text[named], return_inverse=True, return_counts=True)
    total = np.bincount(of_row.reshape(-1), weights=lengths, minlength=len(codes))
    for code, times, ns in zip(codes.tolist(), n.tolist(), total.tolist(), strict=True):
        name = _DIGITS.sub("N", host.texts[code])
        count[name] += times
        length[name] += ns
    ordered = sorted(filter(None, count), key=lambda name: (count[name] < 2, -length[name], name))
    names = [f"{name[:_N_SHOWN]!r} ({count[name]:,} x)" for name in ordered[:3]]
    return f"Its ranges, by time: {', '.join(names)}." if names else "Its ranges have no texts."


def candidate_markers(host: HostSide) -> Iterator[Marker]:
    """Groups of ranges that may mark steps, likeliest kinds first, larger groups first."""
    for kind in (_named_steps, _xla_modules):
        groups: dict[str, list[int]] = {}
        for code, text in enumerate(host.texts):
            name = kind(text)
            if name is not None:
                groups.setdefault(name, []).append(code)
        markers = [
            Marker(name, _outermost(host, np.flatnonzero(np.isin(host.ranges.text, codes))))
            for name, codes in groups.items()
        ]
        yield from sorted(markers, key=lambda marker: (-len(marker.ranges), marker.name))


def _named_steps(text: str) -> str | None:
    return f"NVTX ranges {_DIGITS.sub('N', text)!r}" if STEP_LIKE.search(text) else None


def _xla_modules(text: str) -> str | None:
    match = _XLA_MODULE.search(text)
    return f"XlaModule {match['module']}" if match else None


def step_label(text: str) -> str:
    """What a step is called: the module of an XlaModule range, any other text as it is."""
    match = _XLA_MODULE.search(text)
    return match["module"] if match else text


def _outermost(host: HostSide, ranges: Int64Array) -> Int64Array:
    """Those that lie in no other one of the same thread."""
    kept = np.zeros(len(ranges), np.bool_)
    thread = host.ranges.thread[ranges]
    for own in np.unique(thread).tolist():
        mine = np.flatnonzero(thread == own)
        end = host.ranges.end_ns[ranges[mine]]
        # Sorted by start, longest first: inside another one ends no later than those before.
        reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
        kept[mine] = end > reach
    return ranges[kept]
