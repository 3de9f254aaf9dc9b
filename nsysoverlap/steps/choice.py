"""Which of the ranges that may mark steps do, told by the GPU time that they launch."""

from __future__ import annotations

import numpy as np

from ..core.arrays import Int64Array
from ..core.formatting import number_of
from ..core.records import dataclass
from ..result.model import HealthEntry
from ..result.numbers import format_share
from ..trace.host import HostSide
from .markers import Marker

_COVERS = 0.8
"""Steps launch at least this share of the GPU time launched from the first to the last of them."""
_OF_THE_MOST = 0.5
"""And as much of what the candidate that launches most does: a few ranges side by side hold all
that lies between them, however little that is."""
_FEWEST = 2
_N_NAMED = 3


@dataclass(frozen=True)
class Candidate:
    """A marker with the GPU time that its ranges launched, and all that was launched from the
    first to the last of them.
    """

    marker: Marker
    inside_ns: int
    between_ns: int

    @property
    def share(self) -> float:
        """How much of the time between was launched inside; 0 where nothing was."""
        return self.inside_ns / self.between_ns if self.between_ns else 0.0


class Launched:
    """GPU time launched by each process, by the host time of the launch."""

    def __init__(
        self, host: HostSide, call: Int64Array, start_ns: Int64Array, end_ns: Int64Array
    ) -> None:
        """`call` (n,) is the launch of each GPU row, -1 for none; the others are its times."""
        self._host = host
        known = np.flatnonzero(call >= 0)
        at = host.calls.start_ns[call[known]]
        order = np.argsort(at, kind="stable")
        self._at = at[order]
        self._length = (end_ns - start_ns)[known[order]]
        self._pid = host.thread_pid[host.calls.thread[call[known[order]]]]
        self._by_process: dict[int, tuple[Int64Array, Int64Array]] = {}

    def _of(self, global_pid: int) -> tuple[Int64Array, Int64Array]:
        """Host times of the launches of a process (n,), and GPU time launched until each (n + 1,).

        Kept, for there may be many candidates.
        """
        if global_pid not in self._by_process:
            own = self._pid == global_pid
            total = np.concatenate(([0], np.cumsum(self._length[own])))
            self._by_process[global_pid] = self._at[own], total
        return self._by_process[global_pid]

    def weigh(self, marker: Marker) -> Candidate:
        """What the ranges of a marker launched, on any thread of their process."""
        ranges = self._host.ranges
        at, total = self._of(marker.global_pid)
        start, end = ranges.start_ns[marker.ranges], ranges.end_ns[marker.ranges]
        # Ranges of several threads overlap: each counts from where those before it ended.
        reach = np.concatenate((start[:1], np.maximum.accumulate(end)[:-1]))
        first = np.searchsorted(at, np.maximum(start, reach), side="left")
        last = np.searchsorted(at, end, side="right")
        inside = int((total[np.maximum(last, first)] - total[first]).sum())
        between = total[np.searchsorted(at, end.max(), side="right")]
        return Candidate(marker, inside, int(between - total[np.searchsorted(at, start[0])]))


def choose(candidates: list[Candidate]) -> Candidate | None:
    """The marker of one process: of those that launch nearly all, the one of fewest steps.

    Epochs and loops come after all steps, XLA modules after ranges of the program, and modules
    that are a step only together after one that is a step alone.
    """
    fitting = [one for one in candidates if one.marker.n_steps >= _FEWEST and one.share >= _COVERS]
    most = max((one.inside_ns for one in fitting), default=0)
    enough = [one for one in fitting if one.inside_ns >= _OF_THE_MOST * most]
    return min(
        enough,
        key=lambda one: (
            one.marker.kind.around,
            bool(one.marker.kind.parts),
            one.marker.n_steps,
            one.marker.kind.is_module,
            one.marker.kind.name,
        ),
        default=None,
    )


def rejected(candidates: list[Candidate], chosen: list[Candidate]) -> tuple[HealthEntry, ...]:
    """A note of the ranges that repeat and might have marked steps."""
    taken = {(one.marker.global_pid, one.marker.n_steps) for one in chosen}
    parts = {name for one in chosen for name in one.marker.kind.parts}
    kinds = {one.marker.kind for one in chosen}
    kinds |= {one.marker.kind for one in candidates if one.marker.kind.name in parts}
    best: dict[str, Candidate] = {}
    for one in candidates:
        # What holds as much in as many ranges says the same.
        same = one.share >= _COVERS and (one.marker.global_pid, one.marker.n_steps) in taken
        few = one.marker.n_steps < _FEWEST or not one.between_ns
        # Modules in turn are named one by one.
        same |= bool(one.marker.kind.parts)
        if one.marker.kind not in kinds and not same and not few:
            name = one.marker.kind.name
            best[name] = max(one, best.get(name, one), key=lambda each: each.inside_ns)
    if not best:
        return ()
    ordered = sorted(best.values(), key=lambda one: (-one.inside_ns, one.marker.kind.name))
    named = [
        f"{one.marker.kind.name} ({one.marker.n_steps:,} x, "
        f"{format_share(one.share)} of the GPU time launched between them)"
        for one in ordered[:_N_NAMED]
    ]
    more = f" and {len(best) - _N_NAMED} more" if len(best) > _N_NAMED else ""
    message = f"Not taken as steps: {', '.join(named)}{more}."
    hint = "--steps REGEX takes ranges by their text."
    return (HealthEntry("steps-rejected", "note", message, hint, count=len(best)),)


def without_steps(what: str, pids: list[int]) -> tuple[HealthEntry, ...]:
    """A note of the processes for which no steps were found; () for none."""
    if not pids:
        return ()
    named = ", ".join(map(str, pids))
    message = (
        f"{number_of(len(pids), 'process has', 'processes have')} no steps {what}: pid {named}."
    )
    hint = "Their time is outside the steps. Mark theirs too, or use --steps none."
    return (HealthEntry("rank-without-steps", "warning", message, hint, count=len(pids)),)
