"""How fast kernels run depends on how busy the GPU is: it is power that limits the clock.

    time x (max(u', floor) / max(u, floor)) ^ k,    u = kernel time / step time

The default was fitted on 96 pairs of arms of dense programs on H200s (rms 2.2 %); a small program
showed a k of 0.08. So without a calibration there is a range, from no law to the default one.
"""

from __future__ import annotations

from pathlib import Path

from ..core.records import dataclass


@dataclass(frozen=True)
class ClockLaw:
    """The exponent k and the share below which the clock no longer rises.

    `source` says where it is from. `on_kernels` is false where only the clock itself is known,
    which is no more than how much slower kernels can have become. `fitted_on` names the traces.
    """

    exponent: float
    floor: float
    source: str = "as calibrated"
    on_kernels: bool = True
    fitted_on: tuple[str, ...] = ()

    def slowdown(self, busy: float, busy_then: float) -> float:
        """How much longer kernels take when the GPU is busy for another share of the step."""
        now, then = max(busy, self.floor), max(busy_then, self.floor)
        return float((then / now) ** self.exponent)


DEFAULT_LAW = ClockLaw(0.37, 0.68, "the default")
CALIBRATED_SPREAD = 0.019
"""Half the width of what is predicted with a calibrated law: its own rms error was 2 %."""


@dataclass(frozen=True)
class ClockPair:
    """Two traces of one program that keep this machine's GPU busy unequally, to fit a law on."""

    first: Path
    second: Path
    floor: float = DEFAULT_LAW.floor
