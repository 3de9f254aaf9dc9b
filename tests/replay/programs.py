"""Draws programs that run the same step again and again, launched ahead unless said otherwise.

Times are µs from the start of a step on the GPU; calls are placed by hand, so that it is known
what an operation waited for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nsysoverlap.replay.predict import Prediction, predict
from nsysoverlap.replay.prepared import Model, build_model
from nsysoverlap.replay.scenario import Link, Scenario
from nsysoverlap.run.analysis import Options, trace_cases
from nsysoverlap.steps.plan import StepSpec
from nsysoverlap.trace.load import read_trace

from ..builder.capture import Place
from ..tracebuilder import TraceBuilder

US = 1_000
BEGIN_US = 100_000
"""When the first step begins on the GPU."""
CALL_US = 2


@dataclass
class Program:
    """Steps of `period_us`; `add`, `wait` and `sync` draw one thing in every step."""

    period_us: float
    n_steps: int = 5
    issue_period_us: float | None = None
    """Time from the launches of one step to those of the next; 1,000 µs where launched ahead."""
    builder: TraceBuilder = field(default_factory=TraceBuilder)
    old_events: bool = False
    """Events have no eventSyncId; those of a wait are one event, recorded anew in every step."""
    _next: int = 1
    _issue_us: float = 0.0
    marked: bool = False

    def issue_at(self, at_us: float | None, step: int) -> int:
        """Time of a call: by hand from the step's start on the GPU, else the next free one."""
        if at_us is not None:
            return round((BEGIN_US + step * self.period_us + at_us) * US)
        return round((step * 1_000 + self._issue_us) * US)

    def add(
        self,
        kind: str,
        start_us: float,
        end_us: float,
        *,
        stream: int = 7,
        device: int = 0,
        issue_us: float | None = None,
        call_us: float = CALL_US,
        n_bytes: int = 1 << 20,
        name: str = "gemm_fusion_dot_1",
    ) -> None:
        """An operation: `compute`, `comm`, `h2d`, `d2h`."""
        self._issue_us += 5
        for step in range(self.n_steps):
            base = BEGIN_US + step * self.period_us
            when = round((base + start_us) * US), round((base + end_us) * US)
            called = self.issue_at(issue_us, step)
            correlation = self._id()
            place: Place = {"stream": stream, "device": device}
            if kind in ("h2d", "d2h"):
                api = "cudaMemcpyAsync_v3020"
                self.builder.copy(*when, kind, n_bytes, api=None, correlation=correlation, **place)
            else:
                api = "cudaLaunchKernel_v7000"
                shown = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" if kind == "comm" else name
                self.builder.kernel(*when, shown, api=None, correlation=correlation, **place)
            self.builder.api(api, called, called + round(call_us * US), correlation)

    def pause(self, us: float) -> None:
        """The host does something else between two calls."""
        self._issue_us += us

    def wait(self, record_stream: int, wait_stream: int, device: int = 0) -> None:
        """What comes next on one stream waits for all so far on another."""
        self._issue_us += 5
        reused = self._id()
        for step in range(self.n_steps):
            event = None if self.old_events else self._id()
            called = self.issue_at(None, step)
            record, waiting = self._id(), self._id()
            self.builder.cuda_event(
                reused, event_sync_id=event, correlation=record, stream=record_stream, device=device
            )
            self.builder.api("cudaEventRecord_v3020", called, called + US, record)
            self.builder.sync(
                called + US,
                called + 2 * US,
                sync_type=2,
                event_id=reused,
                event_sync_id=event,
                correlation=waiting,
                stream=wait_stream,
                device=device,
            )
            self.builder.api("cudaStreamWaitEvent_v3020", called + US, called + 2 * US, waiting)

    def sync(self, start_us: float, end_us: float) -> None:
        """A call that waits for the whole device."""
        for step in range(self.n_steps):
            correlation = self._id()
            start, end = self.issue_at(start_us, step), self.issue_at(end_us, step)
            self.builder.sync(start, end, sync_type=4, correlation=correlation, stream=2**32 - 1)
            self.builder.api("cudaDeviceSynchronize_v3020", start, end, correlation)

    def model(self, path: Path, first_us: float | None = None) -> Model:
        """The model of the program; its steps are launched from `first_us` on, else ahead."""
        schema = "3.16" if self.old_events else "3.20"
        for step in range(self.n_steps):
            start = self.issue_at(first_us, step) if first_us is not None else step * 1_000 * US
            length = self.period_us if first_us is not None else 1_000
            self.builder.nvtx(f"step {step}", start, start + round(length * US) - 1)
        trace = read_trace(self.builder.write(path / "program.sqlite", schema))
        cases = trace_cases(trace, Options(steps=StepSpec()))
        model = build_model(cases.classified, cases.launches, cases.plan.windows)
        assert isinstance(model, Model)
        return model

    def _id(self) -> int:
        self._next += 1
        return self._next


def step_us(model: Model, scenario: Scenario | None = None) -> float:
    """The replayed step with compute at its traced speed, in µs."""
    return prediction(model, scenario or Scenario()).outcome.step_ns / US


def prediction(model: Model, scenario: Scenario) -> Prediction:
    """Any scenario; all transfers are called x."""
    names = ["x"] * len(model.operations)
    return predict(model, scenario, None, lambda: names)


def link(times: float, h2d: bool = True, d2h: bool = True) -> Scenario:
    """A link so many times as fast."""
    one, now = Link(times), Link()
    return Scenario(f"link {times}", h2d=one if h2d else now, d2h=one if d2h else now)


DROP = Scenario("drop", drop=lambda name: name == "x")
