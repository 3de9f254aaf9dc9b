"""What a finding is worth: the step replayed without its cause.

Exposed time is no bound of what there is to win: a program that waits for its copies on the host
loses more with them than they take, and hiding a copy can move the wait elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..core.arrays import BoolArray
from ..measure.case import DeviceCase
from ..replay.predict import Prediction, of_changed
from ..replay.prepared import Model
from ..replay.scenario import Scenario, change, without
from ..result.model import Finding, Gain
from ..roles.clock import ClockLaw
from .context import Found

SCENARIOS: dict[str, str | None] = {
    "round-trip": "drop",
    "nothing-beside": "earlier",
    "late-h2d": "earlier",
    "same-stream-as-compute": "not behind",
    "head-of-line": "not behind",
    "graph-serialises": "not behind",
    "same-direction-queue": None,
    "d2h-tail": None,
    "no-duplex": None,
    "slow-link": "link",
    "pageable-memory": "link",
    "not-enough-compute": "bytes",
}
"""Code of a finding -> the kind of scenario that is its remedy; None, or no entry, for none."""
TESTED = frozenset({"drop"})
"""Kinds that docs/whatif.md shows held against a measurement. Only these show gains in reports."""
MOST_GAINS = 3
_DROPPED = "without these copies"


def with_gains(
    found: Sequence[Found],
    cases: Sequence[DeviceCase],
    model: Model,
    law: ClockLaw | None = None,
) -> tuple[Finding, ...]:
    """The findings of a trace, those of tested kinds with their replayed gain, by urgency."""
    priced = []
    left = MOST_GAINS
    for one in found:
        finding = one.finding
        if left and SCENARIOS.get(finding.code) in TESTED:
            gone = _operations(model, cases, one.rows)
            if gone.any():
                left -= 1
                finding = replace(finding, gain=_gain(model, gone, law))
        priced.append(finding)
    return tuple(sorted(priced, key=Finding.urgency))


def _gain(model: Model, gone: BoolArray, law: ClockLaw | None) -> Gain:
    scenario = Scenario(_DROPPED)
    changed = without(model, change(model, scenario), gone)
    found: Prediction = of_changed(model, scenario, changed, law)
    base = (model.replayed or model.now).step_ns
    return Gain(base - found.step_high_ns, base - found.step_low_ns, _DROPPED)


def _operations(model: Model, cases: Sequence[DeviceCase], masks: Sequence[BoolArray]) -> BoolArray:
    """The replayed operations that a finding blames, by a mask over the rows of each case."""
    ops = model.operations
    result = np.zeros(len(ops), np.bool_)
    for case, mask in zip(cases, masks, strict=False):
        rows = case.rows.select(mask)
        for table, by_kernel in ((0, True), (1, False)):
            blamed = rows.row[rows.by_kernel == by_kernel]
            result |= (ops.table == table) & np.isin(ops.row, blamed)
    return result
