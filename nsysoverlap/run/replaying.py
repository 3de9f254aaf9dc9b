"""The replay that a report rests on: small enough to come with every report."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.garbage import collector_paused
from ..findings.context import Found
from ..findings.gains import with_gains
from ..measure.case import DeviceCase
from ..replay.bound import order_bounds
from ..replay.prepared import Model, build_model
from ..result.model import Finding, ReplayReport
from ..roles.clock import ClockLaw
from ..roles.rules import Classified
from ..steps.launches import Launches
from ..steps.plan import StepPlan

STEPS = 2
MOST_OPERATIONS = 6_000
ROWS_FOR_ONE = 20
"""A report replays at most `MOST_OPERATIONS` operations, or one for so many GPU rows where these
are more: then it takes about a quarter longer. More are left to `nsysoverlap whatif`."""


def model_of(
    classified: Classified, launches: Launches, plan: StepPlan, cases: Sequence[DeviceCase]
) -> Model | str | None:
    """The model of a report; why there is none, and None without steps or transfers.

    Without transfers there is nothing to win, so nothing is replayed either.
    """
    if not plan.windows or not any(len(case.rows) for case in cases):
        return None
    n_rows = sum(len(table) for table in classified.trace.tables.values())
    most = max(MOST_OPERATIONS, n_rows // ROWS_FOR_ONE)
    with collector_paused():
        return build_model(classified, launches, plan.windows, STEPS, most)


def replayed(
    model: Model | str | None,
    cases: Sequence[DeviceCase],
    found: Sequence[Found],
    law: ClockLaw | None = None,
) -> tuple[ReplayReport | None, tuple[Finding, ...]]:
    """What a replay says of a trace, and its findings with their gains; None without a model."""
    findings = tuple(one.finding for one in found)
    if model is None:
        return None, findings
    if isinstance(model, str):
        return ReplayReport(withheld=model, bound_withheld=model), findings
    with collector_paused():
        if model.withheld is None:
            findings = with_gains(found, cases, model, law)
        return _report(model), findings


def _report(model: Model) -> ReplayReport:
    bounds = order_bounds(model, (None,))
    bound = None if isinstance(bounds, str) else bounds[-1]
    return ReplayReport(
        step_ns=model.now.step_ns,
        replay_step_ns=model.replayed.step_ns if model.replayed else None,
        error=model.error,
        withheld=model.withheld,
        bound_step_ns=bound.step_ns if bound else None,
        bound_exposed_h2d_ns=bound.outcome.exposed_ns("h2d") if bound else None,
        bound_exposed_d2h_ns=bound.outcome.exposed_ns("d2h") if bound else None,
        kept_bytes=bound.bytes_kept if bound else None,
        bound_withheld=bounds if isinstance(bounds, str) else None,
    )
