"""Which NVTX ranges may mark the steps of a trace, by their texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..core.arrays import Int64Array
from ..core.errors import UsageError
from ..core.patterns import bounded
from ..trace.host import HostSide
from .labels import STEP_LIKE, without_suffix

_N_SHOWN = 48
"""Characters of a range's text in an error."""
_DIGITS = re.compile(r"\d+")
_COUNTERS = re.compile(r"(?<![A-Za-z0-9])\d+")
"""Numbers of their own: the one of MobileNetV3 is none."""
_PHASE = re.compile(
    r"optimi[sz]er|(?<![a-z])(?:opt|fwd|bwd|loss|data|h2d|d2h)(?![a-z])|sched|scaler|zero_?grad"
    r"|forward|backward|micro[ _-]?batch|data_?loader|all_?gather|all_?reduce|reduce_?scatter|nccl"
    r"|sampl|(?:pre|post)process|prefetch|^aten::|^autograd::|^FSDP::|^DeepSpeedEngine\.|^Thunk:"
    r"|\[(?:Strategy|LightningModule|Callback)\]",
    re.IGNORECASE,
)
_MODULE = "XlaModule"
_MOST_IN_TURN = 8
"""Of more modules than that no step is made."""
_AROUND = re.compile(r"(?<![A-Za-z])(?:epoch|loop|warm[ _-]?up)(?![A-Za-z])", re.IGNORECASE)
_XLA_MODULE = re.compile(r"^(?:TSL:)?XlaModule:#(?:.*,)?hlo_module=(?P<module>[^,#]+)")
_OF_A_LIBRARY = re.compile(r"aten::|autograd::|Thunk:|XlaModule:|nccl[A-Z]|cub::|thrust::|nvte_")
_SERVING = (
    (re.compile(r"^\[Executor\] _forward_step\b"), "[Executor] _forward_step"),
    (
        re.compile(r"^execute(?:_\d+)?_context_\d+\(.*\)_generation_\d+\("),
        "execute_context_generation",
    ),
)
"""Iterations of TensorRT-LLM and vLLM, whose texts count what they hold."""


@dataclass(frozen=True)
class MarkerKind:
    """What a text may mark; `around` is true for epochs and loops, which hold steps.

    `parts` names the kinds that run in turn and are one step together.
    """

    name: str
    around: bool = False
    parts: tuple[str, ...] = ()

    @property
    def is_module(self) -> bool:
        """Whether it is of one or several XLA modules."""
        return self.name.startswith(_MODULE)


@dataclass(frozen=True)
class Marker:
    """Ranges of one process that mark steps.

    `ranges` (n,) indexes `HostSide.ranges`, in order of start. `step` (n,) counts the steps from
    0: ranges of different threads that overlap are one step.
    """

    kind: MarkerKind
    global_pid: int
    ranges: Int64Array
    step: Int64Array

    @property
    def n_steps(self) -> int:
        """How many steps it marks."""
        return int(self.step[-1]) + 1


@lru_cache(maxsize=1 << 14)
def kind_of(text: str) -> MarkerKind | None:
    """What the ranges of a text may mark; None for phases and all that holds no word for a step."""
    if match := _XLA_MODULE.search(text):
        return MarkerKind(f"{_MODULE} {match['module']}")
    text = without_suffix(text)
    for pattern, name in _SERVING:
        if pattern.search(text):
            return MarkerKind(f"NVTX ranges '{name}'")
    around, is_step = bool(_AROUND.search(text)), bool(STEP_LIKE.search(text))
    if not (around or is_step) or _PHASE.search(text):
        return None
    # In `epoch 0, step 12` the step is what counts, but a warm-up step is no step to measure.
    warm_up = bool(re.search(r"warm[ _-]?up", text, re.IGNORECASE))
    return MarkerKind(f"NVTX ranges {_DIGITS.sub('N', text)!r}", warm_up or not is_step)


def step_label(text: str) -> str:
    """What a step is called: the module of an XlaModule range, any other text as it is."""
    match = _XLA_MODULE.search(text)
    return match["module"] if match else text


def candidate_markers(host: HostSide) -> list[Marker]:
    """All groups of ranges whose texts may mark steps, process by process."""
    kinds: dict[MarkerKind | None, int] = {None: -1}
    of_text = [kinds.setdefault(kind_of(text), len(kinds) - 1) for text in host.texts]
    if len(kinds) == 1:
        return []
    # The last one is for ranges without a text.
    of_range = np.array([*of_text, -1], np.int64)[host.ranges.text]
    rows = np.flatnonzero(of_range >= 0)
    rows = rows[np.argsort(of_range[rows], kind="stable")]
    bounds = np.searchsorted(of_range[rows], np.arange(len(kinds)))
    markers = [
        marker
        for kind, i in kinds.items()
        if kind is not None
        for marker in _markers(host, kind, rows[bounds[i] : bounds[i + 1]])
    ]
    modules: dict[int, list[Marker]] = {}
    for marker in markers:
        if marker.kind.is_module and len(marker.ranges) == marker.n_steps > 1:
            modules.setdefault(marker.global_pid, []).append(marker)
    return [*markers, *(one for own in modules.values() for one in _in_turn(host, own))]


