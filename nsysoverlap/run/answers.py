"""What-if questions about one trace: from the trace to the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ..core.errors import UsageError
from ..core.garbage import collector_paused
from ..findings.context import Found
from ..findings.gains import gain_of
from ..findings.scenarios import SCENARIOS, TESTED
from ..measure.case import DeviceCase
from ..measure.operations import transfer_labels
from ..replay.answer import (
    BoundAnswer,
    FindingAnswer,
    ScenarioAnswer,
    WhatIf,
    bound_answer,
    path_answer,
    path_ops,
    scenario_answer,
)
from ..replay.bound import copies_per_layer, order_bounds
from ..replay.engine import CycleError
from ..replay.link_curve import enough_link, link_points
from ..replay.path import critical_path
from ..replay.predict import Prediction, predict
from ..replay.prepared import Model, build_model
from ..replay.questions import Question, scenarios, sweep_factors
from ..replay.scenario import Scenario
from ..roles.clock import CALIBRATED_SPREAD, DEFAULT_LAW, ClockLaw, ClockPair
from ..roles.rules import RuleSet
from ..steps.plan import StepSpec
from ..trace.contents import Trace, short_name
from ..trace.load import read_trace
from .analysis import Options, TraceCases, judged, trace_cases
from .clock_fit import law_of

DEFAULT = Question(link=("2x",))
"""What is asked where nothing is."""
_RESCHEDULED = (
    "a compiler that plans for other copies may order the program anew: 7 to 10 % of the step "
    "were seen"
)


def whatif(
    trace: Trace | str | Path,
    *,
    link: str | Sequence[str] = (),
    link_h2d: str | Sequence[str] = (),
    link_d2h: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    n_bytes: float | str | Sequence[str] = (),
    earlier: int | Sequence[int] = (),
    window: int | Sequence[int] = (),
    compute: float | str | Sequence[str] = (),
    memory: float | str | Sequence[str] = (),
    gpu: str | Sequence[str] = (),
    sweep: str | None = None,
    findings: bool = False,
    steps: str = "auto",
    skip_steps: int = 0,
    rules: RuleSet | None = None,
    clock: ClockLaw | tuple[str | Path, str | Path] | None = None,
) -> WhatIf:
    """Replay a trace's steady steps with something different.

    Everything given is changed together, then each alone; several values of one argument are
    alternatives. Links are `2x` or `200GB/s`; `drop` are regular expressions for operations whose
    transfers do not happen; `earlier` and `window` count copies. `findings` asks what each finding
    of the trace would give, as is done where nothing else is asked. `clock` is the clock law of the
    machine, or the paths of two traces of another program to fit it on. Raises `TraceFileError`
    and `UsageError`.
    """

    def texts(values: float | str | Sequence[str]) -> tuple[str, ...]:
        if isinstance(values, str):
            return (values,)
        return (str(values),) if isinstance(values, int | float) else tuple(values)

    def numbers(values: int | Sequence[int]) -> tuple[int, ...]:
        return (values,) if isinstance(values, int) else tuple(values)

    question = Question(
        link=texts(link),
        link_h2d=texts(link_h2d),
        link_d2h=texts(link_d2h),
        drop=texts(drop),
        n_bytes=texts(n_bytes),
        earlier=numbers(earlier),
        window=numbers(window),
        compute=texts(compute),
        memory=texts(memory),
        gpu=texts(gpu),
    )
    law = law_of(ClockPair(Path(clock[0]), Path(clock[1])) if isinstance(clock, tuple) else clock)
    options = Options(rules=rules or RuleSet(), steps=StepSpec(steps, skip_steps), clock=law)
    if not isinstance(trace, Trace):
        trace = read_trace(trace)
    return ask(trace, options, question, sweep, findings)


_STEPS = {
    "auto": "Give --steps REGEX, or --steps guess to go by the repeating kernels.",
    "none": "Leave out --steps none.",
}


def ask(
    trace: Trace,
    options: Options,
    question: Question,
    sweep: str | None = None,
    findings: bool = False,
) -> WhatIf:
    """The answers to a question, or to `DEFAULT`; raises `UsageError` for steps there are not.

    `findings` asks what each finding would give, as is done where nothing else is asked.
    """
    name = next((device.gpu.name for device in trace.devices if device.gpu.name), None)
    nothing = not (question.asked or sweep or findings)
    asked = scenarios(DEFAULT if nothing else question, name)
    factors = sweep_factors(sweep) if sweep else ()
    cases = trace_cases(trace, options)
    if cases.plan.marker is None:
        if not trace.devices:
            return _no_model(cases, "the trace holds no GPU activity")
        raise UsageError(
            f"{trace.info.file_name}: nothing marks steps, and a replay needs them.",
            _STEPS.get(options.steps.mode, "Mark them with NVTX ranges and record again."),
        )
    with collector_paused():
        model = build_model(cases.classified, cases.launches, cases.plan.windows)
        if isinstance(model, str):
            return _no_model(cases, model)
        health, found = judged(cases, options, nothing or findings)
        errors = [entry for entry in health if entry.severity == "error"]
        if errors and model.withheld is None:
            model = replace(model, withheld=errors[0].message.rstrip("."))
        accepted = tuple(entry.message.rstrip(".") for entry in health if entry.accepted)
        answering = _Answering(cases, model, options.clock, accepted)
        return answering.answer(asked, factors, found)


class _Answering:
    def __init__(
        self, cases: TraceCases, model: Model, law: ClockLaw | None, accepted: tuple[str, ...]
    ) -> None:
        self._cases, self._model, self._law = cases, model, law
        self._accepted = accepted

    def answer(
        self, asked: Sequence[Scenario], factors: Sequence[float], found: Sequence[Found]
    ) -> WhatIf:
        """Everything; of a model that is withheld only what was traced and why."""
        model = self._model
        may = model.withheld is None
        run = model.calibrated.run() if may else None
        path = critical_path(model, run) if run else None
        bounds = self._bounds() if may else model.withheld or ""
        points = link_points(model, factors, self._law) if may else ()
        return WhatIf(
            path=self._cases.classified.trace.info.file_name,
            basis=self._cases.plan.marker or "",
            n_steps=model.segment.n_steps,
            step_ns=model.now.step_ns,
            replay_step_ns=model.replayed.step_ns if model.replayed else None,
            replay_error=model.error,
            worst_step_error=model.worst_step_error,
            withheld=model.withheld,
            clock=self._clock,
            now=self._scenario(Scenario()) if may else None,
            scenarios=tuple(self._scenario(one) for one in asked) if may else (),
            bounds=() if isinstance(bounds, str) else bounds,
            bound_withheld=bounds if isinstance(bounds, str) else None,
            critical_path=path_answer(path) if path else (),
            critical_ops=path_ops(path, self._kernel_names) if path else (),
            sweep=points,
            enough_link=enough_link(points),
            notes=self._notes(),
            findings=finding_answers(found, self._cases.cases, model, self._law) if may else (),
        )

    def _scenario(self, scenario: Scenario) -> ScenarioAnswer:
        return scenario_answer(
            self._model, self._predict(scenario), self._op_names, is_tested(scenario)
        )

    def _predict(self, scenario: Scenario) -> Prediction:
        try:
            return predict(self._model, scenario, self._law, lambda: self._op_names)
        except CycleError:
            raise UsageError(
                f"scenario {scenario.name!r}: with copies issued anew some would wait for each "
                "other.",
                "Leave out --earlier and --window, or give other numbers of copies.",
            ) from None

    @property
    def _clock(self) -> str:
        law = self._law
        if law is not None:
            numbers = f"exponent {law.exponent:.2g} and floor {law.floor:g}, {law.source}"
            if law.on_kernels:
                spread = f"{100 * CALIBRATED_SPREAD:.1f} %"
                return f"the clock law with {numbers}, give or take {spread}"
            return f"compute at its traced speed, and by the clock law with {numbers}"
        return (
            "compute at its traced speed, and slowed or sped up by the default clock law (exponent "
            f"{DEFAULT_LAW.exponent:g}, floor {DEFAULT_LAW.floor:g})"
        )

    @cached_property
    def _op_names(self) -> list[str]:
        """Name of the operation behind each row; '' for rows that are no transfer."""
        ops = self._model.operations
        names = [""] * len(ops)
        place = {
            (table, row): i
            for i, (table, row) in enumerate(zip(ops.table.tolist(), ops.row.tolist(), strict=True))
        }
        for case in self._cases.cases:
            labels = transfer_labels(case)
            tables = np.where(case.rows.by_kernel, 0, 1).tolist()
            for table, row, op, label in zip(
                tables, case.rows.row.tolist(), labels.op, labels.label, strict=True
            ):
                if (table, row) in place:
                    names[place[table, row]] = f"{op} {label}".strip() if label else op
        return names

    @cached_property
    def _kernel_names(self) -> list[str]:
        names = self._cases.classified.trace.names
        rows = zip(self._model.operations.name.tolist(), self._op_names, strict=True)
        return [short_name(names[name]) if name >= 0 and not op else op for name, op in rows]

    def _bounds(self) -> tuple[BoundAnswer, ...] | str:
        layer = copies_per_layer(self._model, self._op_names)
        unit = layer or 1
        windows: tuple[int | None, ...] = (unit, 2 * unit, None)
        found = order_bounds(self._model, windows)
        if isinstance(found, str):
            return found
        words = ("1 layer", "2 layers") if layer else ("1 copy", "2 copies")
        return tuple(
            bound_answer(bound, word) for bound, word in zip(found, (*words, "any"), strict=True)
        )

    def _notes(self) -> tuple[str, ...]:
        notes = list(self._accepted)
        if "XlaModule" in (self._cases.plan.marker or ""):
            notes.append(_RESCHEDULED)
        if len(self._cases.classified.trace.devices) > len(self._model.borders):
            notes.append("devices without steps are left out")
        if self._cases.plan.marker and self._cases.plan.marker.startswith("a guess"):
            notes.append("the steps are a guess from repeating kernels")
        if self._law is not None and self._cases.classified.trace.info.file_name in (
            self._law.fitted_on
        ):
            notes.append("the clock law was fitted on this trace, which is no test of that law")
        return tuple(notes)


def finding_answers(
    found: Sequence[Found],
    cases: Sequence[DeviceCase],
    model: Model,
    law: ClockLaw | None = None,
) -> tuple[FindingAnswer, ...]:
    """What each finding of a trace would give: by the low end of its gain, the unknown last."""
    result = []
    for one in found:
        code, title, cost = one.finding.code, one.finding.title, one.finding.cost_ns
        gain = gain_of(one, cases, model, law)
        if isinstance(gain, str):
            result.append(FindingAnswer(code, title, cost, None, None, None, False, gain))
        else:
            tested = SCENARIOS[code].kind in TESTED
            ends = gain.low_ns, gain.high_ns
            result.append(FindingAnswer(code, title, cost, gain.scenario, *ends, tested, None))
    return tuple(
        sorted(result, key=lambda a: (a.scenario is None, -(a.gain_low_ns or 0), -a.cost_ns))
    )


def is_tested(scenario: Scenario) -> bool:
    """Whether scenarios of its kind were held against a measurement: see docs/whatif.md."""
    plain = Scenario(scenario.name, drop=scenario.drop, notes=scenario.notes)
    return scenario == plain


def _no_model(cases: TraceCases, reason: str) -> WhatIf:
    return WhatIf(
        path=cases.classified.trace.info.file_name,
        basis=cases.plan.marker or "",
        n_steps=0,
        step_ns=None,
        replay_step_ns=None,
        replay_error=None,
        worst_step_error=None,
        withheld=reason,
        clock="",
        now=None,
        scenarios=(),
        bounds=(),
        bound_withheld=reason,
        critical_path=(),
        critical_ops=(),
        sweep=(),
        enough_link=None,
        notes=(),
    )
