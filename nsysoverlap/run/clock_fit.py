"""The clock law of a machine, fitted on two traces: on their kernels, else on recorded clocks."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from ..core.errors import UsageError
from ..core.formatting import format_share
from ..replay.clock_pair import Load, apart, fit_pair, load_of
from ..roles.clock import ClockLaw, ClockPair
from ..steps.plan import StepSpec
from ..trace.load import read_trace
from .analysis import Options, trace_cases

MANIFEST = "manifest.json"
"""What the capture driver leaves beside a trace, with the clocks that it read."""
_MOST_BYTES = 1 << 24


def law_of(clock: ClockLaw | ClockPair | None) -> ClockLaw | None:
    """The law of a machine: as given, or fitted.

    Raises `UsageError` for a pair that tells nothing, and `TraceFileError`.
    """
    return _fitted(clock) if isinstance(clock, ClockPair) else clock


@lru_cache(maxsize=4)
def _fitted(pair: ClockPair) -> ClockLaw:
    files = pair.first, pair.second
    one, other = (_load(path) for path in files)
    names = " and ".join(path.name for path in files)
    fit = fit_pair(one, other, pair.floor)
    if not isinstance(fit, str):
        return ClockLaw(
            fit.law.exponent,
            fit.law.floor,
            f"fitted on {names} (the same kernels, {format_share(fit.matched_share, 0)} of their "
            f"time, take {fit.ratio:.3f}x as long in the busier one)",
            fitted_on=tuple(path.name for path in files),
        )
    mhz = [recorded_mhz(path) for path in files]
    far = apart(one, other, pair.floor)
    if mhz[0] is None or mhz[1] is None or not far:
        _refuse(pair, fit)
    exponent = math.log(mhz[0] / mhz[1]) / far
    if not 0 <= exponent <= 1:
        _refuse(pair, f"{fit}, and no law explains the clocks recorded beside them")
    recorded = f"{mhz[0]:.0f} and {mhz[1]:.0f} MHz recorded beside {names}"
    return ClockLaw(
        exponent,
        pair.floor,
        f"from the SM clocks, {recorded}",
        on_kernels=False,
        fitted_on=tuple(path.name for path in files),
    )


def _refuse(pair: ClockPair, reason: str) -> NoReturn:
    raise UsageError(
        f"no clock law can be fitted on {pair.first.name} and {pair.second.name}: {reason}.",
        "Give two traces of one program of this machine, one that waits and one that does not.",
    )


def _load(path: Path) -> Load:
    trace = read_trace(path)
    for steps in ("auto", "guess"):
        cases = trace_cases(trace, Options(steps=StepSpec(steps)))
        found = load_of(cases.classified, cases.launches, cases.plan.windows)
        if found is not None:
            return found
    raise UsageError(
        f"{path.name}: a clock law needs two steps that follow each other, with single kernels.",
        "Give another trace in clock.pair.",
    )


def recorded_mhz(path: Path) -> float | None:
    """The mean SM clock that the capture driver read beside a trace; None where it did not.

    The mean has waiting in it, when the clock is higher, so kernels differ by less.
    """
    manifest = path.parent / MANIFEST
    try:
        if manifest.stat().st_size > _MOST_BYTES:
            return None
        found = json.loads(manifest.read_text(encoding="utf-8"))["clocks"]["sm_mhz"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    usable = isinstance(found, int | float) and not isinstance(found, bool) and found > 0
    return float(found) if usable else None