def _in_turn(host: HostSide, modules: list[Marker]) -> list[Marker]:
    """XLA modules of a process that always run one after the other, such as one for the gradients
    and one for the update, as one marker for each set.

    The trace may end in the middle of a turn, so counts may differ by one.
    """
    found = []
    for n in sorted({one.n_steps for one in modules}):
        for counts in ((n,), (n, n - 1)):
            group = [one for one in modules if one.n_steps in counts]
            if not 1 < len(group) <= _MOST_IN_TURN or {one.n_steps for one in group} != {*counts}:
                continue
            ranges = np.concatenate([one.ranges for one in group])
            which = np.repeat(np.arange(len(group)), [one.n_steps for one in group])
            order = np.argsort(host.ranges.start_ns[ranges], kind="stable")
            first = which[order[: len(group)]]
            if not np.array_equal(which[order], np.resize(first, len(order))):
                continue
            n_turns = len(order) // len(group)
            names = tuple(group[i].kind.name for i in first.tolist())
            said = ", ".join(name.removeprefix(f"{_MODULE} ") for name in names)
            kind = MarkerKind(f"{_MODULE}s {said} in turn", parts=names)
            step = np.repeat(np.arange(n_turns), len(group))
            found.append(Marker(kind, group[0].global_pid, ranges[order[: len(step)]], step))
    return found


def asked_markers(host: HostSide, pattern: str, file_name: str) -> list[Marker]:
    """All ranges whose text matches the user's regex, process by process.

    Where none does, those that a report calls so: with N for numbers, or cut. Raises `UsageError`
    where there are none of these either, or the search takes too long.
    """
    texts = _asked_texts(host.texts, pattern, file_name)
    kind = MarkerKind(f"NVTX ranges that match {pattern}")
    found = _markers(host, kind, np.flatnonzero(np.isin(host.ranges.text, texts)))
    if not found:
        there_are = repeating_ranges(host)
        has = f"Its ranges, by time: {there_are}." if there_are else "It has none with a text."
        raise UsageError(
            f"{file_name}: no NVTX range matches --steps {pattern!r}.",
            f"{has} --steps none measures the whole trace.",
        )
    return found


def _asked_texts(texts: Sequence[str], pattern: str, file_name: str) -> list[int]:
    """Indices of the texts that the user asks for; a name from a report need not be a regex."""
    found, no_regex = list[int](), None
    too_long = UsageError(
        f"{file_name}: --steps {pattern!r} takes too long to search for in NVTX texts.",
        "Write it without repeats inside repeats, such as '^step' or 'batch-[0-9]+'.",
    )
    try:
        regex = compile_steps(pattern)
    except UsageError as error:
        no_regex = error
    else:
        with bounded(too_long):
            found = [code for code, text in enumerate(texts) if regex.search(text)]
    if not found:
        found = [code for code, text in enumerate(texts) if pattern in _called(text)]
    if not found and no_regex is not None:
        raise no_regex
    return found


def _called(text: str) -> tuple[str, ...]:
    """What reports, notes and messages call ranges of a text."""
    name, kind = _COUNTERS.sub("N", without_suffix(text)), kind_of(text)
    return name, name[:_N_SHOWN], _DIGITS.sub("N", without_suffix(text)), kind.name if kind else ""


def compile_steps(pattern: str) -> re.Pattern[str]:
    """The user's regex for NVTX text; raises `UsageError` where it is none."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--steps {pattern!r} is no regular expression ({error}).",
            "Use auto, none, guess or a regular expression for NVTX text, such as '^step'.",
        ) from error


def repeating_ranges(host: HostSide, least: int = 1) -> str:
    """Ranges that a regex could name, those that repeat and take most time first; '' for none.

    With `least` only those that occur so often, and none of a library.
    """
    count: Counter[str] = Counter()
    length: Counter[str] = Counter()
    named = host.ranges.text >= 0
    lengths = (host.ranges.end_ns - host.ranges.start_ns)[named]
    codes, of_row, n = np.unique(host.ranges.text[named], return_inverse=True, return_counts=True)
    total = np.bincount(of_row.reshape(-1), weights=lengths, minlength=len(codes))
    for code, times, ns in zip(codes.tolist(), n.tolist(), total.tolist(), strict=True):
        name = _COUNTERS.sub("N", without_suffix(host.texts[code]))
        count[name] += times
        length[name] += ns
    named_texts = [
        name
        for name in count
        if name and count[name] >= least and not (least > 1 and _OF_A_LIBRARY.match(name))
    ]
    ordered = sorted(named_texts, key=lambda name: (count[name] < 2, -length[name], name))
    return ", ".join(f"{name[:_N_SHOWN]!r} ({count[name]:,} x)" for name in ordered[:3])


def _markers(host: HostSide, kind: MarkerKind, ranges: Int64Array) -> list[Marker]:
    """The ranges of a kind that lie in no other one of the same thread, process by process."""
    ranges = _outermost(host, ranges)
    pids = host.thread_pid[host.ranges.thread[ranges]]
    found = []
    for pid in np.unique(pids).tolist():
        own = ranges[pids == pid]
        found.append(Marker(kind, pid, own, _steps(host, own)))
    return found


def _steps(host: HostSide, ranges: Int64Array) -> Int64Array:
    """Number of the step of each range: those of other threads join the one that they overlap.

    Of one thread only one range joins: where one thread is ahead of another, as with a thread for
    each GPU, all ranges of a run would overlap in a chain.
    """
    columns = host.ranges
    thread = columns.thread[ranges].tolist()
    if len(set(thread)) < 2:
        return np.arange(len(ranges))
    start, end = columns.start_ns[ranges].tolist(), columns.end_ns[ranges].tolist()
    step, number, reach, inside = [], -1, start[0] - 1, set(thread)
    for i, one in enumerate(thread):
        if one in inside or start[i] >= reach:
            number, reach, inside = number + 1, end[i], set()
        inside.add(one)
        reach = max(reach, end[i])
        step.append(number)
    return np.array(step, np.int64)


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
