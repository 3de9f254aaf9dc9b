"""What a traced program moves between device and host: the proof that an arm offloads.

The jaxpr is walked with its trip counts. XLA drops the annotations on a CPU, so the lowering for
CUDA is what shows that a GPU would see them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

PLACEMENT_CALL = "annotate_device_placement"


@dataclass(frozen=True)
class HostTraffic:
    """Copies of one execution of a program over all devices, and how often the program text
    names them: `*_copies` and `*_bytes` count repetitions in loops, `*_sites` do not.
    """

    d2h_copies: int = 0
    d2h_bytes: int = 0
    d2h_sites: int = 0
    h2d_copies: int = 0
    h2d_bytes: int = 0
    h2d_sites: int = 0

    def __add__(self, other: HostTraffic) -> HostTraffic:
        return HostTraffic(**{k: v + getattr(other, k) for k, v in asdict(self).items()})


def host_traffic(jaxpr: Any) -> HostTraffic:
    """The copies between memories in a (closed) jaxpr."""
    total = HostTraffic()
    for equation, times in _equations(jaxpr, 1):
        if equation.primitive.name == "device_put":
            for source, result in zip(equation.invars, equation.outvars, strict=True):
                total += _copy(source.aval, result.aval, times)
    return total


def _copy(source: Any, result: Any, times: int) -> HostTraffic:
    came_from, goes_to = on_host(source), on_host(result)
    if came_from == goes_to:
        return HostTraffic()
    n_bytes = times * math.prod(result.shape) * result.dtype.itemsize
    if goes_to:
        return HostTraffic(d2h_copies=times, d2h_bytes=n_bytes, d2h_sites=1)
    return HostTraffic(h2d_copies=times, h2d_bytes=n_bytes, h2d_sites=1)


def on_host(aval: Any) -> bool:
    """Whether a value lives in memory of the host."""
    return "host" in str(getattr(aval, "memory_space", "")).lower()


def _equations(jaxpr: Any, times: int) -> Iterator[tuple[Any, int]]:
    """Every equation, with how often it runs."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    for equation in inner.eqns:
        yield equation, times
        repeats = times * equation.params["length"] if equation.primitive.name == "scan" else times
        for value in equation.params.values():
            for nested in value if isinstance(value, (tuple, list)) else (value,):
                # By shape and not by class: jax moves these classes about.
                if hasattr(getattr(nested, "jaxpr", nested), "eqns"):
                    yield from _equations(nested, repeats)


def placement_calls(lowered_text: str) -> dict[str, int]:
    """How often StableHLO text asks for a placement, by memory kind."""
    found: dict[str, int] = {}
    for line in lowered_text.splitlines():
        if PLACEMENT_CALL in line and "custom_call" in line:
            kind = "pinned_host" if "pinned_host" in line else "device"
            found[kind] = found.get(kind, 0) + 1
    return found
