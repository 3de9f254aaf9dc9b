"""What can be told of the transfers of one direction, of a time budget, of relief and of memory."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from operator import attrgetter

from ..core.formatting import NONE, format_bytes, format_ns, format_share
from ..core.limits import Unit
from .columns import Column, Place
from .numbers import BUDGET_ROLES, Memory, Overlap, Relief, TimeBudget

_EVERYWHERE = Place.FRAME | Place.STORED


def exactly(part: int | None, whole: int) -> Fraction | None:
    """A share as a fraction; None where the part is unknown or there is nothing to share."""
    return None if part is None or not whole else Fraction(part, whole)


def _size(part: Overlap) -> str:
    """Bytes moved, with a tilde where those of kernels are estimated."""
    return f"{'~' if part.bytes_estimated else ''}{format_bytes(part.bytes + part.bytes_estimated)}"


_UNTOLD_SHARE = 1000
"""What may be unknown of the exposed time, one part in so many, before a gate cannot tell."""
_UNTOLD = ": the trace cannot tell who waited for the exposed time"


def _told(name: str, part: Overlap) -> int | None:
    """A part of the exposed time, where next to nothing is unknown: a limit may be held to it."""
    told = part.unresolved_ns * _UNTOLD_SHARE <= part.exposed_ns
    ns: int | None = getattr(part, name)
    return ns if told else None


def _at_least(ns: int | None, part: Overlap) -> str:
    """A share of the exposed time; `at least` so much where the trace leaves more open, and a dash
    where it may be nothing or not.
    """

    def text(ns: int) -> str:
        share = exactly(ns, part.exposed_ns)
        return format_share(None if share is None else float(share))

    return _open(ns, part, text)


def _open(ns: int | None, part: Overlap, text: Callable[[int], str]) -> str:
    """A part of the exposed time in words, which may be up to `unresolved_ns` more."""
    if ns is None:
        return NONE
    least, most = text(ns), text(ns + part.unresolved_ns)
    if least == most:
        return least
    return f"≥{least}" if ns else NONE


def _time_at_least(name: str, part: Overlap) -> str:
    """A part of the exposed time, as `_at_least`."""
    return _open(getattr(part, name), part, format_ns)


OVERLAP: tuple[Column[Overlap], ...] = (
    Column("n", Unit.COUNT, "number of transfers", attrgetter("n"), "n", _EVERYWHERE, "n"),
    Column(
        "n_by_kernel", Unit.COUNT, "of them moved by SM kernels", attrgetter("n_by_kernel"),
    ),
    Column("bytes", Unit.BYTES, "bytes of copies", attrgetter("bytes"), "size", _EVERYWHERE),
    Column(
        "bytes_estimated", Unit.BYTES, "bytes of transfer kernels, judged by their threads",
        attrgetter("bytes_estimated"),
    ),
    Column(
        "size", Unit.BYTES, "bytes moved; those of transfer kernels are estimated",
        lambda o: o.bytes + o.bytes_estimated, "size", Place.NOWHERE, "bytes", show=_size,
    ),
    Column("busy_ns", Unit.TIME, "sum of durations", attrgetter("busy_ns")),
    Column(
        "wall_ns", Unit.TIME, "time during which at least one ran, concurrent ones once",
        attrgetter("wall_ns"), "wall", _EVERYWHERE, "wall_ms", False,
    ),
    Column(
        "hidden_by_compute_ns", Unit.TIME, "part of the transfer time behind compute",
        attrgetter("hidden_by_compute_ns"), "behind compute", _EVERYWHERE, "hidden_ms", True,
    ),
    Column(
        "hidden_by_comm_ns", Unit.TIME, "part of the transfer time behind communication only",
        attrgetter("hidden_by_comm_ns"), "behind comm only", _EVERYWHERE,
    ),
    Column(
        "exposed_ns", Unit.TIME, "transfer time behind neither compute nor communication",
        attrgetter("exposed_ns"), "exposed", _EVERYWHERE, "exposed_ms", False, barred=True,
    ),
    Column(
        "exposed_under_other_ns", Unit.TIME, "part of the exposed time under other work",
        attrgetter("exposed_under_other_ns"),
    ),
    Column(
        "blocking_ns", Unit.TIME,
        "part of the exposed time that compute demonstrably waited for; missing where unknown",
        attrgetter("blocking_ns"), "compute waited",
        show=partial(_time_at_least, "blocking_ns"),
    ),
    Column(
        "blocking_share", Unit.SHARE, "share of the exposed time that compute waited for",
        lambda o: exactly(o.blocking_ns, o.exposed_ns), "compute waited", Place.NOWHERE,
        show=lambda o: _at_least(o.blocking_ns, o),
    ),
    Column(
        "host_blocking_ns", Unit.TIME,
        "part of the exposed time that a host thread waited for, and compute did not",
        attrgetter("host_blocking_ns"), "host waited",
        show=partial(_time_at_least, "host_blocking_ns"),
    ),
    Column(
        "host_blocking_share", Unit.SHARE, "share of the exposed time that the host waited for",
        lambda o: exactly(o.host_blocking_ns, o.exposed_ns), "host waited", Place.NOWHERE,
        show=lambda o: _at_least(o.host_blocking_ns, o),
    ),
    Column(
        "unawaited_ns", Unit.TIME, "part of the exposed time that nothing waited for",
        attrgetter("unawaited_ns"), "nothing waited",
        show=partial(_time_at_least, "unawaited_ns"),
    ),
    Column(
        "unresolved_ns", Unit.TIME,
        "part of the exposed time of which the trace cannot tell whether anything waited",
        attrgetter("unresolved_ns"), "unknown",
    ),
    *(
        Column(
            f"known_{name}", Unit.TIME, f"exposed time that {who} waited for",
            partial(_told, name), f"{who} waited", Place.NOWHERE, metric, better, absent=_UNTOLD,
        )
        for name, who, metric, better in (
            ("blocking_ns", "compute", "blocking_ms", False),
            ("host_blocking_ns", "the host, and not compute,", "host_blocking_ms", False),
            ("unawaited_ns", "nothing", "unawaited_ms", None),
        )
    ),
    Column(
        "hidden_share", Unit.SHARE, "share of the transfer time behind compute",
        lambda o: exactly(o.hidden_by_compute_ns, o.wall_ns), "behind compute", _EVERYWHERE,
        "hidden", True,
    ),
    Column(
        "covered_share", Unit.SHARE, "share behind compute or communication",
        lambda o: exactly(o.hidden_by_compute_ns + o.hidden_by_comm_ns, o.wall_ns), "covered",
        Place.FRAME, "covered", True,
    ),
    Column(
        "comm_share", Unit.SHARE, "share behind communication only",
        lambda o: exactly(o.hidden_by_comm_ns, o.wall_ns), "behind comm only", Place.NOWHERE,
    ),
    Column(
        "exposed_share", Unit.SHARE, "share behind neither",
        lambda o: exactly(o.exposed_ns, o.wall_ns), "exposed", Place.NOWHERE, "exposed", False,
    ),
    Column(
        "gb_per_s", Unit.RATE, "GB/s (10^9): bytes of whole copies over their durations",
        lambda o: Fraction(o.bytes, o.copy_ns) if o.bytes and o.copy_ns else None, "GB/s",
        Place.FRAME, "gb_per_s", True, absent=" has no copies among its {what}",
    ),
)  # fmt: skip
"""Of the transfers of one direction. Add a column here and it is a metric of the gate, a column of
each DataFrame and a row of the documentation."""

_BUDGET = {
    "compute": "compute",
    "comm": "communication",
    "transfer": "exposed transfers",
    "other": "other work",
    "opaque": "CUDA graphs recorded as a whole",
    "idle": "nothing",
}

BUDGET: tuple[Column[TimeBudget], ...] = tuple(
    Column(
        f"{role}_ns", Unit.TIME, f"time budget: {_BUDGET[role]}", attrgetter(f"{role}_ns"), role,
        _EVERYWHERE,
    )
    for role in BUDGET_ROLES
)  # fmt: skip

BUDGET_TITLES = {
    "compute": "compute",
    "comm": "communication",
    "transfer": "exposed transfers",
    "other": "other GPU work",
    "opaque": "opaque CUDA graphs",
    "idle": "idle",
}
"""What the parts are called in legends."""

RELIEF: tuple[Column[Relief], ...] = (
    Column(
        "relief_bytes", Unit.BYTES, "most bytes on the host at once, device memory freed",
        attrgetter("relief_bytes"), "relief", _EVERYWHERE, "relief_bytes", True,
    ),
    Column(
        "offloaded_bytes", Unit.BYTES, "bytes that went out and came back",
        attrgetter("offloaded_bytes"), "offloaded", _EVERYWHERE, "offloaded_bytes",
    ),
    Column(
        "excluded_bytes", Unit.BYTES, "bytes left out, of sizes that move one way only",
        attrgetter("excluded_bytes"),
    ),
    Column(
        "relief_share", Unit.SHARE, "`relief_bytes` of `offloaded_bytes`",
        lambda r: exactly(r.relief_bytes, r.offloaded_bytes), "relief share", Place.FRAME,
        "relief", True, absent=" offloaded nothing that came back",
    ),
)  # fmt: skip

MEMORY: tuple[Column[Memory], ...] = tuple(
    Column(name, Unit.BYTES, meaning, attrgetter(name), heading, Place.FRAME, name, False)
    for name, heading, meaning in (
        (
            "peak_bytes", "peak",
            "most device memory in use, by the manifest beside the trace: as the allocator says, "
            "else as the compiler planned",
        ),
        ("planned_bytes", "planned", "device memory that the compiler asks for, by the manifest"),
        ("host_bytes", "pinned", "pinned memory of the host, by the manifest"),
    )
)  # fmt: skip
