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
from ..replay.blamed import changed_by
from ..replay.engine import CycleError
from ..replay.predict import of_changed
from ..replay.prepared import Model
from ..replay.replayed import OpKind
from ..replay.scenario import Scenario
from ..result.model import Finding, Gain
from ..roles.clock import ClockLaw
from .context import Found
from .scenarios import SCENARIOS, TESTED, WORDS

MOST_GAINS = 3


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
        if left and SCENARIOS[finding.code].kind in TESTED:
            gain = gain_of(one, cases, model, law)
            if isinstance(gain, Gain):
                left -= 1
                finding = replace(finding, gain=gain)
        priced.append(finding)
    return tuple(sorted(priced, key=Finding.urgency))


def gain_of(
    one: Found, cases: Sequence[DeviceCase], model: Model, law: ClockLaw | None = None
) -> Gain | str:
    """What a step wins by the scenario of a finding, of whatever kind; why that is not known."""
    remedied = SCENARIOS[one.finding.code]
    if not remedied.kind:
        return remedied.why
    if one.target is None and "{" in WORDS[remedied.kind]:
        return "what they could reach is not known"
    blamed = operations_of(model, cases, one.rows)
    if not blamed.any():
        return "none of these copies are in the replayed steps"
    words = WORDS[remedied.kind].format(one.target)
    moved = {OpKind(kind).name for kind in np.unique(model.operations.kind[blamed]).tolist()}
    if len(moved) == 1 and moved <= {"H2D", "D2H"}:
        words = words.replace("copies", f"{moved.pop()} copies", 1)
    try:
        changed = changed_by(model, remedied.kind, blamed, one.target)
        found = of_changed(model, Scenario(words), changed, law)
    except CycleError:
        return "issued anew, some copies would wait for each other"
    base = (model.replayed or model.now).step_ns
    return Gain(base - found.step_high_ns, base - found.step_low_ns, words)


def operations_of(
    model: Model, cases: Sequence[DeviceCase], masks: Sequence[BoolArray]
) -> BoolArray:
    """The replayed operations (n,) that a finding blames, by a mask over the rows of each case."""
    ops = model.operations
    result = np.zeros(len(ops), np.bool_)
    for case, mask in zip(cases, masks, strict=False):
        rows = case.rows.select(mask)
        for table, by_kernel in ((0, True), (1, False)):
            blamed = rows.row[rows.by_kernel == by_kernel]
            result |= (ops.table == table) & np.isin(ops.row, blamed)
    return result
